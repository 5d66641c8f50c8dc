//! The same generated requests to kube-apiserver and to the embedded API server, answers compared.
//! `cargo xtask diff-api` runs it.
//!
//! ```text
//! seed ─► requests ─┬─► kube-apiserver + etcd ─► normal ─┬─► compare ─► figures, differences
//!                   └─► edgegrid-apiserver    ─► normal ─┘
//! ```
//!
//! Requests aim at every field the type table lists for a kind; figures say how many were reached
//! by accepted requests, so that an easy generator shows.

#![expect(clippy::print_stdout, reason = "the report is the purpose")]

mod compare;
mod fields;
mod generate;
mod kinds;
mod known;
mod normal;
mod patches;
mod report;
mod requests;
mod rng;
mod run;
mod sides;
mod targets;
mod values;
mod watches;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use edgegrid_apiserver::ApiServer;
use edgegrid_testkit::Cluster;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::compare::Comparison;
use crate::kinds::{KINDS, NAMESPACE, Subject, TestedKind};
use crate::run::{Found, Run};
use crate::sides::{Request, Side};

/// Compares the embedded API server with kube-apiserver.
#[derive(Parser)]
struct Args {
    /// Requests in all, over all kinds.
    #[arg(long, default_value_t = 20_000)]
    operations: usize,
    /// The same seed gives the same requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop drawing requests after this time.
    #[arg(long)]
    seconds: Option<u64>,
    /// Only these kinds, by the plural in their path.
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<String>,
    /// Compare the messages of errors as well.
    #[arg(long)]
    messages: bool,
    /// Print explained differences too.
    #[arg(long)]
    all: bool,
}

/// Admission that changes or refuses pods, nodes and claims for reasons of a whole cluster, which
/// the embedded server leaves to whoever wants it.
const NOT_COMPARED: [&str; 8] = [
    "ServiceAccount",
    "DefaultTolerationSeconds",
    "Priority",
    "LimitRanger",
    "TaintNodesByCondition",
    "StorageObjectInUseProtection",
    "DefaultStorageClass",
    "RuntimeClass",
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    let kinds = chosen(&args.kinds)?;
    println!(
        "seed {}, {} operations over {} kinds",
        args.seed,
        args.operations,
        kinds.len()
    );
    let cluster = Cluster::upstream()
        .version("1.37")
        .without_admission(NOT_COMPARED)
        .await?;
    let server = ApiServer::builder().seed(args.seed).build();
    let clients = [cluster.client(), Client::new(server.router(), "default")];
    for client in &clients {
        prepare(client).await?;
    }
    let found = compare_all(&args, &kinds, &clients).await;
    server.stop();
    summarise(&args, &found?)
}

fn chosen(names: &[String]) -> Result<Vec<&'static TestedKind>> {
    if let Some(unknown) = names
        .iter()
        .find(|name| !KINDS.iter().any(|kind| kind.plural == **name))
    {
        bail!(
            "no kind {unknown} to compare; there are {}",
            KINDS
                .iter()
                .map(|k| k.plural)
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    Ok(KINDS
        .iter()
        .filter(|kind| names.is_empty() || names.iter().any(|name| name == kind.plural))
        .collect())
}

/// What both servers need before the first request.
async fn prepare(client: &Client) -> Result<()> {
    let side = Side::new(client.clone());
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    let mut requests = vec![post("/api/v1/namespaces", namespace)];
    for crd in edgegrid_api::crds() {
        requests.push(post(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            serde_json::to_value(crd)?,
        ));
    }
    for request in requests {
        let answer = side.send(&request, &Value::Null).await?;
        ensure!(
            answer.is_success(),
            "{} refused: {}",
            request.path,
            answer.body
        );
    }
    for kind in KINDS {
        let served = async {
            let list = Request {
                verb: "list",
                method: "GET",
                path: kind.path(),
                media_type: "application/json",
                body: None,
            };
            while !side.send(&list, &Value::Null).await?.is_success() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            anyhow::Ok(())
        };
        let patience = Duration::from_secs(30);
        tokio::time::timeout(patience, served)
            .await
            .with_context(|| format!("{} is not served", kind.plural))??;
    }
    Ok(())
}

fn post(path: &str, mut body: Value) -> Request {
    if body["apiVersion"].is_null() {
        body["apiVersion"] = "apiextensions.k8s.io/v1".into();
        body["kind"] = "CustomResourceDefinition".into();
    }
    Request {
        verb: "create",
        method: "POST",
        path: path.into(),
        media_type: "application/json",
        body: Some(body),
    }
}

async fn compare_all(
    args: &Args,
    kinds: &[&'static TestedKind],
    clients: &[Client; 2],
) -> Result<BTreeMap<&'static str, Found>> {
    let end = args
        .seconds
        .map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let subjects = kinds
        .iter()
        .map(|kind| Subject::new(kind))
        .collect::<Result<Vec<_>>>()?;
    let weights: Vec<usize> = subjects.iter().map(weight).collect();
    let mut all = BTreeMap::new();
    for (index, subject) in subjects.iter().enumerate() {
        let kind = subject.kind;
        let share = (args.operations * weights[index]).div_ceil(weights.iter().sum());
        let sides = clients.clone().map(Side::new);
        let seed = args
            .seed
            .wrapping_mul(1_000)
            .wrapping_add(u64::try_from(index)?);
        let mut run = Run::start(
            sides,
            subject,
            seed,
            Comparison {
                messages: args.messages,
            },
        )
        .await?;
        // Whatever time is left is shared by the kinds that are left.
        let until = end.map(|end| {
            let left = end.saturating_duration_since(Instant::now());
            let (own, rest) = (weights[index], weights[index..].iter().sum::<usize>());
            Instant::now()
                + left * u32::try_from(own).unwrap_or(1) / u32::try_from(rest).unwrap_or(1)
        });
        while run.found.operations < share && until.is_none_or(|until| Instant::now() < until) {
            run.step()
                .await
                .with_context(|| format!("{} operation {}", kind.plural, run.found.operations))?;
        }
        let found = run.finish().await?;
        report::figures(kind.plural, &found);
        all.insert(kind.plural, found);
    }
    Ok(all)
}

/// Kinds with many fields need more requests to reach them.
fn weight(subject: &Subject) -> usize {
    (fields::all(subject.shape()).len() / 15).max(15)
}

fn summarise(args: &Args, all: &BTreeMap<&'static str, Found>) -> Result<()> {
    let unexplained: usize = all
        .values()
        .map(|found| report::differences(found, args.all))
        .sum();
    let operations: usize = all.values().map(|found| found.operations).sum();
    let mut verbs: BTreeMap<&str, usize> = BTreeMap::new();
    for (verb, count) in all.values().flat_map(|found| &found.verbs) {
        *verbs.entry(verb).or_default() += count;
    }
    println!(
        "{operations} operations: {}",
        verbs
            .iter()
            .map(|(verb, count)| format!("{verb} {count}"))
            .collect::<Vec<_>>()
            .join(", ")
    );
    ensure!(
        unexplained == 0,
        "{unexplained} kinds of differences are not explained"
    );
    println!("no unexplained difference");
    Ok(())
}
