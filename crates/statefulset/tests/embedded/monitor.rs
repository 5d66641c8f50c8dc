//! The promises of a StatefulSet, checked on every event as it happens.
//!
//! The controller cannot know what happens in the moment it acts. So a state that held at any time in
//! the window before an event counts as held: a window of nothing but the same instant unless the
//! scenario made the controller's watches lag.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::watcher::Event;

use crate::bench::SET;

/// What has been seen so far, and the first rule that was broken.
pub(crate) struct Monitor {
    pub(crate) window: SignedDuration,
    pub(crate) events: usize,
    set: Option<Wish>,
    /// The set before its last change, which counts within the window.
    before: Option<Wish>,
    changed: Timestamp,
    pods: BTreeMap<String, Seen>,
    revisions: BTreeSet<String>,
    expected: BTreeSet<String>,
    broken: Option<String>,
    /// Creations and deletions in their order: `+web-0`, `-web-0`.
    pub(crate) log: Vec<String>,
}

#[derive(Clone)]
struct Wish {
    start: i64,
    replicas: i64,
    is_ordered: bool,
    min_ready: i64,
    partition: i64,
    max_unavailable: i64,
    image: String,
    limit: i64,
}

#[derive(Clone)]
struct Seen {
    name: String,
    ordinal: i64,
    is_ours: bool,
    image: String,
    revision: String,
    is_ready: bool,
    ready_since: Option<Timestamp>,
    is_leaving: bool,
    is_finished: bool,
    /// Since when it has not been ready or has been leaving.
    unfit_since: Option<Timestamp>,
    finished_since: Option<Timestamp>,
}

