//! Requests straight at the router, and what comes back.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod caller;
mod events;
mod eviction;
mod namespaces;
mod put;
mod selectors;
mod services;
mod vectors;
