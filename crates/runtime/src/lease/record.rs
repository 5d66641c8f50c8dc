//! Pure decisions about a lease: who may have it, and what is written into it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::ObjectMeta;

use super::LeaseConfig;

/// Who may have a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nobody has it, or its holder let it expire.
    Free,
    Ours,
    Theirs,
}

/// Who may have a lease that was last seen to change so long ago.
pub(super) fn standing(seen: Option<(&Lease, Duration)>, config: &LeaseConfig) -> Standing {
    let Some((lease, unchanged)) = seen else {
        return Standing::Free;
    };
    let spec = lease.spec.as_ref();
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
    match holder {
        None | Some("") => Standing::Free,
        Some(holder) if holder == config.identity => Standing::Ours,
        Some(_) if unchanged >= duration(spec, config) => Standing::Free,
        Some(_) => Standing::Theirs,
    }
}

/// What the holder promised, which may be more than we would; our own if it does not say.
fn duration(spec: Option<&LeaseSpec>, config: &LeaseConfig) -> Duration {
    spec.and_then(|spec| spec.lease_duration_seconds)
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map_or(config.lease_duration, Duration::from_secs)
}

/// The lease as we write it to acquire or renew it.
pub(super) fn renewed(before: Option<&Lease>, config: &LeaseConfig, now: Timestamp) -> Lease {
    let mut lease = before.cloned().unwrap_or_default();
    lease.metadata.name = Some(config.name.clone());
    lease.metadata.namespace = Some(config.namespace.clone());
    let spec = lease.spec.get_or_insert_default();
    let is_ours = spec.holder_identity.as_ref() == Some(&config.identity);
    if !is_ours {
        let former = spec.holder_identity.replace(config.identity.clone());
        let transitions = spec.lease_transitions.unwrap_or(0);
        spec.lease_transitions = Some(transitions.saturating_add(former.is_some().into()));
        spec.acquire_time = Some(MicroTime(now));
    }
    spec.renew_time = Some(MicroTime(now));
    let seconds = i32::try_from(config.lease_duration.as_secs());
    spec.lease_duration_seconds = Some(seconds.unwrap_or(i32::MAX));
    lease
}

/// The lease as we write it to release it: without a holder.
pub(super) fn released(mut lease: Lease, now: Timestamp) -> Lease {
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    spec.renew_time = Some(MicroTime(now));
    lease
}

/// What is left of a lease that somebody deleted: what it said.
pub(super) fn vanished(lease: Lease) -> Lease {
    Lease {
        metadata: ObjectMeta::default(),
        spec: lease.spec,
    }
}

/// `now`, or the moment after `before`: a renewal that changes nothing is none, for Kubernetes
/// does not even store it.
pub(super) fn later_than(before: Timestamp, now: Timestamp) -> Timestamp {
    let next = before.saturating_add(SignedDuration::from_micros(1));
    next.map_or(now, |next| next.max(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(identity: &str) -> LeaseConfig {
        LeaseConfig::new("edgegrid", "controller", identity)
    }

    #[test]
    fn a_lease_is_free_only_once_it_was_unchanged_for_what_its_holder_promised() {
        let mut theirs = config("them");
        theirs.lease_duration = Duration::from_secs(30);
        let lease = renewed(None, &theirs, Timestamp::UNIX_EPOCH);
        let seen = |seconds| standing(Some((&lease, Duration::from_secs(seconds))), &config("us"));
        assert_eq!([29, 30].map(seen), [Standing::Theirs, Standing::Free]);
        assert_eq!(standing(None, &config("us")), Standing::Free);
        let ours = standing(Some((&lease, Duration::ZERO)), &theirs);
        assert_eq!(ours, Standing::Ours);
        let released = released(lease, Timestamp::UNIX_EPOCH);
        let seen = standing(Some((&released, Duration::ZERO)), &config("us"));
        assert_eq!(seen, Standing::Free);
    }

    #[test]
    fn only_a_new_holder_counts_as_a_transition() {
        let now = |second| Timestamp::from_second(second).unwrap();
        let first = renewed(None, &config("a"), now(1));
        let second = renewed(Some(&first), &config("a"), now(2));
        let taken = renewed(Some(&second), &config("b"), now(3));
        let spec = |lease: &Lease| {
            let spec = lease.spec.clone().unwrap();
            (spec.lease_transitions, spec.acquire_time.map(|time| time.0))
        };
        assert_eq!(spec(&first), (Some(0), Some(now(1))));
        assert_eq!(spec(&second), (Some(0), Some(now(1))));
        assert_eq!(spec(&taken), (Some(1), Some(now(3))));
    }

    #[test]
    fn every_renewal_is_a_change_even_when_the_wall_clock_stands_or_goes_back() {
        let (earlier, now) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(9).unwrap());
        assert_eq!(later_than(earlier, now), now);
        assert!(later_than(now, now) > now);
        assert!(later_than(now, earlier) > now);
    }
}
