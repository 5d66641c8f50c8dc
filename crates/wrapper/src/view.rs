//! The rule, and nothing but the rule: which endpoints of a service a node sees. Pure.
//!
//! ```text
//! Service annotations ─► Rule ─┐
//! endpoints of one family ─────┼─► decide ─► Verdict ─► fate of each endpoint
//! who shares the node's labels ┘
//! ```
//!
//! The keys of a service are walked in order, first over the ready endpoints, then over those that
//! still serve. The first key under which one of them is at home wins, and what is at home under
//! that key stays, ready or not. Nothing here can fail open: what is not known to share is withheld.

mod rule;

pub use rule::{Rule, Topology};

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

/// What was decided for all endpoints of a service and address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
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
pub enum Fate {
    /// The node sees it.
    Stays,
    /// Its node is not known to share what the verdict asks for.
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

impl Fate {
    /// The ways to be withheld, as metrics and `/debug/view` call them.
    pub const WITHHELD: [(Fate, &'static str); 5] = [
        (Fate::NotSharing, "not-sharing"),
        (Fate::NoNode, "no-node"),
        (Fate::Unlabelled, "own-node-unlabelled"),
        (Fate::Malformed, "malformed-annotation"),
        (Fate::UnknownService, "service-not-seen"),
    ];

    /// The name used in metrics and `/debug/view`.
    pub fn name(self) -> &'static str {
        let named = Self::WITHHELD.iter().find(|(fate, _)| *fate == self);
        named.map_or("stays", |(_, name)| name)
    }
}

/// Where the own node stands.
pub trait Place {
    /// Whether the own node has a value for a key.
    fn has(&self, key: &str) -> bool;
    /// Whether a node is known to have the own node's value of a key.
    fn shares(&self, key: &str, node: NodeId) -> bool;
}

/// Decides over all endpoints of one service and address family together.
pub fn decide(
    rule: &Rule,
    endpoints: &(impl Iterator<Item = Endpoint> + Clone),
    place: &impl Place,
) -> Verdict {
    let (keys, any) = match &rule.topology {
        Topology::Open => return Verdict::Everything,
        Topology::Malformed(_) => return Verdict::Nothing,
        Topology::Keys { keys, any } => (keys, *any),
    };
    let walks: [fn(&Endpoint) -> bool; 2] = [|one| one.ready, |one| one.serving];
    for counts in walks {
        let mut counted = endpoints.clone().filter(counts);
        let at_home = |key: &str| counted.clone().any(|one| is_at_home(one, key, place));
        if let Some(winner) = keys.iter().position(|key| at_home(key)) {
            return Verdict::Key(winner);
        }
        if any && counted.next().is_some() {
            return Verdict::Everything;
        }
    }
    if any {
        Verdict::Everything
    } else {
        Verdict::AnyKey
    }
}

/// What a verdict means for one endpoint.
pub fn fate(rule: &Rule, verdict: Verdict, endpoint: Endpoint, place: &impl Place) -> Fate {
    let Topology::Keys { keys, .. } = &rule.topology else {
        return match verdict {
            Verdict::Everything => Fate::Stays,
            _ => Fate::Malformed,
        };
    };
    let stays = match verdict {
        Verdict::Everything => true,
        Verdict::Key(winner) => keys
            .get(winner)
            .is_some_and(|key| is_at_home(endpoint, key, place)),
        Verdict::AnyKey => keys.iter().any(|key| is_at_home(endpoint, key, place)),
        Verdict::Nothing => false,
    };
    match endpoint.node {
        _ if stays => Fate::Stays,
        None if rule.keep_external => Fate::Stays,
        None => Fate::NoNode,
        Some(_) if keys.iter().any(|key| place.has(key)) => Fate::NotSharing,
        Some(_) => Fate::Unlabelled,
    }
}

fn is_at_home(endpoint: Endpoint, key: &str, place: &impl Place) -> bool {
    endpoint.node.is_some_and(|node| place.shares(key, node))
}

#[cfg(test)]
mod tests;
