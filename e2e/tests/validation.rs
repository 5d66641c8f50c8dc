//! Every rule of the API, on a real API server and on ours: what it refuses and with which words, what
//! it accepts, and that an object stored before the rule is never locked by it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use anyhow::{Context, Result};
use edgegrid_testkit::{Cluster, Patience, eventually_within, on_every_cluster};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

/// A rule: an object it refuses, the words it does so with, one it accepts, and a change
/// to another field of the spec that must stay possible.
struct Case {
    rule: &'static str,
    kind: &'static str,
    refused: Value,
    says: &'static str,
    accepted: Value,
    other_change: Value,
}

fn workload() -> Value {
    json!({ "selector": { "matchLabels": { "app": "a" } }, "template": { "spec": {} } })
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the table reads better without ampersands"
)]
fn spec(fields: Value) -> Value {
    json!({ "spec": fields })
}

/// All cases, but for thousands of entries in a map on the embedded server: its CEL interpreter copies
/// a map at each look and gives up first.
fn cases(cluster: &Cluster) -> Vec<Case> {
    let mut cases = grid_cases();
    cases.extend(site_cases());
    cases.retain(|case| case.rule != TOO_MANY || !cluster.is_embedded());
    cases
}

const TOO_MANY: &str = "templates are not too many";

