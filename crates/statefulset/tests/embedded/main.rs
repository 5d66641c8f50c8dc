//! The controller on the embedded server, in virtual time, with every promise checked on every event.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod fixtures;
mod lifecycle;
mod lives;
mod monitor;
mod nodes;
mod refusals;
mod scenarios;
