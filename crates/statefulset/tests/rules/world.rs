//! Worlds in as few words as a rule needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use edgegrid_statefulset::rules::{
    Claim, Owner, Phase, Plan, Pod, Readiness, Revision, Set, Step, World, claim_names, hash,
    ordinal, payload, plan, revision_name,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::DynamicObject;
use serde_json::{Value, json};

pub(crate) const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);
pub(crate) const OLD: &str = "web-old";

/// A set of so many pods with a spec merged over.
pub(crate) fn set(replicas: i64, spec: &Value) -> Set {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": { "name": "web", "namespace": "ns", "uid": "set-uid", "resourceVersion": "7", "generation": 3 },
        "spec": {
            "replicas": replicas, "serviceName": "svc",
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "c", "image": "i:2" }] },
            },
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } },
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    parse(object)
}

pub(crate) fn parse(object: Value) -> Set {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    Set::parse(&object).unwrap()
}

/// Name of the revision of the set as it is.
pub(crate) fn update_revision(set: &Set) -> String {
    revision_name(&set.name, &hash(&payload(set), 0))
}

/// A ready pod of the set's own revision.
pub(crate) fn pod(set: &Set, ordinal: i64) -> Pod {
    let name = format!("{}-{ordinal}", set.name);
    let templates = set.claim_templates.iter();
    let volumes =
        templates.map(|template| template["metadata"]["name"].as_str().unwrap().to_owned());
    Pod {
        namespace: set.namespace.clone(),
        uid: format!("uid-{ordinal}"),
        version: 5,
        labels: BTreeMap::from([
            ("app".into(), "web".into()),
            ("statefulset.kubernetes.io/pod-name".into(), name.clone()),
            ("controller-revision-hash".into(), update_revision(set)),
        ]),
        owner: Some(owner(set)),
        is_terminating: false,
        phase: Phase::Running,
        readiness: Readiness::Ready {
            since: Some(NOW - SignedDuration::from_hours(1)),
        },
        claims: volumes.zip(claim_names(set, ordinal)).collect(),
        name,
    }
}

pub(crate) fn owner(set: &Set) -> Owner {
    Owner {
        kind: "StatefulSet".into(),
        name: set.name.clone(),
        uid: set.uid.clone(),
    }
}

/// Pods with these ordinals, all as they should be.
pub(crate) fn pods(set: &Set, ordinals: impl IntoIterator<Item = i64>) -> Vec<Pod> {
    ordinals
        .into_iter()
        .map(|ordinal| pod(set, ordinal))
        .collect()
}

/// The pod at a revision.
pub(crate) fn at(mut pod: Pod, revision: &str) -> Pod {
    pod.labels
        .insert("controller-revision-hash".into(), revision.into());
    pod
}

pub(crate) fn unready(mut pod: Pod) -> Pod {
    pod.readiness = Readiness::NotReady;
    pod
}

pub(crate) fn terminating(mut pod: Pod) -> Pod {
    pod.is_terminating = true;
    pod
}

pub(crate) fn in_phase(mut pod: Pod, phase: Phase) -> Pod {
    pod.phase = phase;
    unready(pod)
}

/// A stored revision with the data given.
pub(crate) fn revision(set: &Set, name: &str, number: i64, data: Value) -> Revision {
    Revision {
        namespace: set.namespace.clone(),
        name: name.into(),
        uid: format!("uid-{name}"),
        resource_version: "3".into(),
        labels: BTreeMap::from([("app".into(), "web".into())]),
        owner: Some(owner(set)),
        created: Some(NOW),
        number,
        data,
    }
}

/// The revision that the set has now.
pub(crate) fn current(set: &Set, number: i64) -> Revision {
    revision(set, &update_revision(set), number, payload(set))
}

/// A revision with another image.
pub(crate) fn earlier(set: &Set, name: &str, number: i64) -> Revision {
    let mut data = payload(set);
    data["spec"]["template"]["spec"]["containers"][0]["image"] = format!("i:{name}").into();
    revision(set, name, number, data)
}

/// A claim of an ordinal that belongs to nobody.
pub(crate) fn claim(set: &Set, ordinal: i64) -> Claim {
    Claim {
        namespace: set.namespace.clone(),
        name: claim_names(set, ordinal).next().unwrap(),
        uid: format!("claim-{ordinal}"),
        resource_version: "9".into(),
        is_terminating: false,
        owners: Vec::new(),
    }
}

pub(crate) fn reference(kind: &str, name: &str, uid: &str, is_controller: bool) -> OwnerReference {
    OwnerReference {
        api_version: if kind == "Pod" { "v1" } else { "apps/v1" }.into(),
        kind: kind.into(),
        name: name.into(),
        uid: uid.into(),
        controller: Some(is_controller),
        block_owner_deletion: Some(true),
    }
}

/// A claim template called `data`.
pub(crate) fn with_claims() -> Value {
    json!([{ "metadata": { "name": "data" }, "spec": { "accessModes": ["ReadWriteOnce"] } }])
}

/// The world of a set whose revision is stored and whose claims all exist.
pub(crate) fn world(set: &Set, pods: Vec<Pod>) -> World {
    let ordinals = pods.iter().filter_map(|pod| ordinal(&set.name, &pod.name));
    let claims: Vec<Claim> = ordinals
        .filter(|_| !set.claim_templates.is_empty())
        .map(|ordinal| claim(set, ordinal))
        .collect();
    let claims = claims
        .into_iter()
        .map(|claim| (claim.name.clone(), Arc::new(claim)))
        .collect();
    World {
        set: Arc::new(set.clone()),
        pods: pods.into_iter().map(Arc::new).collect(),
        claims,
        revisions: vec![Arc::new(current(set, 1))],
        collisions: 0,
        equivalent: None,
        now: NOW,
    }
}

/// The plan in short words: `+web-0`, `-web-1`, `~web-2` and so on.
pub(crate) fn steps(world: &World) -> Vec<String> {
    short(&plan(world))
}

pub(crate) fn short(plan: &Plan) -> Vec<String> {
    plan.steps()
        .map(|step| match step {
            Step::CreatePod { name, .. } => format!("+{name}"),
            Step::DeletePod { name, .. } => format!("-{name}"),
            Step::UpdatePod { name, .. } => format!("~{name}"),
            Step::RepairClaims { pod, .. } => format!("claims {pod}"),
            Step::AdoptPod { name, .. } | Step::AdoptRevision { name, .. } => {
                format!("adopt {name}")
            }
            Step::ReleasePod { name, .. } => format!("release {name}"),
            Step::CreateRevision { name, .. } => format!("revision {name}"),
            Step::RenumberRevision { name, number, .. } => format!("{name} is {number}"),
            Step::DeleteRevision { name, .. } => format!("forget {name}"),
        })
        .collect()
}
