use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// The own node's labels as the nodes that share each key's value; a key without an entry is one
/// that the own node lacks.
type Home = std::collections::BTreeMap<String, BTreeSet<NodeId>>;

impl Locality for Home {
    fn has(&self, key: &str) -> bool {
        self.contains_key(key)
    }
    fn shares(&self, key: &str, node: NodeId) -> bool {
        self.get(key).is_some_and(|nodes| nodes.contains(&node))
    }
}

/// The rule once more, as a human would say it.
fn reference(rule: &Rule, all: &[Endpoint], home: &Home) -> Vec<bool> {
    let at = |e: &Endpoint, key: &str| e.node.is_some_and(|n| home.shares(key, n));
    let only = |keep: &dyn Fn(&Endpoint) -> bool| {
        let external = |e: &Endpoint| e.node.is_none() && rule.keep_external;
        all.iter().map(|e| keep(e) || external(e)).collect()
    };
    let Topology::Keys { keys, any } = &rule.topology else {
        return vec![rule.topology == Topology::Open; all.len()];
    };
    for alive in [|e: &&Endpoint| e.ready, |e: &&Endpoint| e.serving] {
        for key in keys {
            if all.iter().filter(alive).any(|e| at(e, key)) {
                return only(&|e| at(e, key));
            }
        }
        if *any && all.iter().any(|e| alive(&e)) {
            return vec![true; all.len()];
        }
    }
    only(&|e| *any || keys.iter().any(|key| at(e, key)))
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    (
        prop::option::weighted(0.8, 0..6u32),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(node, ready, serving)| Endpoint {
            node,
            ready,
            serving,
        })
}

fn rule() -> impl Strategy<Value = Rule> {
    let key = prop::sample::select(vec!["a", "b", "c"]);
    let keys = (vec(key, 0..4), any::<bool>()).prop_map(|(keys, any)| Topology::Keys {
        any: any || keys.is_empty(),
        keys: keys.into_iter().map(Into::into).collect(),
    });
    let topology = prop_oneof![
        6 => keys,
        1 => Just(Topology::Open),
        1 => Just(Topology::Malformed(String::new())),
    ];
    (topology, any::<bool>()).prop_map(|(topology, keep_external)| Rule {
        topology,
        keep_external,
        opened: Vec::new(),
    })
}

fn home() -> impl Strategy<Value = Home> {
    let nodes = prop::collection::btree_set(0..6u32, 0..4);
    prop::collection::btree_map(
        prop::sample::select(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]),
        nodes,
        0..4,
    )
}

fn stays(rule: &Rule, all: &[Endpoint], home: &Home) -> Vec<bool> {
    let selected = select(rule, &all.iter().copied(), home);
    let one = |e: &Endpoint| visibility(rule, selected, *e, home) == Visibility::Visible;
    all.iter().map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10 * crate::fuzz_cases()))]

    #[test]
    fn the_view_is_the_rule(rule in rule(), all in vec(endpoint(), 0..8), home in home()) {
        prop_assert_eq!(stays(&rule, &all, &home), reference(&rule, &all, &home));
    }

    #[test]
    fn a_strict_service_never_shows_a_node_that_is_not_at_home(
        mut rule in rule(), all in vec(endpoint(), 0..8), home in home()
    ) {
        if let Topology::Keys { any, .. } = &mut rule.topology {
            *any = false;
            for (one, stays) in all.iter().zip(stays(&rule, &all, &home)) {
                let Some(node) = one.node else { continue };
                let at_home = rule.keys().iter().any(|key| home.shares(key, node));
                prop_assert!(!stays || at_home);
            }
        }
    }
}

#[test]
fn every_withheld_endpoint_says_why() {
    let home: Home = [("a".to_owned(), [1].into())].into();
    let keyed = |key: &str| Rule {
        topology: Topology::Keys {
            keys: vec![key.into()],
            any: false,
        },
        keep_external: false,
        opened: Vec::new(),
    };
    let at = |node| Endpoint {
        node,
        ready: true,
        serving: true,
    };
    let fate_of = |rule: &Rule, one: Endpoint| {
        let selected = select(rule, &[one, at(Some(1))].into_iter(), &home);
        visibility(rule, selected, one, &home)
    };
    assert_eq!(fate_of(&keyed("a"), at(Some(1))), Visibility::Visible);
    assert_eq!(fate_of(&keyed("a"), at(Some(2))), Visibility::NotSharing);
    assert_eq!(fate_of(&keyed("a"), at(None)), Visibility::NoNode);
    assert_eq!(fate_of(&keyed("z"), at(Some(1))), Visibility::Unlabelled);
    let malformed = Rule {
        topology: Topology::Malformed(String::new()),
        keep_external: true,
        opened: Vec::new(),
    };
    assert_eq!(fate_of(&malformed, at(Some(1))), Visibility::Malformed);
    let names: BTreeSet<_> = Visibility::WITHHELD
        .iter()
        .map(|(visibility, _)| visibility.name())
        .collect();
    assert_eq!(names.len(), Visibility::WITHHELD.len());
}
