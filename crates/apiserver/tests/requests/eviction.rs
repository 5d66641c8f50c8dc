//! `pods/eviction`: a delete that asks the disruption budgets first.

use serde_json::{Value, json};

use crate::caller::{Caller, Reply};

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// A server with running pods of one application.
async fn with_pods(names: &[&str], ready: &str) -> Caller {
    let caller = Caller::new();
    for name in names {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        caller.must("POST", PODS, &pod).await;
        let conditions = json!([{"type": "Ready", "status": ready}]);
        let status = json!({"status": {"phase": "Running", "conditions": conditions}});
        caller
            .must("PATCH", &format!("{PODS}/{name}/status"), &status)
            .await;
    }
    caller
}

/// A budget as its controller leaves it.
async fn budget(caller: &Caller, name: &str, allowed: i64) {
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    let budget = json!({"metadata": {"name": name}, "spec": spec});
    caller.must("POST", BUDGETS, &budget).await;
    let status = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": allowed,
        "currentHealthy": 2, "desiredHealthy": 2 - allowed, "expectedPods": 2,
    }});
    caller
        .must("PATCH", &format!("{BUDGETS}/{name}/status"), &status)
        .await;
}

async fn evict(caller: &Caller, pod: &str, options: Value) -> Reply {
    let body = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": pod}, "deleteOptions": options,
    });
    caller
        .send("POST", &format!("{PODS}/{pod}/eviction"), &body)
        .await
}

async fn is_there(caller: &Caller, pod: &str) -> bool {
    caller.get(&format!("{PODS}/{pod}")).await.code == 200
}

#[tokio::test]
async fn without_a_budget_an_eviction_is_a_delete() {
    let caller = with_pods(&["a"], "True").await;
    let reply = evict(&caller, "a", Value::Null).await;
    assert_eq!((reply.code, reply.text("status")), (201, "Success"));
    assert!(!is_there(&caller, "a").await, "unbound pods go at once");
    assert_eq!(evict(&caller, "a", Value::Null).await.code, 404);
}

#[tokio::test]
async fn a_budget_is_spent_by_evictions_and_then_holds() {
    let caller = with_pods(&["a", "b"], "True").await;
    budget(&caller, "web", 1).await;
    assert_eq!(evict(&caller, "a", Value::Null).await.code, 201);
    let left = caller.get(&format!("{BUDGETS}/web")).await.body;
    assert_eq!(left["status"]["disruptionsAllowed"], 0);
    assert!(left["status"]["disruptedPods"]["a"].is_string(), "{left}");

    let refused = evict(&caller, "b", Value::Null).await;
    assert_eq!(
        (refused.code, refused.text("reason")),
        (429, "TooManyRequests")
    );
    let cause = &refused.body["details"]["causes"][0];
    assert_eq!(cause["reason"], "DisruptionBudget");
    assert!(is_there(&caller, "b").await);
}

#[tokio::test]
async fn a_budget_that_nobody_has_looked_at_yet_allows_nothing() {
    let caller = with_pods(&["a"], "True").await;
    let spec = json!({"maxUnavailable": 1, "selector": {}});
    caller
        .must(
            "POST",
            BUDGETS,
            &json!({"metadata": {"name": "all"}, "spec": spec}),
        )
        .await;
    let refused = evict(&caller, "a", Value::Null).await;
    assert_eq!(
        (refused.code, &refused.body["details"]["retryAfterSeconds"]),
        (429, &json!(10))
    );
}

#[tokio::test]
async fn pods_of_others_and_pods_that_do_not_run_are_not_counted() {
    let caller = with_pods(&["a", "b"], "True").await;
    budget(&caller, "web", 0).await;
    let other = json!({"metadata": {"labels": {"app": "other"}}});
    caller.must("PATCH", &format!("{PODS}/a"), &other).await;
    assert_eq!(evict(&caller, "a", Value::Null).await.code, 201);
    let done = json!({"status": {"phase": "Succeeded"}});
    caller
        .must("PATCH", &format!("{PODS}/b/status"), &done)
        .await;
    assert_eq!(evict(&caller, "b", Value::Null).await.code, 201);
}

#[tokio::test]
async fn a_pod_that_is_not_ready_goes_while_the_application_is_healthy() {
    let caller = with_pods(&["a"], "False").await;
    budget(&caller, "web", 0).await;
    assert_eq!(evict(&caller, "a", Value::Null).await.code, 201);
}

#[tokio::test]
async fn two_budgets_for_one_pod_are_an_error() {
    let caller = with_pods(&["a"], "True").await;
    budget(&caller, "one", 1).await;
    budget(&caller, "two", 1).await;
    assert_eq!(evict(&caller, "a", Value::Null).await.code, 500);
    assert!(is_there(&caller, "a").await);
}

#[tokio::test]
async fn preconditions_and_dry_runs_hold_for_evictions_too() {
    let caller = with_pods(&["a"], "True").await;
    let other = json!({"preconditions": {"uid": "other"}});
    assert_eq!(evict(&caller, "a", other).await.code, 409);
    let dry = json!({"dryRun": ["All"]});
    assert_eq!(evict(&caller, "a", dry).await.code, 201);
    assert!(is_there(&caller, "a").await, "a dry run evicts nobody");
    let body = json!({"metadata": {"name": "b"}});
    let misnamed = caller
        .send("POST", &format!("{PODS}/a/eviction"), &body)
        .await;
    assert_eq!(misnamed.code, 400);
}
