//! The StatefulSet controller in place of kube-controller-manager's, on unmodified Kubernetes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod handover;
mod process;
mod support;
mod tutorial;
