//! Many clusters in virtual time: a control cluster and its members, each an embedded API server with
//! controllers of its own, and links between them that can be cut.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../harness/mod.rs"]
mod harness;

mod cost;
mod edits;
mod leaving;
mod links;
mod model;
mod stage;
mod superedge_defects;
mod walk_through;