#[expect(clippy::too_many_lines, reason = "a table")]
fn grid_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in ["DeploymentGrid", "StatefulSetGrid", "ServiceGrid"] {
        let other_change = spec(json!({ "template": { "somethingElse": 1 } }));
        let template = if kind == "ServiceGrid" {
            json!({ "ports": [] })
        } else {
            workload()
        };
        cases.push(Case {
            rule: "gridUniqKey is set",
            kind,
            refused: spec(json!({ "template": template })),
            says: "gridUniqKey is missing: set it to the node label key",
            accepted: spec(json!({ "gridUniqKey": "location" })),
            other_change: other_change.clone(),
        });
        for bad in ["", "-location", "two words", "Example.com/zone", "a/b/c"] {
            cases.push(Case {
                rule: "gridUniqKey is a label key",
                kind,
                refused: spec(json!({ "gridUniqKey": bad, "template": template })),
                says: "gridUniqKey must be a node label key, for example location",
                accepted: spec(json!({ "gridUniqKey": "topology.kubernetes.io/zone_1.A" })),
                other_change: other_change.clone(),
            });
        }
        cases.push(Case {
            rule: "gridUniqKey is not too long",
            kind,
            refused: spec(json!({ "gridUniqKey": "a".repeat(318), "template": template })),
            says: "Too long: may not be more than 317",
            accepted: spec(json!({ "gridUniqKey": "a".repeat(63) })),
            other_change,
        });
    }
    for kind in ["DeploymentGrid", "StatefulSetGrid"] {
        let other_change = spec(json!({ "autoDeleteUnusedTemplate": true }));
        let grid = |fields: Value| {
            let mut grid = spec(fields);
            grid["spec"]["gridUniqKey"] = "location".into();
            grid
        };
        cases.push(Case {
            rule: "template is a workload",
            kind,
            refused: grid(json!({ "template": { "selector": { "app": "a" }, "ports": [] } })),
            says: "the spec of a Service belongs into a ServiceGrid",
            accepted: grid(json!({ "template": workload() })),
            other_change: other_change.clone(),
        });
        cases.push(Case {
            rule: "replicas is not negative",
            kind,
            refused: grid(
                json!({ "template": { "replicas": -1, "selector": {}, "template": {} } }),
            ),
            says: "should be greater than or equal to 0",
            accepted: grid(
                json!({ "template": { "replicas": 0, "selector": {}, "template": {} } }),
            ),
            other_change: spec(json!({ "template": { "paused": true } })),
        });
        cases.push(Case {
            rule: "replicas in the pool is not negative",
            kind,
            refused: grid(json!({ "templatePool": { "test1": { "replicas": -1 } } })),
            says: "should be greater than or equal to 0",
            accepted: grid(json!({ "templatePool": { "test1": { "replicas": 0 } } })),
            other_change: spec(
                json!({ "templatePool": { "test1": { "paused": true }, "test2": {} } }),
            ),
        });
        cases.push(Case {
            rule: "templates are in the pool",
            kind,
            refused: grid(json!({
                "templatePool": { "test1": workload() },
                "templates": { "zone1": "test1", "zone2": "test9" },
            })),
            says: "templates names test9, which is not in templatePool: add it there",
            accepted: grid(json!({
                "templatePool": { "test1": workload() },
                "templates": { "zone1": "test1", "zone2": "default", "zone3": "" },
            })),
            other_change: other_change.clone(),
        });
        cases.push(Case {
            rule: "templates without a pool",
            kind,
            refused: grid(json!({ "templates": { "zone2": "test9" } })),
            says: "templates names test9, which is not in templatePool: add it there",
            accepted: grid(json!({ "templates": { "zone2": "default" } })),
            other_change: other_change.clone(),
        });
        cases.push(Case {
            rule: "names in templates are not too long",
            kind,
            refused: grid(json!({ "templates": { "zone1": "a".repeat(254) } })),
            says: "Too long: may not be more than 253",
            accepted: grid(json!({
                "templatePool": { "a".repeat(253): workload() },
                "templates": { "zone1": "a".repeat(253) },
            })),
            other_change: other_change.clone(),
        });
        let many = |count: usize| -> Value {
            (0..count)
                .map(|n| (format!("zone{n}"), json!("")))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        cases.push(Case {
            rule: TOO_MANY,
            kind,
            refused: grid(json!({ "templates": many(5001) })),
            says: "must have at most 5000 items",
            accepted: grid(json!({ "templates": many(5000) })),
            other_change: other_change.clone(),
        });
        cases.push(Case {
            rule: "defaultTemplateName is in the pool",
            kind,
            refused: grid(
                json!({ "defaultTemplateName": "test9", "templatePool": { "test1": workload() } }),
            ),
            says: "defaultTemplateName test9 is not in templatePool: add it there",
            accepted: grid(
                json!({ "defaultTemplateName": "test1", "templatePool": { "test1": workload() } }),
            ),
            other_change: other_change.clone(),
        });
        cases.push(Case {
            rule: "whenUnreachable is one of two",
            kind,
            refused: grid(json!({ "whenUnreachable": "Stay" })),
            says: r#"Unsupported value: "Stay": supported values: "Keep", "Evict""#,
            accepted: grid(json!({ "whenUnreachable": "Keep" })),
            other_change: other_change.clone(),
        });
        cases.push(Case {
            rule: "defaultTemplateName is not too long",
            kind,
            refused: grid(json!({ "defaultTemplateName": "a".repeat(254) })),
            says: "Too long: may not be more than 253",
            accepted: grid(json!({ "defaultTemplateName": "default" })),
            other_change,
        });
    }
    cases
}

