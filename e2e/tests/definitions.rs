//! The controller's own care for its definitions, on the real server and on ours.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use edgegrid_api::names::annotation::SCHEMA_VERSION;
use edgegrid_controllers::definitions::ensure;
use edgegrid_controllers::execute::Execution;
use edgegrid_controllers::writes::Writes;
use edgegrid_runtime::executor::Metrics;
use edgegrid_runtime::{Executor, Fence, Limits};
use edgegrid_testkit::{Cluster, on_every_cluster, unit};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

on_every_cluster!(
    missing_definitions_are_made_and_serve_at_once,
    superedges_definition_is_upgraded_around_what_others_added,
    a_newer_definition_stays_as_it_is,
    a_second_start_writes_nothing,
);

const UNITS: &str = "nodeunits.site.superedge.io";

async fn start(client: Client) {
    let (limits, metrics) = (Limits::default(), Metrics::default());
    let execution = Execution {
        executor: Executor::new(client.clone(), Fence::always(), limits, metrics),
        writes: Writes::default(),
    };
    ensure(&client, &execution).await;
}

fn definitions(cluster: &Cluster) -> Api<CustomResourceDefinition> {
    Api::all(cluster.client())
}

async fn units(cluster: &Cluster) -> Value {
    serde_json::to_value(definitions(cluster).get(UNITS).await.unwrap()).unwrap()
}

async fn missing_definitions_are_made_and_serve_at_once(cluster: &Cluster) {
    start(cluster.client()).await;
    let found = definitions(cluster)
        .list(&ListParams::default())
        .await
        .unwrap();
    assert_eq!(found.items.len(), edgegrid_api::crds().len());
    cluster
        .apply::<edgegrid_api::NodeUnit>(unit("a", &[]))
        .await
        .unwrap();
}

async fn superedges_definition_is_upgraded_around_what_others_added(cluster: &Cluster) {
    let live: CustomResourceDefinition = serde_json::from_value(superedge()).unwrap();
    definitions(cluster)
        .create(&PostParams::default(), &live)
        .await
        .unwrap();
    start(cluster.client()).await;
    let upgraded = units(cluster).await;
    let (metadata, spec) = (&upgraded["metadata"], &upgraded["spec"]);
    let version = edgegrid_api::SCHEMA_VERSION.to_string();
    assert_eq!(metadata["annotations"][SCHEMA_VERSION], version);
    assert_eq!(metadata["annotations"]["note"], "keep");
    assert_eq!(metadata["labels"]["team"], "edge");
    assert_eq!(spec["names"]["categories"], json!(["all"]));
    assert_eq!(spec["conversion"]["strategy"], "Webhook");
    let names: Vec<&Value> = spec["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| &version["name"])
        .collect();
    assert_eq!(names, ["v1alpha1", "v1alpha2"]);
    let ours = &spec["versions"][1];
    assert_eq!(ours["subresources"], json!({ "status": {} }));
    let columns = ours["additionalPrinterColumns"].as_array().unwrap();
    let titles: Vec<&Value> = columns.iter().map(|column| &column["name"]).collect();
    assert_eq!(titles, ["Type", "Ready", "Age", "Deleting", "Region"]);
    let stored = &upgraded["status"]["storedVersions"];
    assert!(
        stored.as_array().unwrap().contains(&json!("v1alpha2")),
        "{stored}"
    );
}

async fn a_newer_definition_stays_as_it_is(cluster: &Cluster) {
    start(cluster.client()).await;
    let newer = (edgegrid_api::SCHEMA_VERSION + 1).to_string();
    let column = json!({ "name": "New", "jsonPath": ".spec.new", "type": "string" });
    let patch = json!([
        { "op": "add", "path": "/metadata/annotations/edgegrid.io~1schema-version", "value": newer },
        { "op": "add", "path": "/spec/versions/0/additionalPrinterColumns", "value": [column] },
    ]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
    let patched = definitions(cluster)
        .patch(UNITS, &PatchParams::default(), &patch)
        .await
        .unwrap();
    start(cluster.client()).await;
    let found = definitions(cluster).get(UNITS).await.unwrap();
    assert_eq!(found.spec, patched.spec);
}

async fn a_second_start_writes_nothing(cluster: &Cluster) {
    start(cluster.client()).await;
    let revisions = async || {
        let found = definitions(cluster)
            .list(&ListParams::default())
            .await
            .unwrap();
        let one = |crd: &CustomResourceDefinition| (crd.name_any(), crd.metadata.generation);
        found.items.iter().map(one).collect::<Vec<_>>()
    };
    let before = revisions().await;
    start(cluster.client()).await;
    assert_eq!(revisions().await, before);
}

/// NodeUnit as SuperEdge 0.9 leaves it, and what an administrator added.
fn superedge() -> Value {
    let schema = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    let columns = json!([
        { "name": "TYPE", "jsonPath": ".spec.type", "type": "string" },
        { "name": "Region", "jsonPath": ".metadata.labels.region", "type": "string" },
    ]);
    let webhook = json!({
        "clientConfig": { "url": "https://127.0.0.1:9/v1" },
        "conversionReviewVersions": ["v1"],
    });
    json!({
        "metadata": { "name": UNITS, "labels": { "team": "edge" }, "annotations": { "note": "keep" } },
        "spec": {
            "group": "site.superedge.io",
            "scope": "Cluster",
            "names": { "kind": "NodeUnit", "plural": "nodeunits", "singular": "nodeunit", "shortNames": ["nu"], "categories": ["all"] },
            "conversion": { "strategy": "Webhook", "webhook": webhook },
            "versions": [
                { "name": "v1alpha1", "served": true, "storage": false, "schema": schema },
                { "name": "v1alpha2", "served": true, "storage": true, "schema": schema, "additionalPrinterColumns": columns },
            ],
        },
    })
}
