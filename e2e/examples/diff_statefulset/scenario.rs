//! Random scenarios: a set, and what users and nodes do to it, one thing after the other.

use serde_json::{Map, Value, json};

use crate::rng::Rng;

pub(crate) const SET: &str = "web";

/// The life of a set.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) set: Value,
    pub(crate) steps: Vec<Step>,
}

/// One thing that is done.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// A merge patch of the set's spec.
    Spec(Value),
    /// A pod that runs but is not ready.
    Hold(i64),
    /// Every pod may be ready again.
    Free,
    /// A pod ends by itself.
    End(i64, &'static str),
    /// A user deletes a pod.
    Delete(i64),
    /// A pod that no longer matches, and back.
    Relabel(i64, &'static str),
    /// The set is deleted without its pods and made again.
    Remake,
    /// A condition of somebody else in the status.
    Condition,
}

impl Scenario {
    /// The scenario of a seed.
    pub(crate) fn draw(seed: u64, number: usize) -> Self {
        let mut rng = Rng::new(seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        let count = 3 + rng.below(4);
        Self {
            name: format!("s-{number}"),
            set: set(&mut rng),
            steps: (0..count).map(|_| step(&mut rng)).collect(),
        }
    }

    /// Whether the rules fix the order of its pods.
    pub(crate) fn is_ordered(&self) -> bool {
        self.set["spec"]["podManagementPolicy"] == "OrderedReady"
    }
}

fn set(rng: &mut Rng) -> Value {
    let mut spec = json!({
        "serviceName": "svc",
        "replicas": rng.below(5),
        "podManagementPolicy": rng.pick(&["OrderedReady", "Parallel"]),
        "revisionHistoryLimit": rng.pick(&[0, 1, 2, 10]),
        "selector": { "matchLabels": { "app": "web" } },
        "template": {
            "metadata": { "labels": { "app": "web" }, "annotations": { "note": "<b> & \u{2028}é" } },
            "spec": {
                // Bound by hand: no scheduler stands between a set and its pods.
                "nodeName": "n1", "terminationGracePeriodSeconds": 1,
                "containers": [{ "name": "main", "image": "i:0", "env": [{ "name": "X", "value": "<a & b>" }] }],
            },
        },
    });
    if let Some(fields) = spec.as_object_mut() {
        optional(rng, fields);
    }
    json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": SET }, "spec": spec })
}

fn optional(rng: &mut Rng, spec: &mut Map<String, Value>) {
    if rng.chance(50) {
        spec.insert("volumeClaimTemplates".into(), claims());
        spec.insert(
            "persistentVolumeClaimRetentionPolicy".into(),
            retention(rng),
        );
    }
    if rng.chance(30) {
        spec.insert("ordinals".into(), json!({ "start": rng.below(4) }));
    }
    if rng.chance(20) {
        spec.insert("minReadySeconds".into(), 1.into());
    }
    let strategy = match rng.below(6) {
        0 => json!({ "type": "OnDelete" }),
        1 => json!({ "type": "RollingUpdate" }),
        2 => json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": rng.below(4) } }),
        3 => {
            json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": rng.pick(&[json!(2), json!("50%"), json!("100%")]) } })
        }
        _ => return,
    };
    spec.insert("updateStrategy".into(), strategy);
}

fn claims() -> Value {
    let claim = |name: &str| {
        json!({
            "metadata": { "name": name, "labels": { "kept": "yes" } },
            "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": { "requests": { "storage": "1Gi" } } },
        })
    };
    json!([claim("data"), claim("log")])
}

fn retention(rng: &mut Rng) -> Value {
    let mut word = || *rng.pick(&["Retain", "Delete"]);
    json!({ "whenScaled": word(), "whenDeleted": word() })
}

fn image(rng: &mut Rng) -> Value {
    let tag = rng.below(3);
    let container = json!({ "name": "main", "image": format!("i:{tag}"), "env": [{ "name": "X", "value": "<a & b>" }] });
    json!({ "template": { "spec": { "containers": [container] } } })
}

fn step(rng: &mut Rng) -> Step {
    let ordinal = i64::try_from(rng.below(5)).unwrap_or(0);
    match rng.below(24) {
        0..=3 => Step::Spec(json!({ "replicas": rng.below(6) })),
        4..=7 => Step::Spec(image(rng)),
        8 => {
            let mut both = image(rng);
            both["replicas"] = rng.below(6).into();
            Step::Spec(both)
        }
        9 => Step::Spec(
            json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": rng.below(5) } } }),
        ),
        10 => Step::Spec(
            json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 + rng.below(3) } } }),
        ),
        11 => {
            Step::Spec(json!({ "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } }))
        }
        12 => Step::Spec(json!({ "ordinals": { "start": rng.below(4) } })),
        13 => Step::Spec(json!({ "persistentVolumeClaimRetentionPolicy": retention(rng) })),
        14 => Step::Spec(json!({ "revisionHistoryLimit": rng.below(3) })),
        15 => Step::Hold(ordinal),
        16 => Step::Free,
        17 => Step::End(ordinal, ["Failed", "Succeeded"][rng.below(2)]),
        18 | 19 => Step::Delete(ordinal),
        20 => Step::Relabel(ordinal, "stray"),
        21 => Step::Relabel(ordinal, "web"),
        22 => Step::Remake,
        _ => Step::Condition,
    }
}
