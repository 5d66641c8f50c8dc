//! To whom a claim belongs, so that the garbage collector removes it when the policy says so.
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
use super::set::{Keep, Retention, Set};
use crate::names;

/// The pod of a claim. Before it is made it has no identity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holder<'a> {
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
    pub(super) ordinal: i64,
}

/// What to do about the owners of a claim.
#[derive(Debug, PartialEq)]
pub(super) enum Owners {
    /// They are right, or not ours to judge.
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
pub(super) fn owners(set: &Set, holder: Holder<'_>, claim: &Claim) -> Owners {
    if is_stale(set, holder, claim) {
        return Owners::Fine;
    }
    let ours = |owner: &OwnerReference| owner.uid == set.uid || owner.uid == holder.uid;
    if has_foreign_controller(set, holder, claim) {
        let is_ours_too = claim.owners.iter().any(ours);
        return if is_ours_too {
            Owners::Wrong(without_ours(set, holder, claim))
        } else {
            Owners::Fine
        };
    }
    let wanted = wanted(set, holder);
    let has = |uid: &str| claim.owners.iter().any(|owner| owner.uid == uid);
    let is_right = has(&set.uid) == (wanted == Wanted::Set)
        && has(holder.uid) == (wanted == Wanted::Pod)
        && claim
            .owners
            .iter()
            .filter(|owner| ours(owner))
            .all(|owner| owner.controller == Some(true));
    if is_right {
        return Owners::Fine;
    }
    let mut owners = without_ours(set, holder, claim);
    owners.extend(reference(set, holder, wanted));
    Owners::Wrong(owners)
}

/// Somebody else controls the claim, and the policy would have us take it over.
pub(super) fn has_foreign_controller(set: &Set, holder: Holder<'_>, claim: &Claim) -> bool {
    set.retention != Retention::default()
        && claim.owners.iter().any(|owner| {
            owner.controller == Some(true) && !names_set(set, owner) && !names_pod(holder, owner)
        })
}

/// The claim waits for the garbage collector: it belongs to an earlier pod of this name. Whatever the policy
/// says by now: a pod that were started on it would lose what it writes.
pub(super) fn is_doomed(holder: Holder<'_>, claim: &Claim) -> bool {
    let earlier = |owner: &OwnerReference| names_pod(holder, owner) && owner.uid != holder.uid;
    claim.owners.iter().any(earlier)
}

/// It belongs to an earlier set or pod of the same name: not ours to touch.
fn is_stale(set: &Set, holder: Holder<'_>, claim: &Claim) -> bool {
    let earlier = |owner: &OwnerReference| names_set(set, owner) && owner.uid != set.uid;
    is_doomed(holder, claim) || claim.owners.iter().any(earlier)
}

fn wanted(set: &Set, holder: Holder<'_>) -> Wanted {
    let Retention {
        when_deleted,
        when_scaled,
    } = set.retention;
    match (when_scaled, when_deleted, set.wants(holder.ordinal)) {
        (Keep::Delete, _, false) => Wanted::Pod,
        (_, Keep::Delete, _) => Wanted::Set,
        (_, Keep::Retain, _) => Wanted::Nobody,
    }
}

fn reference(set: &Set, holder: Holder<'_>, wanted: Wanted) -> Option<OwnerReference> {
    let (api_version, kind, name, uid) = match wanted {
        Wanted::Nobody => return None,
        Wanted::Set => (
            names::SET_API_VERSION,
            names::SET_KIND,
            set.name.as_str(),
            set.uid.as_str(),
        ),
        Wanted::Pod => (
            names::CORE_API_VERSION,
            names::POD_KIND,
            holder.name,
            holder.uid,
        ),
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

fn without_ours(set: &Set, holder: Holder<'_>, claim: &Claim) -> Vec<OwnerReference> {
    let is_other = |owner: &&OwnerReference| !names_set(set, owner) && !names_pod(holder, owner);
    claim.owners.iter().filter(is_other).cloned().collect()
}

fn names_set(set: &Set, owner: &OwnerReference) -> bool {
    owner.api_version == names::SET_API_VERSION
        && owner.kind == names::SET_KIND
        && owner.name == set.name
}

fn names_pod(holder: Holder<'_>, owner: &OwnerReference) -> bool {
    owner.api_version == names::CORE_API_VERSION
        && owner.kind == names::POD_KIND
        && owner.name == holder.name
}
