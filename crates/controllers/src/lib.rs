//! The controllers: what each watches and how it gathers what its plan needs. What should be is decided in
//! `edgegrid-plan`.
//!
//! ```text
//! watches ─► reactions ─► queues ─► gather (caches) ─► plan (pure) ─► execute
//!                                                        └─► status, events, when to reconcile again
//! ```
//!
//! Nothing is reconciled before every cache has synced: a world without its nodes would look
//! like one whose units are all gone. [`process::run`] puts it all together.

pub mod caches;
pub mod children;
pub mod context;
pub mod controller;
pub mod default_unit;
pub mod definitions;
mod deployment_grid;
mod error;
pub mod execute;
mod federated_grid;
mod federation;
mod federation_state;
mod gather;
mod grid_memory;
mod join;
pub mod metrics;
pub mod name_scan;
pub mod node;
pub mod node_group;
mod node_reactions;
pub mod node_unit;
pub mod node_unit_index;
pub mod notify;
pub mod process;
pub mod queue;
pub mod queues;
pub mod rbac;
mod reactions;
pub mod reflector;
pub mod registration;
pub mod reservations;
mod service_grid;
mod stateful_set_grid;
pub mod vanished_units;
mod watches;
mod workload_grid;
pub mod writes;

pub use caches::Caches;
pub use context::{Clock, Config, Context};
pub use metrics::Metrics;
pub use process::Setup;
pub use queues::Queues;
