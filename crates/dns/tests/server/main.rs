//! The node's DNS server: what it answers, and how it behaves on the wire.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod asking;
mod forwarding;
mod harness;
mod limits;
mod names;
mod properties;
