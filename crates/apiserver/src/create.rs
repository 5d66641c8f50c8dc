//! POST: makes an object.

use edgegrid_machinery::status::Status;

use crate::answer::Answer;
use crate::request::Request;
use crate::{body, write};

pub(crate) fn create(request: &Request<'_>) -> Result<Answer, Status> {
    let read = body::object(&request.body, &request.media_type)?;
    write::check_type(request, &read.value)?;
    let (object, complaints) = write::decode(request, read.value, &read.duplicates)?;
    let mut answer = write::create(request, object, write::Ownership::Track)?;
    answer.warnings.splice(0..0, complaints);
    Ok(answer)
}
