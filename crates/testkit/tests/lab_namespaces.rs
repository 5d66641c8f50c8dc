//! The network lab itself, with real packets. Needs root.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use edgegrid_testkit::lab::{Lab, LabPod};
use edgegrid_testkit::process::Process;
use edgegrid_testkit::run::Run;

/// When set, this process was started by a test of this file to play a part: see [`part_for_another_test`].
const PART: &str = "EDGEGRID_TEST_PART";
/// Where that process writes the pids of its children once they run.
const REPORT: &str = "EDGEGRID_TEST_REPORT";

fn seen_by(pod: &LabPod, client: Ipv4Addr) -> String {
    format!(
        "pod name:\t{}\nnode name:\t{}\nclient:\t{client}\n",
        pod.name, pod.node
    )
}

fn url(pod: &LabPod) -> String {
    format!("http://{}:8080/", pod.address)
}

/// Names of namespaces, devices and overlays that start with `prefix`.
fn leftovers(prefix: &str) -> Vec<String> {
    let folders = ["/run/netns", "/sys/class/net", "/etc/netns"];
    let entries = folders.iter().flat_map(fs::read_dir).flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(prefix)).collect()
}

/// Whether the process runs; one that has ended may stay listed until somebody asks for its exit status.
fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..1000 {
        if done() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("gave up waiting: {what}");
}

