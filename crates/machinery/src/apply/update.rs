//! The apply algorithm: merge, prune, find conflicts, take over.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::compare::{Comparison, compare};
use super::conflict::Conflicts;
use super::managed::{Identity, Managers, Operation, Owned};
use super::order::equal;
use super::path::PathSet;
use super::prune::{named, reconciled, remove};
use super::typed::{field_set, fits, mistakes};
use super::{Error, Outcome, Writer, last_applied, merge, track};
use crate::table::Shape;

/// Credited with everything in an object that had no managers before its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

pub(super) fn apply(
    writer: &Writer<'_>,
    live: Option<&Value>,
    body: &Value,
    force: bool,
) -> Result<Outcome, Error> {
    let empty = Value::Object(Map::new());
    let live = live.unwrap_or(&empty);
    let (bare, list) = split(live);
    let (body, _) = split(body);
    let mut managers = Managers::decode(&list)?;
    if managers.entries.is_empty() {
        let before = Writer {
            manager: BEFORE_FIRST_APPLY,
            ..*writer
        };
        track::credit(&before, &track::blank(writer), &bare, &mut managers);
    }
    let step = Step {
        writer,
        live: &bare,
        body: &body,
        shape: shape(writer)?,
    };
    if !fits(&bare, step.shape) {
        let (object, mistakes) = (step.describe(), mistakes(&bare, step.shape));
        return Err(Error::Shape { object, mistakes });
    }
    let (object, managers) = step.run_or_upgrade(managers, force)?;
    let changed = object.is_some();
    let mut object = object.unwrap_or_else(|| bare.clone());
    if writer.manager == last_applied::KUBECTL {
        last_applied::refresh(&bare, &body, &mut object);
    }
    set_managers(&mut object, &managers);
    Ok(Outcome { object, changed })
}

/// The object without its managers, and their list.
pub(super) fn split(object: &Value) -> (Value, Value) {
    let mut object = object.clone();
    let list = object
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .and_then(|metadata| metadata.remove("managedFields"));
    (object, list.unwrap_or_default())
}

/// Writes the list of managers; an empty one is left out.
pub(super) fn set_managers(object: &mut Value, managers: &Managers) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    if managers.entries.is_empty() {
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        metadata.and_then(|metadata| metadata.remove("managedFields"));
        return;
    }
    let metadata = object.entry("metadata").or_insert_with(|| Value::Null);
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata["managedFields"] = managers.encode();
}

fn shape<'a>(writer: &Writer<'a>) -> Result<Shape<'a>, Error> {
    let shape = writer.versions.shape(writer.api_version);
    shape.ok_or_else(|| Error::Version(writer.api_version.to_owned()))
}

/// One pass over fixed inputs.
struct Step<'a> {
    writer: &'a Writer<'a>,
    live: &'a Value,
    body: &'a Value,
    shape: Shape<'a>,
}

