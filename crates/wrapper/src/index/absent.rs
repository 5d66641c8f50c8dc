//! Peers that have left a node set, and whether they are still to be counted in it. Pure.
//!
//! A watch by label says DELETED of a Node that is gone and of one that has another label now. So the Node
//! itself is asked for:
//!
//! ```text
//! not there ──────────────────────────────────► stays for the grace ─┬─ back with the value ────► a peer
//! there, another uid, without the key ────────► stays for the grace ─┼─ back with another value ► out
//! there with the value ───────────────────────► a peer               └─ grace over ────────────► out
//! there with another value, or the same uid ──► out
//! no answer in five seconds ──────────────────► out
//! ```

use super::own_node::Grace;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// So long a Node may stay unanswered for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// So many Nodes are asked for at the same time, those first for which there is no answer yet.
const MAX_ASKED: usize = 16;

/// Peers that are gone, or may be.
#[derive(Debug, Default)]
pub(crate) struct AbsentPeers {
    nodes: BTreeMap<Box<str>, AbsentNode>,
}

#[derive(Debug, Default)]
struct AbsentNode {
    answer: Option<Answer>,
    /// By the keys of the sets that it has left.
    sets: BTreeMap<Box<str>, Absence>,
}

/// That a node is missing in a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Absence {
    /// The set's value.
    pub(crate) value: String,
    /// Of the object that left; none if only a list showed it.
    pub(crate) uid: Option<String>,
    /// When it was missing; what was true before says nothing.
    pub(crate) revision: Option<u64>,
    /// Until when an answer must come; none if there was one.
    pub(crate) answer_by: Option<Instant>,
    /// When the grace is over.
    pub(crate) until: Instant,
}

/// What the API server says of one Node.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) revision: Option<u64>,
    /// None if there is no such Node.
    pub(crate) node: Option<SeenNode>,
}

/// A Node as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenNode {
    pub(crate) uid: String,
    pub(crate) labels: BTreeMap<String, String>,
}

/// A set that a node is out of from now on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LeftSet {
    pub(crate) node: Box<str>,
    pub(crate) key: Box<str>,
    pub(crate) value: String,
}

/// What an answer makes of a node in a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// The answer is too old to say.
    Unknown,
    /// It has the value.
    Peer,
    /// It is gone, and nothing says that it has moved.
    Gone,
    /// It is there, and not in this set.
    Out,
}

impl Absence {
    /// An absence that begins now.
    pub(crate) fn new(value: &str, uid: Option<&str>, revision: &str, grace: Grace) -> Self {
        Self {
            value: value.to_owned(),
            uid: uid.map(str::to_owned),
            revision: revision.parse().ok(),
            answer_by: Some(grace.now + ANSWER_TIMEOUT),
            until: grace.until,
        }
    }

    fn standing(&self, key: &str, answer: &Answer) -> Standing {
        // Without revisions nobody can tell an answer from one of before.
        let is_new = self.revision.is_some() && answer.revision >= self.revision;
        if self.answer_by.is_some() && !is_new {
            return Standing::Unknown;
        }
        let Some(node) = &answer.node else {
            return Standing::Gone;
        };
        let was_gone = self.answer_by.is_none();
        let is_another = self.uid.as_ref().is_some_and(|uid| *uid != node.uid);
        match node.labels.get(key) {
            Some(value) if *value == self.value => Standing::Peer,
            None if was_gone || is_another => Standing::Gone,
            _ => Standing::Out,
        }
    }

    /// When it is over: the wait for an answer, or the grace.
    fn deadline(&self) -> Instant {
        let answer_by = self.answer_by.unwrap_or(self.until);
        answer_by.min(self.until)
    }

    fn is_over(&self, now: Instant) -> bool {
        self.deadline() <= now
    }
}

impl LeftSet {
    fn new(node: &str, key: &str, absence: &Absence) -> Self {
        Self {
            node: node.into(),
            key: key.into(),
            value: absence.value.clone(),
        }
    }
}

