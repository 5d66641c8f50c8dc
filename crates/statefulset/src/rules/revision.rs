//! Revisions: every template a set ever had, and which two of them count now.
//!
//! Names and bytes are those of kube-controller-manager 1.34 and later, so that a set changes hands
//! without a pod being restarted. Payloads of older ones differ by a null creation time; they are
//! recognised by value.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::core::{DynamicObject, SelectorExt};
use serde_json::{Value, json};

use super::pod::{Owner, controller};
use super::set::Set;
use super::{Step, World, canonical, identity};
use crate::names;

/// Letters of a hash: no vowels, so that it spells nothing.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Longest part of a set's name in the name of a revision.
const PREFIX_LENGTH: usize = 223;
const FNV_OFFSET: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

/// A stored template of a set: a `ControllerRevision`.
#[derive(Debug, Clone, PartialEq)]
pub struct Revision {
    /// Namespace that it shares with its set.
    pub namespace: String,
    /// Name: that of the set and a hash of the template.
    pub name: String,
    /// Identity: a revision made anew under the same name has another one.
    pub uid: String,
    /// Revision of the object that was read, as it was written.
    pub resource_version: String,
    /// All labels: those of the template, which the selector must match.
    pub labels: BTreeMap<String, String>,
    /// The object that controls it, if there is one.
    pub owner: Option<Owner>,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Place in the history.
    pub number: i64,
    /// The template, as a patch of the set; without null creation times.
    pub data: Value,
}

/// A template under the name of its revision.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// Name of the revision.
    pub name: String,
    /// The pod template as the revision has it.
    pub template: Value,
}

/// The two revisions of a set, and what has to be written for them to exist.
pub(super) struct Chosen {
    pub(super) current: Template,
    pub(super) update: Template,
    pub(super) step: Option<Step>,
}

impl Revision {
    /// Keeps what the rules read of a revision.
    pub fn new(object: DynamicObject) -> Self {
        let metadata = object.metadata;
        let mut data = object.data.get("data").cloned().unwrap_or(Value::Null);
        drop_null_times(&mut data);
        Self {
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            owner: controller(metadata.owner_references.as_deref().unwrap_or_default()),
            labels: metadata.labels.unwrap_or_default(),
            created: metadata.creation_timestamp.map(|time| time.0),
            number: object.data["revision"].as_i64().unwrap_or_default(),
            data,
        }
    }

    fn template(&self) -> Template {
        let mut template = self.data["spec"]["template"].clone();
        if let Some(fields) = template.as_object_mut() {
            fields.remove("$patch");
        }
        Template {
            name: self.name.clone(),
            template,
        }
    }
}

/// The payload of the revision of a set as it is.
pub fn payload(set: &Set) -> Value {
    let mut template = set.template.clone();
    drop_null_times(&mut template);
    if let Some(fields) = template.as_object_mut() {
        fields.insert("$patch".into(), "replace".into());
    }
    json!({ "spec": { "template": template } })
}

/// Hash of a payload after so many collisions.
pub fn hash(payload: &Value, collisions: i64) -> String {
    let text = canonical::text(payload) + &collisions.to_string();
    let fnv = text.bytes().fold(FNV_OFFSET, |hash, byte| {
        hash.wrapping_mul(FNV_PRIME) ^ u32::from(byte)
    });
    let letter = |digit: u8| char::from(LETTERS[usize::from(digit) % LETTERS.len()]);
    fnv.to_string().bytes().map(letter).collect()
}

/// Name of a revision.
pub fn revision_name(set: &str, hash: &str) -> String {
    let mut end = set.len().min(PREFIX_LENGTH);
    while !set.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{hash}", &set[..end])
}

