//! Rules of kinds that no single answer of a server shows.

use edgegrid_machinery::kinds;
use edgegrid_machinery::metadata::Generation;
use edgegrid_machinery::names::NameRule;
use edgegrid_machinery::table::{normal, table};
use serde_json::{Value, json};

#[test]
fn only_pods_that_may_be_running_get_grace() {
    let pod = |node: &str, phase: &str| {
        json!({
            "spec": { "nodeName": node, "terminationGracePeriodSeconds": 30 },
            "status": { "phase": phase },
        })
    };
    let pods = kinds::builtin("", "Pod");
    for (object, asked, expected) in [
        (pod("n", "Running"), None, 30),
        (pod("n", "Running"), Some(5), 5),
        (pod("n", "Running"), Some(0), 0),
        (pod("n", "Running"), Some(-7), 1),
        (pod("", "Pending"), None, 0),
        (pod("", "Pending"), Some(9), 0),
        (pod("n", "Succeeded"), None, 0),
        (pod("n", "Failed"), Some(9), 0),
    ] {
        assert_eq!(
            pods.grace(&object, asked),
            Some(expected),
            "{object} {asked:?}"
        );
    }
    assert_eq!(
        kinds::builtin("apps", "Deployment").grace(&json!({}), Some(5)),
        None
    );
}

#[test]
fn a_selectable_field_counts_as_the_zero_of_its_type_when_it_is_absent() {
    for (group, kind, name, paths, default) in [
        ("", "Pod", "spec.nodeName", &["spec.nodeName"][..], ""),
        (
            "",
            "Pod",
            "spec.hostNetwork",
            &["spec.hostNetwork"],
            "false",
        ),
        ("", "Pod", "status.podIP", &["status.podIPs.0.ip"], ""),
        (
            "",
            "Node",
            "spec.unschedulable",
            &["spec.unschedulable"],
            "false",
        ),
        (
            "batch",
            "Job",
            "status.successful",
            &["status.succeeded"],
            "0",
        ),
        (
            "",
            "Event",
            "source",
            &["source.component", "reportingComponent"],
            "",
        ),
    ] {
        let mut fields = kinds::builtin(group, kind).selectable_fields();
        let field = fields.find(|field| field.name == name).unwrap();
        assert_eq!((field.paths, field.default), (paths, default), "{name}");
    }
}

#[test]
fn every_selectable_field_exists_in_its_type() {
    for resource in table().resources() {
        let kind = kinds::builtin(&resource.group, &resource.kind);
        let shape = table().shape(&resource.group, &resource.version, &resource.kind);
        for (field, path) in kind
            .selectable_fields()
            .flat_map(|field| field.paths.iter().map(move |path| (field.name, path)))
        {
            let mut shape = shape;
            for key in path.split('.') {
                shape = shape.and_then(|shape| match shape.list() {
                    Some(_) => Some(shape.items()),
                    None => shape.child(key),
                });
            }
            assert!(
                shape.is_some_and(|shape| shape.scalar().is_some()),
                "{} {field}",
                resource.kind
            );
        }
    }
}

/// The causes of a new object's refusal, defaulted and prepared like a server does.
fn refusals(group: &str, kind: &str, mut object: Value) -> Vec<String> {
    let kind = kinds::builtin(group, kind);
    kind.apply_defaults(&mut object);
    kind.prepare_create(&mut object);
    let errors = kind.validate_create(&object);
    let mut causes: Vec<String> = errors
        .iter()
        .map(|error| format!("{}:{}", error.field(), error.kind().reason()))
        .collect();
    causes.sort();
    causes
}

