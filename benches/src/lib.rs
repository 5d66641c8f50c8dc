//! How fast it is, and what it withstands: measured, not guessed.
//!
//! The programs are in `examples/`, so that they may use everything without anything using them:
//! `apiserver` compares the embedded server with kube-apiserver and etcd (`cargo xtask bench`),
//! `fuzz` feeds it bad input (`cargo xtask fuzz`).
