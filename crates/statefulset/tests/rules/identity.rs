//! What makes a pod the one of its ordinal: name, labels, host name, claims.

use edgegrid_statefulset::rules::{ClaimStep, Step, ordinal, plan};
use serde_json::{Value, json};

use crate::world::{pod, set, steps, update_revision, with_claims, world};

#[test]
fn an_ordinal_is_what_follows_the_name_of_the_set() {
    let cases = [
        ("web-0", Some(0)),
        ("web-42", Some(42)),
        ("web", None),
        ("web-", None),
        ("web-x", None),
        ("web-1-2", None),
        ("other-1", None),
        ("web-01", None),
        ("web--1", None),
        ("web-99999999999", Some(-1)),
    ];
    for (name, wanted) in cases {
        assert_eq!(ordinal("web", name), wanted, "{name}");
    }
    assert_eq!(ordinal("web-1", "web-1-2"), Some(2));
}

fn created(spec: &Value) -> (Value, Vec<ClaimStep>) {
    let set = set(1, spec);
    let plan = plan(&world(&set, Vec::new()));
    let step = plan.steps().find_map(|step| match step {
        Step::CreatePod { body, claims, .. } => Some((body.clone(), claims.clone())),
        _ => None,
    });
    step.unwrap()
}

#[test]
fn a_new_pod_has_the_template_and_its_identity() {
    let template = json!({
        "metadata": { "labels": { "app": "web", "x": "y" }, "annotations": { "a": "b" }, "finalizers": ["f/f"] },
        "spec": {
            "containers": [{ "name": "c", "image": "i", "futureField": { "kept": true } }],
            "hostname": "ignored", "subdomain": "ignored",
            "volumes": [{ "name": "data", "emptyDir": {} }, { "name": "tmp", "emptyDir": {} }],
        },
    });
    let spec = json!({ "template": template, "volumeClaimTemplates": with_claims() });
    let (pod, _) = created(&spec);
    let name = update_revision(&set(1, &spec));
    assert_eq!(
        pod,
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web-0", "generateName": "web-", "namespace": "ns",
                "labels": {
                    "app": "web", "x": "y",
                    "statefulset.kubernetes.io/pod-name": "web-0", "apps.kubernetes.io/pod-index": "0",
                    "controller-revision-hash": name,
                },
                "annotations": { "a": "b" }, "finalizers": ["f/f"],
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set-uid",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "containers": [{ "name": "c", "image": "i", "futureField": { "kept": true } }],
                "hostname": "web-0", "subdomain": "svc",
                "volumes": [
                    { "name": "data", "persistentVolumeClaim": { "claimName": "data-web-0" } },
                    { "name": "tmp", "emptyDir": {} },
                ],
            },
        })
    );
}

#[test]
fn a_new_claim_has_its_template_and_the_labels_of_the_selector() {
    let templates = json!([{
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": "data", "labels": { "app": "other", "tier": "db" }, "annotations": { "a": "b" }, "creationTimestamp": null },
        "spec": { "accessModes": ["ReadWriteOnce"], "futureField": 1 },
        "status": { "phase": "Pending" },
    }]);
    let (_, claims) =
        created(&json!({ "volumeClaimTemplates": templates, "ordinals": { "start": 4 } }));
    let [ClaimStep::Create { name, body }] = &claims[..] else {
        panic!("{claims:?}");
    };
    assert_eq!(name, "data-web-4");
    assert_eq!(
        *body,
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": "data-web-4", "namespace": "ns", "labels": { "app": "web", "tier": "db" }, "annotations": { "a": "b" } },
            "spec": { "accessModes": ["ReadWriteOnce"], "futureField": 1 },
        })
    );
}

#[test]
fn a_pod_that_lost_its_labels_or_its_storage_is_repaired() {
    let set = set(1, &json!({ "volumeClaimTemplates": with_claims() }));
    assert!(steps(&world(&set, vec![pod(&set, 0)])).is_empty());

    let mut nameless = pod(&set, 0);
    nameless.labels.remove("statefulset.kubernetes.io/pod-name");
    let plan = plan(&world(&set, vec![nameless]));
    let Some(Step::UpdatePod {
        patch: Some(patch), ..
    }) = plan.steps().next()
    else {
        panic!("{plan:?}");
    };
    let labels = json!({ "statefulset.kubernetes.io/pod-name": "web-0", "apps.kubernetes.io/pod-index": "0" });
    assert_eq!(
        *patch,
        json!({ "metadata": { "uid": "uid-0", "labels": labels } })
    );

    let mut without_storage = pod(&set, 0);
    without_storage.claims.clear();
    assert_eq!(steps(&world(&set, vec![without_storage])), ["~web-0"]);
}
