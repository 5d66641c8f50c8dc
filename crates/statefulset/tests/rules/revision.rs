//! Revisions: their bytes, their names, and which one counts.

use std::sync::Arc;

use edgegrid_statefulset::rules::{
    Revision, Step, hash, is_template_of, payload, plan, possibly_equivalent, revision_name,
};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::world::{
    OLD, at, current, earlier, parse, pod, pods, revision, set, steps, update_revision, world,
};

/// The template of the compatibility data that Kubernetes checks itself with.
fn known_template(metadata: &Value) -> Value {
    json!({
        "metadata": metadata,
        "spec": {
            "containers": [{
                "image": "test", "imagePullPolicy": "Always", "name": "test", "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            }],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "securityContext": {}, "terminationGracePeriodSeconds": 30,
        },
    })
}

fn known_payload(metadata: &Value) -> Value {
    let mut template = known_template(metadata);
    template["$patch"] = "replace".into();
    json!({ "spec": { "template": template } })
}

#[test]
fn names_are_those_of_kube_controller_manager() {
    let new = json!({ "annotations": { "test": "value" }, "labels": { "app": "foo" } });
    let old = json!({ "annotations": { "test": "value" }, "creationTimestamp": null, "labels": { "app": "foo" } });
    for (metadata, wanted) in [(old, "test-c77f6d978"), (new, "test-776999688b")] {
        assert_eq!(
            revision_name("test", &hash(&known_payload(&metadata), 0)),
            wanted
        );
    }
}

#[test]
fn the_payload_of_a_set_has_no_null_times_whatever_server_stored_it() {
    let old = json!({ "annotations": { "test": "value" }, "creationTimestamp": null, "labels": { "app": "web" } });
    let new = json!({ "annotations": { "test": "value" }, "labels": { "app": "web" } });
    let of = |metadata: Value| payload(&set(1, &json!({ "template": known_template(&metadata) })));
    assert_eq!(of(old), of(new));
}

#[test]
fn a_long_name_is_cut_so_that_the_hash_fits() {
    let name = revision_name(&"x".repeat(300), "abc");
    assert_eq!(name.len(), 227);
    assert!(name.ends_with("-abc"));
}

#[test]
fn a_collision_gives_another_name_and_the_label_keeps_the_first_hash() {
    let set = set(0, &json!({}));
    let mut world = world(&set, Vec::new());
    world.revisions.clear();
    world.collisions = 2;
    let plan = plan(&world);
    let Some(Step::CreateRevision { name, body }) = plan.steps().next() else {
        panic!("{plan:?}");
    };
    let data = payload(&set);
    assert_eq!(*name, revision_name("web", &hash(&data, 2)));
    assert_eq!(
        body["metadata"]["labels"]["controller.kubernetes.io/hash"],
        hash(&data, 0)
    );
    assert_eq!(body["data"], data);
    assert_eq!(plan.status.collision_count, 2);
}

#[test]
fn the_first_revision_is_one_and_every_further_one_is_the_next() {
    let set = set(0, &json!({}));
    let number = |revisions: Vec<Revision>| {
        let mut world = world(&set, Vec::new());
        world.revisions = revisions.into_iter().map(Arc::new).collect();
        plan(&world).steps().find_map(|step| match step {
            Step::CreateRevision { body, .. } => body["revision"].as_i64(),
            _ => None,
        })
    };
    assert_eq!(number(Vec::new()), Some(1));
    assert_eq!(
        number(vec![earlier(&set, "web-a", 4), earlier(&set, "web-b", 7)]),
        Some(8)
    );
    assert_eq!(
        number(vec![earlier(&set, "web-a", 4), current(&set, 7)]),
        None
    );
}

#[test]
fn going_back_renumbers_the_old_revision_instead_of_adding_one() {
    let set = set(0, &json!({}));
    let mut world = world(&set, Vec::new());
    world.revisions = vec![
        Arc::new(current(&set, 1)),
        Arc::new(earlier(&set, "web-b", 3)),
    ];
    assert_eq!(steps(&world), [format!("{} is 4", update_revision(&set))]);
}

#[test]
fn a_revision_of_an_old_cluster_is_recognised_by_value() {
    let set = set(1, &json!({}));
    let mut data = payload(&set);
    data["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    let stored = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": { "name": OLD, "namespace": "ns", "uid": "u", "labels": { "app": "web" }, "ownerReferences": [
            { "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set-uid", "controller": true },
        ] },
        "revision": 1, "data": data,
    });
    let stored: DynamicObject = serde_json::from_value(stored).unwrap();
    let mut world = world(&set, vec![at(pod(&set, 0), OLD)]);
    world.revisions = vec![Arc::new(Revision::new(stored))];
    assert!(steps(&world).is_empty());
    assert_eq!(plan(&world).status.update_revision, OLD);
}

#[test]
fn only_a_revision_that_lacks_fields_is_in_doubt_and_the_servers_word_decides() {
    let set = set(1, &json!({}));
    let mut without_default = payload(&set);
    without_default["spec"]["template"]["spec"]
        .as_object_mut()
        .unwrap()
        .remove("containers");
    let mut world = world(&set, vec![at(pod(&set, 0), OLD)]);
    world.revisions = vec![Arc::new(revision(&set, OLD, 1, without_default))];
    assert_eq!(possibly_equivalent(&world).unwrap().name, OLD);
    assert!(steps(&world)[0].starts_with("revision "));
    world.equivalent = Some(OLD.into());
    assert!(steps(&world).is_empty());

    world.revisions = vec![Arc::new(earlier(&set, OLD, 1))];
    assert!(
        possibly_equivalent(&world).is_none(),
        "another image is another template"
    );
    world.revisions = vec![Arc::new(current(&set, 1))];
    assert!(
        possibly_equivalent(&world).is_none(),
        "the same is the same"
    );
    assert!(is_template_of(&set, &set.template));
}

#[test]
fn the_past_is_kept_up_to_the_limit_and_what_is_in_use_always() {
    let cases = [
        (0, vec!["web-a", "web-b", "web-c"]),
        (1, vec!["web-a", "web-b"]),
        (2, vec!["web-a"]),
        (3, vec![]),
        (-1, vec![]),
    ];
    for (limit, wanted) in cases {
        let set = set(1, &json!({ "revisionHistoryLimit": limit }));
        let mut world = world(&set, vec![at(pod(&set, 0), "web-d")]);
        let past = ["web-a", "web-b", "web-c", "web-d"];
        let numbered = past
            .iter()
            .zip(1..)
            .map(|(name, number)| earlier(&set, name, number));
        world.revisions = numbered.chain([current(&set, 9)]).map(Arc::new).collect();
        let forgotten: Vec<String> = steps(&world)
            .into_iter()
            .filter(|step| step.starts_with("forget"))
            .collect();
        let wanted: Vec<String> = wanted.iter().map(|name| format!("forget {name}")).collect();
        assert_eq!(forgotten, wanted, "limit {limit}");
    }
}

#[test]
fn a_current_revision_that_is_gone_counts_as_the_update_revision() {
    let mut set = set(
        2,
        &json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 2 } } }),
    );
    set.status.current_revision = "web-gone".into();
    let plan = plan(&world(&set, Vec::new()));
    assert_eq!(plan.status.current_revision, update_revision(&set));
    let _ = pods(&set, []);
    let _ = parse;
}
