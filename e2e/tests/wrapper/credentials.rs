//! Credentials that expire and are renewed while the programs run.

use std::time::Duration;

use anyhow::{Result, ensure};
use edgegrid_testkit::edgegrid::{
    CONTROLLER, Controller, STATEFULSET, Settings, WRAPPER_ACCOUNT, Wrapper,
};
use edgegrid_testkit::{Cluster, Patience, eventually_within};
use k8s_openapi::api::discovery::v1::EndpointSlice;

/// Files are looked at every half minute.
const LOOKED_AT: Patience = Patience {
    limit: Duration::from_mins(1),
    pause: Duration::from_millis(250),
};
const REFUSED: &str = "[!]credentials: the API server answers 401 Unauthorized";

/// The programs, each with a client certificate of its own.
struct Programs {
    wrapper: Wrapper,
    controllers: [Controller; 2],
}

impl Programs {
    async fn start(cluster: &Cluster, wrapper: &str) -> Result<Self> {
        let mut settings = Settings::for_node(cluster, "a-0").await?;
        settings.kubeconfig = cluster.kubeconfig_as(wrapper, None)?;
        let wrapper = Wrapper::start(settings).await?;
        wrapper.wait_until_ready().await?;
        let controllers = [
            Controller::start_with_certificate(cluster, &CONTROLLER).await?,
            Controller::start_with_certificate(cluster, &STATEFULSET).await?,
        ];
        Ok(Self {
            wrapper,
            controllers,
        })
    }

    /// What all of them answer.
    async fn get(&self, path: &str) -> Result<Vec<String>> {
        let mut answers = vec![self.wrapper.get(path).await?];
        for controller in &self.controllers {
            answers.push(controller.get(path).await?);
        }
        Ok(answers)
    }

    /// Waits until all of them have a line like this in `/readyz?verbose`, and are ready.
    async fn all_say(&self, line: &str) {
        eventually_within(LOOKED_AT, line, async || {
            for answer in self.get("/readyz?verbose").await? {
                ensure!(answer.contains(line), "{answer}");
            }
            Ok(())
        })
        .await
        .unwrap();
    }

    async fn shows(&self, address: &str) -> Result<()> {
        let path = "/apis/discovery.k8s.io/v1/endpointslices";
        let shown = self.wrapper.get(path).await?;
        ensure!(shown.contains(address), "{shown}");
        Ok(())
    }
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_told_and_a_renewed_one_is_used_without_a_restart() {
    let cluster = Cluster::upstream().await.unwrap();
    crate::two_units(&cluster).await;
    let slice = crate::slice("web-x", 1);
    cluster.apply::<EndpointSlice>(slice).await.unwrap();
    let (namespace, account) = WRAPPER_ACCOUNT;
    let wrapper = format!("system:serviceaccount:{namespace}:{account}");
    let users = [wrapper.clone(), CONTROLLER.user(), STATEFULSET.user()];
    let programs = Programs::start(&cluster, &wrapper).await.unwrap();
    programs.all_say("[+]credentials ok").await;

    for user in &users {
        cluster.expire_certificate(user).unwrap();
    }
    programs.all_say(REFUSED).await;
    for metrics in programs.get("/metrics").await.unwrap() {
        assert!(
            metrics.contains("api_refusals_total{code=\"401\"} "),
            "{metrics}"
        );
    }
    // The last that was known is served on.
    cluster
        .apply::<EndpointSlice>(crate::slice("web-x", 2))
        .await
        .unwrap();
    programs.shows("10.1.0.2").await.unwrap();

    for user in &users {
        cluster.renew_certificate(user).unwrap();
    }
    programs.all_say("[+]credentials ok").await;
    let what = "the wrapper follows changes again";
    eventually_within(LOOKED_AT, what, async || programs.shows("10.1.0.3").await)
        .await
        .unwrap();
}