impl AbsentPeers {
    /// Takes note that a node is missing in the set of a key; true if it still counts as a peer.
    pub(crate) fn add(&mut self, node: &str, key: &str, absence: Absence, now: Instant) -> bool {
        if absence.is_over(now) {
            return false; // there is no grace
        }
        let absent = self.nodes.entry(node.into()).or_default();
        absent.sets.entry(key.into()).or_insert(absence);
        match absent.answer.clone() {
            Some(answer) => !self
                .answered(node, answer)
                .iter()
                .any(|left| *left.key == *key),
            None => true,
        }
    }

    /// Takes note that a node is in a set, or certainly not.
    pub(crate) fn remove(&mut self, node: &str, key: &str) -> bool {
        let absent = self.nodes.get_mut(node);
        let removed = absent.is_some_and(|absent| absent.sets.remove(key).is_some());
        self.forget_empty();
        removed
    }

    /// Takes note of what is said of a node; gives the sets that it is out of.
    pub(crate) fn answered(&mut self, node: &str, answer: Answer) -> Vec<LeftSet> {
        let mut out = Vec::new();
        let Some(absent) = self.nodes.get_mut(node) else {
            return out;
        };
        absent
            .sets
            .retain(|key, absence| match absence.standing(key, &answer) {
                Standing::Unknown => true,
                Standing::Peer => false,
                Standing::Gone => {
                    absence.answer_by = None;
                    true
                }
                Standing::Out => {
                    out.push(LeftSet::new(node, key, absence));
                    false
                }
            });
        absent.answer = Some(answer);
        self.forget_empty();
        out
    }

