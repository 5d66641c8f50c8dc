//! What changes for a node, and what does not.

use crate::asking::{SLICES, get, nodes, sees, two_units, view_of};
use crate::cloud::{node, slice};
use crate::eventually;
use crate::mirror::{Mirror, Style};
use edgegrid_wrapper::ServedKind;

#[tokio::test(start_paused = true)]
async fn the_own_node_moves_and_the_old_site_is_dropped_at_once() {
    let cloud = two_units();
    let (_running, client) = view_of(&cloud).await;
    for (unit, wanted) in [
        ("b", ["a-0", "b-0"]),
        ("a", ["a-0", "a-1"]),
        ("b", ["a-0", "b-0"]),
    ] {
        cloud.put(ServedKind::Nodes, &node("a-0", &[("unit", unit)]));
        sees(&client, SLICES, &wanted).await;
    }
    cloud.put(ServedKind::Nodes, &node("a-0", &[]));
    sees(&client, SLICES, &[]).await;
    let (_, why) = get(&client, "/debug/view?service=web").await;
    assert_eq!(
        why["objects"][0]["endpoints"][0]["visibility"],
        "own-node-unlabelled"
    );
}

#[tokio::test(start_paused = true)]
async fn what_does_not_concern_the_node_does_not_reach_its_clients() {
    let cloud = two_units();
    let (_running, client) = view_of(&cloud).await;
    let mut mirror = Mirror::new(client.clone(), SLICES, Style::Paged, "");
    mirror.pump(&mut |_| {}).await;
    for n in 0..100 {
        let mut object = slice("web-x", "web", &["a-0", "a-1", "b-0"]);
        object["endpoints"][2]["conditions"]["ready"] = (n % 2 == 0).into();
        object["metadata"]["generation"] = n.into();
        cloud.put(ServedKind::Slices, &object);
        tokio::task::yield_now().await;
    }
    cloud.put(ServedKind::Slices, &slice("web-x", "web", &["a-0", "b-0"]));
    eventually("the one change that counts arrives", async || {
        mirror.pump(&mut |_| {}).await;
        let shown = nodes(&mirror.objects["default/web-x"]);
        if shown == ["a-0"] {
            Ok(())
        } else {
            Err(format!("{shown:?}"))
        }
    })
    .await;
    assert_eq!(mirror.events, 1);
}
