//! The protocol as its clients see it: tables of rules, a model client, and kube's own watchers.

#![allow(clippy::unwrap_used, reason = "helpers of a test may fail it")]

mod fixture;
mod list;
mod model;
mod runtime;
mod watch;