fn pod(spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a", "namespace": "b" },
        "spec": { "containers": [{ "name": "main", "image": "app:1" }] },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

#[test]
fn containers_fit_the_pod_they_are_in() {
    for (spec, expected) in [
        (
            json!({ "initContainers": [{ "name": "i", "image": "i", "readinessProbe": { "exec": {} } }] }),
            vec!["spec.initContainers[0].readinessProbe:FieldValueForbidden"],
        ),
        (
            json!({ "resources": { "claims": [{ "name": "gpu" }] } }),
            vec![
                "spec.resources.claims:FieldValueForbidden",
                "spec.resources.claims[0]:FieldValueNotFound",
            ],
        ),
        (
            json!({ "os": { "name": "linux" }, "securityContext": { "windowsOptions": {} } }),
            vec!["spec.securityContext.windowsOptions:FieldValueForbidden"],
        ),
        (
            json!({ "volumes": [{ "name": "v", "cephfs": {} }] }),
            vec!["spec.volumes[0].cephfs.monitors:FieldValueRequired"],
        ),
        (
            json!({ "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2, "matchLabelKeys": ["a"] }] }),
            vec![
                "spec.topologySpreadConstraints[0].matchLabelKeys:FieldValueForbidden",
                "spec.topologySpreadConstraints[0].minDomains:FieldValueInvalid",
            ],
        ),
    ] {
        assert_eq!(refusals("", "Pod", pod(&spec)), expected, "{spec}");
    }
}

#[test]
fn fields_of_features_that_are_off_are_dropped() {
    let spec = json!({
        "schedulingGroup": { "podGroupName": "g" },
        "containers": [{ "name": "main", "image": "app:1", "lifecycle": { "stopSignal": "SIGTERM" } }],
    });
    let mut object = pod(&spec);
    kinds::builtin("", "Pod").prepare_create(&mut object);
    assert_eq!(object["spec"].get("schedulingGroup"), None);
    assert_eq!(object["spec"]["containers"][0].get("lifecycle"), None);
}

#[test]
fn claim_templates_of_a_stateful_set_stand_for_volumes() {
    let set = |mounted: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "a", "namespace": "b" },
            "spec": {
                "selector": { "matchLabels": { "app": "a" } },
                "volumeClaimTemplates": [{ "metadata": { "name": "data" } }],
                "template": {
                    "metadata": { "labels": { "app": "a" } },
                    "spec": {
                        // Replaced by the claim, so it is not validated.
                        "volumes": [{ "name": "data", "cephfs": {} }],
                        "containers": [{ "name": "main", "image": "app:1",
                            "volumeMounts": [{ "name": mounted, "mountPath": "/data" }] }],
                    },
                },
            },
        })
    };
    let of_volumes = |mounted: &str| -> Vec<String> {
        let causes = refusals("apps", "StatefulSet", set(mounted)).into_iter();
        causes
            .filter(|cause| cause.contains("olume"))
            .filter(|cause| cause.contains("template."))
            .collect()
    };
    assert_eq!(of_volumes("data"), Vec::<String>::new());
    let missing = "spec.template.spec.containers[0].volumeMounts[0].name:FieldValueNotFound";
    assert_eq!(of_volumes("other"), [missing]);
}

#[test]
fn kinds_differ_in_names_status_and_generation() {
    assert_eq!(
        kinds::builtin("", "Service").name_rule(),
        NameRule::Label1035
    );
    assert_eq!(kinds::builtin("", "Namespace").name_rule(), NameRule::Label);
    assert_eq!(
        kinds::builtin("apps", "StatefulSet").name_rule(),
        NameRule::Label
    );
    assert_eq!(kinds::builtin("", "Pod").name_rule(), NameRule::Subdomain);
    assert_eq!(
        kinds::builtin("rbac.authorization.k8s.io", "Role").name_rule(),
        NameRule::PathSegment
    );
    for (kind, kept) in [
        ("Node", json!("Running")),
        ("PersistentVolume", json!(null)),
    ] {
        let mut object =
            json!({ "kind": kind, "apiVersion": "v1", "status": { "phase": "Running" } });
        kinds::builtin("", kind).prepare_create(&mut object);
        assert_eq!(object["status"]["phase"], kept, "{kind}");
    }
    assert_eq!(
        kinds::builtin("apps", "Deployment").generation(),
        Generation::SpecAndAnnotations
    );
    assert_eq!(
        kinds::builtin("", "ConfigMap").generation(),
        Generation::Untracked
    );
    assert_eq!(
        kinds::custom(true).generation(),
        Generation::ContentButStatus
    );
    assert!(!kinds::custom(false).allows_unconditional_update());
}

