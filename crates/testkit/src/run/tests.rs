//! Several runs in one process: dropping a `Run` gives its lock back, which is all that death does.

use std::process::Command;
use std::time::SystemTime;

use super::sweep::{KEPT, LARGE};
use super::*;

// No real process has these pids: Linux ends at 4194304.
const FIRST: u32 = 0x0fff_fff0;
const SECOND: u32 = 0x0fff_fff1;

#[test]
fn a_dead_run_loses_its_children_and_its_folder() {
    let temp = tempfile::tempdir().unwrap();
    let run = Run::start(temp.path(), FIRST).unwrap();
    let folder = run.folder.clone();
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    run.record_child(child.id()).unwrap();
    drop(run);

    Run::start(temp.path(), SECOND).unwrap();

    assert!(!child.wait().unwrap().success());
    assert!(!folder.exists());
}

#[test]
fn a_reused_pid_is_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    let run = Run::start(temp.path(), FIRST).unwrap();
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    fs::write(run.child(child.id()), "1").unwrap();
    drop(run);

    Run::start(temp.path(), SECOND).unwrap();

    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_living_run_is_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    let run = Run::start(temp.path(), FIRST).unwrap();
    let folder = run.folder("data").unwrap();

    Run::start(temp.path(), SECOND).unwrap();

    assert!(folder.exists());
}

#[test]
fn logs_of_a_dead_run_stay_and_large_data_goes() {
    let temp = tempfile::tempdir().unwrap();
    let run = Run::start(temp.path(), FIRST).unwrap();
    let folder = run.folder("etcd").unwrap().keep();
    fs::write(folder.join("etcd.log"), "panic").unwrap();
    File::create(folder.join("wal"))
        .unwrap()
        .set_len(LARGE)
        .unwrap();
    drop(run);

    Run::start(temp.path(), SECOND).unwrap();

    assert!(folder.join("etcd.log").exists());
    assert!(!folder.join("wal").exists());
}

#[test]
fn a_pid_used_again_finds_an_empty_folder_and_old_logs_aside() {
    let temp = tempfile::tempdir().unwrap();
    let run = Run::start(temp.path(), FIRST).unwrap();
    let folder = run.folder("etcd").unwrap().keep();
    fs::write(folder.join("etcd.log"), "panic").unwrap();
    drop(run);

    let run = Run::start(temp.path(), FIRST).unwrap();

    assert!(!folder.exists());
    let kept = fs::read_dir(&run.base).unwrap().flatten().find(|entry| {
        entry
            .file_name()
            .to_string_lossy()
            .starts_with(&format!("{}-", run.id()))
    });
    assert!(kept.unwrap().path().join("etcd-0/etcd.log").exists());
}

#[test]
fn old_logs_go() {
    let temp = tempfile::tempdir().unwrap();
    let run = Run::start(temp.path(), FIRST).unwrap();
    let folder = run.folder("etcd").unwrap().keep();
    fs::write(folder.join("etcd.log"), "panic").unwrap();
    let lock = File::options()
        .write(true)
        .open(run.folder.join("lock"))
        .unwrap();
    lock.set_modified(SystemTime::now() - 2 * KEPT).unwrap();
    drop(run);

    Run::start(temp.path(), SECOND).unwrap();

    assert!(!folder.exists());
}

#[test]
fn many_runs_starting_at_once_all_start() {
    let temp = tempfile::tempdir().unwrap();
    thread::scope(|scope| {
        for pid in 0..16 {
            let temp = temp.path();
            scope.spawn(move || {
                for _ in 0..10 {
                    Run::start(temp, FIRST + pid).unwrap();
                }
            });
        }
    });
}

#[test]
fn a_leased_port_is_given_once() {
    let temp = tempfile::tempdir().unwrap();
    let first = Run::start(temp.path(), FIRST).unwrap();
    let second = Run::start(temp.path(), SECOND).unwrap();
    let leases: Vec<_> = (0..50)
        .flat_map(|_| [first.lease_port().unwrap(), second.lease_port().unwrap()])
        .collect();
    let ports: std::collections::BTreeSet<_> = leases.iter().map(PortLease::port).collect();
    assert_eq!(ports.len(), 100);
}
