//! How stored bytes become the object that a resource serves.

use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// A stored value that is no object of the API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("stored object: {0}")]
pub struct Malformed(pub String);

/// How stored bytes become the served ones.
#[derive(Clone, Default)]
pub enum View {
    /// It is served as it is stored.
    #[default]
    Stored,
    /// It is converted, once for each stored version and view.
    Converted {
        /// Tells views apart; two with the same number must convert alike.
        id: u64,
        /// Makes the served object; like the stored one, without `resourceVersion`.
        convert: Arc<Convert>,
    },
}

/// Makes a served object of a stored one.
pub(crate) type Convert = dyn Fn(&Bytes) -> Result<Bytes, Malformed> + Send + Sync;

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            View::Stored => f.write_str("Stored"),
            View::Converted { id, .. } => write!(f, "Converted({id})"),
        }
    }
}
