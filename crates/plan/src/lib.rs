//! What should be, decided: pure functions from what is observed to what is to be written.
//!
//! ```text
//! grid, unit, group + World (observed) + now ──► Plan { steps, notices, recheck }
//!                                           └──► status, once the outcome of the steps is known
//! ```
//!
//! Nothing here talks to a cluster, reads a clock or draws a random number. Planning a world
//! that already is as wanted gives an empty plan; a plan may be stopped after any step, and the
//! next one still converges.

pub mod applied_fields;
pub mod auto_find;
pub mod conditions;
pub mod conflict;
pub mod default_unit;
pub mod definitions;
pub mod digest;
pub mod failure;
pub mod federation;
mod grace_period;
pub mod grid;
pub mod grid_state;
pub mod grid_status;
mod json_pointer;
pub mod legal;
pub mod membership;
pub mod node;
pub mod node_group;
pub mod node_unit;
pub mod notice;
pub mod observed;
pub mod ownership;
pub mod packed;
pub mod report;
pub mod rollout;
pub mod selection;
pub mod service_grid;
pub mod service_status;
pub mod site_manager;
pub mod step;
pub mod taints;
pub mod takeover;
pub mod templates;
mod toleration;
pub mod topology_keys;
pub mod unit_names;
mod unit_plan;
pub mod unreachable;
pub mod workload;
pub mod workload_grid;
pub mod workload_kind;

pub use notice::{Level, Notice};
pub use observed::{Child, PrunedNode};
pub use packed::Packed;
pub use step::{Apply, Claim, Manager, ObjectId, ObjectKind, Plan, Scope, Step};
