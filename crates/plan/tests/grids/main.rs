//! Grids of workloads: what must hold whatever happens, and wherever a pass is cut short.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod model;
mod properties;