impl Step<'_> {
    /// Like [`Step::run`], but `kubectl` may take over what it applied as a client.
    fn run_or_upgrade(
        &self,
        managers: Managers,
        force: bool,
    ) -> Result<(Option<Value>, Managers), Error> {
        match self.run(managers.clone(), force) {
            Err(Error::Conflict(conflicts)) if self.writer.manager == last_applied::KUBECTL => {
                let version = self.writer.api_version;
                let allowed = last_applied::unchanged(self.live, version, self.shape);
                let left = conflicts.outside(&allowed.unwrap_or_default());
                if !left.0.is_empty() {
                    return Err(Error::Conflict(left));
                }
                self.run(managers, true)
            }
            other => other,
        }
    }

    /// The new object (nothing if it equals the live one) and its managers.
    fn run(&self, mut managers: Managers, force: bool) -> Result<(Option<Value>, Managers), Error> {
        let mistakes = mistakes(self.body, self.shape);
        if !mistakes.is_empty() {
            let object = self.describe();
            return Err(Error::Shape { object, mistakes });
        }
        reconcile(self.writer, &mut managers);
        let merged = merge::merge(self.live, self.body, self.shape);
        let (identity, last) = self.claim(&mut managers);
        let object = match &last {
            Some(last) => self.prune(merged, &managers, last)?,
            None => merged,
        };
        let mut seen = Changes::new(self.writer, self.live, &object);
        settle(&mut seen, &mut managers, Some(&identity), force)?;
        let changed = !equal(self.live, &object);
        if let Some(mine) = managers.entries.get_mut(&identity) {
            mine.set = track::trackable(&mine.set);
            if changed {
                mine.time = Some(self.writer.now.to_owned());
            }
        }
        managers.entries.retain(|_, owned| !owned.set.is_empty());
        Ok((changed.then_some(object), managers))
    }

    /// Lists the writer with what it applies now; gives what it applied before.
    fn claim(&self, managers: &mut Managers) -> (Identity, Option<Owned>) {
        let Writer {
            manager,
            api_version,
            subresource,
            reset,
            ..
        } = *self.writer;
        let identity = Identity::new(manager, Operation::Apply, api_version, subresource);
        let last = managers.entries.remove(&identity);
        let owned = Owned {
            api_version: api_version.to_owned(),
            set: field_set(self.body, self.shape).recursive_difference(reset),
            time: last.as_ref().and_then(|last| last.time.clone()),
        };
        managers.entries.insert(identity.clone(), owned);
        (identity, last)
    }

    /// Removes what was applied before and is in nobody's set now.
    fn prune(&self, merged: Value, managers: &Managers, last: &Owned) -> Result<Value, Error> {
        let Some(shape) = self.writer.versions.shape(&last.api_version) else {
            return Ok(merged);
        };
        if last.set.is_empty() {
            return Ok(merged);
        }
        let merged = self.convert(&merged, &last.api_version)?;
        let mut pruned = remove(&merged, &named(&last.set, shape), shape);
        let mut owned_at: BTreeMap<&str, PathSet> = BTreeMap::new();
        for owned in managers.entries.values() {
            let union = owned_at.entry(&owned.api_version).or_default();
            *union = union.union(&owned.set);
        }
        let first = owned_at.remove_entry(last.api_version.as_str());
        let mut whole = merged.clone();
        for (version, owned) in first.into_iter().chain(owned_at) {
            let Some(shape) = self.writer.versions.shape(version) else {
                continue;
            };
            whole = self.convert(&whole, version)?;
            pruned = self.convert(&pruned, version)?;
            let kept = named(&field_set(&pruned, shape), shape).union(&named(&owned, shape));
            let gone = named(&field_set(&whole, shape), shape).difference(&kept);
            pruned = remove(&whole, &gone, shape);
        }
        let pruned = self.convert(&pruned, &last.api_version)?;
        let gone = named(&field_set(&merged, shape), shape)
            .difference(&named(&field_set(&pruned, shape), shape))
            .intersection(&named(&last.set, shape));
        self.convert(&remove(&merged, &gone, shape), self.writer.api_version)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, Error> {
        if object["apiVersion"] == api_version {
            return Ok(object.clone());
        }
        let convert = self.writer.versions.convert(object, api_version);
        convert.map_err(|source| Error::Convert {
            object: self.describe(),
            api_version: api_version.to_owned(),
            source,
        })
    }

    fn describe(&self) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &self.body["metadata"];
        format!(
            "{}/{}; {}, Kind={}",
            text(&metadata["namespace"]),
            text(&metadata["name"]),
            text(&self.body["apiVersion"]),
            text(&self.body["kind"]),
        )
    }
}

/// Adjusts all sets to shapes that have become atomic since they were recorded.
pub(super) fn reconcile(writer: &Writer<'_>, managers: &mut Managers) {
    for owned in managers.entries.values_mut() {
        if let Some(shape) = writer.versions.shape(&owned.api_version) {
            owned.set = reconciled(&owned.set, shape);
        }
    }
}

/// What a write changes, as seen in each version that a manager wrote in.
pub(super) struct Changes<'a> {
    writer: &'a Writer<'a>,
    live: &'a Value,
    object: &'a Value,
    known: BTreeMap<String, Option<Comparison>>,
}

impl<'a> Changes<'a> {
    pub(super) fn new(writer: &'a Writer<'a>, live: &'a Value, object: &'a Value) -> Self {
        Self {
            writer,
            live,
            object,
            known: BTreeMap::new(),
        }
    }

    /// Nothing if the version is not served any more.
    pub(super) fn at(&mut self, api_version: &str) -> Option<&Comparison> {
        if !self.known.contains_key(api_version) {
            let seen = self.compute(api_version);
            self.known.insert(api_version.to_owned(), seen);
        }
        self.known.get(api_version)?.as_ref()
    }

    fn compute(&self, api_version: &str) -> Option<Comparison> {
        let versions = self.writer.versions;
        let shape = versions.shape(api_version)?;
        let changes = if api_version == self.writer.api_version {
            compare(self.live, self.object, shape)
        } else {
            let live = versions.convert(self.live, api_version).ok()?;
            let object = versions.convert(self.object, api_version).ok()?;
            compare(&live, &object, shape)
        };
        Some(changes.without(self.writer.reset))
    }
}

/// Takes what changed from everyone but the acting manager, or refuses to.
pub(super) fn settle(
    changes: &mut Changes<'_>,
    managers: &mut Managers,
    acting: Option<&Identity>,
    force: bool,
) -> Result<(), Error> {
    let mut conflicts = Vec::new();
    let mut vanished = BTreeSet::new();
    for (identity, owned) in &mut managers.entries {
        if Some(identity) == acting {
            continue;
        }
        let Some(change) = changes.at(&owned.api_version) else {
            vanished.insert(identity.clone());
            continue;
        };
        let overwritten = owned.set.intersection(&change.written());
        owned.set = owned
            .set
            .difference(&overwritten)
            .difference(&change.removed);
        if !overwritten.is_empty() {
            conflicts.push((identity.clone(), owned.api_version.clone(), overwritten));
        }
    }
    if !force && !conflicts.is_empty() {
        return Err(Error::Conflict(Conflicts::new(conflicts)));
    }
    managers
        .entries
        .retain(|identity, owned| !owned.set.is_empty() && !vanished.contains(identity));
    Ok(())
}
