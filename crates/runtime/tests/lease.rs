//! Elections in virtual time: never two leaders at once, and always one again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use edgegrid_runtime::executor::{Class, Metrics};
use edgegrid_runtime::{Elector, Executor, Fence, LeaseConfig, Limits, Target};
use edgegrid_testkit::Cluster;
use edgegrid_testkit::faults::{Fault, Faults};
use fastrand::Rng;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::ApiResource;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
/// How often the witness checks.
const TICK: Duration = Duration::from_millis(100);

/// One process that stands for election.
struct Candidate {
    name: &'static str,
    faults: Faults,
    fence: Fence,
    stop: watch::Sender<bool>,
    /// How often it began to lead, and whether its work runs now.
    work: Arc<Mutex<(u32, bool)>>,
    task: JoinHandle<()>,
}

/// Marks work as running until it is dropped.
struct Working(Arc<Mutex<(u32, bool)>>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.lock().1 = false;
    }
}

impl Candidate {
    fn start(cluster: &Cluster, name: &'static str) -> Self {
        let (client, faults) = cluster.link().unwrap();
        let config = LeaseConfig::new("default", "controller", name);
        let (elector, fence) = Elector::new(client, config).unwrap();
        let (stop, stopped) = watch::channel(false);
        let work: Arc<Mutex<(u32, bool)>> = Arc::default();
        let lead = {
            let (work, stopped) = (work.clone(), stopped.clone());
            move || {
                let mut now = work.lock();
                *now = (now.0 + 1, true);
                let working = Working(work.clone());
                let mut stopped = stopped.clone();
                async move {
                    let _working = working;
                    let _ = stopped.wait_for(|stop| *stop).await;
                    sleep(SECOND).await; // the drain
                }
            }
        };
        let mut stopped = stopped;
        let run = async move {
            let asked = async {
                let _ = stopped.wait_for(|stop| *stop).await;
            };
            elector.run(asked, lead).await;
        };
        #[expect(clippy::disallowed_methods, reason = "aborted when dropped")]
        let task = tokio::spawn(run);
        Self {
            name,
            faults,
            fence,
            stop,
            work,
            task,
        }
    }

    fn may_write(&self) -> bool {
        self.fence.check().is_ok()
    }

