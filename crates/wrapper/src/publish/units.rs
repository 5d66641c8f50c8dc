//! Views of units: what an ingress of another site asks for, made when asked and dropped when
//! nobody has for a while.

use super::rendered::{RenderedView, Touched};
use super::{Inner, Publisher};
use crate::feed::Feed;
use crate::index::filter::Viewer;
use crate::kinds::ServedKind;
use crate::view::NodeId;
use edgegrid_listwatch::{Reader, Store};
use edgegrid_store::Limits;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// So many units at most can be looked at at once.
const MAX_UNITS: usize = 64;
/// A unit nobody asks for is forgotten after this time, if no watch of it is open.
const IDLE_TIMEOUT: Duration = Duration::from_mins(15);

/// A view that shows one unit's endpoints.
pub(super) struct Unit {
    nodes: BTreeSet<NodeId>,
    /// None until its nodes are known.
    rendered: Option<RenderedView>,
    reader: Arc<Reader>,
    asked: Instant,
}

/// What is there of a unit's view.
pub(crate) enum UnitView {
    /// It can be read.
    Ready(Arc<Reader>),
    /// Its nodes or the endpoints are not known yet.
    NotYet,
    /// Too many others are being looked at.
    TooMany,
}

impl Unit {
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.nodes.contains(&node)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.asked.elapsed() > IDLE_TIMEOUT && self.reader.store().watched_prefixes() == 0
    }
}

impl Publisher {
    /// The view of a unit, started if there is none yet.
    pub(crate) fn unit(&self, name: &str, kind: ServedKind) -> UnitView {
        let mut inner = self.inner();
        inner.endpoints_wanted |= kind == ServedKind::Endpoints;
        inner
            .units
            .retain(|unit, state| unit == name || !state.is_idle());
        if !inner.units.contains_key(name) {
            if inner.units.len() >= MAX_UNITS {
                return UnitView::TooMany;
            }
            let unit = Unit {
                nodes: BTreeSet::new(),
                rendered: None,
                reader: Arc::new(Reader::new(self.unit_store(), 0)),
                asked: Instant::now(),
            };
            inner.units.insert(name.to_owned(), unit);
        }
        self.publish_wanted(&mut inner);
        let ready = inner.open && inner.is_synced(&Feed::Kind(kind));
        match inner.units.get_mut(name) {
            Some(unit) => {
                unit.asked = Instant::now();
                match unit.rendered {
                    Some(_) if ready => UnitView::Ready(Arc::clone(&unit.reader)),
                    _ => UnitView::NotYet,
                }
            }
            None => UnitView::NotYet,
        }
    }

    /// A store whose revisions are beyond all that a view of this unit had before: the node's own
    /// only grow, and reach further than any other.
    fn unit_store(&self) -> Store {
        let now = self.now().as_microsecond().max(0).unsigned_abs();
        Store::builder()
            .after(now.max(self.reader.store().revision()))
            .limits(Limits {
                events: 1 << 12,
                bytes: 1 << 20,
            })
            .build()
    }
}

impl Inner {
    pub(super) fn set_unit(&mut self, name: &str, nodes: BTreeSet<NodeId>) {
        let Inner { index, units, .. } = self;
        let Some(unit) = units.get_mut(name) else {
            return;
        };
        unit.nodes = nodes;
        let store = unit.reader.store().clone();
        unit.rendered
            .get_or_insert_with(|| RenderedView::new(store));
        update(index, unit, &RenderedView::everything(index));
    }

    pub(super) fn set_unit_member(&mut self, name: &str, node: NodeId, member: bool) {
        let Inner { index, units, .. } = self;
        let Some(unit) = units.get_mut(name) else {
            return;
        };
        if member {
            unit.nodes.insert(node);
        } else {
            unit.nodes.remove(&node);
        }
        let services = RenderedView::everything(index).services;
        update(
            index,
            unit,
            &Touched {
                services,
                ..Touched::default()
            },
        );
    }

    pub(super) fn update_units(&mut self, touched: &Touched<'_>) {
        let Inner { index, units, .. } = self;
        for unit in units.values_mut() {
            update(index, unit, touched);
        }
    }
}

fn update(index: &crate::index::Index, unit: &mut Unit, touched: &Touched<'_>) {
    let Some(rendered) = &mut unit.rendered else {
        return;
    };
    let writes = rendered.update(index, Viewer::Unit(&unit.nodes), touched);
    if let Err(error) = unit.reader.store().commit(writes) {
        tracing::error!(%error, "a change did not get into a unit's view");
    }
}
