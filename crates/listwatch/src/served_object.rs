//! A stored object as readers need it: parsed as little as possible, once for each version.
//!
//! ```text
//! {"kind":"Pod",…,"metadata":{ ▲ "name":"a",…},"spec":…}
//!                             └ "resourceVersion":"17", goes in here when the bytes are sent
//! ```

use crate::accept::Form;
use crate::resource::{Field, Resource};
use crate::view::{Malformed, View};
use bytes::{BufMut, Bytes};
use edgegrid_store::Entry;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// A served object, or why there is none.
type Parsed = Result<Arc<ServedObject>, Malformed>;

/// What an entry remembers of how it is read; empty until somebody reads it.
#[derive(Debug, Default)]
pub struct Memo {
    stored: OnceLock<Parsed>,
    converted: Mutex<Vec<(u64, Parsed)>>,
}

/// A stored object in its served form, and what selectors ask of it.
#[derive(Debug)]
pub struct ServedObject {
    bytes: Bytes,
    /// From the opening brace of `metadata` to behind its closing one.
    metadata: Range<usize>,
    /// Whether a comma must follow what is put in.
    comma: &'static str,
    labels: OnceLock<BTreeMap<String, String>>,
    fields: OnceLock<Box<[String]>>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Labelled {
    labels: Option<BTreeMap<String, String>>,
}

/// The bytes to store for an object: compact JSON without `metadata.resourceVersion`.
pub fn storable(object: &Value) -> Bytes {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    object.to_string().into()
}

/// The object of an entry, as a resource serves it; parsed once and shared.
pub fn served_object(
    entry: &Entry<Memo>,
    resource: &Resource,
) -> Result<Arc<ServedObject>, Malformed> {
    let memo = entry.memo(|_| Memo::default());
    let View::Converted { id, convert } = &resource.view else {
        return memo
            .stored
            .get_or_init(|| ServedObject::parse(entry.value().clone()))
            .clone();
    };
    let mut converted = memo.converted.lock();
    if let Some((_, object)) = converted.iter().find(|(view, _)| view == id) {
        return object.clone();
    }
    let object = convert(entry.value()).and_then(ServedObject::parse);
    converted.push((*id, object.clone()));
    object
}

impl ServedObject {
    fn parse(bytes: Bytes) -> Result<Arc<Self>, Malformed> {
        let envelope: Envelope<'_> = read(&bytes)?;
        let raw = envelope.metadata.get();
        let Metadata { resource_version } = read(raw.as_bytes())?;
        if resource_version.is_some() {
            return Err(Malformed(
                "metadata.resourceVersion belongs to the store".to_owned(),
            ));
        }
        let start = raw.as_ptr().addr() - bytes.as_ptr().addr();
        let metadata = start..start + raw.len();
        let empty = raw[1..raw.len() - 1].trim().is_empty();
        let comma = if empty { "" } else { "," };
        let (labels, fields) = (OnceLock::new(), OnceLock::new());
        Ok(Arc::new(Self {
            bytes,
            metadata,
            comma,
            labels,
            fields,
        }))
    }

    /// Writes the object at a revision.
    pub fn write(&self, form: Form, revision: u64, out: &mut Vec<u8>) {
        let Range { start, end } = self.metadata;
        match form {
            Form::Object => self.splice(0..self.bytes.len(), revision, out),
            Form::Metadata(version) => {
                out.put_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":""#);
                out.put_slice(version.api_version().as_bytes());
                out.put_slice(br#"","metadata":"#);
                self.splice(start..end, revision, out);
                out.put_slice(b"}");
            }
        }
    }

    /// How many bytes [`ServedObject::write`] writes.
    pub fn length(&self, form: Form, revision: u64) -> usize {
        let version = r#""resourceVersion":"""#.len() + digits(revision) + self.comma.len();
        version
            + match form {
                Form::Object => self.bytes.len(),
                Form::Metadata(version) => {
                    let frame = r#"{"kind":"PartialObjectMetadata","apiVersion":"","metadata":}"#;
                    frame.len() + version.api_version().len() + self.metadata.len()
                }
            }
    }

    /// The object at a revision, as bytes of its own.
    pub fn to_json(&self, revision: u64) -> Bytes {
        let mut out = Vec::with_capacity(self.length(Form::Object, revision));
        self.write(Form::Object, revision, &mut out);
        out.into()
    }

    /// The labels; a label that is no string leaves the object without any.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        self.labels.get_or_init(|| {
            let metadata = &self.bytes[self.metadata.clone()];
            let labelled: Result<Labelled, _> = serde_json::from_slice(metadata);
            labelled.ok().and_then(|it| it.labels).unwrap_or_default()
        })
    }

    /// The values of a resource's selectable fields, in their order.
    pub fn fields(&self, fields: &[Field]) -> &[String] {
        self.fields.get_or_init(|| {
            let object: Value = serde_json::from_slice(&self.bytes).unwrap_or_default();
            fields
                .iter()
                .map(|field| value_of(field, &object))
                .collect()
        })
    }

    fn splice(&self, range: Range<usize>, revision: u64, out: &mut Vec<u8>) {
        let middle = self.metadata.start + 1;
        out.put_slice(&self.bytes[range.start..middle]);
        out.put_slice(br#""resourceVersion":""#);
        out.put_slice(revision.to_string().as_bytes());
        out.put_slice(b"\"");
        out.put_slice(self.comma.as_bytes());
        out.put_slice(&self.bytes[middle..range.end]);
    }
}

fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Malformed> {
    serde_json::from_slice(bytes).map_err(|error| Malformed(error.to_string()))
}

fn digits(revision: u64) -> usize {
    revision.checked_ilog10().map_or(1, |log| log as usize + 1)
}

fn value_of(field: &Field, object: &Value) -> String {
    let scalar = |path: &str| {
        let found = path
            .split('.')
            .try_fold(object, |object, step| match object {
                Value::Array(items) => items.get(step.parse::<usize>().ok()?),
                _ => object.get(step),
            })?;
        match found {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Bool(_) | Value::Number(_) => Some(found.to_string()),
            _ => None,
        }
    };
    field
        .paths
        .iter()
        .find_map(|path| scalar(path))
        .unwrap_or_else(|| field.default.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accept::MetadataVersion;

    fn written(json: &str, form: Form, revision: u64) -> Result<Value, Malformed> {
        let object = ServedObject::parse(Bytes::copy_from_slice(json.as_bytes()))?;
        let mut out = Vec::new();
        object.write(form, revision, &mut out);
        assert_eq!(out.len(), object.length(form, revision));
        Ok(serde_json::from_slice(&out).unwrap())
    }

    #[test]
    fn the_revision_goes_into_metadata_wherever_that_is() {
        for json in [
            r#"{"kind":"A","metadata":{"name":"x"},"spec":{"metadata":{"name":"inner"}}}"#,
            r#"{"spec":{"metadata":{"name":"inner"}},"metadata" : { "name":"x" } , "kind":"A"}"#,
        ] {
            for revision in [0, 9, 10, u64::MAX] {
                let object = written(json, Form::Object, revision).unwrap();
                assert_eq!(object["metadata"]["resourceVersion"], revision.to_string());
                assert_eq!(object["metadata"]["name"], "x");
                assert!(object["spec"]["metadata"].get("resourceVersion").is_none());
            }
        }
        let empty = written(r#"{"metadata":{ }}"#, Form::Object, 7).unwrap();
        assert_eq!(
            empty,
            serde_json::json!({"metadata": {"resourceVersion": "7"}})
        );
    }

    #[test]
    fn metadata_alone_is_a_slice_of_the_object() {
        let json = r#"{"kind":"A","metadata":{"name":"x","labels":{"a":"b"}},"spec":{}}"#;
        let partial = written(json, Form::Metadata(MetadataVersion::V1), 12).unwrap();
        let expected = serde_json::json!({
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "12", "name": "x", "labels": {"a": "b"}},
        });
        assert_eq!(partial, expected);
    }

    #[test]
    fn what_is_no_object_is_malformed_and_nothing_panics() {
        for json in [
            "",
            "null",
            "[]",
            "{}",
            r#"{"metadata":null}"#,
            r#"{"metadata":[]}"#,
            r#"{"metadata":"""#,
            r#"{"metadata":{"resourceVersion":"1"}}"#,
            r#"{"metadata":{}}x"#,
            r#"{"metadata":7}"#,
        ] {
            assert!(written(json, Form::Object, 1).is_err(), "{json}");
        }
    }

    #[test]
    fn a_field_is_the_first_scalar_its_paths_lead_to() {
        let field = Field {
            name: "f".into(),
            paths: vec!["a.b".into(), "c".into(), "l.0.m".into()],
            default: "none".into(),
        };
        for (object, value) in [
            (serde_json::json!({"a": {"b": "x"}, "c": "y"}), "x"),
            (serde_json::json!({"a": {"b": ""}, "c": true}), "true"),
            (serde_json::json!({"a": 1, "c": 5}), "5"),
            (serde_json::json!({"a": {"b": {}}}), "none"),
            (serde_json::json!({"a": [], "l": [{"m": "z"}]}), "z"),
        ] {
            assert_eq!(value_of(&field, &object), value);
        }
    }

    #[test]
    fn storable_drops_the_revision_and_nothing_else() {
        let object = serde_json::json!({"metadata": {"name": "a", "resourceVersion": "4"}, "x": 1});
        let stored: Value = serde_json::from_slice(&storable(&object)).unwrap();
        assert_eq!(
            stored,
            serde_json::json!({"metadata": {"name": "a"}, "x": 1})
        );
    }
}
