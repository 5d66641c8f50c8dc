//! What the writes do.

use std::time::Duration;

use edgegrid_runtime::executor::{Class, Metrics};
use edgegrid_runtime::{Executor, Fence, Limits};
use edgegrid_testkit::Cluster;
use edgegrid_testkit::faults::Fault;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::{MANAGER, executor, target};

async fn stored(cluster: &Cluster, name: &str) -> Option<ConfigMap> {
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    api.get_opt(name).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_apply_is_completed_by_its_target_and_answers_with_metadata() {
    let cluster = Cluster::embedded().await.unwrap();
    let (executor, target) = (executor(&cluster), target::<ConfigMap>("a"));
    let body = json!({ "data": { "k": "v" } });
    let made = executor.apply(&target, &body, MANAGER, None).await.unwrap();
    let found = stored(&cluster, "a").await.unwrap();
    assert_eq!(made.resource_version, found.resource_version());
    assert_eq!(made.uid, found.uid());
    assert_eq!(found.data.as_ref().unwrap()["k"], "v");

    let body = json!({});
    let uid = made.uid.unwrap();
    let changed = executor.apply(&target, &body, MANAGER, Some(&uid)).await;
    assert_ne!(changed.unwrap().resource_version, made.resource_version);
    assert_eq!(
        stored(&cluster, "a").await.unwrap().data,
        None,
        "what we no longer set goes away"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unforced_apply_loses_to_whoever_took_the_name() {
    let cluster = Cluster::embedded().await.unwrap();
    let (executor, target) = (executor(&cluster), target::<ConfigMap>("a"));
    let theirs = json!({ "data": { "k": "theirs" } });
    let made = executor.create(&target, &theirs, "them").await.unwrap();

    let ours = json!({ "data": { "k": "ours" } });
    let lost = executor.apply(&target, &ours, MANAGER, None).await;
    assert!(matches!(lost.unwrap_err().class, Class::Conflict(_)));
    let another = executor
        .apply(&target, &ours, MANAGER, Some("another-uid"))
        .await;
    assert!(matches!(another.unwrap_err().class, Class::Conflict(_)));
    let found = stored(&cluster, "a").await.unwrap();
    assert_eq!(found.resource_version(), made.resource_version);
}

#[tokio::test(start_paused = true)]
async fn a_delete_hits_only_the_object_it_was_made_for() {
    let cluster = Cluster::embedded().await.unwrap();
    let (executor, target) = (executor(&cluster), target::<ConfigMap>("a"));
    let made = executor.create(&target, &json!({}), MANAGER).await.unwrap();

    let other = executor.delete(&target, "another-uid").await;
    assert!(matches!(other.unwrap_err().class, Class::Conflict(_)));
    assert!(stored(&cluster, "a").await.is_some());
    let uid = made.uid.unwrap();
    executor.delete(&target, &uid).await.unwrap();
    assert!(stored(&cluster, "a").await.is_none());
    executor.delete(&target, &uid).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_json_patch_of_an_older_revision_changes_nothing() {
    let cluster = Cluster::embedded().await.unwrap();
    let (executor, target) = (executor(&cluster), target::<ConfigMap>("a"));
    let body = json!({ "data": { "k": "v" } });
    let made = executor.create(&target, &body, MANAGER).await.unwrap();
    let revision = made.resource_version.unwrap();
    let operations = [json!({ "op": "add", "path": "/data/more", "value": "x" })];

    let patch = executor.patch_json(&target, &revision, &operations, MANAGER);
    patch.await.unwrap();
    let stale = executor.patch_json(&target, &revision, &operations, MANAGER);
    assert!(matches!(stale.await.unwrap_err().class, Class::Conflict(_)));
    let found = stored(&cluster, "a").await.unwrap();
    let managers: Vec<_> = found.managed_fields().iter().collect();
    assert!(
        managers
            .iter()
            .all(|m| m.manager.as_deref() == Some(MANAGER))
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_given_up_and_said_to_be_unknown() {
    let cluster = Cluster::embedded().await.unwrap();
    let (executor, target) = (executor(&cluster), target::<ConfigMap>("a"));
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
    assert!(matches!(again.class, Class::Taken), "it had taken effect");
    assert_eq!(
        again.to_string(),
        "create ConfigMap default/a: an object of that name exists"
    );
}

#[tokio::test(start_paused = true)]
async fn no_more_writes_are_under_way_than_allowed_and_none_overtakes() {
    let cluster = Cluster::embedded().await.unwrap();
    let limits = Limits {
        concurrency: 2,
        timeout: Duration::from_secs(10),
    };
    let metrics = Metrics::default();
    let executor = Executor::new(cluster.client(), Fence::always(), limits, metrics);
    let faults = cluster.faults().unwrap();
    for nth in 1..=3 {
        faults.inject(nth, Fault::Hang, |method, _| method == "POST");
    }
    let started = tokio::time::Instant::now();
    let (body, names) = (json!({}), ["a", "b", "c", "d"]);
    let writes = names.map(|name| {
        let (executor, body) = (&executor, &body);
        async move {
            let target = target::<ConfigMap>(name);
            let outcome = executor.create(&target, body, MANAGER).await;
            (started.elapsed().as_secs(), outcome.is_ok())
        }
    });
    let [a, b, c, d] = writes;
    let seen = tokio::join!(a, b, c, d);
    // Two hang at once; the third waits for a slot and hangs, the fourth passes beside it.
    assert_eq!(seen, ((10, false), (10, false), (20, false), (10, true)));
}
