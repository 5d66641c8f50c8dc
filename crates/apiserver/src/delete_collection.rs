//! DELETE of a collection: every object that the selectors choose.

use edgegrid_listwatch::Read;
use edgegrid_machinery::status::Status;
use http_body_util::BodyExt;
use serde_json::Value;

use crate::answer::{Answer, Content};
use crate::delete::{delete_object, wish};
use crate::request::Request;

pub(crate) async fn delete_collection(
    mut request: Request<'_>,
    query: &str,
) -> Result<Answer, Status> {
    let wish = wish(&mut request)?;
    let read = Read {
        namespace: request.target.namespace.as_deref(),
        query,
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
        match delete_object(&request, &wish) {
            Ok(_) => {}
            // Somebody else was faster, which is as good.
            Err(status) if status.code() == 404 => {}
            Err(status) => return Err(status),
        }
    }
    Ok(Answer::ok(Content::Object(list)))
}
