//! PUT of an object that is not there.

use serde_json::json;

use crate::caller::Caller;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn a_put_creates_only_where_the_kind_allows_it() {
    let caller = Caller::new();
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
    let made = caller.send("PUT", &format!("{LEASES}/l"), &lease).await;
    assert_eq!(made.code, 201, "{made:?}");
    assert!(made.body["metadata"]["uid"].is_string());
    let again = caller.send("PUT", &format!("{LEASES}/l"), &made.body).await;
    assert_eq!(again.code, 200);
    let unconditional = caller.send("PUT", &format!("{LEASES}/l"), &lease).await;
    assert_eq!(
        unconditional.code, 422,
        "leases are updated from a revision only"
    );

    let map = json!({"metadata": {"name": "m"}});
    assert_eq!(
        caller.send("PUT", &format!("{MAPS}/m"), &map).await.code,
        404
    );
}

#[tokio::test]
async fn a_put_that_creates_follows_the_rules_of_both() {
    let caller = Caller::new();
    let lease = |metadata| json!({"metadata": metadata});
    let path = format!("{LEASES}/l");
    let put = async |metadata| caller.send("PUT", &path, &lease(metadata)).await.code;
    assert_eq!(
        put(json!({"name": "other"})).await,
        400,
        "the path names it"
    );
    assert_eq!(put(json!({})).await, 400);
    assert_eq!(
        put(json!({"name": "l", "uid": "gone"})).await,
        409,
        "not the one that was"
    );
    let status = format!("{LEASES}/l/status");
    assert_eq!(
        caller
            .send("PUT", &status, &lease(json!({"name": "l"})))
            .await
            .code,
        404
    );
    let nowhere = "/apis/coordination.k8s.io/v1/namespaces/nowhere/leases/l";
    assert_eq!(
        caller
            .send("PUT", nowhere, &lease(json!({"name": "l"})))
            .await
            .code,
        404
    );
    assert_eq!(put(json!({"name": "l", "resourceVersion": "5"})).await, 201);
}
