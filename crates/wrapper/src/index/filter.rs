//! Which endpoints of a service a viewer sees: the rule applied to the index.

use super::{Index, Key};
use crate::document::{Family, Source};
use crate::view::{self, Endpoint, NodeId, Rule, Selected, Topology, Visibility};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Who looks at a service.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Viewer<'a> {
    /// This node.
    Node,
    /// A unit: it sees what runs on its nodes, whatever the service asks for.
    Unit(&'a BTreeSet<NodeId>),
}

/// Which endpoints of an object are seen: a bit for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mask(Box<[u8]>);

/// What became of an object's endpoints.
#[derive(Debug)]
pub(crate) struct Filtered {
    pub(crate) source: Source,
    pub(crate) key: Key,
    pub(crate) mask: Mask,
    /// How many are withheld, in the order of [`Visibility::WITHHELD`].
    pub(crate) withheld: [u32; Visibility::WITHHELD.len()],
}

impl Mask {
    fn from_visibilities(visibilities: &[Visibility]) -> Self {
        let mut bits = vec![0; visibilities.len().div_ceil(8)];
        for (at, visibility) in visibilities.iter().enumerate() {
            if *visibility == Visibility::Visible {
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

impl Index {
    /// Filters all objects of a service together.
    pub(crate) fn filter(&self, service: &str, viewer: Viewer<'_>) -> Vec<Filtered> {
        let rule = self.rule(service);
        let mut filtered = Vec::new();
        for source in Source::ALL {
            let selected = rule.map(|rule| self.selected(source, service, rule, viewer));
            for (_, key, entry) in self.entries_of(service).filter(|(of, ..)| *of == source) {
                let visibilities: Vec<Visibility> = entry
                    .endpoints()
                    .map(|(family, one)| match (&rule, &selected) {
                        (Some(rule), Some(selected)) => {
                            let selected = selected.get(&family).copied();
                            self.visibility(
                                rule,
                                selected.unwrap_or(Selected::Nothing),
                                one,
                                viewer,
                            )
                        }
                        _ => Visibility::UnknownService,
                    })
                    .collect();
                filtered.push(Filtered::new(source, key, &visibilities));
            }
        }
        filtered
    }

    /// An object that belongs to no service is seen by nobody.
    pub(crate) fn filter_unowned(&self, source: Source, key: &Key) -> Filtered {
        let endpoints = self
            .entries(source)
            .get(key)
            .map_or(0, super::SliceEntry::len);
        Filtered::new(source, key, &vec![Visibility::UnknownService; endpoints])
    }

    /// What is selected for each address family of a service.
    pub(crate) fn selected(
        &self,
        source: Source,
        service: &str,
        rule: &Rule,
        viewer: Viewer<'_>,
    ) -> BTreeMap<Family, Selected> {
        let Viewer::Node = viewer else {
            return Family::ALL.map(|family| (family, Selected::AnyKey)).into();
        };
        let entries: Vec<_> = self
            .entries_of(service)
            .filter(|(of, ..)| *of == source)
            .collect();
        let all = entries.iter().flat_map(|(_, _, entry)| entry.endpoints());
        let select = |family: Family| {
            let of_family = all.clone().filter(move |(of, _)| *of == family);
            view::select(rule, &of_family.map(|(_, endpoint)| endpoint), self)
        };
        Family::ALL.map(|family| (family, select(family))).into()
    }

    /// What becomes of one endpoint.
    pub(crate) fn visibility(
        &self,
        rule: &Rule,
        selected: Selected,
        one: Endpoint,
        viewer: Viewer<'_>,
    ) -> Visibility {
        let Viewer::Unit(nodes) = viewer else {
            return view::visibility(rule, selected, one, self);
        };
        match (&rule.topology, one.node) {
            (Topology::Malformed(_), _) => Visibility::Malformed,
            (_, Some(node)) if nodes.contains(&node) => Visibility::Visible,
            (_, Some(_)) => Visibility::NotSharing,
            (Topology::Keys { keys, .. }, None) if !keys.is_empty() && !rule.keep_external => {
                Visibility::NoNode
            }
            (_, None) => Visibility::Visible,
        }
    }
}

impl Filtered {
    fn new(source: Source, key: &Key, visibilities: &[Visibility]) -> Self {
        let count = |(visibility, _): (Visibility, &str)| {
            let found = visibilities
                .iter()
                .filter(|one| **one == visibility)
                .count();
            u32::try_from(found).unwrap_or(u32::MAX)
        };
        Self {
            source,
            key: Arc::clone(key),
            mask: Mask::from_visibilities(visibilities),
            withheld: Visibility::WITHHELD.map(count),
        }
    }
}
