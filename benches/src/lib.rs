//! How fast it is, and what it withstands: measured, not guessed.
//!
//! The programs are in `examples/`, so that they may use everything without anything using them:
//! `apiserver` compares the embedded server with kube-apiserver and etcd, `controller` measures what
//! stamping grids costs, `federation` what many clusters cost, `dns` our DNS server beside CoreDNS (all `cargo xtask bench`), `fuzz` feeds the
//! embedded server and the DNS server bad input (`cargo xtask fuzz`). Here is what they share.

pub mod answered;
pub mod report;
pub mod usage;
