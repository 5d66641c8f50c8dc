//! NodeUnits that a group finds by itself: one for every combination of values that its keys have on
//! nodes.
//!
//! ```text
//! autoFindNodeKeys [rack, zone] + nodes {rack=1, zone=a}, {rack=1, zone=b} ─► NodeUnits 1-a, 1-b
//! ```
//!
//! The NodeUnit's selector says which combination it stands for, and is what it is recognised by; the
//! hash label says that it was found and not written by hand. SuperEdge's hash ran the keys
//! together, so that `[ab, c]` and `[a, bc]` were one; ours is not compared with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use edgegrid_api::names::label;
use edgegrid_api::{NodeGroup, NodeUnit};
use kube::core::ObjectMeta;
use sha2::{Digest, Sha256};

use crate::legal::{LABEL_MAX, is_label_key, is_node_unit_name};
use crate::observed::PrunedNode;
use crate::selection;
use crate::site_manager::{is_owned_by_others, is_owned_by_us};

/// Hex digits of the hash in the label: as many as SuperEdge's.
const LABEL_DIGITS: usize = 40;
/// Hex digits of the hash in a name.
const NAME_DIGITS: usize = 8;

/// The keys a group finds NodeUnits by, sorted; empty if it finds none.
pub fn keys(group: &NodeGroup) -> BTreeSet<&str> {
    let keys = group.spec.auto_find_node_keys.iter().map(String::as_str);
    keys.filter(|key| is_label_key(key)).collect()
}

/// The combination of values that a node has, if it has a value for every key.
pub fn combination(keys: &BTreeSet<&str>, node: &PrunedNode) -> Option<BTreeMap<String, String>> {
    let labels = node.metadata.labels.as_ref().filter(|_| !keys.is_empty())?;
    keys.iter()
        .map(|key| {
            let value = labels.get(*key).filter(|value| !value.is_empty())?;
            Some(((*key).to_owned(), value.clone()))
        })
        .collect()
}

/// The combination that a NodeUnit was found for, `None` if it was written by hand.
pub fn found_for(unit: &NodeUnit) -> Option<&BTreeMap<String, String>> {
    let labels = unit.metadata.labels.as_ref()?;
    let selector = unit.spec.selector.as_ref()?;
    let is_plain = selector.match_expressions.is_empty() && selector.annotations.is_empty();
    let is_found = labels.contains_key(label::AUTO_KEYS_HASH) && is_plain;
    Some(&selector.match_labels).filter(|found| is_found && !found.is_empty())
}

/// Whether a group finds a NodeUnit by its keys.
pub fn finds(group: &NodeGroup, unit: &NodeUnit) -> bool {
    let keys = keys(group);
    !keys.is_empty()
        && found_for(unit).is_some_and(|found| found.keys().map(String::as_str).eq(keys))
}

/// Whether the mark of a found NodeUnit was put there by us alone, so that it may be deleted when its
/// reason is gone. One that a person copied stays, and so does one that SuperEdge left without its group.
pub fn is_ours(metadata: &ObjectMeta) -> bool {
    let mark = ["metadata", "labels", label::AUTO_KEYS_HASH];
    is_owned_by_us(metadata, &mark) && !is_owned_by_others(metadata, &mark)
}

/// Value of [`label::AUTO_KEYS_HASH`]. No key has a line break, so no two lists are one.
pub fn keys_hash<'a>(keys: impl IntoIterator<Item = &'a str>) -> String {
    digest(keys, LABEL_DIGITS)
}

/// The names a found NodeUnit may have, best first: as SuperEdge names it, then with a hash.
pub fn names(combination: &BTreeMap<String, String>) -> Vec<String> {
    let values: Vec<&str> = combination.values().map(String::as_str).collect();
    let plain = values.join("-");
    let pairs = combination
        .iter()
        .flat_map(|(key, value)| [key.as_str(), value]);
    let hash = digest(pairs, NAME_DIGITS);
    let readable = readable(&plain, LABEL_MAX - NAME_DIGITS - 1);
    let hashed = match readable.as_str() {
        "" => format!("unit-{hash}"),
        readable => format!("{readable}-{hash}"),
    };
    let fine = is_node_unit_name(&plain).then_some(plain);
    fine.into_iter().chain([hashed]).collect()
}

/// The NodeUnits that a group should have and that do not exist yet: name and combination. A name
/// that is taken, also by the label keys that come with it, is passed over.
pub fn missing<'a>(
    group: &NodeGroup,
    nodes: impl IntoIterator<Item = &'a PrunedNode>,
    units: &[impl AsRef<NodeUnit>],
) -> Vec<(String, BTreeMap<String, String>)> {
    let keys = keys(group);
    if keys.is_empty() {
        return Vec::new();
    }
    let wanted: BTreeSet<_> = nodes
        .into_iter()
        .filter_map(|node| combination(&keys, node))
        .collect();
    let units = || units.iter().map(AsRef::as_ref);
    let mut taken: BTreeSet<String> = units()
        .filter_map(|unit| unit.metadata.name.clone())
        .chain(group.metadata.name.clone())
        .chain(keys.iter().map(|key| (*key).to_owned()))
        .collect();
    let existing: BTreeSet<_> = units().filter_map(found_for).collect();
    let mut missing = Vec::new();
    for combination in wanted.iter().filter(|wanted| !existing.contains(wanted)) {
        let free = |name: &String| !taken.contains(name);
        if let Some(name) = names(combination).into_iter().find(free) {
            taken.insert(name.clone());
            missing.push((name, combination.clone()));
        }
    }
    missing
}

