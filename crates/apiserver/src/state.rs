//! What all requests of a server share.

use edgegrid_listwatch::Reader;
use parking_lot::Mutex;

use crate::admission::Admission;
use crate::clock::Clock;
use crate::ids::Ids;
use crate::registry::Registry;

pub(crate) struct ServerState {
    pub(crate) reader: Reader,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) ids: Ids,
    pub(crate) admission: Vec<Box<dyn Admission>>,
    /// Locked by a writer of a Service from reading which addresses are allocated until it has written.
    pub(crate) allocator_lock: Mutex<()>,
}
