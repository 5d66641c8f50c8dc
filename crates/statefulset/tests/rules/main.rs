//! The rules one by one, on worlds written down: no cluster, no time but what is said.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod identity;
mod order;
mod ownership;
mod retention;
mod revision;
mod status;
mod update;
mod world;
