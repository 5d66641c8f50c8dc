//! A Node object that is deleted, and what kube-apiserver then says to those who watch nodes by label, with
//! kube-controller-manager running.

use std::time::Duration;

use anyhow::{Result, ensure};
use edgegrid_testkit::edgegrid::{Settings, Wrapper};
use edgegrid_testkit::{Cluster, eventually};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::json;
use tokio::time::{Instant, sleep};

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const OWN: &str = "/api/v1/nodes/a-0";
/// Short, so that its end is seen too.
const GRACE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(500);
/// The pods of a-0, a-1 and b-0.
const PODS: [&str; 3] = ["10.1.0.2", "10.3.0.2", "10.2.0.2"];

async fn pods(wrapper: &Wrapper) -> Result<[bool; 3]> {
    let text = wrapper.get(SLICES).await?;
    Ok(PODS.map(|pod| text.contains(pod)))
}

async fn shows(wrapper: &Wrapper, wanted: [bool; 3]) {
    let what = format!("{wanted:?} of the pods are shown");
    eventually(&what, async || {
        let seen = pods(wrapper).await?;
        ensure!(seen == wanted, "{seen:?}");
        Ok(())
    })
    .await
    .unwrap();
}

/// Has the API server know a Node as the kubelet makes it: without the labels that somebody gave it.
async fn register(cluster: &Cluster, name: &str) {
    let node =
        json!({ "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } } });
    let node = crate::object::<Node>(&node);
    cluster.apply::<Node>(node).await.unwrap();
}

#[tokio::test]
async fn a_closed_service_outlives_the_node_objects_of_its_site() {
    let cluster = Cluster::upstream().await.unwrap();
    crate::two_units(&cluster).await;
    let peer = json!({ "metadata": { "name": "a-1", "labels": { "unit": "a" } } });
    cluster
        .apply::<Node>(crate::object::<Node>(&peer))
        .await
        .unwrap();
    let mut slice = crate::slice("web-x", 1);
    let mut second = slice.endpoints.as_ref().unwrap()[0].clone();
    second.addresses = vec![PODS[1].to_owned()];
    second.node_name = Some("a-1".to_owned());
    slice.endpoints.as_mut().unwrap().push(second);
    cluster.apply::<EndpointSlice>(slice).await.unwrap();
    let settings = Settings::for_node(&cluster, "a-0").await.unwrap();
    let wrapper = Wrapper::start(settings.with(["--node-grace", "20s"]))
        .await
        .unwrap();
    shows(&wrapper, [true, true, false]).await;

    let deleted = Instant::now();
    cluster
        .kubectl(["delete", "node", "a-0", "a-1"])
        .await
        .unwrap();
    for (after, again) in [(4, false), (8, true)] {
        if again {
            register(&cluster, "a-0").await;
            register(&cluster, "a-1").await;
        }
        while deleted.elapsed() < Duration::from_secs(after) {
            assert_eq!(pods(&wrapper).await.unwrap(), [true, true, false]);
            wrapper
                .get(OWN)
                .await
                .expect("kube-proxy's own Node is served");
            sleep(POLL).await;
        }
    }
    let events = [
        "get",
        "events",
        "-n",
        "default",
        "--field-selector",
        "reason=NodeGone",
    ];
    let events = cluster.kubectl(events).await.unwrap();
    assert!(events.contains("node/a-0"), "{events}");
    // A living node is where its labels say, at once.
    cluster
        .kubectl(["label", "node", "a-0", "unit=a"])
        .await
        .unwrap();
    cluster
        .kubectl(["label", "node", "a-1", "unit=b"])
        .await
        .unwrap();
    shows(&wrapper, [true, false, false]).await;
    assert!(
        deleted.elapsed() < GRACE,
        "that was not the end of the grace"
    );

    let deleted = Instant::now();
    cluster.kubectl(["delete", "node", "a-0"]).await.unwrap();
    shows(&wrapper, [false; 3]).await;
    let kept = deleted.elapsed();
    assert!(kept + Duration::from_secs(1) >= GRACE, "{kept:?}");
    assert!(
        wrapper.get(OWN).await.is_err(),
        "nobody has that Node any more"
    );
}
