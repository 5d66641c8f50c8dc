//! The names of a site's own pods with real packets: an unmodified CoreDNS that reads the API through
//! `edgegrid agent`, one that reads its hosts file, and the agent's own server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod unit;
mod walk_through;
mod world;

use edgegrid_testkit::eventually;
use unit::{BARE, UNITS, full, short};
use world::World;

/// In both units, and by all three ways.
#[tokio::test]
async fn in_each_site_the_short_name_is_the_local_pod() {
    let world = World::start().await;
    world.short_names_are_local().await;
    world
        .curl_of_the_short_name_answers_with_the_local_pod()
        .await;
    world.the_bare_name_and_its_servers_are_local().await;
    world.both_families_are_local().await;
    world
        .a_service_with_an_address_has_short_names_and_unchanged_rules()
        .await;
    world
        .deployments_behind_a_headless_service_are_closed()
        .await;
    world.the_tutorials_names_resolve().await;
    world.a_deleted_pods_name_follows_it().await;
    world
        .an_opened_service_shows_all_sites_under_its_bare_name_only()
        .await;
}

#[tokio::test]
async fn cut_off_and_restarted_names_still_resolve() {
    let mut world = World::start().await;
    world.short_names_are_local().await;
    for unit in UNITS {
        world.wait_until_on_disk(unit).await;
        for node in unit.nodes() {
            world.lab.cut_off(node, true).await.unwrap();
        }
        world.restart_all_but_the_cloud(unit).await;
        let home = world.pods_of(unit)[0].1.clone();
        for (node, server) in world.servers(unit) {
            eventually("the short name resolves", async || {
                let found = world.resolve(node, server, &short(0)).await?;
                anyhow::ensure!(found == [home.clone()], "{found:?}");
                Ok(())
            })
            .await
            .unwrap();
        }
        let [view, _, own] = world.servers(unit);
        for (node, server) in [view, own] {
            let found = world.resolve(node, server, &full(unit, 0)).await.unwrap();
            assert_eq!(found, std::slice::from_ref(&home));
            let found = world.resolve(node, server, BARE).await.unwrap();
            assert_eq!(found.len(), 3, "{found:?}");
        }
    }
}
