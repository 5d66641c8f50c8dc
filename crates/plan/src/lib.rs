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

pub mod auto_find;
pub mod claims;
pub mod conditions;
pub mod default_unit;
pub mod definitions;
pub mod departure;
pub mod failure;
pub mod federation;
pub mod grid;
pub mod grid_status;
pub mod inheritance;
pub mod judge;
pub mod legal;
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
pub mod site;
pub mod step;
pub mod taints;
pub mod takeover;
pub mod templates;
pub mod topology_keys;
pub mod units;
pub mod wish;
pub mod workload;
pub mod workload_grid;

pub use notice::{Level, Notice};
pub use observed::{Child, SiteNode};
pub use packed::Packed;
pub use step::{Apply, Claim, Kind, Manager, ObjectId, Plan, Step};
