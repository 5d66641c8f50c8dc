//! `edgegrid controller`: keeps every grid, unit and group as its manifest says.

mod args;

use std::sync::Arc;

use anyhow::Result;
use edgegrid_controllers::process::{self, Process};
use edgegrid_controllers::registration::by_token;
use edgegrid_controllers::{Setup, metrics as passes};
use edgegrid_runtime::client::{self, Source};
use edgegrid_runtime::credentials;
use edgegrid_runtime::executor::{self, Executor};

use crate::service::{self, Service};
pub(crate) use args::Args;

/// Name of the task that does the work.
const CONTROLLERS: &str = "controllers";

/// Runs until a signal ends it.
pub(crate) fn run(args: Args) -> Result<()> {
    service::block_on(serve(args))
}

async fn serve(args: Args) -> Result<()> {
    args.log.start()?;
    let agent = concat!("edgegrid-controller/", env!("CARGO_PKG_VERSION"));
    let source = Source::new(args.kubeconfig.as_deref());
    let make = move |config| client::with_timeouts(config, agent);
    let mut service = Service::new(args.bind_address);
    let client = credentials::client(source, service.refusals.clone(), Box::new(make)).await?;
    let registry = &mut service.registry;
    let (elector, fence) = args.election.elector(&args.lease_name, &client, registry)?;
    let writes = executor::Metrics::register(registry);
    let setup = Setup {
        executor: Executor::new(client.clone(), fence, args.limits(), writes),
        client,
        config: args.config(),
        metrics: passes::Metrics::register(registry),
        clock: Arc::new(jiff::Timestamp::now),
        connector: by_token(agent),
    };
    let readiness = service.readiness.clone();
    let work = |shutdown| {
        let process = Process {
            elector,
            manages_definitions: args.manage_crds,
            readiness,
            shutdown,
        };
        process::run(setup, process)
    };
    service.run(CONTROLLERS, work).await
}
