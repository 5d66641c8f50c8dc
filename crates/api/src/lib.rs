//! The API of edgegrid: five kinds, and every name the cluster knows them by.
//!
//! ```text
//! NodeUnit ─┐                        DeploymentGrid   → one Deployment per unit
//!           ├─► node labels ─► units StatefulSetGrid  → one StatefulSet per unit
//! NodeGroup ┘                        ServiceGrid      → one Service, closed per unit
//! ```
//!
//! The crate is pure: types, names and the rules the API server enforces; no client, no
//! clock. Manifests written for SuperEdge apply as they are.
//!
//! ```
//! use edgegrid_api::DeploymentGrid;
//!
//! let grid: DeploymentGrid = serde_json::from_value(serde_json::json!({
//!     "metadata": { "name": "web" },
//!     "spec": { "gridUniqKey": "location", "template": { "replicas": 2, "paused": true } },
//! }))?;
//! let template = grid.spec.template.expect("just written");
//! assert_eq!(template.replicas, Some(2));
//! assert_eq!(template.rest["paused"], true); // fields we do not read are kept
//! # Ok::<(), serde_json::Error>(())
//! ```

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub mod deployment_grid;
pub mod names;
pub mod node_group;
pub mod node_unit;
pub mod rollout;
mod schema;
pub mod service_grid;
pub mod stateful_set_grid;
pub mod status;
pub mod template;
pub mod validation;
pub mod when_unreachable;

pub use deployment_grid::{DeploymentGrid, DeploymentGridSpec};
pub use node_group::{NodeGroup, NodeGroupSpec, NodeGroupStatus};
pub use node_unit::{NodeUnit, NodeUnitSpec, NodeUnitStatus};
pub use rollout::Rollout;
pub use schema::SCHEMA_VERSION;
pub use service_grid::{ServiceGrid, ServiceGridSpec, ServiceGridStatus};
pub use stateful_set_grid::{StatefulSetGrid, StatefulSetGridSpec};
pub use status::{DeploymentGridStatus, MemberBehind, MembersStatus, StatefulSetGridStatus};
pub use when_unreachable::WhenUnreachable;

/// The definitions of all five kinds, as the API server takes them.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        DeploymentGrid::crd(),
        StatefulSetGrid::crd(),
        ServiceGrid::crd(),
        NodeUnit::crd(),
        NodeGroup::crd(),
    ]
    .into_iter()
    .map(schema::finish)
    .collect()
}
