//! A node's taints: one list for all owners, in which only what we put is ours.
//!
//! Kubernetes keeps the list as a whole, so applying it would erase everybody else's entries. It
//! is changed entry by entry instead, by a patch that holds only at the revision that was looked
//! at; what we put is remembered in an annotation by the same patch, so that no crash parts the two.

use std::collections::BTreeMap;

use edgegrid_api::names::annotation;
use k8s_openapi::api::core::v1::Taint;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::json_pointer;
use crate::observed::PrunedNode;

/// Where a node keeps its taints.
const TAINTS: &str = "/spec/taints";

/// Taints by key and effect, which Kubernetes lets occur once each.
pub type DesiredTaints = BTreeMap<(String, String), Taint>;

/// A taint that we put, as the annotation remembers it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Mark {
    key: String,
    effect: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    value: String,
}

/// Operations that bring a node's taints to what is wanted, none if they are. `inherited` says that
/// the wanted ones that are there already are site-manager's, and so ours from now on.
pub fn operations(node: &PrunedNode, wanted: &DesiredTaints, inherited: bool) -> Vec<Value> {
    let live = &node.spec.taints;
    let recorded = recorded(node);
    let mut record = Vec::new();
    let (mut replaced, mut added) = (Vec::new(), Vec::new());
    for ((key, effect), taint) in wanted {
        let mark = mark(taint);
        let index = live
            .iter()
            .position(|live| live.key == *key && live.effect == *effect);
        match index {
            Some(index) if self::mark(&live[index]) != mark => {
                let path = format!("{TAINTS}/{index}");
                replaced.push(json!({ "op": "replace", "path": path, "value": taint }));
            }
            // Somebody else put it: there it stays, and theirs.
            Some(_) if !inherited && !recorded.contains(&mark) => continue,
            Some(_) => {}
            None => added.push(taint),
        }
        record.push(mark);
    }
    let removed = leftover_indexes(node, wanted);
    let mut operations = replaced;
    operations.extend(list_operations(live.len(), &removed, &added));
    operations.extend(record_operations(node, &record));
    operations
}

/// Whether a node still has taints that we put and that are not wanted any more.
pub fn has_leftovers(node: &PrunedNode, wanted: &DesiredTaints) -> bool {
    !leftover_indexes(node, wanted).is_empty()
}

/// Indexes of the taints that we put, that are as we put them, and that are not wanted any more.
fn leftover_indexes(node: &PrunedNode, wanted: &DesiredTaints) -> Vec<usize> {
    let recorded = recorded(node);
    let live = node.spec.taints.iter().enumerate();
    live.filter(|(_, taint)| {
        let is_wanted = wanted.contains_key(&(taint.key.clone(), taint.effect.clone()));
        !is_wanted && recorded.contains(&mark(taint))
    })
    .map(|(index, _)| index)
    .collect()
}

fn list_operations(count: usize, removed: &[usize], added: &[&Taint]) -> Vec<Value> {
    if count == 0 && !added.is_empty() {
        return vec![json!({ "op": "add", "path": TAINTS, "value": added })];
    }
    if count > 0 && removed.len() == count && added.is_empty() {
        return vec![json!({ "op": "remove", "path": TAINTS })];
    }
    // From the end, so that no removal shifts the next one.
    let removed = removed.iter().rev();
    let removed =
        removed.map(|index| json!({ "op": "remove", "path": format!("{TAINTS}/{index}") }));
    let end = format!("{TAINTS}/-");
    let added = added
        .iter()
        .map(|taint| json!({ "op": "add", "path": end, "value": taint }));
    removed.chain(added).collect()
}

fn record_operations(node: &PrunedNode, record: &[Mark]) -> Option<Value> {
    let annotations = node.metadata.annotations.as_ref();
    let live = annotations.and_then(|all| all.get(annotation::TAINTS));
    let path = format!(
        "/metadata/annotations/{}",
        json_pointer::escape(annotation::TAINTS)
    );
    if record.is_empty() {
        return live.map(|_| json!({ "op": "remove", "path": path }));
    }
    let text = json!(record).to_string();
    match (annotations, live) {
        (_, Some(live)) if *live == text => None,
        (Some(_), _) => Some(json!({ "op": "add", "path": path, "value": text })),
        (None, _) => Some(json!({
            "op": "add", "path": "/metadata/annotations", "value": { annotation::TAINTS: text },
        })),
    }
}

