//! Our `CustomResourceDefinitions`: installed or upgraded by the leader before it starts to work.

use std::time::Duration;

use edgegrid_plan::definitions::{Decision, decide};
use edgegrid_plan::{ObjectKind, Step};
use edgegrid_runtime::backoff::{Backoff, Pace};
use edgegrid_runtime::executor::{Class, WriteError};
use edgegrid_runtime::logging::chain;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::{self, await_condition};
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use serde_json::Value;
use tracing::{debug, info, warn};

use crate::execute::{Execution, api_resource};

/// How attempts are spaced: an API server that is away comes back, and so do rights.
const PACE: Pace = Pace {
    first: Duration::from_millis(500),
    longest: Duration::from_secs(15),
    spread: 0,
};

/// Why a definition is not yet as it should be.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("read CustomResourceDefinition {name}")]
    Read {
        name: String,
        #[source]
        source: kube::Error,
    },
    #[error("write CustomResourceDefinition {name}")]
    Written {
        name: String,
        #[source]
        source: WriteError,
    },
    #[error("wait until CustomResourceDefinition {name} is established")]
    Established {
        name: String,
        #[source]
        source: wait::Error,
    },
    #[error("convert CustomResourceDefinition {name} to JSON")]
    Json {
        name: String,
        #[source]
        source: serde_json::Error,
    },
}

impl Error {
    /// Whether we have no right to read it.
    fn is_forbidden(&self) -> bool {
        let Self::Established { source, .. } = self else {
            return false;
        };
        let wait::Error::ProbeFailed(watching) = source;
        matches!(
            watching,
            watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.is_forbidden()
        )
    }
}

/// Brings all definitions to where this program needs them, however long that takes.
pub async fn ensure(client: &Client, execution: &Execution) {
    for wanted in edgegrid_api::crds() {
        let name = wanted.name_any();
        let mut backoff = Backoff::new(PACE);
        while let Err(error) = ensure_one(client, execution, &wanted).await {
            let wait = backoff.failure(&(), 0);
            warn!(crd = name, error = %chain(&error), ?wait, "cannot install CustomResourceDefinition, retrying");
            tokio::time::sleep(wait).await;
        }
    }
}

/// Waits until all definitions are served, whoever makes them. Without the right to look, it is
/// believed: watches of what is not served wait for themselves.
pub async fn served(client: &Client) {
    for wanted in edgegrid_api::crds() {
        let name = wanted.name_any();
        let mut backoff = Backoff::new(PACE);
        while let Err(error) = established(client, &name).await {
            if error.is_forbidden() {
                warn!(crd = name, error = %chain(&error), "cannot read CustomResourceDefinition, going on as if it were established: grant get, list and watch on it");
                break;
            }
            let wait = backoff.failure(&(), 0);
            debug!(crd = name, error = %chain(&error), ?wait, "CustomResourceDefinition not established yet");
            tokio::time::sleep(wait).await;
        }
    }
}

async fn established(client: &Client, name: &str) -> Result<(), Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let established = await_condition(api, name, is_crd_established()).await;
    established.map(drop).map_err(|source| Error::Established {
        name: name.into(),
        source,
    })
}

async fn ensure_one(
    client: &Client,
    execution: &Execution,
    wanted: &CustomResourceDefinition,
) -> Result<(), Error> {
    let name = wanted.name_any();
    let live = read(client, &name).await?;
    let wanted = serde_json::to_value(wanted).map_err(|source| Error::Json {
        name: name.clone(),
        source,
    })?;
    match decide(&wanted, live.as_ref()) {
        Decision::Keep => {}
        Decision::Newer(version) => {
            info!(
                crd = name,
                version,
                ours = edgegrid_api::SCHEMA_VERSION,
                "CustomResourceDefinition is of a newer edgegrid, keeping it"
            );
        }
        Decision::Write(step) => write(execution, &name, &step, live.is_some()).await?,
    }
    established(client, &name).await
}

/// The definition with every field that the server knows, also those that our types do not.
async fn read(client: &Client, name: &str) -> Result<Option<Value>, Error> {
    let kind = api_resource(ObjectKind::CustomResourceDefinition);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let found = api.get_opt(name).await.map_err(|source| Error::Read {
        name: name.into(),
        source,
    })?;
    let found = found.as_ref().map(serde_json::to_value);
    found.transpose().map_err(|source| Error::Json {
        name: name.into(),
        source,
    })
}

async fn write(execution: &Execution, name: &str, step: &Step, exists: bool) -> Result<(), Error> {
    match execution.run_in_order(std::slice::from_ref(step)).await {
        Ok(()) => {
            let what = if exists { "upgraded" } else { "created" };
            info!(crd = name, "{what} CustomResourceDefinition");
            Ok(())
        }
        Err(error) if exists && matches!(error.class, Class::Forbidden(_)) => {
            // Somebody else installs definitions here; what is there may well do.
            warn!(crd = name, %error, "cannot upgrade CustomResourceDefinition, keeping the older one: grant patch on it");
            Ok(())
        }
        Err(source) => Err(Error::Written {
            name: name.into(),
            source,
        }),
    }
}
