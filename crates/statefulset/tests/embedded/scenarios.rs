//! Random lives of a set: users, nodes, the network and the controller itself misbehave, and the
//! promises are kept on every event; when all is well again the set becomes what it should be.
//!
//! A run begins with the same lives each time, so that it fails for a change and not by chance.
//! `EDGEGRID_STEPS=100000` takes so many steps instead of half a minute of them, and `EDGEGRID_SEED=…`
//! lives others, or one of them again.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use edgegrid_testkit::faults::{Fault, Faults};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bench::Bench;
use crate::fixtures::{NS, SET, image, web, web_with_claims};
use crate::lives::{Life, Step, WriteFault, life};
use crate::nodes::running;

/// How long the normal run takes.
const NORMAL_RUN: Duration = Duration::from_secs(30);
/// Seed of the first life; the next ones follow it.
const FIRST_SEED: u64 = 1;
/// How long to look for a shorter life that fails too, in milliseconds; with the run it is less than what
/// a test may take.
const SHORTENING: u32 = 15_000;

#[test]
fn promises_are_kept_through_random_lives_and_every_set_becomes_what_it_should_be() {
    let wanted: Option<usize> = variable("EDGEGRID_STEPS");
    let seed: u64 = variable("EDGEGRID_SEED").unwrap_or(FIRST_SEED);
    println!("EDGEGRID_SEED={seed}");
    let began = tokio::time::Instant::now().into_std();
    let (mut steps, mut events, mut lives) = (0, 0, 0);
    while wanted.map_or(began.elapsed() < NORMAL_RUN, |wanted| steps < wanted) {
        let (taken, checked) = one_life(seed + lives);
        steps += taken;
        events += checked;
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
        max_shrink_time: SHORTENING,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let counted = std::cell::Cell::new((0, 0));
    let outcome = TestRunner::new_with_rng(config, rng).run(&life(), |life| {
        let events = live(&life).map_err(|error| {
            // Printed at once: a run that is ended while it looks for a shorter life has said why.
            eprintln!("EDGEGRID_SEED={seed}: {error:#}");
            TestCaseError::fail(format!("{error:#}"))
        })?;
        counted.set((life.steps.len(), events));
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
            if let Some(fresh) = run_step(&mut bench, &faults, step).await? {
                faults = fresh;
            }
            bench
                .check_promises()
                .with_context(|| format!("after {step:?}"))?;
        }
        heal(&mut bench).await?;
        check_end(&bench, life).await?;
        bench.check_promises()?;
        let events = bench.monitor.lock().events;
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

/// Does what a step says; a crash returns new faults.
async fn run_step(bench: &mut Bench, faults: &Faults, step: &Step) -> Result<Option<Faults>> {
    if let Some(spec) = spec_change(step) {
        bench.spec(spec).await?;
        return Ok(None);
    }
    let name = |ordinal: &i64| format!("{SET}-{ordinal}");
    match step {
        Step::KeepUnready(ordinal) => {
            bench.nodes.lock().unready.insert(name(ordinal));
        }
        Step::Stall(ordinal) => {
            bench.nodes.lock().stalled.insert(name(ordinal));
        }
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
        Step::Write(kind, nth) => lose_write(bench, faults, *nth, fault(*kind)),
        Step::Watch(kind) => disturb_watch(bench, faults, *kind),
        Step::Crash {
            nth,
            is_after,
            down,
        } => return Ok(Some(crash(bench, faults, (*nth, *is_after), *down).await?)),
        _ => unblock(bench),
    }
    Ok(None)
}

/// The change of the spec that a step is about, if it is one.
fn spec_change(step: &Step) -> Option<Value> {
    let on_delete = json!({ "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } });
    Some(match step {
        Step::Scale(replicas) => json!({ "replicas": replicas }),
        Step::Image(tag) => image(*tag),
        Step::Partition(partition) => rolling(&json!({ "partition": partition })),
        Step::MaxUnavailable(max) => rolling(&json!({ "maxUnavailable": max })),
        Step::MinReady(seconds) => json!({ "minReadySeconds": seconds }),
        Step::Start(start) => json!({ "ordinals": { "start": start } }),
        Step::OnDelete(true) => on_delete,
        Step::OnDelete(false) => rolling(&json!({})),
        Step::Retention(scaled, deleted) => retention(*scaled, *deleted),
        _ => return None,
    })
}

/// From here on the controller's view may lag, and the monitor knows.
fn disturb_watch(bench: &Bench, faults: &Faults, kind: u8) {
    bench.monitor.lock().window = SignedDuration::from_mins(2);
    let fault = match kind {
        0 => Fault::Cut(1),
        1 => Fault::Expire,
        _ => Fault::Lag(Duration::from_millis(40)),
    };
    faults.inject(1, fault, |_, path| path.contains("watch="));
}

/// Dies at the n-th write, before or after it took effect, and comes back.
async fn crash(
    bench: &mut Bench,
    faults: &Faults,
    (nth, is_after): (usize, bool),
    down: u64,
) -> Result<Faults> {
    let fault = if is_after {
        Fault::HangAnswer
    } else {
        Fault::Hang
    };
    lose_write(bench, faults, nth, fault);
    sleep(Duration::from_secs(3)).await;
    bench.crash().await;
    sleep(Duration::from_millis(down)).await;
    bench.start_controller()
}

/// The n-th write from here on goes wrong, and the monitor knows.
fn lose_write(bench: &Bench, faults: &Faults, nth: usize, fault: Fault) {
    bench.monitor.lock().lost_writes += 1;
    faults.inject(nth, fault, |method, path| {
        method != "GET" && !path.contains("/events")
    });
}

fn fault(kind: WriteFault) -> Fault {
    match kind {
        WriteFault::LoseRequest => Fault::LoseRequest,
        WriteFault::LoseAnswer => Fault::LoseAnswer,
        WriteFault::Conflict => Fault::Conflict,
        WriteFault::Hang => Fault::Hang,
    }
}

fn rolling(limits: &Value) -> Value {
    json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": limits } })
}

fn retention(scaled: bool, deleted: bool) -> Value {
    let word = |is_kept: bool| if is_kept { "Retain" } else { "Delete" };
    json!({ "persistentVolumeClaimRetentionPolicy": { "whenScaled": word(scaled), "whenDeleted": word(deleted) } })
}

fn unblock(bench: &Bench) {
    let mut nodes = bench.nodes.lock();
    nodes.unready.clear();
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

/// Makes everything well again: a fresh controller, willing nodes, ready pods, no strays.
async fn heal(bench: &mut Bench) -> Result<()> {
    bench.crash().await;
    bench.start_controller()?;
    unblock(bench);
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
    let max = usize::try_from(life.history_limit)? + in_use.len() + 2;
    ensure!(revisions <= max, "{revisions} revisions at the end");
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
            let wanted = usize::from(policy.when_deleted.as_deref() == Some("Delete"));
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
            let highest = bench.monitor.lock().created();
            ensure!(
                !is_kept || claims.len() >= highest,
                "{} claims of {highest}",
                claims.len()
            );
            Ok(())
        })
        .await
}
