//! The executor behind a bad link, and what it counts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use edgegrid_runtime::executor::{Class, Metrics};
use edgegrid_runtime::{Executor, Fence, Limits, Target};
use edgegrid_testkit::Cluster;
use edgegrid_testkit::faults::Fault;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ApiResource;
use prometheus_client::registry::Registry;
use serde_json::json;

/// Field manager of these tests.
const MANAGER: &str = "runtime-test";

fn executor(cluster: &Cluster, fence: Fence, limits: Limits) -> Executor {
    Executor::new(cluster.client(), fence, limits, Metrics::default())
}

fn target(name: &str) -> Target {
    Target {
        api: ApiResource::erase::<ConfigMap>(&()),
        namespace: Some("default".into()),
        name: name.into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_given_up_and_said_to_be_unknown() {
    let cluster = Cluster::embedded().await.unwrap();
    let (executor, target) = (
        executor(&cluster, Fence::always(), Limits::default()),
        target("a"),
    );
    let faults = cluster.faults().unwrap();
    faults.inject(1, Fault::Hang, |method, _| method == "POST");
    faults.inject(2, Fault::LoseAnswer, |method, _| method == "POST");

    let started = tokio::time::Instant::now();
    let hung = executor.create(&target, &json!({}), MANAGER).await;
    assert!(matches!(hung.unwrap_err().class, Class::NoAnswer));
    assert_eq!(started.elapsed(), Limits::default().timeout);
    let lost = executor.create(&target, &json!({}), MANAGER).await;
    assert!(matches!(lost.unwrap_err().class, Class::Transport(_)));
    let again = executor.create(&target, &json!({}), MANAGER).await;
    let again = again.unwrap_err();
    assert!(
        matches!(again.class, Class::AlreadyExists),
        "it had taken effect"
    );
    assert_eq!(
        again.to_string(),
        "create ConfigMap default/a: an object of that name exists"
    );
}

#[tokio::test(start_paused = true)]
async fn no_more_writes_are_under_way_than_allowed_and_none_overtakes() {
    let cluster = Cluster::embedded().await.unwrap();
    let limits = Limits {
        concurrency: 1,
        ..Limits::default()
    };
    let executor = executor(&cluster, Fence::always(), limits);
    let faults = cluster.faults().unwrap();
    for _ in ["a", "b", "c"] {
        faults.inject(1, Fault::Hang, |method, _| method == "POST");
    }
    let started = tokio::time::Instant::now();
    let write = async |name| {
        let outcome = executor.create(&target(name), &json!({}), MANAGER).await;
        (started.elapsed().as_secs(), outcome.is_ok())
    };
    let seen = tokio::join!(write("a"), write("b"), write("c"), write("d"));
    assert_eq!(seen, ((10, false), (20, false), (30, false), (30, true)));
}

#[tokio::test(start_paused = true)]
async fn every_write_is_counted_by_verb_kind_and_outcome() {
    let cluster = Cluster::embedded().await.unwrap();
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let fence = Fence::always();
    let executor = Executor::new(cluster.client(), fence, Limits::default(), metrics);
    for _ in 0..2 {
        let _ = executor.create(&target("a"), &json!({}), MANAGER).await;
    }
    let mut shown = String::new();
    prometheus_client::encoding::text::encode(&mut shown, &registry).unwrap();
    for line in [
        r#"api_writes_total{verb="create",kind="ConfigMap",outcome="done"} 1"#,
        r#"api_writes_total{verb="create",kind="ConfigMap",outcome="already_exists"} 1"#,
        r#"api_write_duration_seconds_count{verb="create"} 2"#,
    ] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
}
