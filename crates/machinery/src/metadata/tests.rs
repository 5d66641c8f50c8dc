use super::*;
use crate::names::NameRule;
use serde_json::json;

const CREATE: CreateStamp<'static> = CreateStamp {
    uid: "u-1",
    now: "2026-01-01T00:00:00Z",
    suffix: "abcde",
};

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn a_new_object_gets_what_only_the_server_may_set() {
    let mut object = json!({"metadata": {
        "generateName": "web-", "uid": "mine", "deletionTimestamp": "x", "generation": 7, "labels": {"a": "b"},
    }});
    stamp(&mut object, CREATE, Generation::Spec);
    assert_eq!(
        object["metadata"],
        json!({
            "generateName": "web-", "name": "web-abcde", "uid": "u-1", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "b"},
        })
    );
    let mut object = json!({"metadata": {"name": "x", "generation": 7}});
    stamp(&mut object, CREATE, Generation::Untracked);
    assert_eq!(object["metadata"]["generation"], 7);
}

#[test]
fn the_namespace_of_the_request_wins_or_the_object_is_refused() {
    let mut object = json!({});
    ensure_namespace(&mut object, "a").unwrap();
    assert_eq!(object["metadata"]["namespace"], "a");
    let refusal = ensure_namespace(&mut object, "b").unwrap_err();
    assert_eq!(refusal.code(), 400);
    ensure_namespace(&mut object, "").unwrap();
    assert_eq!(object["metadata"].get("namespace"), None);
}

#[test]
fn an_update_keeps_identity_and_times() {
    let old = json!({"metadata": {
        "name": "x", "uid": "u", "creationTimestamp": "t", "generation": 3,
        "deletionTimestamp": "d", "deletionGracePeriodSeconds": 30,
    }});
    let mut object =
        json!({"metadata": {"name": "x", "generation": 9, "creationTimestamp": "later"}});
    carry_over(&mut object, &old);
    assert_eq!(object["metadata"], old["metadata"]);
}

#[test]
fn generation_follows_the_part_that_counts() {
    let old = json!({
        "metadata": {"generation": 4, "annotations": {"a": "1"}}, "spec": {"n": 1}, "status": {"s": 1}, "data": 1,
    });
    let change = |pointer: &str, rule: Generation| {
        let mut object = old.clone();
        *object.pointer_mut(pointer).unwrap() = json!("changed");
        advance_generation(&mut object, &old, rule);
        object["metadata"]["generation"].as_i64().unwrap()
    };
    for (pointer, rule, expected) in [
        ("/spec/n", Generation::Spec, 5),
        ("/data", Generation::Spec, 4),
        ("/metadata/annotations/a", Generation::Spec, 4),
        ("/metadata/annotations/a", Generation::SpecAndAnnotations, 5),
        ("/data", Generation::Content, 5),
        ("/status/s", Generation::Content, 5),
        ("/status/s", Generation::ContentButStatus, 4),
        ("/data", Generation::ContentButStatus, 5),
    ] {
        assert_eq!(change(pointer, rule), expected, "{pointer} {rule:?}");
    }
}

#[test]
fn a_stale_or_missing_revision_is_refused() {
    let resource = GroupResource::new("", "configmaps");
    let at = |version: &str| json!({"metadata": {"name": "x", "resourceVersion": version}});
    let check = |wanted: &str, unconditional| {
        check_revision(&at(wanted), &at("7"), &resource, unconditional)
    };
    assert!(check("7", false).is_ok());
    assert!(check("", true).is_ok());
    assert_eq!(check("", false).unwrap_err().code(), 422);
    assert_eq!(
        check("6", true).unwrap_err().message(),
        "Operation cannot be fulfilled on configmaps \"x\": the object has been modified; please apply your changes to the latest version and try again"
    );
    assert_eq!(
        check("abc", true).unwrap_err().message(),
        "strconv.ParseUint: parsing \"abc\": invalid syntax"
    );
    assert_eq!(
        check_new(&at("5")).unwrap_err().to_json().get("reason"),
        None
    );
}