impl Monitor {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            window: SignedDuration::ZERO,
            events: 0,
            set: None,
            before: None,
            changed: now,
            pods: BTreeMap::new(),
            revisions: BTreeSet::new(),
            expected: BTreeSet::new(),
            broken: None,
            log: Vec::new(),
        }
    }

    /// A user deletes this pod: no rule speaks about that.
    pub(crate) fn expect_deletion(&mut self, uid: &str) {
        self.expected.insert(uid.to_owned());
    }

    /// How many ordinals ever had a pod.
    pub(crate) fn made(&self) -> usize {
        let made: BTreeSet<&String> = self
            .log
            .iter()
            .filter(|entry| entry.starts_with('+'))
            .collect();
        made.len()
    }

    pub(crate) fn verdict(&self) -> Result<()> {
        match &self.broken {
            Some(broken) => bail!("{broken}\n{}", self.log.join(" ")),
            None => Ok(()),
        }
    }

    pub(crate) fn set_told(&mut self, event: Event<StatefulSet>, now: Timestamp) {
        if let Event::Apply(set) | Event::InitApply(set) = event
            && set.name_any() == SET
        {
            let wish = wish(&set);
            let same = self.set.as_ref().is_some_and(|old| {
                (
                    old.start,
                    old.replicas,
                    old.min_ready,
                    old.partition,
                    old.max_unavailable,
                    &old.image,
                ) == (
                    wish.start,
                    wish.replicas,
                    wish.min_ready,
                    wish.partition,
                    wish.max_unavailable,
                    &wish.image,
                )
            });
            if !same {
                self.before = self.set.take();
                self.changed = now;
            }
            self.set = Some(wish);
            self.events += 1;
        }
    }

    pub(crate) fn revision_told(&mut self, event: Event<ControllerRevision>) {
        match event {
            Event::Apply(revision) | Event::InitApply(revision) => {
                self.revisions.insert(revision.name_any());
            }
            Event::Delete(revision) => {
                self.revisions.remove(&revision.name_any());
            }
            Event::Init | Event::InitDone => return,
        }
        self.events += 1;
        let Some(set) = &self.set else { return };
        let in_use: BTreeSet<&str> = self
            .pods
            .values()
            .map(|pod| pod.revision.as_str())
            .collect();
        // Beside the kept ones: those of pods, the current and the new one, and one that is forgotten next.
        let most = set.limit + i64::try_from(in_use.len()).unwrap() + 3;
        let count = i64::try_from(self.revisions.len()).unwrap();
        if count > most {
            self.fail(format!("{count} revisions, at most {most} expected"));
        }
    }

    pub(crate) fn pod_told(&mut self, event: Event<Pod>, now: Timestamp) {
        match event {
            Event::Apply(pod) | Event::InitApply(pod) => self.pod_is(&pod, now),
            Event::Delete(pod) => {
                let uid = pod.uid().unwrap_or_default();
                let known = self.pods.get(&uid).cloned();
                if let Some(known) = known.filter(|known| !known.is_leaving) {
                    // Removed at once, as an unbound pod is.
                    self.check_deletion(&uid, &known, now);
                }
                self.pods.remove(&uid);
                self.log.push(format!("x{}", pod.name_any()));
            }
            Event::Init | Event::InitDone => return,
        }
        self.events += 1;
    }

    fn pod_is(&mut self, pod: &Pod, now: Timestamp) {
        let uid = pod.uid().unwrap_or_default();
        let Some(seen) = seen(pod, self.pods.get(&uid), now) else {
            return;
        };
        match self.pods.get(&uid).cloned() {
            None => {
                self.log.push(format!("+{}", seen.name));
                self.check_creation(pod, &seen, now);
            }
            Some(known) if seen.is_leaving && !known.is_leaving => {
                self.log.push(format!("-{}", seen.name));
                self.check_deletion(&uid, &known, now);
            }
            Some(_) => {}
        }
        self.pods.insert(uid, seen);
    }

    fn check_creation(&mut self, pod: &Pod, new: &Seen, now: Timestamp) {
        if let Some(twin) = self
            .pods
            .values()
            .find(|other| other.is_ours && other.ordinal == new.ordinal)
        {
            self.fail(format!("{} and {} have one ordinal", new.name, twin.name));
        }
        self.check_identity(pod, new);
        let wishes = self.wishes(now);
        if wishes.is_empty() {
            return;
        }
        let is_allowed = wishes.iter().any(|wish| {
            let is_wanted = new.ordinal >= wish.start && new.ordinal < wish.start + wish.replicas;
            let mut lower = wish.start..new.ordinal;
            is_wanted
                && (!wish.is_ordered || lower.all(|ordinal| self.was_available(ordinal, wish, now)))
        });
        if !is_allowed {
            self.fail(format!("{} was made before its time", new.name));
        }
    }

    fn check_identity(&mut self, pod: &Pod, new: &Seen) {
        let label = |key: &str| pod.labels().get(key).cloned().unwrap_or_default();
        let spec = pod.spec.as_ref();
        let hostname = spec
            .and_then(|spec| spec.hostname.clone())
            .unwrap_or_default();
        let subdomain = spec
            .and_then(|spec| spec.subdomain.clone())
            .unwrap_or_default();
        let found = [
            label("statefulset.kubernetes.io/pod-name"),
            hostname,
            subdomain,
            label("apps.kubernetes.io/pod-index"),
        ];
        let wanted = [
            new.name.clone(),
            new.name.clone(),
            "nginx".into(),
            new.ordinal.to_string(),
        ];
        if found != wanted {
            self.fail(format!("{} is {found:?}", new.name));
        }
        let revision = label("controller-revision-hash");
        if !self.revisions.contains(&revision) && !self.revisions.is_empty() {
            // The revisions' watch is another one: what was made in this instant may not be told yet.
            self.log.push(format!("({revision} unknown)"));
        }
    }

    fn check_deletion(&mut self, uid: &str, old: &Seen, now: Timestamp) {
        if self.expected.contains(uid) || !old.is_ours {
            return;
        }
        let wishes = self.wishes(now);
        let is_allowed = wishes
            .iter()
            .any(|wish| self.may_delete(uid, old, wish, now));
        if !is_allowed {
            self.fail(format!(
                "{} was deleted although it was not its turn",
                old.name
            ));
        }
    }

    fn may_delete(&self, uid: &str, old: &Seen, wish: &Wish, now: Timestamp) -> bool {
        if old.is_finished || old.finished_since.is_some() {
            return true;
        }
        let end = wish.start + wish.replicas;
        let is_condemned = old.ordinal < wish.start || old.ordinal >= end;
        if is_condemned {
            // The highest goes first, and not before every wanted pod is there.
            let is_highest = self.pods.iter().all(|(other, pod)| {
                let is_condemned = pod.ordinal < wish.start || pod.ordinal >= end;
                other == uid || !pod.is_ours || !is_condemned || pod.ordinal < old.ordinal
            });
            let mut wanted = wish.start..end;
            return !wish.is_ordered
                || (is_highest && wanted.all(|n| self.was_available(n, wish, now)));
        }
        let is_outdated = old.image != wish.image;
        let is_open = old.ordinal - wish.start >= wish.partition;
        let is_young = old
            .ready_since
            .is_some_and(|since| now.duration_since(since).as_secs() < wish.min_ready);
        let was_unfit = old.unfit_since.is_some() || is_young;
        let is_within_budget = self.unavailable(wish, now) < wish.max_unavailable;
        is_outdated && is_open && (is_within_budget || (was_unfit && !wish.is_ordered))
    }

    /// Wanted pods that were not available throughout the window.
    fn unavailable(&self, wish: &Wish, now: Timestamp) -> i64 {
        let wanted = wish.start..wish.start + wish.replicas;
        let missing = wanted.filter(|ordinal| !self.was_available(*ordinal, wish, now));
        i64::try_from(missing.count()).unwrap()
    }

    fn was_available(&self, ordinal: i64, wish: &Wish, now: Timestamp) -> bool {
        let horizon = now - self.window;
        self.pods
            .values()
            .filter(|pod| pod.is_ours && pod.ordinal == ordinal)
            .any(|pod| {
                let was_fit = pod.unfit_since.is_none_or(|since| since >= horizon);
                let long_enough = pod
                    .ready_since
                    .is_none_or(|since| now.duration_since(since).as_secs() >= wish.min_ready);
                was_fit && (long_enough || !pod.is_ready)
            })
    }

    /// What the user wished at some time in the window.
    fn wishes(&self, now: Timestamp) -> Vec<Wish> {
        let recent = self.changed >= now - self.window;
        let before = self.before.clone().filter(|_| recent);
        self.set.clone().into_iter().chain(before).collect()
    }

    fn fail(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }
}

