//! Runs the steps of a plan: units side by side, the steps of one in order.
//!
//! A unit stops at its first failure and never stops another.

use std::collections::BTreeMap;

use edgegrid_plan::{Apply, Claim, Manager, ObjectId, ObjectKind, Plan, Scope, Step};
use edgegrid_runtime::executor::{Executor, Target, WriteError};
use futures::{StreamExt, stream};
use kube::core::{ApiResource, GroupVersionKind};

use crate::writes::Writes;

/// Whether the steps of each scope worked.
pub type Outcomes = BTreeMap<Scope, Result<(), WriteError>>;

/// Units of one plan that are written at the same time. Small, because the executor serves
/// whoever asks in order: a grid of a thousand units must not stand before one of a single unit.
const MAX_CONCURRENT_UNITS: usize = 16;

/// Executes plans and remembers what was written.
#[derive(Clone)]
pub struct Execution {
    /// Sends the writes, while this process is the leader.
    pub executor: Executor,
    /// Our last write of each object.
    pub writes: Writes,
}

impl Execution {
    /// Runs the steps of every unit and returns how that went, by unit.
    pub async fn run(&self, plan: Plan) -> Outcomes {
        stream::iter(plan.steps)
            .map(|(scope, steps)| async move {
                let outcome = self.run_in_order(&steps).await;
                (scope, outcome)
            })
            .buffer_unordered(MAX_CONCURRENT_UNITS)
            .collect()
            .await
    }

    /// Runs steps one after the other, up to the first that fails.
    pub async fn run_in_order(&self, steps: &[Step]) -> Result<(), WriteError> {
        for step in steps {
            self.run_step(step).await?;
        }
        Ok(())
    }

    async fn run_step(&self, step: &Step) -> Result<(), WriteError> {
        let target = target(step.id());
        let manager = Manager::Edgegrid.name();
        let written = match step {
            Step::Apply(apply) => self.apply(&target, apply).await?,
            Step::Patch {
                resource_version,
                operations,
                ..
            } => {
                self.executor
                    .patch_json(&target, resource_version, operations, manager)
                    .await?
            }
            Step::Create { body, .. } => self.executor.create(&target, body, manager).await?,
            Step::Delete { id, uid } => {
                self.executor.delete(&target, uid).await?;
                self.writes.deleted(id);
                return Ok(());
            }
        };
        self.writes
            .wrote(step.id(), written.resource_version.as_deref());
        Ok(())
    }

    async fn apply(
        &self,
        target: &Target,
        apply: &Apply,
    ) -> Result<kube::core::ObjectMeta, WriteError> {
        let ours = match &apply.claim {
            Claim::Free => None,
            Claim::Ours { uid } => Some(uid.as_str()),
        };
        let manager = apply.manager.name();
        self.executor
            .apply(target, &apply.body.value(), manager, ours)
            .await
    }
}

/// Where an object is served.
pub fn target(id: &ObjectId) -> Target {
    Target {
        api: api_resource(id.kind),
        namespace: id.namespace.clone(),
        name: id.name.clone(),
    }
}

/// Where a kind is served.
pub fn api_resource(kind: ObjectKind) -> ApiResource {
    let names = kind.resource();
    let gvk = GroupVersionKind::gvk(names.group, names.version, names.kind);
    ApiResource::from_gvk_with_plural(&gvk, names.plural)
}
