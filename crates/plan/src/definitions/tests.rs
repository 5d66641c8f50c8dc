//! Definitions as clusters have them.

use edgegrid_api::names::annotation::SCHEMA_VERSION;

use super::*;

fn wanted() -> Value {
    let crds = edgegrid_api::crds().into_iter();
    let units = crds
        .map(|crd| serde_json::to_value(crd).unwrap())
        .find(|crd| crd["metadata"]["name"] == "nodeunits.site.superedge.io");
    units.unwrap()
}

fn with_version(mut definition: Value, version: u64) -> Value {
    definition["metadata"]["annotations"][SCHEMA_VERSION] = json!(version.to_string());
    definition["metadata"]["resourceVersion"] = json!("7");
    definition
}

/// SuperEdge's NodeUnit as a cluster may have it, and with what an administrator added.
fn superedge() -> Value {
    let mut live = wanted();
    let metadata = json!({
        "name": "nodeunits.site.superedge.io",
        "resourceVersion": "7",
        "labels": { "team": "edge" },
        "annotations": { "note": "keep" },
    });
    live["metadata"] = metadata;
    live["spec"]["names"]["shortNames"] = json!(["nu", "site"]);
    live["spec"]["names"]["categories"] = json!(["all"]);
    live["spec"]["preserveUnknownFields"] = json!(true);
    live["spec"]["conversion"] =
        json!({ "strategy": "Webhook", "webhook": { "conversionReviewVersions": ["v1"] } });
    let schema = json!({ "openAPIV3Schema": { "type": "object" } });
    let columns = json!([
        { "name": "TYPE", "jsonPath": ".spec.type", "type": "string" },
        { "name": "Region", "jsonPath": ".metadata.labels.region", "type": "string" },
    ]);
    live["spec"]["versions"] = json!([
        { "name": "v1alpha1", "served": true, "storage": true, "schema": schema, "fieldOfTomorrow": 1 },
        { "name": "v1alpha2", "served": false, "storage": false, "schema": schema, "additionalPrinterColumns": columns, "deprecated": true },
    ]);
    live
}

/// The live definition after the decision.
fn after(live: &Value) -> Value {
    let mut result = live.clone();
    let Decision::Write(Step::Patch { operations, .. }) = decide(&wanted(), Some(live)) else {
        panic!("nothing to do");
    };
    for operation in operations {
        let path = operation["path"].as_str().unwrap();
        let (parent, key) = path.rsplit_once('/').unwrap();
        let parent = result.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        parent.insert(key.into(), operation["value"].clone());
    }
    result
}

#[test]
fn a_missing_definition_is_created() {
    let Decision::Write(Step::Create { id, body }) = decide(&wanted(), None) else {
        panic!("not created");
    };
    assert_eq!(id.name, "nodeunits.site.superedge.io");
    assert_eq!(schema_version(&body), edgegrid_api::SCHEMA_VERSION);
}

#[test]
fn a_newer_definition_is_never_downgraded() {
    let newer = edgegrid_api::SCHEMA_VERSION + 1;
    let mut live = with_version(wanted(), newer);
    live["spec"]["versions"][0]["schema"] = json!({});
    assert_eq!(decide(&wanted(), Some(&live)), Decision::Newer(newer));
}

#[test]
fn our_own_definition_is_left_to_the_administrator() {
    let mut live = with_version(wanted(), edgegrid_api::SCHEMA_VERSION);
    let more = json!({ "name": "Region", "jsonPath": ".metadata.labels.region", "type": "string" });
    live["spec"]["versions"][0]["additionalPrinterColumns"] = json!([more]);
    live["metadata"]["labels"] = json!({ "team": "edge" });
    assert_eq!(decide(&wanted(), Some(&live)), Decision::Keep);
}

#[test]
fn an_older_definition_is_upgraded_and_only_in_what_is_ours() {
    let live = superedge();
    let upgraded = after(&live);
    assert_eq!(schema_version(&upgraded), edgegrid_api::SCHEMA_VERSION);
    assert_eq!(upgraded["metadata"]["annotations"]["note"], "keep");
    assert_eq!(upgraded["metadata"]["labels"], live["metadata"]["labels"]);
    assert_eq!(upgraded["spec"]["conversion"], live["spec"]["conversion"]);
    assert_eq!(upgraded["spec"]["preserveUnknownFields"], false);
    assert_eq!(
        upgraded["spec"]["names"]["shortNames"],
        json!(["nu", "site"])
    );
    assert_eq!(upgraded["spec"]["names"]["categories"], json!(["all"]));

    let [theirs, ours] = &upgraded["spec"]["versions"].as_array().unwrap()[..] else {
        panic!("{upgraded}");
    };
    let wanted = &wanted()["spec"]["versions"][0];
    assert_eq!(ours["schema"], wanted["schema"]);
    assert_eq!(ours["subresources"], wanted["subresources"]);
    assert_eq!(
        (&ours["served"], &ours["storage"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(ours["deprecated"], true, "an addition");
    let titles: Vec<&str> = list(&ours["additionalPrinterColumns"])
        .map(|column| text(column, "/name"))
        .collect();
    assert_eq!(titles, ["Type", "Ready", "Age", "Deleting", "Region"]);
    assert_eq!(
        (&theirs["served"], &theirs["storage"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(theirs["fieldOfTomorrow"], 1);
}

#[test]
fn a_definition_is_upgraded_once() {
    assert_eq!(
        decide(&wanted(), Some(&after(&superedge()))),
        Decision::Keep
    );
}

#[test]
fn a_version_that_is_not_there_yet_is_added() {
    let mut live = superedge();
    live["spec"]["versions"].as_array_mut().unwrap().pop();
    let upgraded = after(&live);
    let versions = upgraded["spec"]["versions"].as_array().unwrap();
    assert_eq!(versions[1], wanted()["spec"]["versions"][0]);
    let stored = versions
        .iter()
        .filter(|version| version["storage"] == json!(true));
    assert_eq!(stored.count(), 1, "Kubernetes allows exactly one");
}

#[test]
fn what_superedge_or_an_old_manifest_put_back_is_repaired_though_the_annotation_stayed() {
    let ours = with_version(wanted(), edgegrid_api::SCHEMA_VERSION);
    let mut old = ours.clone();
    old["spec"]["versions"][0]["subresources"] = json!({});
    old["spec"]["versions"][0]["schema"] = json!({});
    assert_eq!(after(&old)["spec"], ours["spec"]);

    let mut rewritten = ours.clone();
    rewritten["spec"]["versions"][0]["schema"] = json!({});
    rewritten["metadata"]["managedFields"] = json!([
        { "manager": "site-manager", "operation": "Update", "fieldsV1": { "f:spec": { "f:versions": {} } } },
    ]);
    assert_eq!(after(&rewritten)["spec"], ours["spec"]);
    rewritten["spec"] = ours["spec"].clone();
    assert_eq!(decide(&wanted(), Some(&rewritten)), Decision::Keep);
}

#[test]
fn every_definition_of_ours_has_one_version() {
    for crd in edgegrid_api::crds() {
        assert_eq!(crd.spec.versions.len(), 1, "{:?}", crd.metadata.name);
    }
}
