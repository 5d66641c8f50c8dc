//! Random lives of a set: users, nodes, the network and the controller itself misbehave, and the
//! promises hold on every event; when all is well again the set becomes what it should be.
//!
//! `EDGEGRID_STEPS=100000` runs so many steps instead of half a minute of them, and
//! `EDGEGRID_SEED=…` repeats a run.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use edgegrid_testkit::faults::{Fault, Faults};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bench::{Bench, NS, SET, running, web, web_with_claims};

/// How long the normal run takes.
const NORMAL_RUN: Duration = Duration::from_secs(30);

/// The life of one set.
#[derive(Debug, Clone)]
struct Life {
    is_parallel: bool,
    has_claims: bool,
    history_limit: i64,
    steps: Vec<(Step, u64)>,
}

/// Something that happens, after so many milliseconds.
#[derive(Debug, Clone)]
enum Step {
    Scale(i64),
    Image(u8),
    Partition(i64),
    MaxUnavailable(i64),
    MinReady(i64),
    Start(i64),
    OnDelete(bool),
    Retention(bool, bool),
    Hold(i64),
    Stall(i64),
    Free,
    Unready(i64),
    Ready(i64),
    Fail(i64, bool),
    Delete(i64),
    Stray(i64),
    Return,
    Write(Trouble, usize),
    Watch(u8),
    Crash {
        nth: usize,
        is_after: bool,
        down: u64,
    },
}

#[derive(Debug, Clone, Copy)]
enum Trouble {
    LoseRequest,
    LoseAnswer,
    Conflict,
    Hang,
}

fn life() -> impl Strategy<Value = Life> {
    let step = (
        step(),
        prop_oneof![3 => 1_u64..50, 3 => 50_u64..3000, 1 => 3000_u64..60_000],
    );
    let steps = prop::collection::vec(step, 1..40);
    (any::<bool>(), any::<bool>(), 0_i64..4, steps).prop_map(
        |(is_parallel, has_claims, history_limit, steps)| Life {
            is_parallel,
            has_claims,
            history_limit,
            steps,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let user = prop_oneof![
        4 => (0_i64..6).prop_map(Step::Scale),
        4 => (0_u8..4).prop_map(Step::Image),
        1 => (0_i64..5).prop_map(Step::Partition),
        1 => (1_i64..4).prop_map(Step::MaxUnavailable),
        1 => prop_oneof![Just(0_i64), Just(7)].prop_map(Step::MinReady),
        1 => (0_i64..3).prop_map(Step::Start),
        1 => any::<bool>().prop_map(Step::OnDelete),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(a, b)| Step::Retention(a, b)),
    ];
    let ordinal = 0_i64..7;
    let pods = prop_oneof![
        1 => ordinal.clone().prop_map(Step::Hold),
        1 => ordinal.clone().prop_map(Step::Stall),
        1 => Just(Step::Free),
        2 => ordinal.clone().prop_map(Step::Unready),
        1 => ordinal.clone().prop_map(Step::Ready),
        2 => (ordinal.clone(), any::<bool>()).prop_map(|(n, is_failed)| Step::Fail(n, is_failed)),
        2 => ordinal.clone().prop_map(Step::Delete),
        1 => ordinal.prop_map(Step::Stray),
        1 => Just(Step::Return),
    ];
    let trouble = prop_oneof![
        Just(Trouble::LoseRequest),
        Just(Trouble::LoseAnswer),
        Just(Trouble::Conflict),
        Just(Trouble::Hang),
    ];
    let crash = (1_usize..6, any::<bool>(), 1_u64..5000);
    let faults = prop_oneof![
        4 => (trouble, 1_usize..4).prop_map(|(trouble, nth)| Step::Write(trouble, nth)),
        1 => (0_u8..3).prop_map(Step::Watch),
        3 => crash.prop_map(|(nth, is_after, down)| Step::Crash { nth, is_after, down }),
    ];
    prop_oneof![4 => user, 4 => pods, 3 => faults]
}

#[test]
fn promises_hold_through_random_lives_and_every_set_becomes_what_it_should_be() {
    let wanted: Option<usize> = variable("EDGEGRID_STEPS");
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed: u64 = variable("EDGEGRID_SEED").unwrap_or(since_epoch.as_secs());
    println!("EDGEGRID_SEED={seed}");
    let began = tokio::time::Instant::now().into_std();
    let (mut steps, mut events, mut lives) = (0, 0, 0);
    while wanted.map_or(began.elapsed() < NORMAL_RUN, |wanted| steps < wanted) {
        let (taken, seen) = one_life(seed + lives);
        steps += taken;
        events += seen;
        lives += 1;
    }
    println!(
        "{steps} steps in {lives} lives, {events} events checked, {:?}",
        began.elapsed()
    );
}

/// Lives the life of a seed, and if it fails a shorter one that fails too; says its steps and events.
fn one_life(seed: u64) -> (usize, usize) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: 1,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let counted = std::cell::Cell::new((0, 0));
    let outcome = TestRunner::new_with_rng(config, rng).run(&life(), |life| {
        let seen = live(&life).map_err(|error| TestCaseError::fail(format!("{error:#}")))?;
        counted.set((life.steps.len(), seen));
        Ok(())
    });
    if let Err(TestError::Fail(reason, life)) = outcome {
        panic!("EDGEGRID_SEED={seed}: {reason}\n{life:?}");
    }
    counted.get()
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// Lives it in virtual time and says how many events were checked.
fn live(life: &Life) -> Result<usize> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()?;
    runtime.block_on(async {
        let mut bench = Bench::start().await?;
        let mut faults = bench.start_controller()?;
        bench.create(&set_of(life)).await?;
        for (step, pause) in &life.steps {
            sleep(Duration::from_millis(*pause)).await;
            if let Some(fresh) = take(&mut bench, &faults, step).await? {
                faults = fresh;
            }
            bench.verdict().with_context(|| format!("after {step:?}"))?;
        }
        heal(&mut bench).await?;
        check_end(&bench, life).await?;
        bench.verdict()?;
        let events = bench.monitor.lock().unwrap().events;
        Ok(events)
    })
}

