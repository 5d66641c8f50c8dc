//! What every long-running part of edgegrid stands on: who may write, how a write is made,
//! and how the process starts, shows its health and ends.
//!
//! ```text
//! lease ──► Fence ──► executor ──► API server        backoff: when to try again
//!                        └──► metrics
//! ```
//!
//! Nothing in here knows what a grid is. Time is tokio's, so that tests can pause it.

pub mod backoff;
pub mod executor;
pub mod fence;

pub use backoff::Backoff;
pub use executor::{Executor, Limits, Target, WriteError};
pub use fence::{Fence, NotLeader};
