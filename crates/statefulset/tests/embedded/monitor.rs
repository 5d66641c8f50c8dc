//! The promises of a StatefulSet, checked on every event as it happens.
//!
//! The controller cannot know what happens in the moment it acts. So a state that was true at any time in
//! the window before an event counts as true: a window of nothing but the same instant unless the
//! scenario made the controller's watches lag.

mod claims;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::runtime::watcher::Event;

use crate::fixtures::SET;
use view::{ObservedPod, WantedSet, observed_pod, wanted_set};

/// What has been observed so far, and the first promise that was broken.
pub(crate) struct Monitor {
    pub(crate) window: SignedDuration,
    pub(crate) events: usize,
    /// Writes that the scenario lets go wrong: each may put off that a revision is forgotten.
    pub(crate) lost_writes: usize,
    set: Option<WantedSet>,
    /// What was wanted before, and until when: it counts within the window.
    past: Vec<(Timestamp, WantedSet)>,
    /// Owners of every claim, by its name.
    claims: BTreeMap<String, Vec<OwnerReference>>,
    pods: BTreeMap<String, ObservedPod>,
    revisions: BTreeSet<String>,
    expected: BTreeSet<String>,
    broken: Option<String>,
    /// Creations and deletions in their order: `+web-0`, `-web-0`.
    pub(crate) log: Vec<String>,
}

impl Monitor {
    pub(crate) fn new() -> Self {
        Self {
            window: SignedDuration::ZERO,
            events: 0,
            lost_writes: 0,
            set: None,
            past: Vec::new(),
            claims: BTreeMap::new(),
            pods: BTreeMap::new(),
            revisions: BTreeSet::new(),
            expected: BTreeSet::new(),
            broken: None,
            log: Vec::new(),
        }
    }

    /// A user deletes this pod or claim: no promise speaks about that.
    pub(crate) fn expect_deletion(&mut self, uid: &str) {
        self.expected.insert(uid.to_owned());
    }

    /// How many ordinals ever had a pod.
    pub(crate) fn created(&self) -> usize {
        let created: BTreeSet<&String> = self
            .log
            .iter()
            .filter(|entry| entry.starts_with('+'))
            .collect();
        created.len()
    }

    pub(crate) fn check(&self) -> Result<()> {
        match &self.broken {
            Some(broken) => bail!("{broken}\n{}", self.log.join(" ")),
            None => Ok(()),
        }
    }

    pub(crate) fn observe_set(&mut self, event: Event<StatefulSet>, now: Timestamp) {
        if let Event::Apply(set) | Event::InitApply(set) = event
            && set.name_any() == SET
        {
            let wanted = wanted_set(&set);
            if let Some(old) = self.set.take_if(|old| *old != wanted) {
                self.past.push((now, old));
            }
            self.set = Some(wanted);
            self.events += 1;
        }
    }

    pub(crate) fn observe_revision(&mut self, event: Event<ControllerRevision>) {
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
        let max = set.limit + i64::try_from(in_use.len() + self.lost_writes).unwrap() + 3;
        let count = i64::try_from(self.revisions.len()).unwrap();
        if count > max {
            self.fail(format!("{count} revisions, at most {max} expected"));
        }
    }

