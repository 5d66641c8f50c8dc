//! What is made of what the server refuses.

use edgegrid_runtime::executor::Class;
use edgegrid_testkit::Cluster;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

use crate::{MANAGER, deployment, executor, target};

#[tokio::test(start_paused = true)]
async fn a_forbidden_change_names_its_fields() {
    let cluster = Cluster::embedded().await.unwrap();
    changed_selector(&cluster).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_apply_cannot_express_names_its_paths() {
    let cluster = Cluster::embedded().await.unwrap();
    inexpressible(&cluster).await;
}

pub(crate) async fn changed_selector(cluster: &Cluster) {
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

pub(crate) async fn inexpressible(cluster: &Cluster) {
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
        let Class::Unexpressible { paths, .. } = &refused.class else {
            panic!("{refused:?}");
        };
        assert_eq!(paths, &[expected], "{refused}");
    }
}