#[test]
fn a_custom_resource_keeps_or_loses_its_status_by_its_subresource() {
    let new =
        json!({ "spec": { "a": 2 }, "status": { "b": 2 }, "metadata": { "labels": { "x": "y" } } });
    let old = json!({ "spec": { "a": 1 }, "status": { "b": 1 }, "metadata": {} });
    let mut object = new.clone();
    kinds::custom(true).prepare_update(&mut object, &old);
    assert_eq!(
        (&object["spec"]["a"], &object["status"]["b"]),
        (&2.into(), &1.into())
    );
    let mut object = new.clone();
    kinds::custom(true).prepare_status_update(&mut object, &old);
    assert_eq!(
        (&object["spec"]["a"], &object["status"]["b"]),
        (&1.into(), &2.into())
    );
    assert_eq!(object["metadata"], json!({}));
    let mut object = new.clone();
    kinds::custom(true).prepare_create(&mut object);
    assert!(object.get("status").is_none());
    let mut object = new.clone();
    kinds::custom(false).prepare_create(&mut object);
    kinds::custom(false).prepare_update(&mut object, &old);
    assert_eq!(object, new);
}

#[test]
fn shapes_nobody_expects_are_validated_without_panic() {
    let odd = [
        json!(null),
        json!(1),
        json!("x"),
        json!([1]),
        json!({ "a": [null] }),
    ];
    for resource in table().resources() {
        let kind = kinds::builtin(&resource.group, &resource.kind);
        let version = if resource.group.is_empty() {
            resource.version.clone()
        } else {
            format!("{}/{}", resource.group, resource.version)
        };
        for value in &odd {
            let object = json!({
                "apiVersion": version, "kind": resource.kind, "metadata": value,
                "spec": value, "status": value, "data": value, "subsets": value, "endpoints": value,
            });
            run_all(kind, object.clone());
            run_all(
                kind,
                json!({ "apiVersion": version, "kind": resource.kind, "spec": { "template": value, "ports": [value], "containers": [value] } }),
            );
        }
    }
}

fn run_all(kind: &kinds::Strategy, object: Value) {
    let old = object.clone();
    for mut object in [object, json!({ "metadata": {}, "spec": {} })] {
        kind.apply_defaults(&mut object);
        kind.prepare_create(&mut object);
        kind.validate_create(&object);
        kind.prepare_update(&mut object, &old);
        kind.validate_update(&object, &old);
        kind.prepare_status_update(&mut object, &old);
        kind.validate_status_update(&object, &old);
    }
}

#[test]
fn templates_are_defaulted_wherever_they_stand() {
    let pod = json!({ "spec": { "containers": [{ "name": "c", "image": "a" }] } });
    for (version, kind, spec) in [
        ("apps/v1", "Deployment", json!({ "template": pod })),
        ("apps/v1", "DaemonSet", json!({ "template": pod })),
        (
            "batch/v1",
            "CronJob",
            json!({ "jobTemplate": { "spec": { "template": pod } } }),
        ),
    ] {
        let object = json!({ "apiVersion": version, "kind": kind, "metadata": {}, "spec": spec });
        let (group, version) = version.split_once('/').unwrap_or_default();
        let shape = table().shape(group, version, kind).unwrap();
        let mut object = normal(&object, shape).unwrap().object;
        kinds::builtin(group, kind).apply_defaults(&mut object);
        assert!(
            object.to_string().contains(r#""imagePullPolicy":"Always""#),
            "{object}"
        );
    }
}
