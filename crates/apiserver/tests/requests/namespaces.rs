//! Namespaces go in two steps; `finalize` is the second.

use serde_json::{Value, json};

use crate::caller::Caller;

const PLACE: &str = "/api/v1/namespaces/place";

async fn with_namespace() -> Caller {
    let caller = Caller::new();
    let namespace = json!({"metadata": {"name": "place"}});
    let made = caller.must("POST", "/api/v1/namespaces", &namespace).await;
    assert_eq!(made["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(
        made["metadata"]["labels"]["kubernetes.io/metadata.name"],
        "place"
    );
    caller
}

/// What `finalize` takes: the namespace with other finalizers.
async fn with_finalizers(caller: &Caller, finalizers: Value) -> Value {
    let mut namespace = caller.get(PLACE).await.body;
    namespace["spec"]["finalizers"] = finalizers;
    namespace["status"]["phase"] = json!("Nonsense");
    namespace
}

#[tokio::test]
async fn a_deleted_namespace_stays_until_it_is_finalized() {
    let caller = with_namespace().await;
    let going = caller.must("DELETE", PLACE, &Value::Null).await;
    assert_eq!(going["status"]["phase"], "Terminating");
    let map = json!({"metadata": {"name": "late"}});
    let late = caller
        .send("POST", &format!("{PLACE}/configmaps"), &map)
        .await;
    assert_eq!(
        (late.code, late.fields()),
        (403, vec!["metadata.namespace"])
    );

    let done = with_finalizers(&caller, json!([])).await;
    caller
        .must("PUT", &format!("{PLACE}/finalize"), &done)
        .await;
    assert_eq!(caller.get(PLACE).await.code, 404);
}

#[tokio::test]
async fn finalize_changes_finalizers_and_never_the_status() {
    let caller = with_namespace().await;
    let more = with_finalizers(&caller, json!(["kubernetes", "example.com/mine"])).await;
    let put = caller
        .must("PUT", &format!("{PLACE}/finalize"), &more)
        .await;
    assert_eq!(
        put["spec"]["finalizers"],
        json!(["kubernetes", "example.com/mine"])
    );
    assert_eq!(put["status"]["phase"], "Active");
    let owners = put["metadata"]["managedFields"].as_array().unwrap();
    assert!(
        owners
            .iter()
            .any(|owner| owner["subresource"] == "finalize")
    );

    let plain = with_finalizers(&caller, json!([])).await;
    let kept = caller.must("PUT", PLACE, &plain).await;
    assert_eq!(kept["spec"]["finalizers"], put["spec"]["finalizers"]);
    let bad = with_finalizers(&caller, json!(["unqualified"])).await;
    assert_eq!(
        caller
            .send("PUT", &format!("{PLACE}/finalize"), &bad)
            .await
            .code,
        422
    );
}

#[tokio::test]
async fn finalize_is_refused_for_stale_and_foreign_namespaces() {
    let caller = with_namespace().await;
    let seen = with_finalizers(&caller, json!([])).await;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    caller.must("PATCH", PLACE, &label).await;
    let path = format!("{PLACE}/finalize");
    assert_eq!(
        caller.send("PUT", &path, &seen).await.code,
        409,
        "another revision"
    );
    let mut foreign = with_finalizers(&caller, json!([])).await;
    foreign["metadata"]["uid"] = json!("other");
    assert_eq!(
        caller.send("PUT", &path, &foreign).await.code,
        409,
        "another namespace"
    );
    assert_eq!(
        caller.get(PLACE).await.body["spec"]["finalizers"],
        json!(["kubernetes"])
    );
}
