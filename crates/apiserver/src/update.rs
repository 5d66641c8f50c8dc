//! PUT: replaces an object.

use edgegrid_machinery::metadata;
use edgegrid_machinery::status::Status;

use crate::answer::Answer;
use crate::request::Request;
use crate::{body, write};

/// Tries at an update that names no revision, when others are faster.
pub(crate) const TRIES: usize = 5;

pub(crate) fn update(request: &Request<'_>) -> Result<Answer, Status> {
    let read = body::object(&request.body, &request.media_type)?;
    write::check_type(request, &read.value)?;
    let (object, complaints) = write::decode(request, read.value, &read.duplicates)?;
    let is_conditional = !metadata::revision(&object).is_empty();
    for _ in 0..TRIES {
        let live = request.live(request.name())?;
        let changed = write::change(request, &live, object.clone(), write::Ownership::Track)?;
        match changed {
            Some(mut answer) => {
                answer.warnings.splice(0..0, complaints);
                return Ok(answer);
            }
            None if is_conditional => break,
            None => {}
        }
    }
    Err(Status::modified(
        &request.served.group_resource(),
        request.name(),
    ))
}
