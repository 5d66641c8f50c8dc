//! Which endpoints are seen: the walk over a service's keys, and the fallback `*` where nobody at home answers.

use super::{Endpoint, Locality, Rule, Selected, Topology, Visibility};

/// Decides which endpoints of one service and address family are seen, over all of them together.
pub fn select(
    rule: &Rule,
    endpoints: &(impl Iterator<Item = Endpoint> + Clone),
    locality: &impl Locality,
) -> Selected {
    let (keys, any) = match &rule.topology {
        Topology::Open => return Selected::Everything,
        Topology::Malformed(_) => return Selected::Nothing,
        Topology::Keys { keys, any } => (keys, *any),
    };
    let walks: [fn(&Endpoint) -> bool; 2] = [|one| one.ready, |one| one.serving];
    for counts in walks {
        let mut counted = endpoints.clone().filter(counts);
        let at_home = |key: &str| counted.clone().any(|one| is_at_home(one, key, locality));
        if let Some(winner) = keys.iter().position(|key| at_home(key)) {
            return Selected::Key(winner);
        }
        if any && counted.next().is_some() {
            return Selected::Everything;
        }
    }
    if any {
        Selected::Everything
    } else {
        Selected::AnyKey
    }
}

/// What the selection means for one endpoint.
pub fn visibility(
    rule: &Rule,
    selected: Selected,
    endpoint: Endpoint,
    locality: &impl Locality,
) -> Visibility {
    let Topology::Keys { keys, .. } = &rule.topology else {
        return match selected {
            Selected::Everything => Visibility::Visible,
            _ => Visibility::Malformed,
        };
    };
    let is_selected = match selected {
        Selected::Everything => true,
        Selected::Key(winner) => keys
            .get(winner)
            .is_some_and(|key| is_at_home(endpoint, key, locality)),
        Selected::AnyKey => keys.iter().any(|key| is_at_home(endpoint, key, locality)),
        Selected::Nothing => false,
    };
    match endpoint.node {
        _ if is_selected => Visibility::Visible,
        None if rule.keep_external => Visibility::Visible,
        None => Visibility::NoNode,
        Some(_) if keys.iter().any(|key| locality.has(key)) => Visibility::NotSharing,
        Some(_) => Visibility::Unlabelled,
    }
}

fn is_at_home(endpoint: Endpoint, key: &str, locality: &impl Locality) -> bool {
    endpoint.node.is_some_and(|node| locality.shares(key, node))
}