fn set_of(life: &Life) -> Value {
    let mut set = if life.has_claims {
        web_with_claims(3)
    } else {
        web(3)
    };
    set["spec"]["revisionHistoryLimit"] = life.history_limit.into();
    if life.is_parallel {
        set["spec"]["podManagementPolicy"] = "Parallel".into();
    }
    set
}

/// Does what a step says; a crash gives new faults.
async fn take(bench: &mut Bench, faults: &Faults, step: &Step) -> Result<Option<Faults>> {
    let name = |ordinal: &i64| format!("{SET}-{ordinal}");
    match step {
        Step::Scale(replicas) => drop(bench.spec(json!({ "replicas": replicas })).await?),
        Step::Image(tag) => drop(bench.spec(image(*tag)).await?),
        Step::Partition(partition) => drop(
            bench
                .spec(rolling(json!({ "partition": partition })))
                .await?,
        ),
        Step::MaxUnavailable(most) => drop(
            bench
                .spec(rolling(json!({ "maxUnavailable": most })))
                .await?,
        ),
        Step::MinReady(seconds) => drop(bench.spec(json!({ "minReadySeconds": seconds })).await?),
        Step::Start(start) => drop(
            bench
                .spec(json!({ "ordinals": { "start": start } }))
                .await?,
        ),
        Step::OnDelete(true) => {
            drop(
                bench
                    .spec(
                        json!({ "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } }),
                    )
                    .await?,
            );
        }
        Step::OnDelete(false) => drop(bench.spec(rolling(json!({}))).await?),
        Step::Retention(scaled, deleted) => drop(bench.spec(retention(*scaled, *deleted)).await?),
        Step::Hold(ordinal) => drop(bench.nodes.lock().unwrap().held.insert(name(ordinal))),
        Step::Stall(ordinal) => drop(bench.nodes.lock().unwrap().stalled.insert(name(ordinal))),
        Step::Free => free(bench),
        Step::Unready(ordinal) => readiness(bench, &name(ordinal), false).await?,
        Step::Ready(ordinal) => readiness(bench, &name(ordinal), true).await?,
        Step::Fail(ordinal, is_failed) => {
            let phase = if *is_failed { "Failed" } else { "Succeeded" };
            bench
                .set_pod(&name(ordinal), json!({ "phase": phase }))
                .await?;
        }
        Step::Delete(ordinal) => bench.delete_pod(&name(ordinal)).await?,
        Step::Stray(ordinal) => relabel(bench, &name(ordinal), "stray").await?,
        Step::Return => return_strays(bench).await?,
        Step::Write(trouble, nth) => faults.inject(*nth, fault(*trouble), is_write),
        Step::Watch(kind) => {
            bench.monitor.lock().unwrap().window = SignedDuration::from_mins(2);
            let fault = match kind {
                0 => Fault::Cut(1),
                1 => Fault::Expire,
                _ => Fault::Lag(Duration::from_millis(40)),
            };
            faults.inject(1, fault, |_, path| path.contains("watch="));
        }
        Step::Crash {
            nth,
            is_after,
            down,
        } => {
            let fault = if *is_after {
                Fault::HangAnswer
            } else {
                Fault::Hang
            };
            faults.inject(*nth, fault, is_write);
            sleep(Duration::from_secs(3)).await;
            bench.crash().await;
            sleep(Duration::from_millis(*down)).await;
            return Ok(Some(bench.start_controller()?));
        }
    }
    Ok(None)
}

fn is_write(method: &str, path: &str) -> bool {
    method != "GET" && !path.contains("/events")
}

fn fault(trouble: Trouble) -> Fault {
    match trouble {
        Trouble::LoseRequest => Fault::LoseRequest,
        Trouble::LoseAnswer => Fault::LoseAnswer,
        Trouble::Conflict => Fault::Conflict,
        Trouble::Hang => Fault::Hang,
    }
}

fn image(tag: u8) -> Value {
    json!({ "template": { "spec": { "containers": [{ "name": "nginx", "image": format!("nginx:{tag}") }] } } })
}

fn rolling(limits: Value) -> Value {
    json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": limits } })
}

fn retention(scaled: bool, deleted: bool) -> Value {
    let word = |is_kept: bool| if is_kept { "Retain" } else { "Delete" };
    json!({ "persistentVolumeClaimRetentionPolicy": { "whenScaled": word(scaled), "whenDeleted": word(deleted) } })
}

fn free(bench: &Bench) {
    let mut nodes = bench.nodes.lock().unwrap();
    nodes.held.clear();
    nodes.stalled.clear();
}

/// Changes the readiness of a pod that runs.
async fn readiness(bench: &Bench, name: &str, is_ready: bool) -> Result<()> {
    let pod = bench
        .pods()
        .await?
        .into_iter()
        .find(|pod| pod.name_any() == name);
    let phase = pod.and_then(|pod| pod.status?.phase);
    if phase.as_deref() == Some("Running") {
        bench
            .set_pod(name, running(is_ready, &bench.cluster))
            .await?;
    }
    Ok(())
}

async fn relabel(bench: &Bench, name: &str, app: &str) -> Result<()> {
    let pods = bench.api::<Pod>();
    if pods.get_opt(name).await?.is_some() {
        let patch = json!({ "metadata": { "labels": { "app": app } } });
        pods.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
    }
    Ok(())
}

async fn return_strays(bench: &Bench) -> Result<()> {
    for pod in bench.pods().await? {
        if pod.labels().get("app").is_some_and(|app| app == "stray") {
            relabel(bench, &pod.name_any(), "nginx").await?;
        }
    }
    Ok(())
}

/// Makes everything well again: a fresh controller, free nodes, ready pods, no strays.
async fn heal(bench: &mut Bench) -> Result<()> {
    bench.crash().await;
    bench.start_controller()?;
    free(bench);
    return_strays(bench).await?;
    for pod in bench.pods().await? {
        readiness(bench, &pod.name_any(), true).await?;
    }
    Ok(())
}

async fn check_end(bench: &Bench, life: &Life) -> Result<()> {
    bench.settled().await?;
    let set = bench.set().await?;
    let strategy = set.spec.update_strategy.clone().unwrap_or_default();
    let partition = strategy
        .rolling_update
        .and_then(|rolling| rolling.partition)
        .unwrap_or(0);
    let start = set
        .spec
        .ordinals
        .as_ref()
        .and_then(|ordinals| ordinals.start)
        .unwrap_or(0);
    if strategy.type_.as_deref() != Some("OnDelete") {
        bench
            .eventually("pods above the partition have the template", async || {
                bench.settled().await?;
                let status = bench.set().await?.status.context("a status")?;
                for pod in bench.pods().await? {
                    let ordinal: i32 = pod.labels()["apps.kubernetes.io/pod-index"].parse()?;
                    let is_updated = pod.labels().get("controller-revision-hash")
                        == status.update_revision.as_ref();
                    ensure!(
                        is_updated || ordinal - start < partition,
                        "{} is outdated",
                        pod.name_any()
                    );
                }
                Ok(())
            })
            .await?;
    }
    let revisions = bench.revisions().await?.len();
    let in_use: std::collections::BTreeSet<_> = bench
        .pods()
        .await?
        .iter()
        .map(|pod| pod.labels()["controller-revision-hash"].clone())
        .collect();
    let most = usize::try_from(life.history_limit)? + in_use.len() + 2;
    ensure!(revisions <= most, "{revisions} revisions at the end");
    check_claims(bench, life).await
}

async fn check_claims(bench: &Bench, life: &Life) -> Result<()> {
    if !life.has_claims {
        return Ok(());
    }
    let is_kept = !life
        .steps
        .iter()
        .any(|(step, _)| matches!(step, Step::Retention(..)));
    bench
        .eventually("claims are as the policy says", async || {
            let set = bench.set().await?;
            let policy = set
                .spec
                .persistent_volume_claim_retention_policy
                .clone()
                .unwrap_or_default();
            let wanted = if policy.when_deleted.as_deref() == Some("Delete") {
                1
            } else {
                0
            };
            let claims = bench.claims().await?;
            for pod in bench.pods().await? {
                let name = format!("data-{}", pod.name_any());
                let claim = claims.iter().find(|claim| claim.name_any() == name);
                let claim = claim.with_context(|| format!("{name} is missing in {NS}"))?;
                let owners = claim.owner_references();
                ensure!(owners.len() == wanted, "{name} belongs to {owners:?}");
                ensure!(
                    owners
                        .iter()
                        .all(|owner| Some(&owner.uid) == set.metadata.uid.as_ref()),
                    "{owners:?}"
                );
            }
            let highest = bench.monitor.lock().unwrap().made();
            ensure!(
                !is_kept || claims.len() >= highest,
                "{} claims of {highest}",
                claims.len()
            );
            Ok(())
        })
        .await
}
