//! What the controllers read, and when.

mod harness;

use anyhow::Result;
use edgegrid_testkit::node;

#[tokio::test(start_paused = true)]
async fn the_controllers_start_on_a_cluster_and_only_read() -> Result<()> {
    let cluster = harness::cluster().await?;
    cluster.add_nodes([node("a-1").label("zone", "a")]).await?;
    let running = harness::start(&cluster).await?;
    let listed = running.requests.take();
    assert!(
        listed.iter().all(|request| request.starts_with("GET ")),
        "{listed:#?}"
    );
    assert_eq!(listed.len(), 9, "one list per kind: {listed:#?}");
    Ok(())
}
