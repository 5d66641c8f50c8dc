//! NodeUnits, NodeGroups and what they write on nodes: rules, and what must hold whatever happens.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod model;
mod properties;
mod rules;
mod takeover;
