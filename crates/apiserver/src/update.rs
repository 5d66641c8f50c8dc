//! PUT: replaces an object, or makes it where the kind allows that.

use edgegrid_machinery::metadata;
use edgegrid_machinery::status::Status;
use serde_json::json;

use crate::answer::Answer;
use crate::request::Request;
use crate::write::{Decoded, Ownership};
use crate::{body, write};

pub(crate) fn update(request: &Request<'_>) -> Result<Answer, Status> {
    let mut read = body::object(&request.body, &request.media_type)?;
    write::check_type(request, &mut read.value)?;
    let decoded = write::decode(request, read)?;
    request.retried(|| match request.find(request.name())? {
        Some(live) => write::change(request, &live, decoded.clone(), Ownership::Track),
        None if request.subresource().is_none()
            && request.served.strategy.allows_create_on_update() =>
        {
            create(request, decoded.clone()).map(Some)
        }
        None => Err(request.not_found(request.name())),
    })
}

fn create(request: &Request<'_>, decoded: Decoded) -> Result<Answer, Status> {
    // Who names a uid means an object that was there.
    let missing = json!({"metadata": {"name": request.name(), "namespace": request.namespace()}});
    metadata::check_uid(&decoded.object, &missing, &request.served.group_resource())?;
    write::create_named(request, decoded, Ownership::Track)
}
