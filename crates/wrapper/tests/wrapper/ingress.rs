//! `/superedge-ingress/<unit>/…`: the API as a unit's ingress sees it.

use crate::asking::{SLICES, get, nodes, sees, two_units, view_of};
use crate::cloud::node;
use crate::eventually;
use edgegrid_wrapper::ServedKind;
use http::StatusCode;

#[tokio::test(start_paused = true)]
async fn a_units_ingress_sees_that_units_endpoints_in_lists_too() {
    let cloud = two_units();
    for (name, unit) in [("a-1", "beijing"), ("b-0", "guangzhou")] {
        let labels = [("unit", &name[..1]), (unit, "nodeunits.superedge.io")];
        cloud.put(ServedKind::Nodes, &node(name, &labels));
    }
    let (_running, client) = view_of(&cloud).await;
    for (unit, wanted) in [("beijing", "a-1"), ("guangzhou", "b-0")] {
        sees(
            &client,
            &format!("/superedge-ingress/{unit}{SLICES}"),
            &[wanted],
        )
        .await;
    }
    let nobody = format!("/superedge-ingress/nobody{SLICES}");
    eventually(
        "a unit without nodes is there, and empty",
        async || match get(&client, &nobody).await {
            (StatusCode::OK, list) if nodes(&list).is_empty() => Ok(()),
            (code, list) => Err(format!("{code} {list}")),
        },
    )
    .await;
    for path in [
        "/superedge-ingress",
        "/superedge-ingress/",
        "/superedge-ingress/x",
        "/superedge-ingress/a%2fb/api/v1/endpoints",
    ] {
        assert_eq!(
            get(&client, path).await.0,
            StatusCode::BAD_REQUEST,
            "{path}"
        );
    }
    cloud.put(
        ServedKind::Nodes,
        &node(
            "a-0",
            &[("unit", "a"), ("beijing", "nodeunits.superedge.io")],
        ),
    );
    sees(
        &client,
        &format!("/superedge-ingress/beijing{SLICES}"),
        &["a-0", "a-1"],
    )
    .await;
}
