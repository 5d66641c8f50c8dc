//! Promises about claims: made before their pod, owned as the policy says, gone only by the policy.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::runtime::watcher::Event;

use super::Monitor;
use super::view::{ObservedPod, WantedSet};
use crate::fixtures::SET;

impl Monitor {
    pub(crate) fn observe_claim(&mut self, event: Event<PersistentVolumeClaim>, now: Timestamp) {
        match event {
            Event::Apply(claim) | Event::InitApply(claim) => self.apply_claim(&claim, now),
            Event::Delete(claim) => self.delete_claim(&claim),
            Event::Init | Event::InitDone => return,
        }
        self.events += 1;
    }

    fn apply_claim(&mut self, claim: &PersistentVolumeClaim, now: Timestamp) {
        let (name, owners) = (claim.name_any(), claim.owner_references().to_vec());
        let known = self.claims.insert(name.clone(), owners.clone());
        // One that is made has no owner yet, whatever the policy.
        let is_fine = match known {
            None => owners.is_empty(),
            Some(known) if known == owners => true,
            Some(_) => self
                .accepted_sets(now)
                .iter()
                .any(|set| kinds(&owners) == owner(set, ordinal(&name)).as_slice()),
        };
        if !is_fine {
            let owners = kinds(&owners);
            self.fail(format!("{name} was given to {owners:?} against the policy"));
        }
    }

    /// The garbage collector takes what a pod owned that is gone; a set that exists loses nothing else.
    fn delete_claim(&mut self, claim: &PersistentVolumeClaim) {
        let name = claim.name_any();
        let owners = self.claims.remove(&name).unwrap_or_default();
        let is_expected = self.expected.contains(&claim.uid().unwrap_or_default());
        if !is_expected && kinds(&owners) != ["Pod"] {
            self.fail(format!("{name} is gone, and belonged to {owners:?}"));
        }
    }

    /// A pod that is made finds its claim there.
    pub(super) fn check_claim_of(&mut self, new: &ObservedPod) {
        let has_claims = self.set.as_ref().is_some_and(|set| set.has_claims);
        let claim = format!("data-{}", new.name);
        if has_claims && !self.claims.contains_key(&claim) {
            self.fail(format!("{} was made without {claim}", new.name));
        }
    }
}

fn kinds(owners: &[OwnerReference]) -> Vec<&str> {
    owners.iter().map(|owner| owner.kind.as_str()).collect()
}

/// Whom the policy gives the claim of an ordinal to.
fn owner(set: &WantedSet, ordinal: i64) -> Option<&'static str> {
    let is_wanted = (set.start..set.start + set.replicas).contains(&ordinal);
    match (is_wanted, set.keeps_scaled, set.keeps_deleted) {
        (false, false, _) => Some("Pod"),
        (_, _, false) => Some("StatefulSet"),
        _ => None,
    }
}

fn ordinal(claim: &str) -> i64 {
    let ordinal = claim.strip_prefix(&format!("data-{SET}-"));
    ordinal.and_then(|text| text.parse().ok()).unwrap_or(-1)
}
