//! What an election logs when the lease cannot be written: one sentence, once a minute.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io;
use std::sync::Arc;
use std::time::Duration;

use edgegrid_runtime::{Elector, LeaseConfig};
use edgegrid_testkit::Cluster;
use edgegrid_testkit::faults::{Fault, Faults};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::subscriber::DefaultGuard;

const SECOND: Duration = Duration::from_secs(1);
const NAMESPACE: &str = "edgegrid-system";

/// The log lines of a test.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Collects what this thread logs.
    fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt()
            .with_env_filter("edgegrid_runtime=debug")
            .with_ansi(false)
            .with_target(false)
            .without_time()
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(lines))
    }

    /// The messages that were logged at a level.
    fn lines(&self, level: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().clone()).unwrap();
        text.lines()
            .filter_map(|line| line.trim_start().strip_prefix(level))
            .map(|message| message.trim().to_owned())
            .collect()
    }
}

/// A process that stands for election in [`NAMESPACE`]; the value says whether it leads.
struct Candidate {
    is_leading: watch::Receiver<bool>,
    faults: Faults,
    task: JoinHandle<()>,
}

impl Candidate {
    fn start(cluster: &Cluster) -> Self {
        let (client, faults) = cluster.link().unwrap();
        let config = LeaseConfig::new(NAMESPACE, "edgegrid-controller", "a");
        let (elector, _fence) = Elector::new(client, config).unwrap();
        let (leads, is_leading) = watch::channel(false);
        let lead = move || {
            leads.send_replace(true);
            std::future::pending()
        };
        #[expect(clippy::disallowed_methods, reason = "aborted when dropped")]
        let task = tokio::spawn(elector.run(std::future::pending(), lead));
        Self {
            is_leading,
            faults,
            task,
        }
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn create_namespace(cluster: &Cluster) {
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(NAMESPACE.into()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let namespaces = Api::<Namespace>::all(cluster.client());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_missing_namespace_is_named_once_a_minute_with_the_command_that_creates_it() {
    let cluster = Cluster::embedded().await.unwrap();
    let (log, _guard) = Log::start();
    let mut candidate = Candidate::start(&cluster);
    let sentence = "cannot acquire lease edgegrid-system/edgegrid-controller: \
        namespace edgegrid-system does not exist, create it with `kubectl create namespace edgegrid-system`";

    sleep(59 * SECOND).await;
    assert_eq!(log.lines("WARN"), [sentence]);
    let repeated = log.lines("DEBUG");
    assert!(repeated.len() > 20, "it goes on trying: {repeated:?}");
    assert!(repeated.iter().all(|line| line == sentence), "{repeated:?}");
    sleep(60 * SECOND).await;
    assert_eq!(log.lines("WARN"), [sentence; 2], "once a minute");

    create_namespace(&cluster).await;
    let leads = candidate.is_leading.wait_for(|leads| *leads);
    tokio::time::timeout(5 * SECOND, leads)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(log.lines("WARN").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn any_other_refusal_is_logged_as_the_message_of_the_api_server_alone() {
    let cluster = Cluster::embedded().await.unwrap();
    create_namespace(&cluster).await;
    let (log, _guard) = Log::start();
    let candidate = Candidate::start(&cluster);
    candidate.faults.break_off(Fault::Refuse(403));
    sleep(30 * SECOND).await;
    let warnings = log.lines("WARN");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let start = "cannot acquire lease edgegrid-system/edgegrid-controller: ";
    assert!(warnings[0].starts_with(start), "{warnings:?}");
    assert!(!warnings[0].contains("Status {"), "{warnings:?}");
}