/// The revisions that can be the set's, oldest first.
pub(super) fn history(world: &World) -> Vec<Arc<Revision>> {
    let set = &world.set;
    let is_ours = |revision: &Arc<Revision>| {
        let owner = revision.owner.as_ref();
        owner.is_none_or(|owner| owner.uid == set.uid) && set.selector.matches(&revision.labels)
    };
    let mut ours: Vec<_> = world
        .revisions
        .iter()
        .filter(|r| is_ours(r))
        .cloned()
        .collect();
    ours.sort_by(|a, b| {
        let key = |r: &Revision| (r.number, r.created);
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    ours
}

/// A revision that may be the set's template before the API server learned new defaults: everything
/// in it is in the template, which has more. Only the API server can tell; ask it.
pub fn possibly_equivalent(world: &World) -> Option<Arc<Revision>> {
    let history = history(world);
    let proposed = payload(&world.set);
    let latest = history.last()?;
    let is_known = history.iter().any(|revision| revision.data == proposed);
    (!is_known && is_part_of(&latest.data, &proposed)).then(|| latest.clone())
}

/// The set's template with that of a revision in its place, for the API server to default.
pub fn with_template_of(revision: &Revision) -> Value {
    revision.template().template
}

/// Whether a template is the set's.
pub fn is_template_of(set: &Set, template: &Value) -> bool {
    let mut other = template.clone();
    drop_null_times(&mut other);
    let mut own = set.template.clone();
    drop_null_times(&mut own);
    own == other
}

pub(super) fn choose_revisions(world: &World, history: &[Arc<Revision>]) -> Chosen {
    let (update, step) = update_revision(world, history);
    let wanted = &world.set.status.current_revision;
    let current = history.iter().find(|revision| revision.name == *wanted);
    Chosen {
        current: current.map_or_else(|| update.clone(), |revision| revision.template()),
        update,
        step,
    }
}

fn update_revision(world: &World, history: &[Arc<Revision>]) -> (Template, Option<Step>) {
    let proposed = payload(&world.set);
    let latest = history.last();
    let next = latest.map_or(1, |revision| revision.number + 1);
    let equal = history.iter().rfind(|revision| revision.data == proposed);
    let equivalent = latest.filter(|latest| Some(&latest.name) == world.equivalent.as_ref());
    match (equal, equivalent) {
        (Some(equal), _) if latest.is_some_and(|latest| latest.data == proposed) => {
            debug_assert!(equal.data == proposed);
            let latest = latest.unwrap_or(equal);
            (latest.template(), None)
        }
        (Some(equal), _) => (equal.template(), Some(Step::renumber(equal, next))),
        (None, Some(latest)) => (latest.template(), None),
        (None, None) => {
            let first = hash(&proposed, world.first_collisions());
            let name = revision_name(&world.set.name, &hash(&proposed, world.collisions));
            let template = Template {
                name: name.clone(),
                template: live_template(&world.set),
            };
            let body = new_revision(&world.set, (&name, &first), next, &proposed);
            (template, Some(Step::CreateRevision { name, body }))
        }
    }
}

fn live_template(set: &Set) -> Value {
    let mut template = set.template.clone();
    drop_null_times(&mut template);
    template
}

fn new_revision(set: &Set, (name, hash): (&str, &str), number: i64, data: &Value) -> Value {
    let mut labels = set.template["metadata"]["labels"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    labels.insert(names::HASH_LABEL.into(), hash.into());
    json!({
        "apiVersion": names::SET_API_VERSION,
        "kind": names::REVISION_KIND,
        "metadata": {
            "name": name,
            "namespace": set.namespace,
            "labels": labels,
            "annotations": set.annotations,
            "ownerReferences": [identity::set_reference(set)],
        },
        "data": data,
        "revision": number,
    })
}

/// Before 1.34 the types wrote a creation time of null into every embedded metadata.
fn drop_null_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, value| !(key == "creationTimestamp" && value.is_null()));
            fields.values_mut().for_each(drop_null_times);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_null_times),
        _ => {}
    }
}

/// Whether `whole` is `part` with more fields.
fn is_part_of(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|other| is_part_of(value, other))),
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(a, b)| is_part_of(a, b))
        }
        (part, whole) => part == whole,
    }
}
