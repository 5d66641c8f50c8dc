//! Field selectors of built-in kinds: what is absent counts as the zero of its type.

use serde_json::{Value, json};

use crate::caller::Caller;

/// Names of the objects that a selector chooses.
async fn chosen(caller: &Caller, path: &str, selector: &str) -> Vec<String> {
    let list = caller
        .get(&format!("{path}?fieldSelector={selector}"))
        .await;
    assert_eq!(list.code, 200, "{list:?}");
    let items = list.body["items"].as_array().unwrap().iter();
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
    items.map(name).collect()
}

#[tokio::test]
async fn pods_are_found_by_address_and_by_what_they_leave_out() {
    let caller = Caller::new();
    let path = "/api/v1/namespaces/default/pods";
    for name in ["a", "b"] {
        let spec = json!({"containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        caller.must("POST", path, &pod).await;
    }
    let status = json!({"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}});
    caller
        .must("PATCH", &format!("{path}/b/status"), &status)
        .await;
    assert_eq!(chosen(&caller, path, "status.podIP=10.0.0.1").await, ["b"]);
    assert_eq!(chosen(&caller, path, "status.podIP=").await, ["a"]);
    assert_eq!(
        chosen(&caller, path, "spec.hostNetwork=false").await,
        ["a", "b"]
    );
    let unknown = caller
        .get(&format!("{path}?fieldSelector=spec.nothing=1"))
        .await;
    assert_eq!(unknown.code, 400);
}

#[tokio::test]
async fn counts_flags_and_sources_have_values_also_when_nobody_set_them() {
    let caller = Caller::new();
    let node = json!({"metadata": {"name": "n"}});
    caller.must("POST", "/api/v1/nodes", &node).await;
    assert_eq!(
        chosen(&caller, "/api/v1/nodes", "spec.unschedulable=false").await,
        ["n"]
    );

    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let template = json!({"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
    }});
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": template}});
    caller.must("POST", jobs, &job).await;
    assert_eq!(chosen(&caller, jobs, "status.successful=0").await, ["j"]);

    let events = "/api/v1/namespaces/default/events";
    let event = json!({
        "metadata": {"name": "e"}, "reportingComponent": "example.com/c",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
    });
    caller.must("POST", events, &event).await;
    assert_eq!(chosen(&caller, events, "source=example.com/c").await, ["e"]);
}

#[tokio::test]
async fn whole_floats_of_custom_resources_are_stored_as_integers() {
    let caller = Caller::new();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = caller.must("POST", path, &definition).await;
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(made["status"]["acceptedNames"]["listKind"], "ThingList");
    let thing = json!({
        "apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": "t", "finalizers": ["hold"]}, "size": 3.0, "share": 0.5,
    });
    let path = "/apis/example.com/v1/namespaces/default/things";
    let made = caller.send("POST", path, &thing).await;
    assert_eq!(made.body["size"].to_string(), "3");
    assert_eq!(made.body["share"], json!(0.5));
    assert!(made.warnings[0].contains("domain-qualified"), "{made:?}");
}
