//! DeploymentGrid, StatefulSetGrid and ServiceGrid on an embedded cluster, in virtual time.
//!
//! The embedded server has no Deployment controller yet, so that the tests set the children's
//! status themselves. What SuperEdge does wrong, and which test shows the opposite: `docs/superedge-defects.md`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../harness/mod.rs"]
mod harness;

mod canary;
mod claims;
mod drift;
mod held_removals;
mod names;
mod recovery;
mod refusals;
mod rollouts;
mod services;
mod stage;
mod takeovers;
mod unreachable;
mod vanished_units;
mod walk_through;
