//! The executor's writes and what it makes of refusals, on the real server and on ours.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use edgegrid_runtime::executor::{Class, Metrics};
use edgegrid_runtime::{Executor, Fence, Limits, Target};
use edgegrid_testkit::{Cluster, on_every_cluster};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ApiResource;
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

on_every_cluster!(
    an_apply_is_completed_by_its_target_and_answers_with_metadata,
    an_unforced_apply_loses_to_whoever_took_the_name,
    a_delete_hits_only_the_object_it_was_made_for,
    a_json_patch_of_an_older_revision_changes_nothing,
    a_forbidden_change_names_its_fields,
    a_body_that_apply_cannot_express_names_its_paths,
);

/// Field manager of these tests.
const MANAGER: &str = "runtime-test";

fn executor(cluster: &Cluster) -> Executor {
    let (limits, metrics) = (Limits::default(), Metrics::default());
    Executor::new(cluster.client(), Fence::always(), limits, metrics)
}

fn target<K: Resource<DynamicType = ()>>(name: &str) -> Target {
    Target {
        api: ApiResource::erase::<K>(&()),
        namespace: Some("default".into()),
        name: name.into(),
    }
}

async fn stored(cluster: &Cluster, name: &str) -> Option<ConfigMap> {
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    api.get_opt(name).await.unwrap()
}

async fn an_apply_is_completed_by_its_target_and_answers_with_metadata(cluster: &Cluster) {
    let (executor, target) = (executor(cluster), target::<ConfigMap>("a"));
    let body = json!({ "data": { "k": "v" } });
    let made = executor.apply(&target, &body, MANAGER, None).await.unwrap();
    let found = stored(cluster, "a").await.unwrap();
    assert_eq!(made.resource_version, found.resource_version());
    assert_eq!(made.uid, found.uid());
    assert_eq!(found.data.as_ref().unwrap()["k"], "v");

    let body = json!({});
    let uid = made.uid.unwrap();
    let changed = executor.apply(&target, &body, MANAGER, Some(&uid)).await;
    assert_ne!(changed.unwrap().resource_version, made.resource_version);
    assert_eq!(
        stored(cluster, "a").await.unwrap().data,
        None,
        "what we no longer set goes away"
    );
}

async fn an_unforced_apply_loses_to_whoever_took_the_name(cluster: &Cluster) {
    let (executor, target) = (executor(cluster), target::<ConfigMap>("a"));
    let theirs = json!({ "data": { "k": "theirs" } });
    let made = executor.create(&target, &theirs, "them").await.unwrap();

    let ours = json!({ "data": { "k": "ours" } });
    let lost = executor.apply(&target, &ours, MANAGER, None).await;
    assert!(matches!(lost.unwrap_err().class, Class::Conflict(_)));
    let another = executor
        .apply(&target, &ours, MANAGER, Some("another-uid"))
        .await;
    let another = another.unwrap_err();
    assert!(matches!(another.class, Class::Conflict(_)), "{another:?}");
    let found = stored(cluster, "a").await.unwrap();
    assert_eq!(found.resource_version(), made.resource_version);
    let free = crate::target::<ConfigMap>("b");
    let deleted = executor.apply(&free, &ours, MANAGER, Some("gone-uid"));
    let deleted = deleted.await.unwrap_err();
    assert!(matches!(deleted.class, Class::Conflict(_)), "{deleted:?}");
    assert!(stored(cluster, "b").await.is_none(), "not made anew");
}

async fn a_delete_hits_only_the_object_it_was_made_for(cluster: &Cluster) {
    let (executor, target) = (executor(cluster), target::<ConfigMap>("a"));
    let made = executor.create(&target, &json!({}), MANAGER).await.unwrap();

    let other = executor.delete(&target, "another-uid").await;
    assert!(matches!(other.unwrap_err().class, Class::Conflict(_)));
    assert!(stored(cluster, "a").await.is_some());
    let uid = made.uid.unwrap();
    executor.delete(&target, &uid).await.unwrap();
    assert!(stored(cluster, "a").await.is_none());
    executor.delete(&target, &uid).await.unwrap();
}

async fn a_json_patch_of_an_older_revision_changes_nothing(cluster: &Cluster) {
    let (executor, target) = (executor(cluster), target::<ConfigMap>("a"));
    let body = json!({ "data": { "k": "v" } });
    let made = executor.create(&target, &body, MANAGER).await.unwrap();
    let revision = made.resource_version.unwrap();
    let operations = [json!({ "op": "add", "path": "/data/more", "value": "x" })];

    let patch = executor.patch_json(&target, &revision, &operations, MANAGER);
    patch.await.unwrap();
    let stale = executor.patch_json(&target, &revision, &operations, MANAGER);
    assert!(matches!(stale.await.unwrap_err().class, Class::Conflict(_)));
    let found = stored(cluster, "a").await.unwrap();
    let managers: Vec<_> = found.managed_fields().iter().collect();
    assert!(
        managers
            .iter()
            .all(|m| m.manager.as_deref() == Some(MANAGER))
    );
}

async fn a_forbidden_change_names_its_fields(cluster: &Cluster) {
    let (executor, target) = (executor(cluster), target::<Deployment>("a"));
    let mut body = deployment();
    let made = executor.apply(&target, &body, MANAGER, None).await.unwrap();
    body["spec"]["selector"]["matchLabels"] = json!({ "app": "b" });
    body["spec"]["template"]["metadata"]["labels"] = json!({ "app": "b" });
    let refused = executor
        .apply(&target, &body, MANAGER, made.uid.as_deref())
        .await
        .unwrap_err();
    assert!(refused.class.is_permanent());
    let Class::Invalid { causes, .. } = refused.class else {
        panic!("{refused:?}");
    };
    assert_eq!(causes[0].field, "spec.selector");
}

async fn a_body_that_apply_cannot_express_names_its_paths(cluster: &Cluster) {
    let (executor, target) = (executor(cluster), target::<Deployment>("typo"));
    let mut unknown = deployment();
    unknown["spec"]["template"]["spec"]["replica"] = json!(1);
    let mut twice = deployment();
    twice["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{ "name": "A", "value": "1" }, { "name": "A", "value": "2" }]);
    for (body, expected) in [
        (unknown, ".spec.template.spec.replica"),
        (twice, ".spec.template.spec.containers[name=\"a\"].env"),
    ] {
        let refused = executor.apply(&target, &body, MANAGER, None).await;
        let refused = refused.unwrap_err();
        let Class::SchemaMismatch { paths, .. } = &refused.class else {
            panic!("{refused:?}");
        };
        assert_eq!(paths, &[expected], "{refused}");
    }
}

/// A Deployment that every server takes.
fn deployment() -> Value {
    let labels = json!({ "app": "a" });
    let container = json!({ "name": "a", "image": "a" });
    json!({ "spec": {
        "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
    } })
}
