//! Events are one resource under two groups.

use serde_json::{Value, json};

use crate::caller::Caller;

const CORE: &str = "/api/v1/namespaces/default/events";
const OWN: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn old(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "Started", "message": "it runs", "type": "Normal", "count": 2,
        "firstTimestamp": "2026-01-01T00:00:00Z", "source": {"component": "kubelet"},
    })
}

fn new(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "Stopped", "note": "it ends", "type": "Normal", "action": "Stopping",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/c", "reportingInstance": "i",
    })
}

#[tokio::test]
async fn an_event_of_one_group_is_read_in_the_words_of_the_other() {
    let caller = Caller::new();
    caller.must("POST", CORE, &old("a")).await;
    caller.must("POST", OWN, &new("b")).await;

    let seen = caller.get(&format!("{OWN}/a")).await.body;
    assert_eq!(seen["apiVersion"], "events.k8s.io/v1");
    assert_eq!(seen["regarding"]["name"], "p");
    assert_eq!(
        (&seen["note"], &seen["deprecatedCount"]),
        (&json!("it runs"), &json!(2))
    );
    assert_eq!(seen["deprecatedSource"], json!({"component": "kubelet"}));
    assert_eq!(seen.get("message"), None);

    let seen = caller.get(&format!("{CORE}/b")).await.body;
    assert_eq!(
        (&seen["apiVersion"], &seen["kind"]),
        (&json!("v1"), &json!("Event"))
    );
    assert_eq!(seen["involvedObject"]["name"], "p");
    assert_eq!(seen["reportingComponent"], "example.com/c");
    assert_eq!(seen["firstTimestamp"], Value::Null);
    assert_eq!(seen.get("regarding"), None);
}

#[tokio::test]
async fn lists_selectors_writes_and_deletes_meet_in_one_place() {
    let caller = Caller::new();
    caller.must("POST", CORE, &old("a")).await;
    caller.must("POST", OWN, &new("b")).await;
    for path in [
        format!("{CORE}?fieldSelector=involvedObject.name=p,reason=Stopped"),
        format!("{OWN}?fieldSelector=regarding.name=p,reason=Stopped"),
    ] {
        let list = caller.get(&path).await.body;
        let names: Vec<&Value> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| &item["metadata"]["name"])
            .collect();
        assert_eq!(names, ["b"], "{path}");
    }
    assert_eq!(
        caller.send("POST", OWN, &new("a")).await.code,
        409,
        "the name is taken"
    );

    let changed = json!({"message": "it ended"});
    caller.must("PATCH", &format!("{CORE}/b"), &changed).await;
    let seen = caller.get(&format!("{OWN}/b")).await.body;
    assert_eq!(seen["note"], "it ended");
    let owners = seen["metadata"]["managedFields"].as_array().unwrap();
    let owner = |field: &str| {
        let mut owners = owners
            .iter()
            .filter(|it| it["fieldsV1"].get(field).is_some());
        owners.next().map(|it| it["apiVersion"].clone())
    };
    assert_eq!(
        owner("f:message"),
        Some(json!("v1")),
        "who changed it owns it in its words"
    );
    assert_eq!(owner("f:note"), None, "and nobody else in others");
    assert_eq!(owner("f:regarding"), Some(json!("events.k8s.io/v1")));

    caller
        .must("DELETE", &format!("{CORE}/b"), &Value::Null)
        .await;
    assert_eq!(caller.get(&format!("{OWN}/b")).await.code, 404);
}
