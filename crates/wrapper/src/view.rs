//! The rule, and nothing but the rule: which endpoints of a service a node sees. Pure.
//!
//! ```text
//! Service annotations ─► Rule ─┐
//! endpoints of one family ─────┼─► select ─► Selected ─► visibility of each endpoint
//! who shares the node's labels ┘
//! ```
//!
//! The keys of a service are walked in order, first over the ready endpoints, then over those that
//! still serve. The first key under which one of them is at home wins, and what is at home under
//! that key stays, ready or not. Nothing here can fail open: what is not known to share is withheld.

mod rule;
mod select;

pub use rule::{Rule, Topology};
pub use select::{select, visibility};

/// Number that stands for a node's name.
pub type NodeId = u32;

/// What the rule must know of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// The node it runs on; none for one outside of the cluster.
    pub node: Option<NodeId>,
    /// Whether it takes new connections.
    pub ready: bool,
    /// Whether it still answers, though it may be about to end.
    pub serving: bool,
}

/// What was selected of all endpoints of a service and address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selected {
    /// All stay.
    Everything,
    /// Those that share the node's value of this key stay.
    Key(usize),
    /// Nobody answers at home; what is at home under any key stays, unready as it is.
    AnyKey,
    /// The annotation cannot be understood: none stays.
    Nothing,
}

/// What becomes of one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Visibility {
    /// The node sees it.
    Visible,
    /// Its node is not known to share the value that was selected.
    NotSharing,
    /// It is on no node, so nobody can say where it is.
    NoNode,
    /// The own node has none of the service's keys.
    Unlabelled,
    /// The service's annotation cannot be understood.
    Malformed,
    /// No Service of that name is known.
    UnknownService,
}

impl Visibility {
    /// The ways to be withheld, as metrics and `/debug/view` call them.
    pub const WITHHELD: [(Visibility, &'static str); 5] = [
        (Visibility::NotSharing, "not-sharing"),
        (Visibility::NoNode, "no-node"),
        (Visibility::Unlabelled, "own-node-unlabelled"),
        (Visibility::Malformed, "malformed-annotation"),
        (Visibility::UnknownService, "service-not-seen"),
    ];

    /// The name used in metrics and `/debug/view`.
    pub fn name(self) -> &'static str {
        let named = Self::WITHHELD
            .iter()
            .find(|(visibility, _)| *visibility == self);
        named.map_or("visible", |(_, name)| name)
    }
}

/// Where the own node stands.
pub trait Locality {
    /// Whether the own node has a value for a key.
    fn has(&self, key: &str) -> bool;
    /// Whether a node is known to have the own node's value of a key.
    fn shares(&self, key: &str, node: NodeId) -> bool;
}

#[cfg(test)]
mod tests;
