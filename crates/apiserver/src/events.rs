//! Events: one resource under two groups, whose versions differ in the names of some fields.
//!
//! They are stored in the form of the core group, and shown in the one that was asked for.

use std::sync::Arc;

use edgegrid_listwatch::{Malformed, View};
use edgegrid_machinery::apply::ConvertError;
use edgegrid_machinery::table::{Shape, normal, table};
use serde_json::Value;

const PLURAL: &str = "events";
const STORED: &str = "v1";
const OWN: &str = "events.k8s.io/v1";

/// Fields of the core group's version, and what they are called in the other.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Whether a resource is shown in another form than it is stored in.
pub(crate) fn is_converted(group: &str, plural: &str) -> bool {
    group == "events.k8s.io" && plural == PLURAL
}

/// The shape of events in one of their versions.
pub(crate) fn shape(kind: &str, api_version: &str) -> Option<Shape<'static>> {
    match api_version {
        _ if kind != "Event" => None,
        STORED => table().shape("", "v1", kind),
        OWN => table().shape("events.k8s.io", "v1", kind),
        _ => None,
    }
}

/// An event in its other version; whatever else is left as it is.
pub(crate) fn convert(object: &Value, api_version: &str) -> Result<Value, ConvertError> {
    let shape = shape(object["kind"].as_str().unwrap_or_default(), api_version);
    let (Some(shape), Some(members)) = (shape, object.as_object()) else {
        return Ok(object.clone());
    };
    let renamed = |key: &str| {
        let mut names = NAMES.iter().map(|(stored, own)| match api_version {
            STORED => (*own, *stored),
            _ => (*stored, *own),
        });
        names.find(|(from, _)| *from == key).map(|(_, to)| to)
    };
    let members = members.iter().map(|(key, value)| {
        let key = renamed(key).unwrap_or(key).to_owned();
        (key, value.clone())
    });
    let mut object = Value::Object(members.collect());
    object["apiVersion"] = api_version.into();
    let normal = normal(&object, shape).map_err(|error| ConvertError(error.to_string()))?;
    Ok(normal.object)
}

/// The stored form of an event of either group.
pub(crate) fn stored(object: &Value) -> Value {
    convert(object, STORED).expect("invariant: what fits one version fits the other")
}

/// How stored events are shown in their own group.
pub(crate) fn view() -> View {
    let convert = |stored: &axum::body::Bytes| {
        let malformed = |error: &dyn std::fmt::Display| Malformed(error.to_string());
        let object: Value = serde_json::from_slice(stored).map_err(|error| malformed(&error))?;
        let object = convert(&object, OWN).map_err(|error| malformed(&error))?;
        Ok(object.to_string().into())
    };
    View::Converted {
        id: 0,
        convert: Arc::new(convert),
    }
}
