//! The StatefulSet controller, as Kubernetes defines it.
//!
//! ```text
//! rules   pure: what is to be done about a set, given its pods, claims, revisions and the time
//! act     the only effects; every step names the one object it means
//! run     watches, caches, one pass per set at a time
//! ```
//!
//! It runs in the embedded cluster, and in place of kube-controller-manager's own on a real one that
//! was started with `--controllers=*,-statefulset-controller`: pods, claims, revisions and their names
//! are the same, so that a set changes hands in the middle of a rollout.
//!
//! ```
//! use edgegrid_statefulset::rules;
//!
//! assert_eq!(rules::ordinal("web", "web-3"), Some(3));
//! assert_eq!(rules::ordinal("web", "web-a-3"), None);
//! ```

mod act;
mod cache;
mod calls;
mod config;
mod context;
mod controller;
mod entries;
mod events;
mod metrics;
pub mod names;
mod other_managers;
mod queue;
pub mod rbac;
pub mod rules;
mod watches;
mod written;

pub use calls::Error;
pub use config::{Clock, Config};
pub use controller::run;
pub use metrics::Metrics;
