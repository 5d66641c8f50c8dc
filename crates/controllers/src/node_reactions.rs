//! What is enqueued when a Node, NodeUnit or NodeGroup changed.
//!
//! ```text
//! Node      ─► itself, the NodeUnits that have or had it, the NodeGroups that find NodeUnits by its labels
//! NodeUnit  ─► itself, its nodes, the other NodeUnits of these nodes, the NodeGroups that claim it
//! NodeGroup ─► itself, its NodeUnits, their nodes, the other NodeUnits of these nodes
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use edgegrid_api::names::marker;
use edgegrid_api::{NodeGroup, NodeUnit};
use edgegrid_plan::membership::{NodeUnits, ResolvedNodeUnit, claims};
use edgegrid_plan::{ObjectId, ObjectKind, PrunedNode, auto_find, node, node_group};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::ObjectMeta;

use crate::context::Context;
use crate::queue::{ObjectKey, key};
use crate::reflector::Change;

/// A Node came, changed in something that matters, or went.
pub(crate) fn node(context: &Context, change: &Change<PrunedNode>) {
    context.queues.nodes.push(change.key());
    if matches!(change, Change::Removed(_)) {
        context.node_failures.note(&change.key().1, None);
    }
    let node_units = context.node_units.current(&context.caches);
    let versions = [change.before(), change.after()];
    let mut units: BTreeSet<String> = being_deleted(&node_units).collect();
    for version in versions.iter().flatten() {
        units.extend(claiming(&node_units, version));
        let labels = version.metadata.labels.iter().flatten();
        let marks = labels.filter(|(_, value)| *value == marker::NODE_UNIT);
        units.extend(marks.map(|(key, _)| key.clone()));
    }
    context
        .queues
        .node_units
        .extend(units.into_iter().map(named));
    for group in context.caches.node_groups.state() {
        let keys = auto_find::keys(&group);
        let [old, new] = versions.map(|version| auto_find::combination(&keys, version?));
        if old != new {
            context.queues.node_groups.push(key(&*group));
        }
    }
}

/// A NodeUnit came, changed or went.
pub(crate) fn node_unit(context: &Context, change: &Change<NodeUnit>) {
    context.node_units.invalidate();
    context.queues.node_units.push(change.key());
    if let Change::Changed { old, new } = change
        && is_same_unit(old, new)
    {
        return;
    }
    let name = change.key().1;
    if matches!(change, Change::Removed(_)) {
        context
            .execution
            .writes
            .gone(&ObjectId::cluster(ObjectKind::NodeUnit, &name));
    }
    let groups = context.caches.node_groups.state();
    let versions: Vec<&Arc<NodeUnit>> = change.before().into_iter().chain(change.after()).collect();
    let concerned = groups.iter().filter(|group| {
        let is_being_deleted = group.metadata.deletion_timestamp.is_some();
        is_being_deleted || versions.iter().any(|unit| claims(group, unit))
    });
    context
        .queues
        .node_groups
        .extend(concerned.map(|group| key(&**group)));
    let resolved: Vec<ResolvedNodeUnit> = versions
        .iter()
        .map(|unit| ResolvedNodeUnit::new(unit, &groups))
        .collect();
    enqueue_nodes(context, |one| {
        node::is_marked(one, &name) || resolved.iter().any(|unit| unit.has(one))
    });
}

/// A NodeGroup came, changed or went.
pub(crate) fn node_group(context: &Context, change: &Change<NodeGroup>) {
    context.node_units.invalidate();
    context.queues.node_groups.push(change.key());
    if let Change::Changed { old, new } = change
        && is_same_group(old, new)
    {
        return;
    }
    let name = change.key().1;
    if matches!(change, Change::Removed(_)) {
        context
            .execution
            .writes
            .gone(&ObjectId::cluster(ObjectKind::NodeGroup, &name));
    }
    let versions: Vec<&Arc<NodeGroup>> =
        change.before().into_iter().chain(change.after()).collect();
    let node_units = context.node_units.current(&context.caches);
    let concerned: Vec<&ResolvedNodeUnit> = node_units
        .all()
        .iter()
        .filter(|unit| {
            node_group::shows(&unit.object, &name)
                || versions
                    .iter()
                    .any(|group| claims_or_claimed(group, &unit.object))
        })
        .collect();
    let units = concerned.iter().map(|unit| named(unit.name.clone()));
    context.queues.node_units.extend(units);
    enqueue_nodes(context, |one| concerned.iter().any(|unit| unit.has(one)));
}

/// Enqueues some nodes, and all NodeUnits of these: who wins on them may have changed.
fn enqueue_nodes(context: &Context, is_concerned: impl Fn(&PrunedNode) -> bool) {
    let node_units = context.node_units.current(&context.caches);
    let mut units = BTreeSet::new();
    let nodes = context.caches.nodes.state();
    for one in nodes.iter().filter(|one| is_concerned(one)) {
        context.queues.nodes.push(key(&**one));
        units.extend(claiming(&node_units, one));
    }
    context
        .queues
        .node_units
        .extend(units.into_iter().map(named));
}

/// Whether a group claims a NodeUnit, or did before it was being deleted.
fn claims_or_claimed(group: &NodeGroup, unit: &NodeUnit) -> bool {
    let mut staying = group.clone();
    staying.metadata.deletion_timestamp = None;
    claims(&staying, unit)
}

/// Names of the NodeUnits that have a node.
fn claiming(node_units: &NodeUnits, node: &PrunedNode) -> impl Iterator<Item = String> {
    let claiming = node_units.claiming(node).into_iter();
    claiming.map(|unit| unit.name.clone())
}

/// Names of the NodeUnits that wait for their nodes to be clean.
fn being_deleted(node_units: &NodeUnits) -> impl Iterator<Item = String> {
    let all = node_units.all().iter();
    all.filter(|unit| unit.is_being_deleted())
        .map(|unit| unit.name.clone())
}

/// Whether two versions of a NodeUnit differ in nothing but the status.
fn is_same_unit(old: &NodeUnit, new: &NodeUnit) -> bool {
    is_same(&old.metadata, &new.metadata) && old.spec == new.spec
}

fn is_same_group(old: &NodeGroup, new: &NodeGroup) -> bool {
    is_same(&old.metadata, &new.metadata) && old.spec == new.spec
}

fn is_same(old: &ObjectMeta, new: &ObjectMeta) -> bool {
    let managers = |metadata: &ObjectMeta| -> Vec<ManagedFieldsEntry> {
        let entries = metadata.managed_fields.iter().flatten();
        entries
            .filter(|entry| entry.subresource.is_none())
            .cloned()
            .collect()
    };
    old.uid == new.uid
        && old.labels == new.labels
        && old.annotations == new.annotations
        && old.finalizers == new.finalizers
        && old.deletion_timestamp == new.deletion_timestamp
        && managers(old) == managers(new)
}

fn named(name: String) -> ObjectKey {
    (String::new(), name)
}
