//! A disk that refuses: what is not written is tried again, told, and readable to nobody else.
//!
//! A file in the place of the state folder's parent refuses everybody, root too.

use crate::asking::{get, ready, sees, two_units};
use crate::cloud::{Cloud, slice};
use crate::{Running, eventually};
use edgegrid_wrapper::ServedKind;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";

/// A state folder that can be taken away and given back.
struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    fn broken() -> Self {
        let disk = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        disk.break_down();
        disk
    }

    fn parent(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    fn state(&self) -> PathBuf {
        self.parent().join("state")
    }

    fn break_down(&self) {
        let _ = fs::rename(self.parent(), self.folder.path().join("aside"));
        fs::write(self.parent(), "").unwrap();
    }

    fn repair(&self) {
        fs::remove_file(self.parent()).unwrap();
        let aside = self.folder.path().join("aside");
        if aside.exists() {
            fs::rename(aside, self.parent()).unwrap();
        } else {
            fs::create_dir(self.parent()).unwrap();
        }
    }
}

async fn metric(client: &kube::Client, name: &str) -> u64 {
    let (_, text) = get(client, "/metrics").await;
    let text = text.as_str().unwrap();
    let prefix = format!("edgegrid_wrapper_{name} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
    value
        .unwrap_or_else(|| panic!("no {name}"))
        .parse()
        .unwrap()
}

async fn is_outdated(client: &kube::Client, wanted: u64) {
    eventually(
        "the metric says whether the disk is behind",
        async || match metric(client, "snapshot_outdated").await {
            found if found == wanted => Ok(()),
            found => Err(format!("{found}")),
        },
    )
    .await;
}

/// What is served from a folder with nobody to ask.
async fn serves_from(folder: &Path, wanted: &[&str]) {
    let cloud = Cloud::default();
    cloud.cut(true);
    let running = Running::start("a-0", cloud.client(), Some(folder));
    let client = ready(&running).await;
    sees(&client, SLICES, wanted).await;
    running.crash().await;
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_was_not_written_is_tried_again_while_cut_off() {
    let (cloud, disk) = (two_units(), Disk::broken());
    let running = Running::start("a-0", cloud.client(), Some(&disk.state()));
    let client = ready(&running).await;
    cloud.cut(true);
    is_outdated(&client, 1).await;
    sleep(Duration::from_mins(30)).await;
    let failures = metric(&client, "snapshot_failures_total").await;
    assert!(
        (25..60).contains(&failures),
        "{failures} tries in half an hour"
    );
    assert_eq!(metric(&client, "snapshot_outdated").await, 1);

    disk.repair();
    let repaired = Instant::now();
    is_outdated(&client, 0).await;
    let waited = repaired.elapsed();
    assert!(waited < Duration::from_secs(90), "written after {waited:?}");
    running.crash().await;
    serves_from(&disk.state(), &["a-0", "a-1"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_refuses_for_a_moment_costs_a_second_or_two() {
    let (cloud, disk) = (two_units(), Disk::broken());
    disk.repair();
    let running = Running::start("a-0", cloud.client(), Some(&disk.state()));
    let client = ready(&running).await;
    is_outdated(&client, 0).await;
    disk.break_down();
    cloud.put(ServedKind::Slices, &slice("web-x", "web", &["a-1"]));
    sees(&client, SLICES, &["a-1"]).await;
    is_outdated(&client, 1).await;
    eventually("a snapshot was not written", async || {
        match metric(&client, "snapshot_failures_total").await {
            0 => Err("all were".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    cloud.cut(true);
    disk.repair();
    let repaired = Instant::now();
    is_outdated(&client, 0).await;
    let waited = repaired.elapsed();
    assert!(waited < Duration::from_secs(3), "written after {waited:?}");
    running.crash().await;
    serves_from(&disk.state(), &["a-1"]).await;
}

#[tokio::test(start_paused = true)]
async fn at_the_end_it_is_tried_a_few_times_and_then_no_more() {
    for comes_back in [true, false] {
        let (cloud, disk) = (two_units(), Disk::broken());
        let running = Running::start("a-0", cloud.client(), Some(&disk.state()));
        let client = ready(&running).await;
        is_outdated(&client, 1).await;
        sleep(Duration::from_mins(5)).await;
        let start = Instant::now();
        let repair = async {
            sleep(Duration::from_secs(1)).await;
            if comes_back {
                disk.repair();
            }
        };
        tokio::join!(running.stop(), repair);
        let waited = start.elapsed();
        assert!(waited < Duration::from_secs(4), "ended after {waited:?}");
        if comes_back {
            serves_from(&disk.state(), &["a-0", "a-1"]).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_on_disk_after_a_restart_is_not_called_outdated() {
    let (cloud, disk) = (two_units(), tempfile::tempdir().unwrap());
    let running = Running::start("a-0", cloud.client(), Some(disk.path()));
    ready(&running).await;
    running.stop().await;
    cloud.cut(true);
    let running = Running::start("a-0", cloud.client(), Some(disk.path()));
    let client = ready(&running).await;
    assert_eq!(metric(&client, "snapshot_outdated").await, 0);

    let running = Running::start("a-0", two_units().client(), None);
    let client = ready(&running).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(metric(&client, "snapshot_outdated").await, 0, "no folder");
}

#[tokio::test(start_paused = true)]
async fn nobody_else_may_read_what_is_on_disk() {
    let cloud = two_units();
    let (disk, mode) = (tempfile::tempdir().unwrap(), |path: &Path| {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    });
    let open = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let files = |folder: &Path| ["view.snapshot", "revisions"].map(|name| folder.join(name));
    let state = disk.path().join("made");
    let running = Running::start("a-0", cloud.client(), Some(&state));
    ready(&running).await;
    running.stop().await;
    assert_eq!(mode(&state), 0o700);
    assert_eq!(files(&state).map(|file| mode(&file)), [0o600; 2]);

    // As an earlier version left it.
    fs::write(state.join("view.snapshot.damaged"), "x").unwrap();
    let found = [&files(&state)[..], &[state.join("view.snapshot.damaged")]].concat();
    open(&state, 0o755);
    for file in &found {
        open(file, 0o644);
    }
    cloud.cut(true);
    let running = Running::start("a-0", cloud.client(), Some(&state));
    ready(&running).await;
    assert_eq!(mode(&state), 0o700);
    for file in found {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    running.crash().await;
}