    pub(crate) fn observe_pod(&mut self, event: Event<Pod>, now: Timestamp) {
        match event {
            Event::Apply(pod) | Event::InitApply(pod) => self.apply_pod(&pod, now),
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

    fn apply_pod(&mut self, pod: &Pod, now: Timestamp) {
        let uid = pod.uid().unwrap_or_default();
        let Some(new) = observed_pod(pod, self.pods.get(&uid), now) else {
            return;
        };
        match self.pods.get(&uid).cloned() {
            None => {
                self.log.push(format!("+{}", new.name));
                self.check_creation(pod, &new, now);
            }
            Some(known) if new.is_leaving && !known.is_leaving => {
                self.log.push(format!("-{}", new.name));
                self.check_deletion(&uid, &known, now);
            }
            Some(_) => {}
        }
        self.pods.insert(uid, new);
    }

    fn check_creation(&mut self, pod: &Pod, new: &ObservedPod, now: Timestamp) {
        if let Some(twin) = self
            .pods
            .values()
            .find(|other| other.is_ours && other.ordinal == new.ordinal)
        {
            self.fail(format!("{} and {} have one ordinal", new.name, twin.name));
        }
        self.check_identity(pod, new);
        self.check_claim_of(new);
        let accepted = self.accepted_sets(now);
        if accepted.is_empty() {
            return;
        }
        let is_allowed = accepted.iter().any(|set| {
            let is_wanted = new.ordinal >= set.start && new.ordinal < set.start + set.replicas;
            let mut lower = set.start..new.ordinal;
            is_wanted
                && (!set.is_ordered || lower.all(|ordinal| self.was_available(ordinal, set, now)))
        });
        if !is_allowed {
            self.fail(format!("{} was created before its time", new.name));
        }
    }

    fn check_identity(&mut self, pod: &Pod, new: &ObservedPod) {
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
            // The revisions' watch is another one: what was made in this instant may not be here yet.
            self.log.push(format!("({revision} unknown)"));
        }
    }

    fn check_deletion(&mut self, uid: &str, old: &ObservedPod, now: Timestamp) {
        if self.expected.contains(uid) || !old.is_ours {
            return;
        }
        let accepted = self.accepted_sets(now);
        let is_allowed = accepted
            .iter()
            .any(|set| self.may_delete(uid, old, set, now));
        if !is_allowed {
            self.fail(format!("{} was deleted out of order", old.name));
        }
    }

    fn may_delete(&self, uid: &str, old: &ObservedPod, set: &WantedSet, now: Timestamp) -> bool {
        if old.is_finished || old.finished_since.is_some() {
            return true;
        }
        let end = set.start + set.replicas;
        let is_condemned = old.ordinal < set.start || old.ordinal >= end;
        if is_condemned {
            // The highest goes first, and not before every wanted pod is there.
            let is_highest = self.pods.iter().all(|(other, pod)| {
                let is_condemned = pod.ordinal < set.start || pod.ordinal >= end;
                other == uid || !pod.is_ours || !is_condemned || pod.ordinal < old.ordinal
            });
            let mut wanted = set.start..end;
            return !set.is_ordered
                || (is_highest && wanted.all(|n| self.was_available(n, set, now)));
        }
        let is_outdated = old.image != set.image;
        let is_open = old.ordinal - set.start >= set.partition;
        let is_young = old
            .ready_since
            .is_some_and(|since| now.duration_since(since).as_secs() < set.min_ready);
        let was_unfit = old.unfit_since.is_some() || is_young;
        let is_within_budget = self.unavailable(set, now) < set.max_unavailable;
        is_outdated && is_open && (is_within_budget || (was_unfit && !set.is_ordered))
    }

    /// Wanted pods that were not available throughout the window.
    fn unavailable(&self, set: &WantedSet, now: Timestamp) -> i64 {
        let wanted = set.start..set.start + set.replicas;
        let missing = wanted.filter(|ordinal| !self.was_available(*ordinal, set, now));
        i64::try_from(missing.count()).unwrap()
    }

    fn was_available(&self, ordinal: i64, set: &WantedSet, now: Timestamp) -> bool {
        let horizon = now - self.window;
        self.pods
            .values()
            .filter(|pod| pod.is_ours && pod.ordinal == ordinal)
            .any(|pod| {
                let was_fit = pod.unfit_since.is_none_or(|since| since >= horizon);
                let long_enough = pod
                    .ready_since
                    .is_none_or(|since| now.duration_since(since).as_secs() >= set.min_ready);
                was_fit && (long_enough || !pod.is_ready)
            })
    }

    /// What the user wanted at some time in the window.
    fn accepted_sets(&self, now: Timestamp) -> Vec<WantedSet> {
        let horizon = now - self.window;
        let counts = |(until, _): &&(Timestamp, WantedSet)| *until >= horizon;
        let past = self.past.iter().filter(counts).map(|(_, set)| set);
        self.set.iter().chain(past).cloned().collect()
    }

    fn fail(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }
}