    /// Drops what is over; gives the sets that nodes are out of.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<LeftSet> {
        let mut out = Vec::new();
        for (node, absent) in &mut self.nodes {
            absent.sets.retain(|key, absence| {
                let is_over = absence.is_over(now);
                if is_over {
                    out.push(LeftSet::new(node, key, absence));
                }
                !is_over
            });
        }
        self.forget_empty();
        out
    }

    /// When the next thing is over.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let all = self.iter();
        all.map(|(.., absence)| absence.deadline()).min()
    }

    /// The nodes to ask for.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &str> {
        let is_open = |absent: &AbsentNode| {
            let mut sets = absent.sets.values();
            sets.any(|absence| absence.answer_by.is_some())
        };
        let open = self.nodes.iter().filter(move |(_, absent)| is_open(absent));
        let answered = self
            .nodes
            .iter()
            .filter(move |(_, absent)| !is_open(absent));
        let nodes = open.chain(answered).map(|(node, _)| &**node);
        nodes.take(MAX_ASKED)
    }

    /// Keeps only some.
    pub(crate) fn retain(&mut self, keep: impl Fn(&str, &str, &Absence) -> bool) {
        for (node, absent) in &mut self.nodes {
            absent.sets.retain(|key, absence| keep(node, key, absence));
        }
        self.forget_empty();
    }

    /// All nodes, the keys of the sets that they are missing in, and how they are.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str, &Absence)> {
        self.nodes.iter().flat_map(|(node, absent)| {
            let sets = absent.sets.iter();
            sets.map(move |(key, absence)| (&**node, &**key, absence))
        })
    }

    fn forget_empty(&mut self) {
        self.nodes.retain(|_, absent| !absent.sets.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTES: u64 = 60;

    fn at(seconds: u64) -> Instant {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *START.get_or_init(Instant::now) + Duration::from_secs(seconds)
    }

    fn grace() -> Grace {
        Grace {
            now: at(0),
            until: at(5 * MINUTES),
        }
    }

    /// Node x with uid 1 has left unit=a at revision 10.
    fn absent(uid: Option<&str>) -> AbsentPeers {
        let mut absent = AbsentPeers::default();
        let absence = Absence::new("a", uid, "10", grace());
        assert!(absent.add("x", "unit", absence, at(0)));
        absent
    }

    fn nobody(revision: u64) -> Answer {
        Answer {
            revision: Some(revision),
            node: None,
        }
    }

    fn there(uid: &str, unit: Option<&str>) -> Answer {
        let labels = unit.map(|unit| ("unit".to_owned(), unit.to_owned()));
        Answer {
            revision: Some(11),
            node: Some(SeenNode {
                uid: uid.to_owned(),
                labels: labels.into_iter().collect(),
            }),
        }
    }

    fn is_known(absent: &AbsentPeers) -> bool {
        absent.iter().next().is_some()
    }

    #[test]
    fn only_what_is_gone_or_another_object_without_the_key_stays() {
        let (first, list) = (Some("1"), None);
        for (uid, answer, is_out, is_absent) in [
            (first, nobody(10), false, true),
            (first, there("2", None), false, true),
            (first, there("1", None), true, false),
            (list, there("1", None), true, false),
            (first, there("1", Some("b")), true, false),
            (first, there("2", Some("b")), true, false),
            (first, there("2", Some("a")), false, false),
        ] {
            let mut absent = absent(uid);
            let out = absent.answered("x", answer.clone());
            assert_eq!(
                (!out.is_empty(), is_known(&absent)),
                (is_out, is_absent),
                "{answer:?}"
            );
        }
    }

    #[test]
    fn once_it_was_gone_only_a_value_says_where_it_is() {
        for (answer, is_out, is_absent) in [
            (there("2", None), false, true),
            (there("2", Some("a")), false, false),
            (there("2", Some("b")), true, false),
        ] {
            for uid in [Some("1"), None] {
                let mut absent = absent(uid);
                assert!(absent.answered("x", nobody(10)).is_empty());
                let out = absent.answered("x", answer.clone());
                let seen = (!out.is_empty(), is_known(&absent));
                assert_eq!(seen, (is_out, is_absent), "{answer:?}");
            }
        }
    }

    #[test]
    fn an_answer_of_before_is_none_and_without_one_it_is_out_after_five_seconds() {
        let mut absent = absent(Some("1"));
        let (old, unclear) = (
            nobody(9),
            Answer {
                revision: None,
                node: None,
            },
        );
        assert!(absent.answered("x", old).is_empty());
        assert!(absent.answered("x", unclear).is_empty());
        assert_eq!(absent.deadline(), Some(at(5)));
        assert!(absent.expire(at(4)).is_empty());
        let out = LeftSet {
            node: "x".into(),
            key: "unit".into(),
            value: "a".to_owned(),
        };
        assert_eq!(absent.expire(at(5)), [out]);
        assert!(!is_known(&absent));
    }

    #[test]
    fn the_grace_ends_and_is_not_begun_again() {
        let mut absent = absent(Some("1"));
        absent.answered("x", nobody(10));
        let later = Grace {
            now: at(MINUTES),
            until: at(6 * MINUTES),
        };
        let again = Absence::new("a", None, "20", later);
        assert!(absent.add("x", "unit", again, at(MINUTES)));
        assert_eq!(absent.deadline(), Some(at(5 * MINUTES)));
        assert_eq!(absent.expire(at(5 * MINUTES)).len(), 1);
    }

    #[test]
    fn a_second_key_is_answered_by_what_is_known_if_that_is_new_enough() {
        let mut absent = absent(Some("1"));
        absent.answered("x", nobody(10));
        let zone = |revision| Absence::new("z", Some("1"), revision, grace());
        assert!(absent.add("x", "zone", zone("10"), at(0)));
        assert!(
            absent
                .iter()
                .all(|(.., absence)| absence.answer_by.is_none())
        );
        assert!(absent.remove("x", "zone"));
        assert!(absent.add("x", "zone", zone("12"), at(0)));
        assert_eq!(absent.deadline(), Some(at(5)));
    }

    #[test]
    fn what_has_no_answer_is_asked_for_first() {
        let mut absent = AbsentPeers::default();
        for number in 0..40 {
            let absence = Absence::new("a", None, "10", grace());
            absent.add(&format!("n-{number:02}"), "unit", absence, at(0));
        }
        assert_eq!(absent.asked().count(), MAX_ASKED);
        absent.answered("n-00", nobody(10));
        let asked: Vec<&str> = absent.asked().collect();
        assert_eq!(
            (asked.len(), asked[0], asked[15]),
            (MAX_ASKED, "n-01", "n-16")
        );
    }

    #[test]
    fn without_a_grace_nobody_is_asked() {
        let mut absent = AbsentPeers::default();
        let none = Grace {
            now: at(0),
            until: at(0),
        };
        let absence = Absence::new("a", None, "10", none);
        assert!(!absent.add("x", "unit", absence, at(0)));
        assert!(!is_known(&absent));
    }
}
