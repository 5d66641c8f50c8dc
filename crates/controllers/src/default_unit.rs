//! Makes the NodeUnit that has every node, once in a cluster's life.

use edgegrid_api::NodeUnit;
use edgegrid_api::names::UNIT_NODE_ALL;
use edgegrid_plan::default_unit;
use edgegrid_runtime::backoff::{Backoff, Pace};
use edgegrid_runtime::executor::WriteError;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, CustomResourceExt};
use tracing::warn;

use crate::context::Context;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("read CustomResourceDefinition {name}", name = NodeUnit::crd_name())]
    Read(#[source] kube::Error),
    #[error("create NodeUnit {UNIT_NODE_ALL}")]
    Make(#[source] WriteError),
}

/// Tries until it has worked, or until the queue of NodeUnits is closed.
pub async fn run(context: &Context) {
    let mut backoff = Backoff::new(Pace::default());
    while let Err(error) = ensure(context).await {
        let wait = backoff.failure(&(), 0);
        warn!(?wait, %error, cause = ?std::error::Error::source(&error), "cannot create the default NodeUnit, retrying");
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = context.queues.node_units.closed() => return,
        }
    }
}

async fn ensure(context: &Context) -> Result<(), Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(context.client.clone());
    let name = NodeUnit::crd_name();
    let definition = definitions.get(name).await.map_err(Error::Read)?;
    let unit = ObjectRef::new(UNIT_NODE_ALL);
    let exists = context.caches.node_units.get(&unit).is_some();
    let plan = default_unit::plan(&definition, exists);
    let steps = plan.into_steps();
    context
        .execution
        .run_in_order(&steps)
        .await
        .map_err(Error::Make)
}
