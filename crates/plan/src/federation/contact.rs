//! Is a member still there? It renews a Lease, and is out of contact when that stays unchanged for too long.
//!
//! What counts is when the control cluster saw the Lease change, by its own clock: the member's clock may
//! be wrong by hours.

use std::time::Duration;

use jiff::Timestamp;

/// How often a member renews its Lease.
pub const RENEW_INTERVAL: Duration = Duration::from_secs(30);
/// A member whose Lease stays unchanged for this long is out of contact.
pub const LEASE_DURATION: Duration = Duration::from_mins(2);

/// When a member was last seen to renew its Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// `renewTime` as the Lease has it; another one means that the member is there.
    renewed: Option<Timestamp>,
    /// When the control cluster saw it change.
    pub observed: Option<Timestamp>,
}

impl Contact {
    /// Looks at the Lease once more. Without an earlier look the member's own time has to do, which is
    /// never in the future.
    pub fn observe(earlier: Option<&Self>, renewed: Option<Timestamp>, now: Timestamp) -> Self {
        let observed = match (earlier, renewed) {
            (_, None) => None,
            (None, Some(renewed)) => Some(renewed.min(now)),
            (Some(earlier), renewed) if earlier.renewed == renewed => earlier.observed,
            (Some(_), Some(_)) => Some(now),
        };
        Self { renewed, observed }
    }

    /// Since when the member is out of contact; `None` while it is in contact, or never renewed its Lease.
    pub fn away_since(&self, now: Timestamp) -> Option<Timestamp> {
        let observed = self.observed?;
        let silence = Duration::try_from(observed.duration_until(now)).unwrap_or_default();
        (silence >= LEASE_DURATION).then_some(observed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(second: i64) -> Timestamp {
        Timestamp::constant(1_000_000 + second, 0)
    }

    #[test]
    fn a_member_is_away_when_its_lease_stays_as_it_is() {
        let first = Contact::observe(None, Some(at(0)), at(1));
        assert_eq!(first.away_since(at(100)), None);
        assert_eq!(first.away_since(at(120)), Some(at(0)));
        let renewed = Contact::observe(Some(&first), Some(at(200)), at(201));
        assert_eq!(renewed.away_since(at(202)), None);
        let same = Contact::observe(Some(&renewed), Some(at(200)), at(300));
        assert_eq!(same.away_since(at(321)), Some(at(201)));
    }

    #[test]
    fn a_member_whose_clock_is_wrong_is_in_contact_all_the_same() {
        for wrong in [-100_000, 100_000] {
            let first = Contact::observe(None, Some(at(wrong)), at(0));
            let next = Contact::observe(Some(&first), Some(at(wrong + 30)), at(30));
            assert_eq!(next.away_since(at(60)), None);
            assert_eq!(next.away_since(at(150)), Some(at(30)));
        }
    }

    #[test]
    fn a_member_that_never_renewed_its_lease_is_not_out_of_contact() {
        assert_eq!(
            Contact::observe(None, None, at(0)).away_since(at(9999)),
            None
        );
    }
}
