//! Is a member still there? It renews a Lease, and is out of contact when that stays unchanged for too long.
//!
//! What counts is when the control cluster saw the Lease change, by its own clock: the member's clock may
//! be wrong by hours.

use std::time::Duration;

use jiff::Timestamp;

/// How often a member renews its Lease.
pub const RENEWAL: Duration = Duration::from_secs(30);
/// A member that was not heard of for this long is out of contact.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// What was last heard of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// What the Lease said; another text means that the member is there.
    renewed: Option<Timestamp>,
    /// When the control cluster saw it say so.
    pub heard: Option<Timestamp>,
}

impl Contact {
    /// After a look at the Lease. Without an earlier look the member's own time has to do, which is
    /// never in the future.
    pub fn seen(earlier: Option<&Self>, renewed: Option<Timestamp>, now: Timestamp) -> Self {
        let heard = match (earlier, renewed) {
            (_, None) => None,
            (None, Some(renewed)) => Some(renewed.min(now)),
            (Some(earlier), renewed) if earlier.renewed == renewed => earlier.heard,
            (Some(_), Some(_)) => Some(now),
        };
        Self { renewed, heard }
    }

    /// Since when the member is out of contact; `None` while it is in contact, or was never heard of.
    pub fn away_since(&self, now: Timestamp) -> Option<Timestamp> {
        let heard = self.heard?;
        let silence = Duration::try_from(heard.duration_until(now)).unwrap_or_default();
        (silence >= PATIENCE).then_some(heard)
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
        let first = Contact::seen(None, Some(at(0)), at(1));
        assert_eq!(first.away_since(at(100)), None);
        assert_eq!(first.away_since(at(120)), Some(at(0)));
        let renewed = Contact::seen(Some(&first), Some(at(200)), at(201));
        assert_eq!(renewed.away_since(at(202)), None);
        let same = Contact::seen(Some(&renewed), Some(at(200)), at(300));
        assert_eq!(same.away_since(at(321)), Some(at(201)));
    }

    #[test]
    fn a_member_whose_clock_is_wrong_is_heard_all_the_same() {
        for wrong in [-100_000, 100_000] {
            let first = Contact::seen(None, Some(at(wrong)), at(0));
            let next = Contact::seen(Some(&first), Some(at(wrong + 30)), at(30));
            assert_eq!(next.away_since(at(60)), None);
            assert_eq!(next.away_since(at(150)), Some(at(30)));
        }
    }

    #[test]
    fn one_that_was_never_heard_of_is_not_said_to_be_lost() {
        assert_eq!(Contact::seen(None, None, at(0)).away_since(at(9999)), None);
    }
}