fn wish(set: &StatefulSet) -> Wish {
    let spec = &set.spec;
    let rolling = spec
        .update_strategy
        .as_ref()
        .and_then(|s| s.rolling_update.clone())
        .unwrap_or_default();
    let containers = spec
        .template
        .spec
        .as_ref()
        .map(|spec| spec.containers.clone())
        .unwrap_or_default();
    Wish {
        start: spec
            .ordinals
            .as_ref()
            .and_then(|o| o.start)
            .unwrap_or(0)
            .into(),
        replicas: spec.replicas.unwrap_or(1).into(),
        is_ordered: spec.pod_management_policy.as_deref() != Some("Parallel"),
        min_ready: spec.min_ready_seconds.unwrap_or(0).into(),
        partition: rolling.partition.unwrap_or(0).into(),
        max_unavailable: match rolling.max_unavailable {
            Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(count)) => {
                count.into()
            }
            _ => 1,
        },
        image: containers
            .first()
            .and_then(|c| c.image.clone())
            .unwrap_or_default(),
        limit: spec.revision_history_limit.unwrap_or(10).into(),
    }
}

fn seen(pod: &Pod, known: Option<&Seen>, now: Timestamp) -> Option<Seen> {
    let name = pod.name_any();
    let ordinal = name.strip_prefix(&format!("{SET}-"))?.parse().ok()?;
    let status = pod.status.clone().unwrap_or_default();
    let phase = status.phase.unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let ready = conditions
        .iter()
        .find(|c| c.type_ == "Ready" && c.status == "True");
    let is_ready = ready.is_some() && phase == "Running";
    let is_leaving = pod.metadata.deletion_timestamp.is_some();
    let is_finished = phase == "Failed" || phase == "Succeeded";
    let is_unfit = !is_ready || is_leaving;
    let since = |is: bool, before: Option<Timestamp>| is.then(|| before.unwrap_or(now));
    Some(Seen {
        ordinal,
        is_ours: pod
            .owner_references()
            .iter()
            .any(|owner| owner.kind == "StatefulSet"),
        image: pod.spec.as_ref()?.containers.first()?.image.clone()?,
        revision: pod
            .labels()
            .get("controller-revision-hash")
            .cloned()
            .unwrap_or_default(),
        is_ready,
        ready_since: ready
            .and_then(|c| c.last_transition_time.as_ref())
            .map(|time| time.0),
        is_leaving,
        is_finished,
        unfit_since: since(is_unfit, known.and_then(|known| known.unfit_since)),
        finished_since: since(is_finished, known.and_then(|known| known.finished_since)),
        name,
    })
}

/// A time as objects show it.
pub(crate) fn stamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
