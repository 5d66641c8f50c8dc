//! Which owners a claim has, so that the garbage collector deletes it when the policy says so.
//!
//! | when scaled | when deleted | pod wanted | pod condemned |
//! |---|---|---|---|
//! | Retain | Retain | nobody | nobody |
//! | Retain | Delete | set | set |
//! | Delete | Retain | nobody | pod |
//! | Delete | Delete | set | pod |
//!
//! This controller never deletes a claim itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::claim::Claim;
use super::set::{ClaimRetention, RetentionPolicy, Set};
use crate::names;

/// The pod that uses a claim. Before it is created its uid is empty.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClaimPod<'a> {
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
    pub(super) ordinal: i64,
}

/// What to do about the owners of a claim.
#[derive(Debug, PartialEq)]
pub(super) enum Owners {
    /// They are right, or not ours to change.
    Fine,
    /// They should be these.
    Wrong(Vec<OwnerReference>),
}

/// Who should own a claim.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Nobody,
    Set,
    Pod,
}

/// The owners a claim should have.
pub(super) fn owners(set: &Set, pod: ClaimPod<'_>, claim: &Claim) -> Owners {
    if has_stale_owner(set, pod, claim) {
        return Owners::Fine;
    }
    let ours = |owner: &OwnerReference| owner.uid == set.uid || owner.uid == pod.uid;
    if has_unexpected_controller(set, pod, claim) {
        let is_ours_too = claim.owners.iter().any(ours);
        return if is_ours_too {
            Owners::Wrong(without_ours(set, pod, claim))
        } else {
            Owners::Fine
        };
    }
    let wanted = wanted(set, pod);
    let has = |uid: &str| claim.owners.iter().any(|owner| owner.uid == uid);
    let is_right = has(&set.uid) == (wanted == Wanted::Set)
        && has(pod.uid) == (wanted == Wanted::Pod)
        && claim
            .owners
            .iter()
            .filter(|owner| ours(owner))
            .all(|owner| owner.controller == Some(true));
    if is_right {
        return Owners::Fine;
    }
    let mut owners = without_ours(set, pod, claim);
    owners.extend(reference(set, pod, wanted));
    Owners::Wrong(owners)
}

/// Somebody else controls the claim, and the policy would make us its controller.
pub(super) fn has_unexpected_controller(set: &Set, pod: ClaimPod<'_>, claim: &Claim) -> bool {
    set.retention != ClaimRetention::default()
        && claim.owners.iter().any(|owner| {
            owner.controller == Some(true) && !names_set(set, owner) && !names_pod(pod, owner)
        })
}

/// The claim belongs to an earlier pod of this name, so the garbage collector is about to delete it. Whatever
/// the policy says by now: a pod that were started on it would lose what it writes.
pub(super) fn is_being_deleted(pod: ClaimPod<'_>, claim: &Claim) -> bool {
    let earlier = |owner: &OwnerReference| names_pod(pod, owner) && owner.uid != pod.uid;
    claim.owners.iter().any(earlier)
}

/// It belongs to an earlier set or pod of the same name: not ours to touch.
fn has_stale_owner(set: &Set, pod: ClaimPod<'_>, claim: &Claim) -> bool {
    let earlier = |owner: &OwnerReference| names_set(set, owner) && owner.uid != set.uid;
    is_being_deleted(pod, claim) || claim.owners.iter().any(earlier)
}

fn wanted(set: &Set, pod: ClaimPod<'_>) -> Wanted {
    let ClaimRetention {
        when_deleted,
        when_scaled,
    } = set.retention;
    match (when_scaled, when_deleted, set.wants(pod.ordinal)) {
        (RetentionPolicy::Delete, _, false) => Wanted::Pod,
        (_, RetentionPolicy::Delete, _) => Wanted::Set,
        (_, RetentionPolicy::Retain, _) => Wanted::Nobody,
    }
}

fn reference(set: &Set, pod: ClaimPod<'_>, wanted: Wanted) -> Option<OwnerReference> {
    let (api_version, kind, name, uid) = match wanted {
        Wanted::Nobody => return None,
        Wanted::Set => (
            names::SET_API_VERSION,
            names::SET_KIND,
            set.name.as_str(),
            set.uid.as_str(),
        ),
        Wanted::Pod => (names::CORE_API_VERSION, names::POD_KIND, pod.name, pod.uid),
    };
    Some(OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    })
}

fn without_ours(set: &Set, pod: ClaimPod<'_>, claim: &Claim) -> Vec<OwnerReference> {
    let is_other = |owner: &&OwnerReference| !names_set(set, owner) && !names_pod(pod, owner);
    claim.owners.iter().filter(is_other).cloned().collect()
}

fn names_set(set: &Set, owner: &OwnerReference) -> bool {
    owner.api_version == names::SET_API_VERSION
        && owner.kind == names::SET_KIND
        && owner.name == set.name
}

fn names_pod(pod: ClaimPod<'_>, owner: &OwnerReference) -> bool {
    owner.api_version == names::CORE_API_VERSION
        && owner.kind == names::POD_KIND
        && owner.name == pod.name
}
