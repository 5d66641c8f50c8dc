//! Objects that are served whole: their text for the store, and what else is asked of them.

use crate::index::absent::SeenNode;
use crate::kinds::ServedKind;
use crate::view::Rule;
use bytes::Bytes;
use edgegrid_listwatch::storable;
use serde_json::Value;
use std::collections::BTreeMap;

/// An object that is served as it is.
#[derive(Debug)]
pub(crate) struct Plain {
    /// Key in the store.
    pub(crate) key: String,
    /// The revision upstream gave it.
    pub(crate) revision: String,
    pub(crate) text: Bytes,
    pub(crate) effect: Effect,
}

/// What an object means for views besides being served.
#[derive(Debug)]
pub(crate) enum Effect {
    Nothing,
    Rule(Rule),
    Node(SeenNode),
}

impl Plain {
    /// Reads an object as it comes from upstream or out of a snapshot.
    pub(crate) fn read(kind: ServedKind, json: &[u8]) -> Result<Self, String> {
        let mut object: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let resource = kind.resource();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = object["metadata"].as_object_mut().ok_or("no metadata")?;
        metadata.remove("managedFields");
        let name = metadata.get("name").map(text).unwrap_or_default();
        if name.is_empty() {
            return Err("no name".to_owned());
        }
        let namespace = metadata
            .get("namespace")
            .map(text)
            .filter(|_| resource.namespaced);
        let revision = metadata
            .get("resourceVersion")
            .map(text)
            .unwrap_or_default();
        object["kind"] = (*resource.kind).into();
        object["apiVersion"] = resource.api_version().into();
        let effect = match kind {
            ServedKind::Services => Effect::Rule(Rule::from_service(&object)),
            ServedKind::Nodes => Effect::Node(SeenNode {
                uid: text(&object["metadata"]["uid"]),
                labels: labels(&object),
            }),
            _ => Effect::Nothing,
        };
        Ok(Self {
            key: resource.key(namespace.as_deref(), &name),
            revision,
            // Copied, so that the store keeps no spare room.
            text: Bytes::from(storable(&object).to_vec().into_boxed_slice()),
            effect,
        })
    }
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten();
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    labels.filter_map(text).collect()
}
