//! What is enqueued when a Node, NodeUnit or NodeGroup changed.
//!
//! ```text
//! node  ─► itself, the units that have or had it, the groups that find units by its labels
//! unit  ─► itself, its nodes, the other units of these nodes, the groups that claim it
//! group ─► itself, its units, their nodes, the other units of these nodes
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use edgegrid_api::names::marker;
use edgegrid_api::{NodeGroup, NodeUnit};
use edgegrid_plan::site::{Site, Sites, claims};
use edgegrid_plan::{Kind, ObjectId, SiteNode, auto_find, node, node_group};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::ObjectMeta;

use crate::context::Context;
use crate::queue::{Key, key};
use crate::reflector::Change;

/// A Node came, changed in something that matters, or went.
pub(crate) fn node(context: &Context, change: &Change<SiteNode>) {
    context.queues.nodes.push(change.key());
    if matches!(change, Change::Removed(_)) {
        context.node_failures.note(&change.key().1, None);
    }
    let sites = context.sites.current(&context.caches);
    let looks = [change.before(), change.after()];
    let mut units: BTreeSet<String> = leaving(&sites).collect();
    for look in looks.iter().flatten() {
        units.extend(sites.claiming(look).iter().map(|site| site.name.clone()));
        let labels = look.metadata.labels.iter().flatten();
        let marks = labels.filter(|(_, value)| *value == marker::NODE_UNIT);
        units.extend(marks.map(|(key, _)| key.clone()));
    }
    context
        .queues
        .node_units
        .extend(units.into_iter().map(named));
    for group in context.caches.node_groups.state() {
        let keys = auto_find::keys(&group);
        let [old, new] =
            looks.map(|look| look.and_then(|look| auto_find::combination(&keys, look)));
        if old != new {
            context.queues.node_groups.push(key(&*group));
        }
    }
}

/// A NodeUnit came, changed or went.
pub(crate) fn node_unit(context: &Context, change: &Change<NodeUnit>) {
    context.sites.invalidate();
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
            .gone(&ObjectId::cluster(Kind::NodeUnit, &name));
    }
    let groups = context.caches.node_groups.state();
    let looks: Vec<&Arc<NodeUnit>> = change.before().into_iter().chain(change.after()).collect();
    let concerned = groups.iter().filter(|group| {
        let is_leaving = group.metadata.deletion_timestamp.is_some();
        is_leaving || looks.iter().any(|unit| claims(group, unit))
    });
    context
        .queues
        .node_groups
        .extend(concerned.map(|group| key(&**group)));
    let sites: Vec<Site> = looks.iter().map(|unit| Site::new(unit, &groups)).collect();
    nodes_where(context, |one| {
        node::is_marked(one, &name) || sites.iter().any(|site| site.has(one))
    });
}

/// A NodeGroup came, changed or went.
pub(crate) fn node_group(context: &Context, change: &Change<NodeGroup>) {
    context.sites.invalidate();
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
            .gone(&ObjectId::cluster(Kind::NodeGroup, &name));
    }
    let looks: Vec<&Arc<NodeGroup>> = change.before().into_iter().chain(change.after()).collect();
    let sites = context.sites.current(&context.caches);
    let concerned: Vec<&Site> = sites
        .all()
        .iter()
        .filter(|site| {
            node_group::shows(&site.unit, &name)
                || looks
                    .iter()
                    .any(|group| claims_or_claimed(group, &site.unit))
        })
        .collect();
    let units = concerned.iter().map(|site| named(site.name.clone()));
    context.queues.node_units.extend(units);
    nodes_where(context, |one| concerned.iter().any(|site| site.has(one)));
}

/// Asks for a look at some nodes, and at all units of these: who wins on them may have changed.
fn nodes_where(context: &Context, is_concerned: impl Fn(&SiteNode) -> bool) {
    let sites = context.sites.current(&context.caches);
    let mut units = BTreeSet::new();
    let nodes = context.caches.nodes.state();
    for one in nodes.iter().filter(|one| is_concerned(one)) {
        context.queues.nodes.push(key(&**one));
        units.extend(sites.claiming(one).iter().map(|site| site.name.clone()));
    }
    context
        .queues
        .node_units
        .extend(units.into_iter().map(named));
}

/// Whether a group claims a unit, or did before it was on its way out.
fn claims_or_claimed(group: &NodeGroup, unit: &NodeUnit) -> bool {
    let mut staying = group.clone();
    staying.metadata.deletion_timestamp = None;
    claims(&staying, unit)
}

/// Units that wait for their nodes to be clean.
fn leaving(sites: &Sites) -> impl Iterator<Item = String> {
    let leaving = sites.all().iter().filter(|site| site.is_leaving());
    leaving.map(|site| site.name.clone())
}

/// Whether two looks at a unit differ in its status alone.
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

fn named(name: String) -> Key {
    (String::new(), name)
}
