//! The five kinds on a real API server: established, listed in words people read, and
//! taking the manifests that SuperEdge's users already have.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use edgegrid_api::{DeploymentGrid, NodeGroup, NodeUnit, ServiceGrid, StatefulSetGrid};
use edgegrid_testkit::{Cluster, eventually, grid, group, on_every_cluster, service, unit};
use http::Request;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::Resource;
use kube::{Api, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

on_every_cluster!(
    templates_come_back_as_written_at_every_level,
    one_odd_object_does_not_hide_the_others,
);

fn fixtures(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crates/api/fixtures")
        .join(folder);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no fixtures in {}", folder.display());
    files
}

async fn cluster() -> Cluster {
    let cluster = Cluster::upstream().await.unwrap();
    cluster.install(edgegrid_api::crds()).await.unwrap();
    cluster
}

/// Column titles of a kubectl table.
fn titles(table: &str) -> Vec<&str> {
    table
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect()
}

#[tokio::test]
async fn manifests_of_the_seeds_apply_and_the_two_wrong_ones_are_refused() {
    let cluster = cluster().await;
    for file in fixtures("seeds") {
        let path = file.to_str().unwrap();
        cluster.kubectl(["apply", "-f", path]).await.unwrap();
    }
    for (file, says) in fixtures("seeds/refused").iter().zip([
        "the spec of a Service belongs into a ServiceGrid",
        "unknown field \"spec.topologyKeys\"",
    ]) {
        let refusal = cluster
            .kubectl(["apply", "-f", file.to_str().unwrap()])
            .await
            .unwrap_err();
        assert!(
            format!("{refusal:#}").contains(says),
            "{}: {refusal:#}",
            file.display()
        );
    }
}

#[tokio::test]
async fn tables_show_what_people_look_for() {
    let cluster = cluster().await;
    cluster
        .apply::<DeploymentGrid>(grid("web").by("location").replicas(2))
        .await
        .unwrap();
    cluster
        .apply::<StatefulSetGrid>(grid("db").by("location").named_by("db-svc"))
        .await
        .unwrap();
    cluster
        .apply::<ServiceGrid>(service("web", "web").by("location").port(80, 8080))
        .await
        .unwrap();
    cluster
        .apply::<NodeUnit>(unit("beijing", &["bj-1", "bj-2"]))
        .await
        .unwrap();
    cluster
        .apply::<NodeGroup>(group("location", &["beijing"]))
        .await
        .unwrap();
    let grids: Api<DeploymentGrid> = Api::namespaced(cluster.client(), "default");
    let status = json!({ "status": { "units": 6, "readyUnits": 5, "ready": "5/6" } });
    grids
        .patch_status("web", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();

    for (kind, expected) in [
        ("dg", "NAME KEY UNITS READY AGE"),
        ("ssg", "NAME KEY UNITS READY AGE"),
        ("sg", "NAME KEY SERVICE AGE"),
        ("nu", "NAME TYPE READY AGE"),
        ("ng", "NAME UNITS AGE"),
    ] {
        let table = cluster.kubectl(["get", kind]).await.unwrap();
        assert_eq!(titles(&table).join(" "), expected, "{table}");
    }
    let wide = cluster.kubectl(["get", "nu", "-o", "wide"]).await.unwrap();
    assert_eq!(
        titles(&wide).join(" "),
        "NAME TYPE READY AGE DELETING",
        "{wide}"
    );
    let row = cluster
        .kubectl(["get", "dg", "web", "--no-headers"])
        .await
        .unwrap();
    assert!(
        row.starts_with("web") && row.contains("location") && row.contains("5/6"),
        "{row}"
    );
    let all = cluster.kubectl(["get", "dg,ssg,sg,nu,ng"]).await.unwrap();
    for name in ["/web", "/db", "/beijing", "/location"] {
        assert!(all.contains(name), "{all}");
    }
}

#[tokio::test]
async fn explain_says_what_each_field_is_for() {
    let cluster = cluster().await;
    // Documentation is published a moment after the kind is served.
    let text = eventually("dg.spec is documented", async || {
        cluster.kubectl(["explain", "dg.spec"]).await
    })
    .await
    .unwrap();
    for field in [
        "gridUniqKey",
        "template",
        "templatePool",
        "templates",
        "defaultTemplateName",
        "autoDeleteUnusedTemplate",
        "Node label key that names the units",
    ] {
        assert!(text.contains(field), "{field} is missing in:\n{text}");
    }
    assert!(!text.contains("<no description>"), "{text}");
}

#[tokio::test]
async fn every_kind_has_a_status_of_its_own_and_none_can_be_scaled() {
    let cluster = cluster().await;
    for (group, kinds) in [
        (
            "superedge.io/v1",
            &["deploymentgrids", "statefulsetgrids", "servicegrids"][..],
        ),
        ("site.superedge.io/v1alpha2", &["nodeunits", "nodegroups"]),
    ] {
        let listed = cluster
            .kubectl(["get", "--raw", &format!("/apis/{group}")])
            .await
            .unwrap();
        for kind in kinds {
            assert!(listed.contains(&format!("\"{kind}/status\"")), "{listed}");
            assert!(!listed.contains(&format!("\"{kind}/scale\"")), "{listed}");
        }
    }
}

/// Creates `object`, and wants its templates back unchanged: from the server, and through our type.
async fn comes_back<K>(cluster: &Cluster, object: &Value)
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    let kind = K::plural(&());
    let path = format!("/apis/superedge.io/v1/namespaces/default/{kind}?fieldValidation=Strict");
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(object.to_string().into_bytes()).unwrap();
    let stored: Value = cluster.client().request(request).await.unwrap();
    let ours: K = serde_json::from_value(stored.clone()).unwrap();
    let ours = serde_json::to_value(&ours).unwrap();
    for field in ["/spec/template", "/spec/templatePool"] {
        let written = object.pointer(field);
        assert_eq!(
            stored.pointer(field),
            written,
            "{kind}{field} from the server"
        );
        assert_eq!(
            ours.pointer(field),
            written,
            "{kind}{field} through our type"
        );
    }
}

async fn templates_come_back_as_written_at_every_level(cluster: &Cluster) {
    cluster.install(edgegrid_api::crds()).await.unwrap();
    let pod = json!({
        "metadata": { "labels": { "app": "web" }, "creationTimestamp": null, "newInMetadata": [1] },
        "spec": {
            "containers": [{ "name": "c", "image": "i", "newInContainer": { "a": null } }],
            "newInPod": 1.5,
        },
    });
    let workload = json!({
        "replicas": 2,
        "selector": {
            "matchLabels": { "app": "web" },
            "matchExpressions": [{ "key": "app", "operator": "Exists", "newInRequirement": true }],
            "newInSelector": "x",
        },
        "template": pod,
        "strategy": {},
        "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {} }],
        "newInSpec": { "deep": [{ "er": 9_007_199_254_740_993_i64 }] },
    });
    let service = json!({
        "selector": { "app": "web" },
        "ports": [{ "port": 80, "targetPort": "http", "appProtocol": "x", "newInPort": {} }],
        "trafficDistribution": "PreferClose",
        "newInSpec": [null, 0, ""],
    });
    let of = |kind: &str, templates: Value| {
        let mut spec = templates;
        spec["gridUniqKey"] = "location".into();
        json!({
            "apiVersion": "superedge.io/v1",
            "kind": kind,
            "metadata": { "name": "web", "namespace": "default" },
            "spec": spec,
        })
    };
    let both = json!({ "template": workload, "templatePool": { "next": workload } });
    comes_back::<DeploymentGrid>(cluster, &of("DeploymentGrid", both.clone())).await;
    comes_back::<StatefulSetGrid>(cluster, &of("StatefulSetGrid", both)).await;
    comes_back::<ServiceGrid>(cluster, &of("ServiceGrid", json!({ "template": service }))).await;
}

async fn one_odd_object_does_not_hide_the_others(cluster: &Cluster) {
    // As SuperEdge's definitions have it: nothing is checked, nothing is required.
    let lax = edgegrid_api::crds().into_iter().map(|mut crd| {
        for version in &mut crd.spec.versions {
            version.schema = serde_json::from_value(json!({ "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}))
            .unwrap();
        }
        crd
    });
    cluster.install(lax).await.unwrap();
    let create = PostParams::default();
    for (name, odd) in [("no-spec", json!({})), ("no-key", json!({ "spec": {} }))] {
        let resource = ApiResource::erase::<DeploymentGrid>(&());
        let grids: Api<DynamicObject> = Api::default_namespaced_with(cluster.client(), &resource);
        let odd = DynamicObject::new(name, &resource).data(odd);
        grids.create(&create, &odd).await.unwrap();
    }
    for (name, odd) in [
        ("bare", json!({})),
        ("strange", json!({ "spec": { "type": "submarine" } })),
    ] {
        let resource = ApiResource::erase::<NodeUnit>(&());
        let units: Api<DynamicObject> = Api::all_with(cluster.client(), &resource);
        let odd = DynamicObject::new(name, &resource).data(odd);
        units.create(&create, &odd).await.unwrap();
    }
    cluster.install(edgegrid_api::crds()).await.unwrap();
    cluster
        .apply::<DeploymentGrid>(grid("web").by("location"))
        .await
        .unwrap();

    let grids: Api<DeploymentGrid> = Api::all(cluster.client());
    eventually("all grids are listed", async || {
        let names: Vec<_> = grids
            .list(&kube::api::ListParams::default())
            .await?
            .iter()
            .map(ResourceExt::name_any)
            .collect();
        anyhow::ensure!(names == ["no-key", "no-spec", "web"], "{names:?}");
        Ok(())
    })
    .await
    .unwrap();
    let units: Api<NodeUnit> = Api::all(cluster.client());
    let units = units.list(&kube::api::ListParams::default()).await.unwrap();
    assert_eq!(units.items.len(), 2);
}
