//! Who sees what of a service: the rule applied to what is held, through one of two eyes.

use super::{Held, Key};
use crate::document::{Family, Source};
use crate::view::{self, Endpoint, Fate, NodeId, Rule, Topology, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Through whose eyes a service is seen.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Eye<'a> {
    /// Those of this node.
    Node,
    /// Those of a unit: what runs on its nodes, whatever the service says.
    Unit(&'a BTreeSet<NodeId>),
}

/// Which endpoints of an object are seen: a bit for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mask(Box<[u8]>);

/// What became of an object's endpoints.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) source: Source,
    pub(crate) key: Key,
    pub(crate) mask: Mask,
    /// How many are withheld, in the order of [`Fate::WITHHELD`].
    pub(crate) withheld: [u32; Fate::WITHHELD.len()],
}

impl Mask {
    fn of(fates: &[Fate]) -> Self {
        let mut bits = vec![0; fates.len().div_ceil(8)];
        for (at, fate) in fates.iter().enumerate() {
            if *fate == Fate::Stays {
                bits[at / 8] |= 1 << (at % 8);
            }
        }
        Self(bits.into())
    }

    /// Whether nothing is seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|bits| *bits == 0)
    }

    pub(crate) fn has(&self, at: usize) -> bool {
        self.0
            .get(at / 8)
            .is_some_and(|bits| bits & (1 << (at % 8)) != 0)
    }
}

impl Held {
    /// Judges all objects of a service together.
    pub(crate) fn judge(&self, service: &str, eye: Eye<'_>) -> Vec<Judged> {
        let rule = self.rule(service);
        let mut judged = Vec::new();
        for source in Source::ALL {
            let verdicts = rule.map(|rule| self.verdicts(source, service, rule, eye));
            for (_, key, piece) in self.pieces_of(service).filter(|(of, ..)| *of == source) {
                let fates: Vec<Fate> = piece
                    .endpoints()
                    .map(|(family, one)| match (&rule, &verdicts) {
                        (Some(rule), Some(verdicts)) => {
                            let verdict = verdicts.get(&family).copied();
                            self.fate(rule, verdict.unwrap_or(Verdict::Nothing), one, eye)
                        }
                        _ => Fate::UnknownService,
                    })
                    .collect();
                judged.push(Judged::of(source, key, &fates));
            }
        }
        judged
    }

    /// An object that belongs to no service is seen by nobody.
    pub(crate) fn judge_homeless(&self, source: Source, key: &Key) -> Judged {
        let endpoints = self.pieces(source).get(key).map_or(0, super::Piece::len);
        Judged::of(source, key, &vec![Fate::UnknownService; endpoints])
    }

    /// What was decided for each address family of a service.
    pub(crate) fn verdicts(
        &self,
        source: Source,
        service: &str,
        rule: &Rule,
        eye: Eye<'_>,
    ) -> BTreeMap<Family, Verdict> {
        let Eye::Node = eye else {
            return Family::ALL.map(|family| (family, Verdict::AnyKey)).into();
        };
        let pieces: Vec<_> = self
            .pieces_of(service)
            .filter(|(of, ..)| *of == source)
            .collect();
        let all = pieces.iter().flat_map(|(_, _, piece)| piece.endpoints());
        let decide = |family: Family| {
            let of_family = all.clone().filter(move |(of, _)| *of == family);
            view::decide(rule, &of_family.map(|(_, endpoint)| endpoint), self)
        };
        Family::ALL.map(|family| (family, decide(family))).into()
    }

    /// What becomes of one endpoint.
    pub(crate) fn fate(&self, rule: &Rule, verdict: Verdict, one: Endpoint, eye: Eye<'_>) -> Fate {
        let Eye::Unit(nodes) = eye else {
            return view::fate(rule, verdict, one, self);
        };
        match (&rule.topology, one.node) {
            (Topology::Malformed(_), _) => Fate::Malformed,
            (_, Some(node)) if nodes.contains(&node) => Fate::Stays,
            (_, Some(_)) => Fate::NotSharing,
            (Topology::Keys { keys, .. }, None) if !keys.is_empty() && !rule.keep_external => {
                Fate::NoNode
            }
            (_, None) => Fate::Stays,
        }
    }
}

impl Judged {
    fn of(source: Source, key: &Key, fates: &[Fate]) -> Self {
        let count = |(fate, _): (Fate, &str)| {
            let found = fates.iter().filter(|one| **one == fate).count();
            u32::try_from(found).unwrap_or(u32::MAX)
        };
        Self {
            source,
            key: Arc::clone(key),
            mask: Mask::of(fates),
            withheld: Fate::WITHHELD.map(count),
        }
    }
}
