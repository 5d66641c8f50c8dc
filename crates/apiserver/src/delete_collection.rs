//! DELETE of a collection: every object that the selectors choose.

use edgegrid_listwatch::Read;
use edgegrid_machinery::status::Status;
use http_body_util::BodyExt;
use serde_json::Value;

use crate::answer::{Answer, Content};
use crate::delete::{delete_object, read_options};
use crate::request::Request;

/// Parameters that would make a watch of the list, which never ends.
const OF_WATCHES: [&str; 3] = ["watch", "sendInitialEvents", "allowWatchBookmarks"];

pub(crate) async fn delete_collection(
    mut request: Request<'_>,
    query: &str,
) -> Result<Answer, Status> {
    let options = read_options(&mut request)?;
    let query = list_query(query);
    let read = Read {
        namespace: request.target.namespace.as_deref(),
        query: &query,
        ..Read::all(&request.served.read)
    };
    let response = request.server.reader.try_read(read).await?;
    let bytes = response
        .into_body()
        .collect()
        .await
        .map_err(Status::internal)?
        .to_bytes();
    let list: Value = serde_json::from_slice(&bytes).map_err(Status::internal)?;
    for item in list["items"].as_array().into_iter().flatten() {
        let text = |field: &str| item["metadata"][field].as_str().map(str::to_owned);
        request.target.name = text("name");
        request.target.namespace = text("namespace");
        match delete_object(&request, &options) {
            Ok(_) => {}
            // Somebody else was faster, which is as good.
            Err(status) if status.code() == 404 => {}
            Err(status) => return Err(status),
        }
    }
    Ok(Answer::ok(Content::Object(list)))
}

/// The query as that of a list: what is deleted is never watched.
fn list_query(query: &str) -> String {
    let pairs = form_urlencoded::parse(query.as_bytes());
    let kept = pairs.filter(|(key, _)| !OF_WATCHES.contains(&&**key));
    form_urlencoded::Serializer::new(String::new())
        .extend_pairs(kept)
        .finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleting_a_collection_never_waits_for_a_watch() {
        assert_eq!(
            list_query("watch=1&sendInitialEvents=true&labelSelector=a%3Db&limit=2"),
            "labelSelector=a%3Db&limit=2"
        );
    }
}
