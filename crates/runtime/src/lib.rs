//! What every long-running part of edgegrid stands on: who may write, how a write is made,
//! and how the process starts, shows its health and ends.
//!
//! ```text
//! signals ─► shutdown ─► lease ─► Fence ─► executor ─► API server
//!               └─► tasks           │         └─► metrics ─► admin: /healthz /readyz /metrics
//!                                   └─► backoff: when to try again
//! ```
//!
//! Nothing in here knows what a grid is. Time is tokio's, so that tests can pause it.

pub mod admin;
pub mod backoff;
pub mod client;
pub mod credentials;
pub mod executor;
pub mod fence;
pub mod lease;
pub mod logging;
pub mod rbac;
pub mod readyz;
pub mod shutdown;
pub mod tasks;

pub use admin::Readiness;
pub use backoff::Backoff;
pub use executor::{Executor, Limits, Target, WriteError};
pub use fence::{Fence, NotLeader};
pub use lease::{Elector, LeaseConfig};
pub use shutdown::Shutdown;
pub use tasks::Tasks;
