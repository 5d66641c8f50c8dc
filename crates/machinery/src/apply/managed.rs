//! The managers of one object: `metadata.managedFields`, decoded.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::fields::FieldsError;
use super::path::PathSet;

/// How a manager came to own fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply: fields that it no longer names are removed.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What tells two entries apart.
///
/// The version is part of it for updates only: an applier keeps its entry when it changes version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The name that the writer gave itself.
    pub manager: String,
    /// Whether it applies or updates; one name can do both.
    pub operation: Operation,
    /// The version written in; empty for appliers.
    pub api_version: String,
    /// The subresource written through; empty for the object itself.
    pub subresource: String,
}

impl Identity {
    /// The identity of a writer.
    pub fn new(
        manager: &str,
        operation: Operation,
        api_version: &str,
        subresource: Option<&str>,
    ) -> Self {
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => api_version.to_owned(),
            },
            subresource: subresource.unwrap_or_default().to_owned(),
        }
    }

    /// The text by which the reference server sorts managers.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{{\"manager\":{},\"operation\":\"{}\"",
            json!(self.manager),
            self.operation.text()
        );
        for (name, value) in [
            ("apiVersion", &self.api_version),
            ("subresource", &self.subresource),
        ] {
            if !value.is_empty() {
                text = format!("{text},\"{name}\":{}", json!(value));
            }
        }
        text.push('}');
        text
    }
}

/// What one manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// The version its paths are valid in.
    pub api_version: String,
    /// The paths that the manager owns.
    pub set: PathSet,
    /// When it last changed something; absent if it never did.
    pub time: Option<String>,
}

/// A list that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManagedError {
    /// Not a list of maps with the known members.
    #[error("managed fields entry {0} is malformed")]
    Entry(usize),
    /// The paths of an entry make no sense.
    #[error("managed fields entry {0}")]
    Fields(usize, #[source] FieldsError),
}

/// All managers of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Managers {
    /// What each of them owns.
    pub entries: BTreeMap<Identity, Owned>,
}

impl Managers {
    /// Reads `metadata.managedFields`; no list is an empty one. Of two entries with one identity
    /// the later wins.
    pub fn decode(list: &Value) -> Result<Self, ManagedError> {
        let items = match list {
            Value::Null => return Ok(Self::default()),
            Value::Array(items) => items,
            _ => return Err(ManagedError::Entry(0)),
        };
        let mut entries = BTreeMap::new();
        for (index, item) in items.iter().enumerate() {
            let (identity, owned) = entry(index, item)?;
            entries.insert(identity, owned);
        }
        Ok(Self { entries })
    }

    /// Writes the list in the server's order: appliers first, then by time, then by name.
    pub fn encode(&self) -> Value {
        let mut entries: Vec<(&Identity, &Owned)> = self.entries.iter().collect();
        entries.sort_by(|(a, x), (b, y)| {
            let left = (a.operation, &x.time, &a.manager, &x.api_version);
            let right = (b.operation, &y.time, &b.manager, &y.api_version);
            left.cmp(&right)
                .then_with(|| a.subresource.cmp(&b.subresource))
        });
        let encoded = entries.into_iter().map(|(identity, owned)| {
            let mut map = Map::new();
            let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
            put("manager", json!(identity.manager));
            put("operation", json!(identity.operation.text()));
            put("apiVersion", json!(owned.api_version));
            if let Some(time) = &owned.time {
                put("time", json!(time));
            }
            put("fieldsType", json!("FieldsV1"));
            put("fieldsV1", owned.set.to_fields_v1());
            if !identity.subresource.is_empty() {
                put("subresource", json!(identity.subresource));
            }
            Value::Object(map)
        });
        Value::Array(encoded.collect())
    }

    /// Folds the oldest updaters together until at most ten are left.
    ///
    /// Per version, the oldest one seen is only remembered; each further one is united with it under
    /// one name. What subresource they wrote through is forgotten.
    pub(super) fn cap(&mut self) {
        let mut updaters: Vec<Identity> = self
            .entries
            .keys()
            .filter(|identity| identity.operation == Operation::Update)
            .cloned()
            .collect();
        updaters.sort_by_cached_key(|identity| {
            let time = self.entries[identity].time.clone();
            (time, identity.text())
        });
        let mut left = updaters.len();
        let mut oldest: BTreeMap<String, Identity> = BTreeMap::new();
        for identity in updaters {
            if left <= MAX_UPDATERS {
                return;
            }
            let version = self.entries[&identity].api_version.clone();
            let bucket = Identity::new(ANCIENT, Operation::Update, &version, None);
            let Some(first) = oldest.get(&version) else {
                oldest.insert(version, identity);
                continue;
            };
            let target = if self.entries.contains_key(&bucket) {
                bucket.clone()
            } else {
                first.clone()
            };
            if target != identity {
                self.fold(&identity, &target, bucket);
                left -= 1;
            }
        }
    }

    /// Unites two entries under a third name.
    fn fold(&mut self, from: &Identity, into: &Identity, name: Identity) {
        if let (Some(mut kept), Some(folded)) =
            (self.entries.remove(into), self.entries.remove(from))
        {
            kept.set = kept.set.union(&folded.set);
            kept.time = folded.time;
            self.entries.insert(name, kept);
        }
    }
}

const MAX_UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

fn entry(index: usize, item: &Value) -> Result<(Identity, Owned), ManagedError> {
    let text = |key: &str| match item.get(key) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(ManagedError::Entry(index)),
    };
    let operation = match text("operation")? {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err(ManagedError::Entry(index)),
    };
    let api_version = text("apiVersion")?;
    if api_version.is_empty() || text("fieldsType")? != "FieldsV1" {
        return Err(ManagedError::Entry(index));
    }
    let fields = item.get("fieldsV1").unwrap_or(&Value::Null);
    let set =
        PathSet::from_fields_v1(fields).map_err(|error| ManagedError::Fields(index, error))?;
    let subresource = Some(text("subresource")?);
    let identity = Identity::new(text("manager")?, operation, api_version, subresource);
    let time = Some(text("time")?).filter(|time| !time.is_empty());
    Ok((
        identity,
        Owned {
            api_version: api_version.to_owned(),
            set,
            time: time.map(str::to_owned),
        },
    ))
}
