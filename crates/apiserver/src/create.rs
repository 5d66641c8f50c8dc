//! POST: makes an object.

use edgegrid_machinery::status::Status;

use crate::answer::Answer;
use crate::request::Request;
use crate::{body, write};

pub(crate) fn create(request: &Request<'_>) -> Result<Answer, Status> {
    let mut read = body::object(&request.body, &request.media_type)?;
    write::check_type(request, &mut read.value)?;
    let decoded = write::decode(request, read)?;
    write::create(request, decoded, write::Ownership::Track)
}
