//! What was measured of a server, as the process that measured it hands it on.

use serde::{Deserialize, Serialize};

/// One operation on one server.
#[derive(Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) count: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) wall_seconds: f64,
}

/// What one server showed.
#[derive(Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) figures: Vec<Figure>,
    /// Resident bytes before the first object of ours.
    pub(crate) empty: u64,
    /// By how much they grew with the pods.
    pub(crate) grown: u64,
    /// CPU seconds that one call costs the load without a server.
    pub(crate) load_alone: f64,
    pub(crate) version: String,
}

impl Figure {
    pub(crate) fn per_cpu_second(&self) -> f64 {
        self.count / self.cpu_seconds
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.count / self.wall_seconds
    }

    pub(crate) fn microseconds(&self) -> f64 {
        1e6 * self.cpu_seconds / self.count
    }
}