#[test]
fn a_marked_object_goes_without_finalizers_and_grace() {
    let mut object = json!({"metadata": {"generation": 7, "finalizers": ["a.b/c"]}});
    assert!(!is_removable(&object));
    mark_deleted(&mut object, "now", 0);
    assert_eq!(
        object["metadata"],
        json!({
            "generation": 8, "finalizers": ["a.b/c"], "deletionTimestamp": "now", "deletionGracePeriodSeconds": 0,
        })
    );
    assert!(!is_removable(&object));
    object["metadata"]["finalizers"] = json!([]);
    assert!(is_removable(&object));

    let mut pod = json!({"metadata": {}});
    mark_deleted(&mut pod, "later", 30);
    assert!(!is_removable(&pod));
    assert!(!shorten_grace(&mut pod, "sooner", 30));
    assert!(shorten_grace(&mut pod, "sooner", 0));
    assert!(is_removable(&pod));
}

#[test]
fn the_policy_decides_about_the_finalizers_of_collection() {
    let present = ["x/y".to_owned(), "orphan".to_owned()];
    assert_eq!(propagation_finalizers(&present, None), ["x/y", "orphan"]);
    assert_eq!(
        propagation_finalizers(&present, Some(Propagation::Background)),
        ["x/y"]
    );
    assert_eq!(
        propagation_finalizers(&present, Some(Propagation::Foreground)),
        ["x/y", "foregroundDeletion"]
    );
}

#[test]
fn refusals_are_worded_as_observed() {
    let rules = Rules {
        name: NameRule::Subdomain,
        namespaced: true,
        strict_finalizers: true,
    };
    let metadata = json!({
        "namespace": "n",
        "finalizers": ["orphan", "foregroundDeletion", "nodomain"],
        "ownerReferences": [
            {"apiVersion": "", "kind": "", "name": "", "uid": ""},
            {"apiVersion": "v1", "kind": "K", "name": "e", "uid": "u", "controller": true},
            {"apiVersion": "a/b/c", "kind": "K", "name": "n", "uid": "v", "controller": true},
        ],
        "annotations": {"B/c": "x".repeat(300_000)},
    });
    let texts = texts(&validate(&metadata, rules, "metadata"));
    for expected in [
        "metadata.name: Required value: name or generateName is required",
        "metadata.annotations: Too long: may not be more than 262144 bytes",
        "metadata.ownerReferences[0].uid: Required value: must not be empty",
        "metadata.ownerReferences[2].apiVersion: Invalid value: \"a/b/c\": must be <group>/<version> or <version>",
        "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\",\"nodomain\"]: finalizer orphan and foregroundDeletion cannot be both set",
        "metadata.finalizers[2]: Invalid value: \"nodomain\": name is neither a standard finalizer name nor is it fully qualified",
    ] {
        assert!(
            texts.contains(&expected.to_owned()),
            "{expected}\n{texts:#?}"
        );
    }
    assert!(
        texts
            .iter()
            .any(|text| text.ends_with("Found \"true\" in references for K/e and K/n"))
    );
}

#[test]
fn an_object_that_is_going_takes_no_new_finalizer() {
    let old = json!({"name": "x", "deletionTimestamp": "d", "finalizers": ["a.b/c"]});
    let new = json!({"name": "x", "deletionTimestamp": "d", "resourceVersion": "1", "finalizers": ["a.b/c", "x.y/z"]});
    assert_eq!(
        texts(&validate_update(&new, &old, "metadata")),
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x.y/z\"}"
        ]
    );
    let new = json!({"name": "x", "deletionTimestamp": "d", "resourceVersion": "1", "deletionGracePeriodSeconds": 5});
    assert_eq!(
        texts(&validate_update(&new, &old, "metadata")),
        ["metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable"]
    );
}
