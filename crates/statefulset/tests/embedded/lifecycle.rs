//! The life of a set without faults: create in order, scale, delete, update.

use serde_json::json;

use crate::bench::Bench;
use crate::fixtures::{image, web, web_with_claims};

#[tokio::test(start_paused = true)]
async fn pods_come_up_in_order_and_names_stay() {
    let bench = Bench::start().await.unwrap();
    bench.create(&web(2)).await.unwrap();
    bench.settled().await.unwrap();
    assert_eq!(bench.monitor.lock().log, ["+web-0", "+web-1"]);
    let before = bench.pods().await.unwrap();

    for name in ["web-0", "web-1"] {
        bench.delete_pod(name).await.unwrap();
    }
    bench
        .eventually("both pods are new ones", async || {
            let pods = bench.pods().await?;
            let is_new = pods.iter().all(|pod| {
                before
                    .iter()
                    .all(|old| old.metadata.uid != pod.metadata.uid)
            });
            anyhow::ensure!(is_new && pods.len() == 2, "{:?}", bench.names().await?);
            Ok(())
        })
        .await
        .unwrap();
    bench.settled().await.unwrap();
    bench.check_promises().unwrap();
    let events = bench.events().await.unwrap();
    assert!(
        events.contains(&"Create Pod web-0 in StatefulSet web successful".to_owned()),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn scaling_makes_the_lowest_and_removes_the_highest_first_and_claims_stay() {
    let bench = Bench::start().await.unwrap();
    bench.create(&web_with_claims(2)).await.unwrap();
    bench.settled().await.unwrap();
    bench.spec(json!({ "replicas": 10 })).await.unwrap();
    bench.settled().await.unwrap();
    bench.spec(json!({ "replicas": 2 })).await.unwrap();
    bench.settled().await.unwrap();
    bench.check_promises().unwrap();
    let made: Vec<String> = (0..10).map(|n| format!("+web-{n}")).collect();
    let gone = (2..10)
        .rev()
        .flat_map(|n| [format!("-web-{n}"), format!("xweb-{n}")]);
    let wanted: Vec<String> = made.into_iter().chain(gone).collect();
    assert_eq!(bench.monitor.lock().log, wanted);
    assert_eq!(bench.claims().await.unwrap().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn an_update_goes_from_the_highest_to_the_lowest_one_at_a_time() {
    let bench = Bench::start().await.unwrap();
    bench.create(&web(3)).await.unwrap();
    bench.rolled_out().await.unwrap();
    bench.monitor.lock().log.clear();
    bench.spec(image(2)).await.unwrap();
    bench.rolled_out().await.unwrap();
    bench.check_promises().unwrap();
    let wanted: Vec<String> = (0..3)
        .rev()
        .flat_map(|n| ["-", "x", "+"].map(|what| format!("{what}web-{n}")))
        .collect();
    assert_eq!(bench.monitor.lock().log, wanted);
    assert_eq!(bench.revisions().await.unwrap().len(), 2);
}
