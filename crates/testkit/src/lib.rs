//! Clusters for tests: real Kubernetes with simulated nodes, and a lab with real packets.
//!
//! ```text
//! Cluster::upstream() ─► etcd, kube-apiserver, (kube-controller-manager, kube-scheduler)
//!    └─ add_nodes(…)  ─► heartbeats, and a small kubelet that runs the pods
//! Cluster::embedded() ─► our own API server in this process, in time that can be paused
//! Lab::start()        ─► network namespaces as nodes and pods, real kube-proxy and CoreDNS
//! ```
//!
//! Only ever a dev-dependency. There are no mocks of Kubernetes in here: what answers is
//! the program that answers in production. Everything a test starts ends with it, also
//! when it panics; what a killed run leaves behind goes away when the next one starts.

pub mod builders;
pub mod cluster;
pub mod command;
mod control_plane;
pub mod edgegrid;
pub mod eventually;
pub mod faults;
mod kubelet;
pub mod lab;
mod leftovers;
pub mod objects;
mod pid;
mod pki;
pub mod process;
pub mod run;
pub mod runtime;
mod scenario;

pub use builders::{grid, group, node, service, unit, workload};
pub use cluster::Cluster;
pub use eventually::{Patience, eventually, eventually_within};