#[tokio::test]
async fn pods_and_nodes_reach_each_other_with_their_own_addresses() {
    let lab = Lab::start().await.unwrap();
    let (first, second) = (
        lab.add_node("bj-1").await.unwrap(),
        lab.add_node("sh-1").await.unwrap(),
    );
    let near = lab.add_pod("bj-1", "default/web-0", None).await.unwrap();
    let beside = lab.add_pod("bj-1", "default/web-1", None).await.unwrap();
    let far = lab.add_pod("sh-1", "default/web-2", None).await.unwrap();

    for other in [&near, &beside, &far] {
        assert_eq!(
            lab.curl(&near.name, &url(other)).await.unwrap(),
            seen_by(other, near.address)
        );
    }
    assert_eq!(
        lab.curl("bj-1", &url(&far)).await.unwrap(),
        seen_by(&far, first.address)
    );
    assert_eq!(
        lab.curl("sh-1", &url(&near)).await.unwrap(),
        seen_by(&near, second.address)
    );

    // The gateway is this process' own namespace: an API server there sees pods and is reached by them.
    let server = std::net::TcpListener::bind((lab.gateway(), 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    let accepted = thread::spawn(move || server.accept().unwrap().1.ip());
    let _ = lab
        .curl(&far.name, &format!("http://{}:{port}/", lab.gateway()))
        .await;
    assert_eq!(accepted.join().unwrap(), far.address);
}

#[tokio::test]
async fn two_labs_live_side_by_side() {
    let (one, two) = tokio::try_join!(Lab::start(), Lab::start()).unwrap();
    assert_ne!(one.gateway(), two.gateway());
    for lab in [&one, &two] {
        lab.add_node("bj-1").await.unwrap();
        let pod = lab.add_pod("bj-1", "default/web-0", None).await.unwrap();
        assert!(lab.curl("bj-1", &url(&pod)).await.is_ok());
    }
    drop(one);
    let pod = two.pods().remove(0);
    assert!(two.curl("bj-1", &url(&pod)).await.is_ok());
}

#[tokio::test]
async fn a_removed_pod_is_gone_and_its_name_and_address_are_free() {
    let lab = Lab::start().await.unwrap();
    lab.add_node("bj-1").await.unwrap();
    lab.add_node("sh-1").await.unwrap();
    let pod = lab
        .add_pod_with_ports("bj-1", "default/web-0", None, &[8080, 9090])
        .await
        .unwrap();
    assert!(
        lab.curl("sh-1", &format!("http://{}:9090/", pod.address))
            .await
            .is_ok()
    );

    lab.remove_pod(&pod.name).await.unwrap();
    lab.remove_pod(&pod.name).await.unwrap();
    assert!(lab.curl("sh-1", &url(&pod)).await.is_err());
    assert!(leftovers(&pod.namespace).is_empty());

    let taken = lab
        .add_pod("sh-1", "default/web-1", Some(pod.address))
        .await
        .unwrap_err();
    assert!(
        format!("{taken:#}").contains("not among the addresses of node sh-1"),
        "{taken:#}"
    );
    let again = lab
        .add_pod("bj-1", &pod.name, Some(pod.address))
        .await
        .unwrap();
    assert_eq!(
        lab.curl(&again.name, &url(&again)).await.unwrap(),
        seen_by(&again, again.address)
    );
}

#[tokio::test]
async fn many_pods_come_and_go_at_once() {
    let lab = Arc::new(Lab::start().await.unwrap());
    for node in ["bj-1", "sh-1"] {
        lab.add_node(node).await.unwrap();
    }
    for _ in 0..2 {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..20 {
            let lab = Arc::clone(&lab);
            tasks.spawn(async move {
                let node = ["bj-1", "sh-1"][number % 2];
                let pod = lab
                    .add_pod(node, &format!("default/web-{number}"), None)
                    .await?;
                lab.curl("sh-1", &url(&pod)).await?;
                lab.remove_pod(&pod.name).await
            });
        }
        for result in tasks.join_all().await {
            result.unwrap();
        }
    }
    assert!(lab.pods().is_empty());
}

#[tokio::test]
async fn a_program_inside_has_the_namespace_its_dns_and_its_own_pid() {
    let lab = Lab::start().await.unwrap();
    let node = lab.add_node("bj-1").await.unwrap();
    lab.set_dns(
        "bj-1",
        Ipv4Addr::new(198, 18, 0, 53),
        &["svc.cluster.local"],
    )
    .unwrap();
    let resolv = lab.exec("bj-1", ["cat", "/etc/resolv.conf"]).await.unwrap();
    assert!(
        resolv.contains("nameserver 198.18.0.53") && resolv.contains("search svc.cluster.local"),
        "{resolv}"
    );

    let process = lab
        .run("bj-1", "sleeper", Command::new("sleep").arg("600"))
        .unwrap();
    let namespace = |path: &str| {
        fs::metadata(path)
            .map(|meta| std::os::unix::fs::MetadataExt::ino(&meta))
            .unwrap()
    };
    wait_until("the program is inside", || {
        namespace(&format!("/proc/{}/ns/net", process.pid()))
            == namespace(&format!("/run/netns/{}", node.namespace))
    });
    assert!(
        fs::read_to_string(format!("/proc/{}/cmdline", process.pid()))
            .unwrap()
            .contains("600")
    );

    let missing = lab
        .run("bj-1", "x", &Command::new("no-such-program"))
        .unwrap_err();
    assert!(missing.to_string().contains("no-such-program"), "{missing}");
}

#[tokio::test]
async fn a_lab_that_ends_by_panic_leaves_nothing_but_logs() {
    let mut task = tokio::task::JoinSet::new();
    task.spawn(async {
        let lab = Lab::start().await.unwrap();
        lab.add_node("bj-1").await.unwrap();
        lab.add_pod("bj-1", "default/web-0", None).await.unwrap();
        lab.set_dns("bj-1", lab.gateway(), &[]).unwrap();
        let process = lab
            .run("bj-1", "sleeper", Command::new("sleep").arg("600"))
            .unwrap();
        let namespace = lab.node("bj-1").unwrap().namespace;
        std::panic::panic_any((namespace, process.pid(), lab.folder().to_owned()));
    });
    let panic = task.join_next().await.unwrap().unwrap_err().into_panic();
    let payload = panic.downcast::<(String, u32, PathBuf)>().unwrap();
    let (namespace, pid, folder) = *payload;
    let prefix = namespace.strip_suffix("bj-1").unwrap();
    assert_eq!(leftovers(prefix), Vec::<String>::new());
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(folder.join("sleeper.log").exists());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_killed_run_is_swept_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let victim = play("victim", &report);
    wait_until("the victim has a lab", || report.exists());
    let prefix = format!("eg{:x}-", victim.pid());
    assert!(leftovers(&prefix).len() >= 4, "{:?}", leftovers(&prefix));
    let children = fs::read_to_string(&report).unwrap();
    assert!(children.lines().all(is_running));

    victim.kill();
    // Another run that starts in this moment may be the one that sweeps; then ours finds nothing to do.
    let next = play("next", &report);
    wait_until("the next run has started", || next.exited().is_some());
    assert!(next.exited().unwrap().success(), "{}", next.tail(20));

    assert_eq!(leftovers(&prefix), Vec::<String>::new());
    wait_until("the children are gone", || {
        !children.lines().any(is_running)
    });
}

/// Starts this test program once more to play `part`.
fn play(part: &str, report: &Path) -> Process {
    let mut command = Command::new(std::env::current_exe().expect("path of this program"));
    command
        .args(["--exact", "part_for_another_test"])
        .env(PART, part)
        .env(REPORT, report);
    let folder = report.parent().expect("a file in a folder");
    Process::start(part, &mut command, folder).expect("this program starts")
}

/// Not a rule of its own: what the processes started by [`play`] do. Nothing when run as a test.
#[tokio::test]
async fn part_for_another_test() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    if part == "next" {
        Run::current().unwrap();
        return;
    }
    let lab = Lab::start().await.unwrap();
    lab.add_node("bj-1").await.unwrap();
    lab.add_pod("bj-1", "default/web-0", None).await.unwrap();
    lab.set_dns("bj-1", lab.gateway(), &[]).unwrap();
    let inside = lab
        .run("bj-1", "inside", Command::new("sleep").arg("600"))
        .unwrap();
    let outside =
        Process::start("outside", Command::new("sleep").arg("600"), lab.folder()).unwrap();
    let report = PathBuf::from(std::env::var_os(REPORT).unwrap());
    fs::write(
        report.with_extension("new"),
        format!("{}\n{}\n", inside.pid(), outside.pid()),
    )
    .unwrap();
    fs::rename(report.with_extension("new"), report).unwrap();
    std::future::pending::<()>().await;
}
