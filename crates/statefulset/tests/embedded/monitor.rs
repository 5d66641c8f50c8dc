//! The promises of a StatefulSet, checked on every event as it happens.
//!
//! The controller cannot know what happens in the moment it acts. So a state that held at any time in
//! the window before an event counts as held: a window of nothing but the same instant unless the
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

use crate::bench::SET;
use view::{Seen, Wish, seen, wish};

/// What has been seen so far, and the first rule that was broken.
pub(crate) struct Monitor {
    pub(crate) window: SignedDuration,
    pub(crate) events: usize,
    /// Writes that the scenario lets go wrong: each may put off that a revision is forgotten.
    pub(crate) lost_writes: usize,
    set: Option<Wish>,
    /// What was wished before, and until when: it counts within the window.
    past: Vec<(Timestamp, Wish)>,
    /// Owners of every claim, by its name.
    claims: BTreeMap<String, Vec<OwnerReference>>,
    pods: BTreeMap<String, Seen>,
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

    /// A user deletes this pod or claim: no rule speaks about that.
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
            if let Some(old) = self.set.take_if(|old| *old != wish) {
                self.past.push((now, old));
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
        let most = set.limit + i64::try_from(in_use.len() + self.lost_writes).unwrap() + 3;
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
        self.check_claim_of(new);
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
        let horizon = now - self.window;
        let counts = |(until, _): &&(Timestamp, Wish)| *until >= horizon;
        let past = self.past.iter().filter(counts).map(|(_, wish)| wish);
        self.set.iter().chain(past).cloned().collect()
    }

    fn fail(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }
}

/// A time as objects show it.
pub(crate) fn stamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