fn site_cases() -> Vec<Case> {
    let named = |name: &str| json!({ "metadata": { "name": name } });
    let name_case = |kind, says| Case {
        rule: "the name can be a label",
        kind,
        refused: named(&"n".repeat(64)),
        says,
        accepted: named(&"n".repeat(63)),
        other_change: spec(json!({ "selector": { "matchLabels": { "a": "b" } } })),
    };
    vec![
        Case {
            rule: "type is one of four",
            kind: "NodeUnit",
            refused: spec(json!({ "type": "submarine" })),
            says: r#"Unsupported value: "submarine": supported values: "edge", "cloud", "master", "other""#,
            accepted: spec(json!({ "type": "cloud" })),
            other_change: spec(json!({ "nodes": ["a"] })),
        },
        Case {
            rule: "a label requirement has key and operator",
            kind: "NodeUnit",
            refused: spec(json!({ "selector": { "matchExpressions": [{ "key": "a" }] } })),
            says: "spec.selector.matchExpressions[0].operator: Required value",
            accepted: spec(json!({
                "selector": { "matchExpressions": [{ "key": "a", "operator": "Exists" }] },
            })),
            other_change: spec(json!({ "nodes": ["a"] })),
        },
        Case {
            rule: "a taint has key and effect",
            kind: "NodeUnit",
            refused: spec(json!({ "setNode": { "taints": [{ "key": "a" }] } })),
            says: "spec.setNode.taints[0].effect: Required value",
            accepted: spec(json!({
                "setNode": { "taints": [{ "key": "a", "effect": "NoSchedule" }] },
            })),
            other_change: spec(json!({ "nodes": ["a"] })),
        },
        name_case(
            "NodeUnit",
            "the name of a NodeUnit becomes the key and value of node labels: use at most 63",
        ),
        name_case(
            "NodeGroup",
            "the name of a NodeGroup becomes the key and value of node labels: use at most 63",
        ),
    ]
}

/// The object of a case, complete with kind and, unless it has one, a name.
fn object(case: &Case, fields: &Value, name: &str) -> DynamicObject {
    let mut value = fields.clone();
    if value.pointer("/metadata/name").is_none() {
        value["metadata"]["name"] = name.into();
    }
    if is_namespaced(case.kind) {
        value["metadata"]["namespace"] = "default".into();
    }
    value["apiVersion"] = resource(case.kind).api_version.into();
    value["kind"] = case.kind.into();
    serde_json::from_value(value).unwrap()
}

fn is_namespaced(kind: &str) -> bool {
    kind.ends_with("Grid")
}

fn resource(kind: &str) -> ApiResource {
    let (group, version) = if is_namespaced(kind) {
        ("superedge.io", "v1")
    } else {
        ("site.superedge.io", "v1alpha2")
    };
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn api(cluster: &Cluster, kind: &str) -> Api<DynamicObject> {
    if is_namespaced(kind) {
        Api::namespaced_with(cluster.client(), "default", &resource(kind))
    } else {
        Api::all_with(cluster.client(), &resource(kind))
    }
}

on_every_cluster!(
    each_rule_refuses_with_the_way_out_and_accepts_what_is_right,
    an_entry_that_templates_names_cannot_leave_the_pool,
    no_rule_locks_an_object_stored_before_it,
);

async fn each_rule_refuses_with_the_way_out_and_accepts_what_is_right(cluster: &Cluster) {
    cluster.install(edgegrid_api::crds()).await.unwrap();
    for case in cases(cluster) {
        let api = api(cluster, case.kind);
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let refused = api
            .create(&dry, &object(&case, &case.refused, "refused"))
            .await;
        let refusal = refused
            .map(|_| ())
            .expect_err(&format!("{} {}: refused", case.kind, case.rule));
        assert!(
            refusal.to_string().contains(case.says),
            "{} {}: {refusal}",
            case.kind,
            case.rule
        );
        let accepted = api
            .create(&dry, &object(&case, &case.accepted, "accepted"))
            .await;
        accepted.unwrap_or_else(|error| panic!("{} {}: accepted: {error}", case.kind, case.rule));
    }
}

async fn an_entry_that_templates_names_cannot_leave_the_pool(cluster: &Cluster) {
    cluster.install(edgegrid_api::crds()).await.unwrap();
    let grids = api(cluster, "DeploymentGrid");
    let case = &grid_cases()[0];
    let grid = spec(json!({
        "gridUniqKey": "location",
        "defaultTemplateName": "test2",
        "templatePool": { "test1": workload(), "test2": workload() },
        "templates": { "zone1": "test1" },
    }));
    grids
        .create(&PostParams::default(), &object(case, &grid, "web"))
        .await
        .unwrap();
    for (entry, says) in [
        (
            "test1",
            "templates names test1, which is not in templatePool",
        ),
        ("test2", "defaultTemplateName test2 is not in templatePool"),
    ] {
        let drop = Patch::Merge(spec(json!({ "templatePool": { entry: null } })));
        let refusal = grids
            .patch("web", &PatchParams::default(), &drop)
            .await
            .unwrap_err();
        assert!(refusal.to_string().contains(says), "{refusal}");
    }
}

async fn no_rule_locks_an_object_stored_before_it(cluster: &Cluster) {
    cluster
        .install(edgegrid_api::crds().into_iter().map(without_rules))
        .await
        .unwrap();
    let cases = cases(cluster);
    for (number, case) in cases.iter().enumerate() {
        let mut old = object(case, &case.refused, &format!("old-{number}"));
        old.finalizers_mut().push("edgegrid.test/held".into());
        let stored = api(cluster, case.kind)
            .create(&PostParams::default(), &old)
            .await;
        stored.unwrap_or_else(|error| panic!("{} {}: store: {error}", case.kind, case.rule));
    }
    cluster.install(edgegrid_api::crds()).await.unwrap();
    wait_for_rules(cluster).await.unwrap();

    let mut locked = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let name = object(case, &case.refused, &format!("old-{number}")).name_any();
        if let Err(error) = use_stored(&api(cluster, case.kind), &name, case).await {
            locked.push(format!(
                "{} {} ({name:.20}): {error:#}",
                case.kind, case.rule
            ));
        }
    }
    assert!(
        locked.is_empty(),
        "{} objects are locked:\n{}",
        locked.len(),
        locked.join("\n")
    );
}