/// What of a group's keys and selector means nothing, in words for people.
pub fn field_errors(group: &NodeGroup) -> Vec<String> {
    let keys = group.spec.auto_find_node_keys.iter();
    let mut field_errors: Vec<String> = keys
        .filter(|key| !is_label_key(key))
        .map(|key| format!("autoFindNodeKeys: {key:?} is no label key"))
        .collect();
    field_errors.extend(group.spec.selector.iter().flat_map(selection::field_errors));
    field_errors
}

fn digest<'a>(parts: impl IntoIterator<Item = &'a str>, digits: usize) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
        hash.update("\n");
    }
    let mut text = String::new();
    for byte in hash.finalize() {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.truncate(digits);
    text
}

/// As much of a text as a DNS name can show.
fn readable(text: &str, length: usize) -> String {
    let shown: String = text
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .take(length)
        .collect();
    shown.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = pairs
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()));
        owned.collect()
    }

    fn node(labels: &[(&str, &str)]) -> PrunedNode {
        let mut node = PrunedNode::default();
        node.metadata.labels = Some(pairs(labels));
        node
    }

    fn group(keys: &[&str]) -> NodeGroup {
        let group = json!({ "metadata": { "name": "g" }, "spec": { "autoFindNodeKeys": keys } });
        serde_json::from_value(group).unwrap()
    }

    fn unit(name: &str, hash: Option<&str>, labels: &[(&str, &str)]) -> std::sync::Arc<NodeUnit> {
        let mut unit = json!({
            "metadata": { "name": name },
            "spec": { "selector": { "matchLabels": pairs(labels) } },
        });
        if let Some(hash) = hash {
            unit["metadata"]["labels"] = json!({ label::AUTO_KEYS_HASH: hash });
        }
        std::sync::Arc::new(serde_json::from_value(unit).unwrap())
    }

    fn names_of(missing: Vec<(String, BTreeMap<String, String>)>) -> Vec<String> {
        missing.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn a_unit_is_named_by_the_values_of_the_sorted_keys() {
        let nodes = [
            node(&[("zone", "a"), ("rack", "1")]),
            node(&[("zone", "b"), ("rack", "1")]),
        ];
        let found = missing(
            &group(&["zone", "rack"]),
            &nodes,
            &[] as &[std::sync::Arc<NodeUnit>],
        );
        assert_eq!(names_of(found), ["1-a", "1-b"]);
    }

    #[test]
    fn nodes_without_a_value_for_every_key_found_nothing() {
        let nodes = [node(&[("zone", "a")]), node(&[("zone", "a"), ("rack", "")])];
        let none: &[std::sync::Arc<NodeUnit>] = &[];
        assert!(missing(&group(&["zone", "rack"]), &nodes, none).is_empty());
        assert!(missing(&group(&[]), &nodes, none).is_empty());
    }

    #[test]
    fn values_that_make_no_dns_name_get_a_readable_one_with_a_hash() {
        for value in ["Beijing_1", "A", "a_b", &"x".repeat(63)] {
            let all = names(&pairs(&[("zone", value), ("rack", "r")]));
            let [name] = all.as_slice() else {
                panic!("{value}: {all:?}")
            };
            assert!(is_node_unit_name(name), "{value}: {name}");
        }
        assert_eq!(
            names(&pairs(&[("zone", "Beijing_1")])),
            ["beijing-1-ac7e2e98"]
        );
    }

    #[test]
    fn combinations_that_would_share_a_name_get_two() {
        let nodes = [
            node(&[("a", "x-y"), ("b", "z")]),
            node(&[("a", "x"), ("b", "y-z")]),
        ];
        let none: &[std::sync::Arc<NodeUnit>] = &[];
        let found = names_of(missing(&group(&["a", "b"]), &nodes, none));
        assert_eq!(found.len(), 2);
        assert!(
            found[0] == "x-y-z" && found[1].starts_with("x-y-z-"),
            "{found:?}"
        );
        // Once both exist, each keeps its own, whatever it is called.
        let units = [
            unit("other", Some("h"), &[("a", "x"), ("b", "y-z")]),
            unit("x-y-z", Some("h"), &[("a", "x-y"), ("b", "z")]),
        ];
        assert!(missing(&group(&["a", "b"]), &nodes, &units).is_empty());
    }

    #[test]
    fn a_name_that_a_person_or_a_label_key_has_is_left_alone() {
        let nodes = [node(&[("zone", "bj")])];
        let by_hand = [unit("bj", None, &[("zone", "bj")])];
        let found = names_of(missing(&group(&["zone"]), &nodes, &by_hand));
        assert!(found[0].starts_with("bj-"), "{found:?}");
        let nodes = [node(&[("zone", "zone")]), node(&[("zone", "g")])];
        let none: &[std::sync::Arc<NodeUnit>] = &[];
        let found = names_of(missing(&group(&["zone"]), &nodes, none));
        assert!(found.iter().all(|name| name.contains('-')), "{found:?}");
    }

    #[test]
    fn key_lists_that_read_alike_when_run_together_have_different_hashes() {
        assert_ne!(keys_hash(["ab", "c"]), keys_hash(["a", "bc"]));
        assert_eq!(keys_hash(["a"]).len(), LABEL_DIGITS);
    }

    #[test]
    fn a_unit_found_by_superedge_is_recognised_by_its_selector() {
        let old = unit(
            "whatever",
            Some("da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            &[("zone", "a")],
        );
        assert!(finds(&group(&["zone"]), &old));
        assert!(!finds(&group(&["zone", "rack"]), &old));
        assert!(!finds(
            &group(&["zone"]),
            &unit("a", None, &[("zone", "a")])
        ));
        assert!(missing(&group(&["zone"]), &[node(&[("zone", "a")])], &[old]).is_empty());
    }
}
