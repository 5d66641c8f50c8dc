//! `FieldsV1`: the JSON form of a path set.
//!
//! ```text
//! {"f:spec": {"f:ports": {"k:{\"port\":80}": {".": {}, "f:name": {}}}}}
//! ```
//!
//! An empty node is owned itself; a node with children only if it also holds a dot.

use serde_json::{Map, Value};

use super::path::{Element, PathSet};

/// Text that is no path set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// A key that is neither a dot nor a prefixed element.
    #[error("path element {0:?} has no valid form")]
    Element(String),
    /// A node that is not a map.
    #[error("path element {0:?} does not hold a map")]
    Node(String),
    /// Nested deeper than any object can be.
    #[error("nested too deeply")]
    Depth,
}

/// Deeper sets are refused: recursion must end.
const MAX_DEPTH: usize = 300;

impl PathSet {
    /// Reads a set. Elements of unknown kinds are dropped with everything below.
    pub fn from_fields_v1(fields: &Value) -> Result<Self, FieldsError> {
        match fields {
            Value::Null => Ok(Self::default()),
            Value::Object(map) => read(map, MAX_DEPTH),
            _ => Err(FieldsError::Node(String::new())),
        }
    }

    /// The set in the form of `fieldsV1`.
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(write(self))
    }
}

fn read(map: &Map<String, Value>, depth: usize) -> Result<PathSet, FieldsError> {
    if depth == 0 {
        return Err(FieldsError::Depth);
    }
    let mut set = PathSet::default();
    for (key, node) in map {
        if key == "." {
            continue;
        }
        let Value::Object(node) = node else {
            return Err(FieldsError::Node(key.clone()));
        };
        let Some(element) = element(key)? else {
            continue;
        };
        if node.is_empty() || node.contains_key(".") {
            set.members.insert(element.clone());
        }
        let below = read(node, depth - 1)?;
        if !below.is_empty() {
            set.children.insert(element, below);
        }
    }
    Ok(set)
}

/// An element, or nothing if its kind is unknown.
fn element(key: &str) -> Result<Option<Element>, FieldsError> {
    let bad = || FieldsError::Element(key.to_owned());
    let (kind, text) = match key.as_bytes() {
        [kind, b':', ..] => (*kind, &key[2..]),
        _ => return Err(bad()),
    };
    Ok(Some(match kind {
        b'f' => Element::field(text),
        b'k' => {
            let pairs: Map<String, Value> = serde_json::from_str(text).map_err(|_| bad())?;
            let mut pairs: Vec<(String, Value)> = pairs.into_iter().collect();
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            Element::Key(pairs)
        }
        b'v' => Element::Value(serde_json::from_str(text).map_err(|_| bad())?),
        b'i' => Element::Index(text.parse().map_err(|_| bad())?),
        _ => return Ok(None),
    }))
}

fn write(set: &PathSet) -> Map<String, Value> {
    let mut map = Map::new();
    for member in &set.members {
        map.insert(key(member), Value::Object(Map::new()));
    }
    for (element, child) in &set.children {
        if child.is_empty() {
            continue;
        }
        let mut node = write(child);
        if set.members.contains(element) {
            node.insert(".".to_owned(), Value::Object(Map::new()));
        }
        map.insert(key(element), Value::Object(node));
    }
    map
}

fn key(element: &Element) -> String {
    match element {
        Element::Field(name) => format!("f:{name}"),
        Element::Key(pairs) => {
            let pairs = pairs
                .iter()
                .map(|(name, value)| format!("{}:{value}", Value::from(&**name)));
            format!("k:{{{}}}", pairs.collect::<Vec<_>>().join(","))
        }
        Element::Value(value) => format!("v:{value}"),
        Element::Index(index) => format!("i:{index}"),
    }
}
