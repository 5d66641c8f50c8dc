//! The bench itself: real controllers, simulated nodes, and that a test can tell ready from not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use anyhow::{Result, ensure};
use edgegrid_testkit::{Cluster, eventually, node, service, workload};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};

async fn cluster() -> Cluster {
    let cluster = Cluster::upstream().with_controllers().await.unwrap();
    let nodes = ["bj-1", "bj-2", "gz-1"].map(|name| node(name).label("location", &name[..2]));
    cluster.add_nodes(nodes).await.unwrap();
    cluster
}

fn api<K>(cluster: &Cluster) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    Api::namespaced(cluster.client(), "default")
}

/// Addresses of a Service's endpoints, those that are ready and those that are not.
async fn endpoints(cluster: &Cluster, service: &str) -> Result<(Vec<String>, Vec<String>)> {
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    let slices = api::<EndpointSlice>(cluster).list(&of_service).await?;
    let (ready, not_ready): (Vec<_>, Vec<_>) = slices
        .into_iter()
        .flat_map(|slice| slice.endpoints.unwrap_or_default())
        .partition(|endpoint| {
            endpoint
                .conditions
                .as_ref()
                .is_some_and(|c| c.ready == Some(true))
        });
    let addresses = |all: Vec<k8s_openapi::api::discovery::v1::Endpoint>| {
        let mut addresses: Vec<_> = all.into_iter().flat_map(|e| e.addresses).collect();
        addresses.sort();
        addresses
    };
    Ok((addresses(ready), addresses(not_ready)))
}

#[tokio::test]
async fn a_deployment_becomes_ready_on_its_nodes_and_its_endpoints_follow_readiness() {
    let cluster = cluster().await;
    let web = workload("web").replicas(4).on_nodes("location", "bj");
    cluster.apply::<Deployment>(web).await.unwrap();
    cluster
        .apply::<Service>(service("web", "web").port(80, 8080))
        .await
        .unwrap();

    eventually("all four are ready endpoints", async || {
        let web = api::<Deployment>(&cluster).get("web").await?;
        let available = web.status.and_then(|status| status.available_replicas);
        ensure!(available == Some(4), "{available:?} available");
        let (mut ready, _) = endpoints(&cluster, "web").await?;
        ready.dedup();
        ensure!(ready.len() == 4, "{ready:?}");
        Ok(())
    })
    .await
    .unwrap();
    let pods = api::<Pod>(&cluster)
        .list(&ListParams::default())
        .await
        .unwrap();
    assert!(pods.iter().all(|pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        node.is_some_and(|node| node.starts_with("bj-"))
    }));

    let name = pods.items[0].name_any();
    for (ready, count) in [(false, 3), (true, 4)] {
        cluster.set_ready("default", &name, ready).await.unwrap();
        eventually("the endpoints follow", async || {
            let (ready, not_ready) = endpoints(&cluster, "web").await?;
            ensure!(
                ready.len() == count && not_ready.len() == 4 - count,
                "{ready:?} {not_ready:?}"
            );
            Ok(())
        })
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn a_stateful_set_comes_up_in_order_waits_for_an_unready_pod_and_goes_away() {
    let cluster = cluster().await;
    // Set before it exists: it will run, but not become ready.
    cluster.set_ready("default", "db-1", false).await.unwrap();
    cluster
        .apply::<Service>(service("db", "db").port(80, 8080).headless())
        .await
        .unwrap();
    cluster
        .apply::<StatefulSet>(workload("db").replicas(3).named_by("db"))
        .await
        .unwrap();

    let names = async || -> Result<Vec<String>> {
        let pods = api::<Pod>(&cluster).list(&ListParams::default()).await?;
        Ok(pods.iter().map(ResourceExt::name_any).collect())
    };
    eventually("db-1 runs and is not ready", async || {
        let (ready, not_ready) = endpoints(&cluster, "db").await?;
        ensure!(
            ready.len() == 1 && not_ready.len() == 1,
            "{ready:?} {not_ready:?}"
        );
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(
        names().await.unwrap(),
        ["db-0", "db-1"],
        "db-2 must wait for db-1"
    );

    cluster.set_ready("default", "db-1", true).await.unwrap();
    eventually("all three are ready", async || {
        let (ready, _) = endpoints(&cluster, "db").await?;
        ensure!(ready.len() == 3, "{ready:?}, pods {:?}", names().await?);
        Ok(())
    })
    .await
    .unwrap();

    api::<StatefulSet>(&cluster)
        .delete("db", &DeleteParams::default())
        .await
        .unwrap();
    eventually("its pods are gone", async || {
        let left = names().await?;
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn clients_have_the_rights_of_who_they_are() {
    let cluster = cluster().await;
    let nobody = cluster.client_as("alice", None).await.unwrap();
    let admin = cluster
        .client_as("bob", Some("system:masters"))
        .await
        .unwrap();
    let account = cluster
        .client_as_service_account("default", "default")
        .await
        .unwrap();
    let may_list = async |client| {
        Api::<Pod>::default_namespaced(client)
            .list(&ListParams::default())
            .await
    };
    assert!(
        matches!(may_list(nobody).await, Err(kube::Error::Api(status)) if status.is_forbidden())
    );
    assert!(
        matches!(may_list(account).await, Err(kube::Error::Api(status)) if status.is_forbidden())
    );
    may_list(admin).await.unwrap();
}
