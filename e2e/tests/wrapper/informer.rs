//! client-go's own informer through the wrapper, under churn and forced reconnects: it misses
//! nothing. Needs Go, which builds it against the pins in `upstream/`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_testkit::edgegrid::{Settings, Wrapper};
use edgegrid_testkit::{Cluster, Patience, eventually_within};
use edgegrid_upstream::{BUILD_FLAGS, ENVIRONMENT};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::DeleteParams;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::Mutex;

/// A ready-made informer, instead of building one.
const VARIABLE: &str = "EDGEGRID_INFORMER";
const SLICES: usize = 7;

/// The program, of one Kubernetes version.
struct Informer {
    _process: Child,
    talk: Mutex<(ChildStdin, Lines<BufReader<ChildStdout>>)>,
}

impl Informer {
    fn start(program: &Path, address: &str) -> Result<Self> {
        let mut command = tokio::process::Command::new(program);
        command.arg(format!("http://{address}")).kill_on_drop(true);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = piped.spawn().context("start the informer")?;
        let ask = process.stdin.take().context("its input")?;
        let answers = process.stdout.take().context("its output")?;
        Ok(Self {
            talk: Mutex::new((ask, BufReader::new(answers).lines())),
            _process: process,
        })
    }

    async fn objects(&self) -> Result<BTreeMap<String, Vec<String>>> {
        let (ask, answers) = &mut *self.talk.lock().await;
        ask.write_all(b"\n").await?;
        let line = answers.next_line().await?.context("it has ended")?;
        Ok(serde_json::from_str(&line)?)
    }
}

/// Builds the informer against a Kubernetes version's client-go.
fn built(version: &str, folder: &Path) -> PathBuf {
    if let Some(given) = std::env::var_os(VARIABLE) {
        return Path::new(&given).join(format!("informer-{version}"));
    }
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("informer");
    let built = Command::new("go")
        .args(["build", "-C"])
        .arg(project.join(format!("../upstream/kubernetes-{version}")))
        .args(BUILD_FLAGS)
        .arg("-o")
        .arg(&program)
        .arg(project.join("informer/main.go"))
        .envs(ENVIRONMENT.iter().copied())
        .status();
    assert!(built.expect("Go is installed").success());
    program
}

/// A slice with endpoints in both units, in the other one, or nowhere.
async fn put(cluster: &Cluster, name: &str, number: usize) {
    let mut slice = crate::slice(name, number);
    let endpoints = slice.endpoints.get_or_insert_default();
    endpoints.drain(..number % 3);
    cluster.apply::<EndpointSlice>(slice).await.unwrap();
}

/// What unit a is to see of the cluster.
async fn expected(cluster: &Cluster) -> Result<BTreeMap<String, Vec<String>>> {
    let slices: Api<EndpointSlice> = Api::namespaced(cluster.client(), "default");
    let mut wanted = BTreeMap::new();
    for slice in slices.list(&kube::api::ListParams::default()).await? {
        let labels = slice.metadata.labels.unwrap_or_default();
        let is_closed = labels
            .get("kubernetes.io/service-name")
            .is_some_and(|of| of == "web");
        let endpoints = slice.endpoints.unwrap_or_default().into_iter();
        let at_home = |node: Option<String>| node.is_some_and(|node| node == "a-0");
        let seen = endpoints.filter(|one| !is_closed || at_home(one.node_name.clone()));
        let addresses = seen.flat_map(|one| one.addresses).collect();
        let name = slice.metadata.name.context("a name")?;
        wanted.insert(format!("default/{name}"), addresses);
    }
    Ok(wanted)
}

async fn misses_nothing(version: &str) {
    let cluster = Cluster::upstream().await.unwrap();
    crate::two_units(&cluster).await;
    let settings = Settings::for_node(&cluster, "a-0").await.unwrap();
    let mut wrapper = Wrapper::start(settings.clone()).await.unwrap();
    let program = built(version, cluster.folder().unwrap());
    let informer = Informer::start(&program, wrapper.address()).unwrap();
    let slices: Api<EndpointSlice> = Api::namespaced(cluster.client(), "default");
    // After a few reconnects client-go waits up to a minute before the next.
    let patience = Patience {
        limit: Duration::from_secs(150),
        ..Patience::default()
    };
    for round in 0..5 {
        for n in 0..60 {
            put(&cluster, &format!("web-{}", n % SLICES), round * 60 + n).await;
            if n % 20 == 7 {
                let name = format!("web-{}", (n + 3) % SLICES);
                let _ = slices.delete(&name, &DeleteParams::default()).await;
            }
            if n == 30 && round % 2 == 1 {
                // Its clients lose their connections, the second time all that was on disk too.
                if round == 3 {
                    let _ = std::fs::remove_dir_all(settings.state_folder());
                }
                wrapper = wrapper.restart().await.unwrap();
            }
        }
        let wanted = expected(&cluster).await.unwrap();
        let what = "the informer holds what the rule says";
        eventually_within(patience, what, async || {
            let found = informer.objects().await?;
            ensure!(found == wanted, "round {round}: {found:?}, not {wanted:?}");
            Ok(())
        })
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn the_informer_of_1_37_misses_nothing() {
    misses_nothing("1.37").await;
}

#[tokio::test]
async fn the_informer_of_1_33_misses_nothing() {
    misses_nothing("1.33").await;
}