/// What the annotation remembers. One that somebody garbled remembers nothing: better a taint that
/// stays than somebody's that goes.
fn recorded(node: &PrunedNode) -> Vec<Mark> {
    let annotations = node.metadata.annotations.as_ref();
    let text = annotations.and_then(|all| all.get(annotation::TAINTS));
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

fn mark(taint: &Taint) -> Mark {
    Mark {
        key: taint.key.clone(),
        effect: taint.effect.clone(),
        value: taint.value.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(text: &str) -> Taint {
        let (key, rest) = text.split_once('=').unwrap();
        let (value, effect) = rest.split_once(':').unwrap();
        Taint {
            key: key.into(),
            value: Some(value.into()),
            effect: effect.into(),
            time_added: None,
        }
    }

    fn wanted(taints: &[&str]) -> DesiredTaints {
        let taints = taints.iter().map(|text| taint(text));
        taints
            .map(|taint| ((taint.key.clone(), taint.effect.clone()), taint))
            .collect()
    }

    fn node(live: &[&str], recorded: &[&str]) -> PrunedNode {
        let mut node = PrunedNode::default();
        node.spec.taints = live.iter().map(|text| taint(text)).collect();
        if !recorded.is_empty() {
            let marks: Vec<Mark> = recorded.iter().map(|text| mark(&taint(text))).collect();
            let text = json!(marks).to_string();
            node.metadata.annotations = Some([(annotation::TAINTS.to_owned(), text)].into());
        }
        node
    }

    /// Live taints, recorded ones, wanted ones, and the pairs of operation and path expected.
    type Row<'a> = (
        &'a [&'a str],
        &'a [&'a str],
        &'a [&'a str],
        &'a [(&'a str, &'a str)],
    );

    #[test]
    fn only_what_we_put_and_nobody_changed_is_ever_removed_or_repeated() {
        let record = "/metadata/annotations/edgegrid.io~1taints";
        let table: &[Row<'_>] = &[
            (&[], &[], &[], &[]),
            (
                &[],
                &[],
                &["a=1:NoSchedule"],
                &[("add", "/spec/taints"), ("add", "/metadata/annotations")],
            ),
            (
                &["x=1:NoExecute"],
                &["o=1:NoExecute"],
                &["a=1:NoSchedule"],
                &[("add", "/spec/taints/-"), ("add", record)],
            ),
            // As wanted.
            (
                &["a=1:NoSchedule"],
                &["a=1:NoSchedule"],
                &["a=1:NoSchedule"],
                &[],
            ),
            // Wanted and there, but another's: not ours to remember.
            (&["a=1:NoSchedule"], &[], &["a=1:NoSchedule"], &[]),
            // Ours with another value now wanted.
            (
                &["a=1:NoSchedule"],
                &["a=1:NoSchedule"],
                &["a=2:NoSchedule"],
                &[("replace", "/spec/taints/0"), ("add", record)],
            ),
            // No longer wanted.
            (
                &["a=1:NoSchedule"],
                &["a=1:NoSchedule"],
                &[],
                &[("remove", "/spec/taints"), ("remove", record)],
            ),
            (
                &["x=1:NoExecute", "a=1:NoSchedule", "b=1:NoSchedule"],
                &["a=1:NoSchedule", "b=1:NoSchedule"],
                &[],
                &[
                    ("remove", "/spec/taints/2"),
                    ("remove", "/spec/taints/1"),
                    ("remove", record),
                ],
            ),
            // Not wanted, but somebody changed it: theirs.
            (
                &["a=2:NoSchedule"],
                &["a=1:NoSchedule"],
                &[],
                &[("remove", record)],
            ),
            // Somebody removed ours: put back.
            (
                &["x=1:NoExecute"],
                &["a=1:NoSchedule"],
                &["a=1:NoSchedule"],
                &[("add", "/spec/taints/-")],
            ),
            // Another effect is another taint.
            (
                &["a=1:NoExecute"],
                &["o=1:NoExecute"],
                &["a=1:NoSchedule"],
                &[("add", "/spec/taints/-"), ("add", record)],
            ),
        ];
        for (live, recorded, wants, expected) in table {
            let node = node(live, recorded);
            let operations = operations(&node, &wanted(wants), false);
            let seen: Vec<(&str, &str)> = operations
                .iter()
                .map(|one| (one["op"].as_str().unwrap(), one["path"].as_str().unwrap()))
                .collect();
            assert_eq!(seen, *expected, "{live:?} {recorded:?} {wants:?}");
        }
    }

    // With two missing taints SuperEdge wrote one of them twice.
    #[test]
    fn several_missing_taints_are_added_once_each() {
        let operations = operations(
            &node(&[], &[]),
            &wanted(&["a=1:NoSchedule", "b=1:NoSchedule"]),
            false,
        );
        assert_eq!(operations[0]["value"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn what_site_manager_put_is_remembered_as_ours() {
        let operations = operations(
            &node(&["a=1:NoSchedule"], &[]),
            &wanted(&["a=1:NoSchedule"]),
            true,
        );
        assert_eq!(operations.len(), 1);
        assert_eq!(operations[0]["path"], "/metadata/annotations");
    }
}
