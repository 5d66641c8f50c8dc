//! A cluster as SuperEdge leaves it is taken over without a pod noticing.
//!
//! The objects below are what its controllers write: its hash in
//! the grid's own template and in the pods' labels, no annotations on workloads, the Service without
//! an owner, everything owned by one manager through plain PUTs.

use std::time::Duration;

use anyhow::Result;
use edgegrid_api::names::{annotation, condition, label, manager, reason};
use edgegrid_testkit::Cluster;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::harness;
use crate::stage::*;

const SUPEREDGE: &str = "application-grid-controller";
const HASH: &str = "17236471922847562";

/// A template as SuperEdge rewrites it.
fn hashed(mut template: Value) -> Value {
    template["template"]["metadata"]["labels"][label::TEMPLATE_HASH_KEY] = json!(HASH);
    template["template"]["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("creationTimestamp");
    template["template"]["spec"]["terminationGracePeriodSeconds"] = json!(10);
    template
}

async fn put(stage: &Stage<'_>, kind: Gvk, name: &str, object: &Value) -> Result<()> {
    let params = PostParams {
        field_manager: Some(SUPEREDGE.into()),
        ..PostParams::default()
    };
    let mut object = object.clone();
    object["metadata"]["name"] = json!(name);
    let Gvk(group, version, kind_name, _) = kind;
    object["apiVersion"] = json!(if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    });
    object["kind"] = json!(kind_name);
    let object: DynamicObject = serde_json::from_value(object)?;
    if stage.find(kind, name).await?.is_some() {
        stage.api(kind).replace(name, &params, &object).await?;
    } else {
        stage.api(kind).create(&params, &object).await?;
    }
    Ok(())
}

