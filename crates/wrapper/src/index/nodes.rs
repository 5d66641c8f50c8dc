//! Node names as numbers: fifty endpoints that name a node cost four bytes each.

use crate::view::NodeId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first sweep comes when this many names are known.
const FIRST_SWEEP: usize = 1024;

/// Names and their numbers. A number in use never changes its meaning.
#[derive(Debug)]
pub(crate) struct NodeNames {
    numbers: BTreeMap<Arc<str>, NodeId>,
    names: Vec<Option<Arc<str>>>,
    free: Vec<NodeId>,
    sweep_at: usize,
}

impl Default for NodeNames {
    fn default() -> Self {
        Self {
            numbers: BTreeMap::new(),
            names: Vec::new(),
            free: Vec::new(),
            sweep_at: FIRST_SWEEP,
        }
    }
}

impl NodeNames {
    /// The number of a name, a new one if it has none.
    pub(crate) fn number(&mut self, name: &str) -> NodeId {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let name: Arc<str> = name.into();
        let number = self.free.pop().unwrap_or_else(|| {
            self.names.push(None);
            // Names are read from memory, so there are never 2^28 of them.
            NodeId::try_from(self.names.len() - 1).unwrap_or(NodeId::MAX)
        });
        if let Some(place) = self.names.get_mut(number as usize) {
            *place = Some(Arc::clone(&name));
        }
        self.numbers.insert(name, number);
        number
    }

    /// The number of a name that has one.
    pub(crate) fn known(&self, name: &str) -> Option<NodeId> {
        self.numbers.get(name).copied()
    }

    pub(crate) fn name(&self, number: NodeId) -> &str {
        let name = self.names.get(number as usize).and_then(Option::as_deref);
        name.unwrap_or_default()
    }

    /// Whether so many names have come that it is worth looking for those that have gone.
    pub(crate) fn is_due(&self) -> bool {
        self.numbers.len() >= self.sweep_at
    }

    /// Forgets the numbers that are not marked as used.
    pub(crate) fn sweep(&mut self, is_used: impl Fn(NodeId) -> bool) {
        let free = &mut self.free;
        let names = &mut self.names;
        self.numbers.retain(|_, number| {
            if is_used(*number) {
                return true;
            }
            if let Some(place) = names.get_mut(*number as usize) {
                *place = None;
            }
            free.push(*number);
            false
        });
        self.sweep_at = FIRST_SWEEP.max(self.numbers.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_keeps_its_name_until_nobody_uses_it() {
        let mut names = NodeNames::default();
        let (a, b) = (names.number("a"), names.number("b"));
        assert_eq!((names.number("a"), names.known("c")), (a, None));
        names.sweep(|number| number == b);
        assert_eq!((names.known("a"), names.name(b)), (None, "b"));
        let c = names.number("c");
        assert_eq!((c, names.name(c), names.known("b")), (a, "c", Some(b)));
    }
}
