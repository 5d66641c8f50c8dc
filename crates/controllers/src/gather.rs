//! What the caches show of one grid of workloads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use edgegrid_plan::Child;
use edgegrid_plan::grid::Grid;
use edgegrid_plan::grid_state::{VanishedUnit, World};
use edgegrid_plan::ownership::{Owner, Ownership};
use edgegrid_plan::unit_names::{object_name, unit_of};
use edgegrid_plan::unreachable::{UnreachableNode, is_kept};

use crate::children::Children;
use crate::context::Context;
use crate::grid_memory::Memory;

/// What the caches show of one grid.
pub(crate) struct Gathered {
    units: BTreeSet<String>,
    vanished: BTreeMap<String, VanishedUnit>,
    /// The grid's children.
    pub(crate) children: Vec<Arc<Child>>,
    /// Names that are not to be written now.
    pub(crate) pending: BTreeSet<String>,
    /// How long to wait for caches that do not show our last writes yet.
    pub(crate) cache_wait: Option<Duration>,
    unit_grace: Duration,
    unreachable: Vec<UnreachableNode>,
}

impl Gathered {
    /// Reads the caches for one grid.
    pub(crate) fn new(context: &Context, children: &Children, grid: &Grid) -> Self {
        let caches = &context.caches;
        let key = grid.key.as_deref().unwrap_or_default();
        let units = caches.units(key);
        let unreachable = if is_kept(grid.when_unreachable.as_ref()) {
            caches.unreachable(key)
        } else {
            Vec::new()
        };
        let mut gathered = Self {
            units,
            vanished: BTreeMap::new(),
            children: children.of_name(grid.namespace(), grid.name()),
            pending: BTreeSet::new(),
            cache_wait: None,
            unit_grace: context.config.unit_grace,
            unreachable,
        };
        gathered.find_vanished(context, grid);
        gathered.find_pending(context, grid);
        gathered
    }

    /// Adds children that no cache shows.
    pub(crate) fn add_children(&mut self, context: &Context, grid: &Grid, uncached: Vec<Child>) {
        self.children.extend(uncached.into_iter().map(Arc::new));
        self.find_vanished(context, grid);
    }

    /// How the units of those children went that have no nodes.
    fn find_vanished(&mut self, context: &Context, grid: &Grid) {
        let key = grid.key.as_deref().unwrap_or_default();
        let now = (context.clock)();
        let noted = self
            .children
            .iter()
            .filter_map(|child| unit_of(grid.name(), &child.metadata));
        let vanished = noted.filter(|unit| !self.units.contains(unit)).map(|unit| {
            let seen = context.caches.vanished_units.unit(key, &unit, now);
            (unit, seen)
        });
        self.vanished = vanished.collect();
    }

    /// Names whose last write of ours the caches do not show yet.
    fn find_pending(&mut self, context: &Context, grid: &Grid) {
        let cached: BTreeMap<&str, Option<&str>> = self
            .children
            .iter()
            .map(|child| (name(child), child.metadata.resource_version.as_deref()))
            .collect();
        let wanted = self
            .units
            .iter()
            .map(|unit| object_name(grid.workload, grid.name(), unit));
        let names: BTreeSet<String> = wanted
            .chain(cached.keys().map(|name| (*name).to_owned()))
            .collect();
        let writes = &context.execution.writes;
        let behind: BTreeMap<String, Duration> = names
            .into_iter()
            .filter_map(|name| {
                let revision = cached.get(name.as_str()).copied().flatten();
                let wait = writes.behind(&grid.child(&name), revision)?;
                Some((name, wait))
            })
            .collect();
        self.cache_wait = behind.values().min().copied();
        self.pending = behind.into_keys().collect();
    }

    /// The names that the caches show, or will.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let names = self.children.iter().map(|child| name(child).to_owned());
        names.chain(self.pending.iter().cloned()).collect()
    }

    /// The objects that the grid controls, without those that we deleted.
    pub(crate) fn owned(&self, grid: &Grid, deleted: &BTreeSet<String>) -> BTreeSet<String> {
        let selector = grid.selector_value();
        let owner = Owner {
            uid: grid.uid(),
            selector: &selector,
        };
        let is_deleted = |child: &Child| {
            let uid = child.metadata.uid.as_ref();
            uid.is_some_and(|uid| deleted.contains(uid))
        };
        self.children
            .iter()
            .filter(|child| {
                owner.ownership(&child.metadata) == Ownership::Ours && !is_deleted(child)
            })
            .map(|child| name(child).to_owned())
            .collect()
    }

    /// The world to decide on; `known` are the names of objects that were the grid's.
    pub(crate) fn world<'a>(
        &self,
        memory: &'a Memory,
        known: &BTreeSet<String>,
        foreign: Foreign,
    ) -> World<'a> {
        World {
            units: self.units.clone(),
            vanished: self.vanished.clone(),
            children: self.children.clone(),
            names_scanned: foreign.is_complete,
            foreign: foreign.names,
            pending: self.pending.clone(),
            missed: known.difference(&self.names()).cloned().collect(),
            failures: &memory.failures,
            settled: &memory.settled,
            unit_grace: self.unit_grace,
            unreachable: self.unreachable.clone(),
        }
    }
}

/// Names that others have.
pub(crate) struct Foreign {
    /// Whether the names were just scanned, so that every other name is free.
    pub(crate) is_complete: bool,
    /// Each name and who has it.
    pub(crate) names: BTreeMap<String, String>,
}

fn name(child: &Child) -> &str {
    child.metadata.name.as_deref().unwrap_or_default()
}
