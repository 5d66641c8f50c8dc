//! Why a grid could not be reconciled.

use edgegrid_runtime::executor::WriteError;

use crate::name_scan::ScanError;

/// An error of one pass over a grid; the pass is repeated later.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Scan(#[from] ScanError),
    #[error("remove unused templates from the spec")]
    Templates(#[source] WriteError),
    #[error("write the status")]
    Status(#[source] WriteError),
    #[error("build the status")]
    Build(#[source] serde_json::Error),
}
