//! Starts, ends and links that are down: names are never taken away by accident.

use crate::agent::Agent;
use crate::site::{annotate_service, put, set, two_sites};
use edgegrid_testkit::eventually;
use edgegrid_testkit::faults::Fault;
use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::json;
use std::time::Duration;

const BEIJING: [(&str, &str); 2] = [("db-0", "10.0.1.10"), ("db-1", "10.0.1.11")];
const OTHERS: &str = "10.9.9.9 somebody.else\n";

#[tokio::test(start_paused = true)]
async fn cut_off_and_restarted_all_names_are_those_of_before() {
    let (cluster, folder) = (two_sites().await.unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("hosts"), OTHERS).unwrap();
    let agent = Agent::start(&cluster, "bj-1", folder.path()).unwrap();
    agent.short_names_are("db-svc", &BEIJING).await.unwrap();
    let file = agent.hosts_file().unwrap();
    assert!(file.starts_with(OTHERS), "{file}");
    agent.faults.break_off(Fault::LoseRequest);
    tokio::time::sleep(Duration::from_mins(5)).await;
    agent.short_names_are("db-svc", &BEIJING).await.unwrap();
    agent.stop().await;

    let down = Agent::start_over(&cluster, "bj-1", folder.path(), |faults| {
        faults.break_off(Fault::LoseRequest);
    });
    let agent = down.unwrap();
    agent.short_names_are("db-svc", &BEIJING).await.unwrap();
    assert_eq!(agent.hosts_file().as_ref(), Some(&file));
    agent.faults.restore();
    put::<StatefulSet>(&cluster, set("db", "guangzhou"))
        .await
        .unwrap();
    agent.short_names_are("db-svc", &BEIJING).await.unwrap();
    agent.stop().await;
}

// SuperEdge's file is empty for a moment, and any error drops records.
#[tokio::test(start_paused = true)]
async fn who_knows_nothing_yet_leaves_the_hosts_file_alone() {
    let (cluster, folder) = (two_sites().await.unwrap(), tempfile::tempdir().unwrap());
    let agent = Agent::start(&cluster, "bj-1", folder.path()).unwrap();
    agent.short_names_are("db-svc", &BEIJING).await.unwrap();
    let file = agent.hosts_file().unwrap();
    agent.stop().await;
    std::fs::remove_dir_all(folder.path().join("state")).unwrap();
    let down = Agent::start_over(&cluster, "bj-1", folder.path(), |faults| {
        faults.break_off(Fault::LoseRequest);
    });
    let agent = down.unwrap();
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(agent.hosts_file().unwrap(), file);
    agent.faults.restore();
    agent.short_names_are("db-svc", &BEIJING).await.unwrap();
    std::fs::remove_file(folder.path().join("hosts")).unwrap();
    agent.short_names_are("db-svc", &BEIJING).await.unwrap();
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_read_sets_traffic_is_served_and_names_are_left_as_they_are() {
    let (cluster, folder) = (two_sites().await.unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("hosts"), OTHERS).unwrap();
    let refused = Agent::start_over(&cluster, "bj-1", folder.path(), |faults| {
        for _ in 0..40 {
            faults.inject(1, Fault::Conflict, |_, path| path.contains("/statefulsets"));
        }
    });
    let agent = refused.unwrap();
    eventually("the view is served all the same", async || {
        agent.get("/readyz").await
    })
    .await
    .unwrap();
    let view = agent.in_view("db-svc").await.unwrap();
    assert_eq!(view.len(), 2, "{view:?}");
    assert_eq!(agent.hosts_file().as_deref(), Some(OTHERS));
    agent.faults.clear();
    agent.short_names_are("db-svc", &BEIJING).await.unwrap();
    annotate_service(&cluster, "db-svc", &json!({ "topologyKeys": "[]" }))
        .await
        .unwrap();
    agent.short_names_are("db-svc", &[]).await.unwrap();
    agent.stop().await;
}