/// Everything an owner must still be able to do to an object stored before the rules.
async fn use_stored(api: &Api<DynamicObject>, name: &str, case: &Case) -> Result<()> {
    let write = PatchParams::default();
    let label = json!({ "metadata": { "labels": { "seen": "yes" } } });
    api.patch(name, &write, &Patch::Merge(label))
        .await
        .context("label")?;
    let status = json!({ "status": { "observedGeneration": 1 } });
    api.patch_status(name, &write, &Patch::Merge(status))
        .await
        .context("status")?;
    api.patch(name, &write, &Patch::Merge(&case.other_change))
        .await
        .context("another field")?;
    api.delete(name, &kube::api::DeleteParams::default())
        .await
        .context("delete")?;
    let release = json!({ "metadata": { "finalizers": null } });
    api.patch(name, &write, &Patch::Merge(release))
        .await
        .context("remove the finalizer")?;
    anyhow::ensure!(api.get_opt(name).await?.is_none(), "it is still there");
    Ok(())
}

/// The new rules reach the server's handlers a moment after the definition is stored.
async fn wait_for_rules(cluster: &Cluster) -> Result<()> {
    for case in [&grid_cases()[0], &site_cases()[0]] {
        let api = api(cluster, case.kind);
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        eventually_within(Patience::default(), "the rules are in force", async || {
            let created = api
                .create(&dry, &object(case, &case.refused, "probe"))
                .await;
            anyhow::ensure!(created.is_err(), "{} is still accepted", case.rule);
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// The definition as it would be had nobody written a rule: same fields, nothing checked.
fn without_rules(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let schemas = crd
        .spec
        .versions
        .iter_mut()
        .filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut());
    for schema in schemas {
        schema.x_kubernetes_validations = None;
        let spec = schema
            .properties
            .as_mut()
            .and_then(|all| all.get_mut("spec"));
        strip(spec.expect("every kind has a spec"));
    }
    crd
}

fn strip(schema: &mut JSONSchemaProps) {
    schema.x_kubernetes_validations = None;
    schema.pattern = None;
    schema.enum_ = None;
    schema.minimum = None;
    schema.max_length = None;
    schema.max_items = None;
    schema.max_properties = None;
    schema.required = None;
    for property in schema
        .properties
        .iter_mut()
        .flat_map(|all| all.values_mut())
    {
        strip(property);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        strip(values);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        strip(items);
    }
}
