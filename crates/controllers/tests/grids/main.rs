//! DeploymentGrid, StatefulSetGrid and ServiceGrid on an embedded cluster, in virtual time.
//!
//! The embedded server has no Deployment controller yet, so that the tests set the children's
//! status themselves. Numbers such as A9 name the defects of SuperEdge that a test guards against.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../harness/mod.rs"]
mod harness;

mod canary;
mod claims;
mod departures;
mod drift;
mod names;
mod recovery;
mod refusals;
mod rollouts;
mod services;
mod stage;
mod takeovers;
mod walk_through;