    fn works(&self) -> bool {
        self.work.lock().1
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Checks all the time that no two candidates may write at once.
#[derive(Default)]
struct Witness {
    /// By when the writes of a candidate will have ended.
    ends: BTreeMap<&'static str, Instant>,
}

impl Witness {
    fn check(&mut self, candidates: &[Candidate]) {
        let now = Instant::now();
        for drained in candidates
            .iter()
            .filter(|one| *one.stop.borrow() && !one.works())
        {
            self.ends.remove(drained.name); // its work has ended, and with it its writes
        }
        for leader in candidates {
            let Ok(end) = leader.fence.check() else {
                continue;
            };
            for (other, end) in &self.ends {
                let is_over = *other == leader.name || *end <= now;
                assert!(is_over, "{other} may still write when {} does", leader.name);
            }
            self.ends.insert(leader.name, end.unwrap());
        }
        let working = candidates.iter().filter(|one| one.works()).count();
        assert!(working <= 1, "{working} lead at once");
    }

    async fn watch(&mut self, candidates: &[Candidate], time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            sleep(TICK).await;
            self.check(candidates);
        }
    }

    /// How long it takes until `is_so`.
    async fn until(&mut self, candidates: &[Candidate], is_so: impl Fn() -> bool) -> Duration {
        let started = Instant::now();
        while !is_so() {
            assert!(started.elapsed() < 60 * SECOND, "not so after a minute");
            sleep(TICK).await;
            self.check(candidates);
        }
        started.elapsed()
    }
}

/// `a` leads and `b` stands by.
async fn two(cluster: &Cluster) -> ([Candidate; 2], Witness) {
    let a = Candidate::start(cluster, "a");
    let mut witness = Witness::default();
    let a = [a];
    witness.until(&a, || a[0].works()).await;
    let [a] = a;
    let both = [a, Candidate::start(cluster, "b")];
    witness.watch(&both, 60 * SECOND).await;
    assert!(both[0].works() && !both[1].works());
    assert_eq!(both[0].work.lock().0, 1, "it never lost it");
    (both, witness)
}

async fn lease(cluster: &Cluster) -> LeaseSpec {
    let api: Api<Lease> = Api::default_namespaced(cluster.client());
    api.get("controller").await.unwrap().spec.unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_other_takes_over_once_the_lease_has_expired() {
    let cluster = Cluster::embedded().await.unwrap();
    let (both, mut witness) = two(&cluster).await;
    both[0].task.abort(); // a crash: nothing is released
    let taken = witness.until(&both, || both[1].works()).await;
    assert!(taken > 12 * SECOND && taken < 20 * SECOND, "{taken:?}");
    let spec = lease(&cluster).await;
    assert_eq!(spec.holder_identity.as_deref(), Some("b"));
    assert_eq!(spec.lease_transitions, Some(1));
    assert_eq!(spec.lease_duration_seconds, Some(15));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_shuts_down_drains_and_hands_over_at_once() {
    let cluster = Cluster::embedded().await.unwrap();
    let (both, mut witness) = two(&cluster).await;
    both[0].stop.send_replace(true);
    sleep(SECOND / 2).await;
    assert!(both[0].may_write(), "it still drains");
    let taken = witness.until(&both, || both[1].works()).await;
    assert!(taken < 4 * SECOND, "{taken:?}");
    assert!(both[0].task.is_finished());
}

#[tokio::test(start_paused = true)]
async fn one_that_stands_by_shuts_down_at_once() {
    let cluster = Cluster::embedded().await.unwrap();
    let (both, mut witness) = two(&cluster).await;
    both[1].stop.send_replace(true);
    let ended = witness.until(&both, || both[1].task.is_finished()).await;
    assert!(ended < SECOND && both[0].works());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_answer_is_lost_changes_no_leader() {
    let cluster = Cluster::embedded().await.unwrap();
    let (both, mut witness) = two(&cluster).await;
    for fault in [
        Fault::LoseAnswer,
        Fault::LoseRequest,
        Fault::Conflict,
        Fault::Hang,
    ] {
        both[0].faults.inject(1, fault, |method, _| method == "PUT");
        witness.watch(&both, 30 * SECOND).await;
        assert_eq!(both[0].faults.pending(), 0);
        assert!(both[0].works() && both[0].work.lock().0 == 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_whose_answer_is_lost_is_found_out() {
    let cluster = Cluster::embedded().await.unwrap();
    let one = [Candidate::start(&cluster, "a")];
    one[0]
        .faults
        .inject(1, Fault::LoseAnswer, |method, _| method == "POST");
    let taken = Witness::default().until(&one, || one[0].works()).await;
    assert!(taken < 5 * SECOND, "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_cut_off_stops_writing_before_the_other_starts_and_comes_back_as_standby() {
    let cluster = Cluster::embedded().await.unwrap();
    let (both, mut witness) = two(&cluster).await;
    both[0].faults.break_off(Fault::Hang);
    let stopped = witness.until(&both, || !both[0].works()).await;
    assert!(stopped <= 10 * SECOND + TICK, "{stopped:?}");
    assert!(!both[0].may_write() && !both[1].may_write());
    let taken = witness.until(&both, || both[1].works()).await;
    assert!(taken < 10 * SECOND, "{taken:?}");
    both[0].faults.restore();
    witness.watch(&both, 60 * SECOND).await;
    assert!(both[1].works() && !both[0].task.is_finished());
    both[1].stop.send_replace(true);
    witness.until(&both, || both[0].works()).await;
    assert_eq!(both[0].work.lock().0, 2);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_away_for_an_hour_leaves_one_leader_afterwards() {
    let cluster = Cluster::embedded().await.unwrap();
    let (both, mut witness) = two(&cluster).await;
    for one in &both {
        one.faults.break_off(Fault::LoseRequest);
    }
    witness.watch(&both, 3600 * SECOND).await;
    assert!(both.iter().all(|one| !one.may_write() && !one.works()));
    for one in &both {
        one.faults.restore();
    }
    let back = witness
        .until(&both, || both.iter().any(Candidate::works))
        .await;
    assert!(back < 20 * SECOND, "{back:?}");
    witness.watch(&both, 60 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_deletes_goes_back_to_its_holder() {
    let cluster = Cluster::embedded().await.unwrap();
    let (both, mut witness) = two(&cluster).await;
    let api: Api<Lease> = Api::default_namespaced(cluster.client());
    api.delete("controller", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    witness.watch(&both, 60 * SECOND).await;
    assert!(both[0].works() && both[0].work.lock().0 == 1);
}

#[tokio::test(start_paused = true)]
async fn a_write_ends_before_the_lease_can_be_taken_and_none_starts_after_the_deadline() {
    let cluster = Cluster::embedded().await.unwrap();
    let (both, mut witness) = two(&cluster).await;
    let (limits, metrics) = (Limits::default(), Metrics::default());
    let (client, faults) = cluster.link().unwrap();
    let writes = faults.record(|method, _| method == "POST");
    let executor = Executor::new(client, both[0].fence.clone(), limits, metrics);
    let target = Target {
        api: ApiResource::erase::<ConfigMap>(&()),
        namespace: Some("default".into()),
        name: "a".into(),
    };
    both[0].faults.break_off(Fault::Hang);
    faults.break_off(Fault::Hang);
    let renewed_before = Instant::now();
    sleep(7 * SECOND).await; // the deadline has not passed: the last renewal is 2 s old at most

    let late = executor.create(&target, &json!({}), "test").await;
    assert!(matches!(late.unwrap_err().class, Class::NoAnswer));
    let took = renewed_before.elapsed();
    assert!(took < 13 * SECOND, "{took:?}");
    assert!(!both[1].works(), "nobody can have taken the lease");
    assert_eq!(writes.take().len(), 1);

    let later = executor.create(&target, &json!({}), "test").await;
    assert!(matches!(later.unwrap_err().class, Class::NotLeader));
    assert_eq!(writes.take(), Vec::<String>::new(), "not even sent");
    witness.until(&both, || both[1].works()).await;
}

#[tokio::test(start_paused = true)]
async fn whatever_the_link_does_there_are_never_two_leaders_and_always_one_again() {
    for seed in 0..2 {
        let cluster = Cluster::embedded().await.unwrap();
        let three = ["a", "b", "c"].map(|name| Candidate::start(&cluster, name));
        let (mut random, mut witness) = (Rng::with_seed(seed), Witness::default());
        for _ in 0..100 {
            let one = &three[random.usize(..3)];
            match random.u8(..8) {
                0 => one.faults.break_off(Fault::Hang),
                1 => one.faults.break_off(Fault::LoseRequest),
                2 => one.faults.break_off(Fault::LoseAnswer),
                3 => one.faults.inject(1, Fault::Conflict, |_, _| true),
                4 => one.faults.inject(1, Fault::LoseAnswer, |_, _| true),
                5 => one
                    .faults
                    .inject(1, Fault::Hang, |method, _| method == "PUT"),
                _ => one.faults.restore(),
            }
            let time = Duration::from_millis(random.u64(..15_000));
            witness.watch(&three, time).await;
        }
        for one in &three {
            one.faults.restore();
        }
        witness
            .until(&three, || three.iter().any(Candidate::works))
            .await;
        witness.watch(&three, 60 * SECOND).await;
        assert!(three.iter().any(Candidate::works), "seed {seed}");
    }
}
