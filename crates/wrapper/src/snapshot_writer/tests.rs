use super::*;
use crate::feed::Feed;
use crate::kinds::ServedKind;
use edgegrid_listwatch::Store;
use edgegrid_runtime::credentials::Refusals;
use edgegrid_runtime::shutdown;
use std::path::Path;
use tokio::task::JoinSet;

const FILE: &str = "view.snapshot";

fn listed(publisher: &Publisher) {
    for kind in [ServedKind::Services, ServedKind::Slices, ServedKind::Nodes] {
        let feed = Feed::Kind(kind);
        publisher.replace(&feed, publisher.listing(&feed), "1");
    }
}

fn changed(publisher: &Publisher, name: &str) {
    let service = format!(r#"{{"metadata":{{"name":"{name}","namespace":"default"}}}}"#);
    let feed = Feed::Kind(ServedKind::Services);
    let applied = crate::publish::EventKind::Applied;
    publisher.event(&feed, applied, service.as_bytes()).unwrap();
}

fn started(folder: &Path) -> (Arc<Publisher>, Arc<Metrics>, JoinSet<()>, shutdown::Trigger) {
    let clock = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
    let publisher = Arc::new(Publisher::new("a-0", Store::default(), false, 1, clock));
    let writer = Writer {
        publisher: Arc::clone(&publisher),
        metrics: Arc::new(Metrics::new(&Refusals::default())),
        folder: folder.to_owned(),
        bytes_per_hour: 64 << 20,
    };
    let (metrics, mut tasks) = (Arc::clone(&writer.metrics), JoinSet::new());
    let (trigger, stop) = shutdown::channel();
    tasks.spawn(writer.run(stop));
    (publisher, metrics, tasks, trigger)
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_of_another_cluster_is_removed_at_once() {
    let disk = tempfile::tempdir().unwrap();
    let (publisher, metrics, _tasks, _trigger) = started(disk.path());
    listed(&publisher);
    changed(&publisher, "web");
    sleep(Duration::from_secs(5)).await;
    assert!(disk.path().join(FILE).exists());

    // Nothing of the new cluster is known yet, so nothing takes the place of the file.
    publisher.start_over();
    sleep(Duration::from_millis(100)).await;
    assert!(!disk.path().join(FILE).exists());
    assert!(!publisher.figures().snapshot_outdated);
    sleep(Duration::from_mins(20)).await;
    assert!(!disk.path().join(FILE).exists());

    listed(&publisher);
    sleep(Duration::from_secs(5)).await;
    assert!(disk.path().join(FILE).exists(), "that of the new cluster");
    assert_eq!(metrics.snapshot_failures.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_disk_without_room_for_a_new_snapshot_still_loses_that_of_another_cluster_at_once() {
    let disk = tempfile::tempdir().unwrap();
    let (publisher, metrics, _tasks, _trigger) = started(disk.path());
    listed(&publisher);
    changed(&publisher, "first");
    sleep(Duration::from_secs(5)).await;
    assert!(disk.path().join(FILE).exists());
    // A folder in its place refuses the new file, to root too.
    std::fs::create_dir(disk.path().join("view.snapshot.new")).unwrap();
    changed(&publisher, "web");
    sleep(Duration::from_mins(10)).await;
    assert!(metrics.snapshot_failures.get() > 8, "it waits for a minute");
    assert!(publisher.figures().snapshot_outdated);
    publisher.start_over();
    sleep(Duration::from_millis(100)).await;
    assert!(!disk.path().join(FILE).exists());
}

#[tokio::test(start_paused = true)]
async fn what_clients_do_not_see_is_tried_again_soon_too() {
    let disk = tempfile::tempdir().unwrap();
    let (publisher, metrics, _tasks, _trigger) = started(disk.path());
    listed(&publisher);
    changed(&publisher, "first");
    sleep(Duration::from_secs(5)).await;
    let blocked = disk.path().join("view.snapshot.new");
    std::fs::create_dir(&blocked).unwrap();
    let feed = Feed::Kind(ServedKind::Slices);
    publisher.bookmark(&feed, "2").unwrap();
    sleep(Duration::from_secs(603)).await;
    assert!(metrics.snapshot_failures.get() >= 2);
    assert!(!publisher.figures().snapshot_outdated, "nothing they see");
    std::fs::remove_dir(&blocked).unwrap();
    let before = metrics.snapshot_bytes.get();
    sleep(Duration::from_secs(10)).await;
    assert!(metrics.snapshot_bytes.get() > before);
}