/// The workload of a unit as SuperEdge PUTs it.
fn superedges_child(owner: (Gvk, &str, &Value), unit: &str, template: &Value) -> Value {
    let (kind, grid, uid) = owner;
    let mut spec = template.clone();
    spec["template"]["spec"]["nodeSelector"] = json!({ "zone": unit });
    json!({
        "metadata": {
            "labels": { label::GRID_SELECTOR: grid, label::GRID_UNIQ_KEY: "zone", "team": "x" },
            "ownerReferences": [{
                "apiVersion": "superedge.io/v1", "kind": kind.2, "name": grid, "uid": uid, "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
    })
}

/// A cluster that SuperEdge ran: a grid of each kind in units `a` and `b`.
async fn recorded() -> Result<Cluster> {
    let cluster = harness::cluster().await?;
    let stage = Stage(&cluster);
    stage.add_nodes(&["a-1 zone=a", "b-1 zone=b"]).await?;
    for (kind, child, name, template) in [
        (
            DEPLOYMENT_GRID,
            DEPLOYMENT,
            "web",
            hashed(deployment_spec("web:1", Some(2))),
        ),
        (
            STATEFUL_SET_GRID,
            STATEFUL_SET,
            "db",
            hashed(stateful_set_spec("db:1", Some(3))),
        ),
    ] {
        let object = json!({ "metadata": { "labels": { "team": "x" } }, "spec": {
            "gridUniqKey": "zone", "defaultTemplateName": "default", "template": template,
        } });
        let grid = stage.create(kind, name, &object).await?;
        for unit in ["a", "b"] {
            let owner = (kind, name, &grid["metadata"]["uid"]);
            let name = format!("{name}-{unit}");
            put(
                &stage,
                child,
                &name,
                &superedges_child(owner, unit, &template),
            )
            .await?;
            stage.make_available(child, &name).await?;
        }
    }
    let template = json!({ "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": 8080, "protocol": "TCP" }] });
    let mut object = grid("zone", &template);
    object["metadata"]["annotations"] =
        json!({ annotation::LAST_APPLIED: "{\"kind\":\"ServiceGrid\"}" });
    stage.create(SERVICE_GRID, "web", &object).await?;
    let service = json!({
        "metadata": {
            "labels": { label::GRID_SELECTOR: "web", label::GRID_UNIQ_KEY: "zone" },
            "annotations": { annotation::LAST_APPLIED: "{\"kind\":\"ServiceGrid\"}", annotation::TOPOLOGY_KEYS: "[\"zone\"]" },
        },
        "spec": template,
    });
    put(&stage, SERVICE, "web-svc", &service).await?;
    Ok(cluster)
}

const CHILDREN: [(Gvk, &str); 5] = [
    (DEPLOYMENT, "web-a"),
    (DEPLOYMENT, "web-b"),
    (STATEFUL_SET, "db-a"),
    (STATEFUL_SET, "db-b"),
    (SERVICE, "web-svc"),
];

fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten();
    entries
        .filter(|entry| entry.get("subresource").is_none())
        .map(|entry| entry["manager"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Waits until nothing of a child is SuperEdge's any more.
async fn taken_over(stage: &Stage<'_>) -> Result<()> {
    for (kind, name) in CHILDREN {
        stage
            .until((kind, name), vec![manager::EDGEGRID.to_owned()], managers)
            .await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn superedges_objects_become_ours_without_a_change_of_any_pod_template() -> Result<()> {
    let cluster = recorded().await?;
    let stage = Stage(&cluster);
    let mut before = Vec::new();
    for (kind, name) in CHILDREN {
        before.push(stage.read(kind, name).await?);
    }
    let running = harness::start(&cluster).await?;
    taken_over(&stage).await?;
    for ((kind, name), before) in CHILDREN.into_iter().zip(before) {
        let after = stage.read(kind, name).await?;
        assert_eq!(
            after["metadata"]["uid"], before["metadata"]["uid"],
            "{name}"
        );
        assert_eq!(after["spec"], before["spec"], "{name}");
        assert_eq!(pod_template(&after), pod_template(&before), "{name}");
        assert_eq!(
            after["metadata"]["ownerReferences"][0]["controller"], true,
            "{name}"
        );
    }
    for (kind, name) in &CHILDREN[..4] {
        // A new annotation makes a new generation of a Deployment, which its controller looks at.
        stage.make_available(*kind, name).await?;
    }
    stage
        .condition(DEPLOYMENT_GRID, "web", condition::READY, "True")
        .await?;
    stage
        .condition(STATEFUL_SET_GRID, "db", condition::READY, "True")
        .await?;
    a_while().await;
    running.writes.take();
    pass_time(Duration::from_mins(10)).await;
    assert_eq!(running.writes.take(), [""; 0], "and then it is quiet");
    Ok(())
}

/// A field that SuperEdge owns too would stay for ever.
#[tokio::test(start_paused = true)]
async fn what_superedge_set_can_be_removed_afterwards() -> Result<()> {
    let cluster = recorded().await?;
    let stage = Stage(&cluster);
    let _running = harness::start(&cluster).await?;
    taken_over(&stage).await?;
    let change = json!({ "metadata": { "labels": { "team": null } }, "spec": { "template": { "template": { "spec": {
        "terminationGracePeriodSeconds": null,
        "containers": [{ "name": "echo", "image": "web:2" }],
    } } } } });
    stage.edit(DEPLOYMENT_GRID, "web", &change).await?;
    let after = stage
        .until((DEPLOYMENT, "web-a"), "web:2".to_owned(), image)
        .await?;
    let container = &after["spec"]["template"]["spec"]["containers"][0];
    assert!(
        container.get("env").is_none() && container.get("ports").is_none(),
        "{container:#}"
    );
    assert_eq!(
        after["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], 30,
        "the default again"
    );
    assert_eq!(label_of(&after, "team"), None);
    let labels = json!({ "appGrid": "echo", label::TEMPLATE_HASH_KEY: HASH });
    assert_eq!(
        after["spec"]["template"]["metadata"]["labels"], labels,
        "the pods' labels stay as they are"
    );
    let service = stage.read(SERVICE, "web-svc").await?;
    assert!(
        service["metadata"]["annotations"]
            .get(annotation::LAST_APPLIED)
            .is_some(),
        "nobody's, so nobody removes it"
    );
    Ok(())
}

/// The hash may vanish from the grid's own template (a tool that keeps manifests puts it back); pods keep theirs.
#[tokio::test(start_paused = true)]
async fn an_existing_hash_label_outlives_the_templates() -> Result<()> {
    let cluster = recorded().await?;
    let stage = Stage(&cluster);
    let _running = harness::start(&cluster).await?;
    taken_over(&stage).await?;
    let before = stage.read(DEPLOYMENT, "web-a").await?;
    for value in [json!(null), json!("999")] {
        let change = json!({ "spec": { "template": { "template": { "metadata": { "labels": { label::TEMPLATE_HASH_KEY: value } } } } } });
        stage.edit(DEPLOYMENT_GRID, "web", &change).await?;
        a_while().await;
        assert_eq!(
            stage.read(DEPLOYMENT, "web-a").await?["spec"],
            before["spec"]
        );
    }
    Ok(())
}

/// A unit that comes later gets our own selector, beside those that keep SuperEdge's.
#[tokio::test(start_paused = true)]
async fn a_new_unit_beside_old_ones_is_told_apart() -> Result<()> {
    let cluster = recorded().await?;
    let stage = Stage(&cluster);
    let _running = harness::start(&cluster).await?;
    taken_over(&stage).await?;
    stage.add_nodes(&["c-1 zone=c"]).await?;
    stage
        .children(DEPLOYMENT, &["web-a", "web-b", "web-c"])
        .await?;
    let new = stage.read(DEPLOYMENT, "web-c").await?;
    assert_eq!(new["spec"]["selector"]["matchLabels"][label::UNIT], "c");
    let old = stage.read(DEPLOYMENT, "web-a").await?;
    assert_eq!(
        old["spec"]["selector"]["matchLabels"],
        json!({ "appGrid": "echo" })
    );
    assert_eq!(
        label_of(&old, label::UNIT).as_deref(),
        Some("a"),
        "the workload itself always carries it"
    );
    Ok(())
}

/// Two controllers must not fight: it is said loudly, and nothing is written for a while.
#[tokio::test(start_paused = true)]
async fn while_superedge_still_writes_nobody_fights_it() -> Result<()> {
    let cluster = recorded().await?;
    let stage = Stage(&cluster);
    let running = harness::start(&cluster).await?;
    taken_over(&stage).await?;
    pass_time(Duration::from_secs(30)).await;
    let grid = stage.read(DEPLOYMENT_GRID, "web").await?;
    let mut template = hashed(deployment_spec("superedges:9", Some(2)));
    template["template"]["metadata"]["labels"][label::TEMPLATE_HASH_KEY] = json!("1");
    let child = superedges_child(
        (DEPLOYMENT_GRID, "web", &grid["metadata"]["uid"]),
        "a",
        &template,
    );
    put(&stage, DEPLOYMENT, "web-a", &child).await?;
    let said = stage
        .condition(DEPLOYMENT_GRID, "web", condition::SUPEREDGE_RUNNING, "True")
        .await?;
    assert!(
        said["message"].as_str().unwrap().contains("stop it"),
        "{said}"
    );
    running.writes.take();
    for _ in 0..16 {
        pass_time(Duration::from_secs(30)).await;
        put(&stage, DEPLOYMENT, "web-a", &child).await?;
    }
    let writes = running.writes.take();
    assert!(
        writes.iter().all(|write| !write.contains("/deployments/")),
        "{writes:#?}"
    );
    assert_eq!(
        stage.events("web", reason::SUPEREDGE_RUNNING).await?.len(),
        1
    );

    // Once it is quiet for ten minutes, the unit is brought back.
    pass_time(Duration::from_mins(11)).await;
    stage
        .until((DEPLOYMENT, "web-a"), "web:1".to_owned(), image)
        .await?;
    stage
        .until((DEPLOYMENT_GRID, "web"), None, |grid| {
            condition_of(grid, condition::SUPEREDGE_RUNNING)
        })
        .await?;
    Ok(())
}
