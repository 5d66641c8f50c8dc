//! Black-box checks: what edgegrid promises, shown on unmodified Kubernetes programs.
//!
//! The tests are in `tests/`, one file per promise; `examples/demo.rs` is the walk-through
//! that `cargo xtask demo` runs.
