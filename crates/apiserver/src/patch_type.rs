//! Media types of patches, which say what a PATCH does.

use edgegrid_machinery::status::Status;

use crate::served::ServedResource;

pub(crate) const JSON: &str = "application/json-patch+json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Whether it is a patch other than apply.
pub(crate) fn is_plain(media_type: &str) -> bool {
    [JSON, MERGE, STRATEGIC].contains(&media_type)
}

/// Whether it is server-side apply.
pub(crate) fn is_apply(media_type: &str) -> bool {
    media_type == APPLY
}

/// Refuses what is no patch of this resource.
pub(crate) fn check(served: &ServedResource, media_type: &str) -> Result<(), Status> {
    match media_type {
        JSON | MERGE | APPLY => Ok(()),
        STRATEGIC if !served.is_custom() => Ok(()),
        _ if served.is_custom() => Err(Status::unsupported_media_type(&[JSON, MERGE, APPLY])),
        _ => Err(Status::media_type_not_routed()),
    }
}
