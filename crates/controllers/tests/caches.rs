//! What the controllers read, and when.

mod harness;

use anyhow::Result;
use edgegrid_testkit::node;

const WATCHED: [&str; 9] = [
    "/nodes?",
    "/nodeunits?",
    "/nodegroups?",
    "/deploymentgrids?",
    "/statefulsetgrids?",
    "/servicegrids?",
    "/deployments?",
    "/statefulsets?",
    "/services?",
];

#[tokio::test(start_paused = true)]
async fn every_kind_is_listed_once_before_anything_is_decided() -> Result<()> {
    let cluster = harness::cluster().await?;
    cluster.add_nodes([node("a-1").label("zone", "a")]).await?;
    let running = harness::start(&cluster).await?;
    harness::settle(&cluster, &running).await?;
    let requests = running.requests.take();
    for kind in WATCHED {
        let lists = requests
            .iter()
            .filter(|request| request.starts_with("GET ") && request.contains(kind));
        assert_eq!(lists.count(), 1, "{kind} {requests:#?}");
    }
    let first_write = requests
        .iter()
        .position(|request| !request.starts_with("GET "));
    assert!(
        first_write.is_none_or(|place| place >= WATCHED.len()),
        "{requests:#?}"
    );
    Ok(())
}
