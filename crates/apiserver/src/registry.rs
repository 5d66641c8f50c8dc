//! Which resources there are: the built-in ones from the table, the custom ones from their
//! definitions, which come and go while the server runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use edgegrid_listwatch::{Field, Malformed, Resource, View};
use edgegrid_machinery::kinds;
use edgegrid_machinery::schema::Schema;
use edgegrid_machinery::status::FieldError;
use edgegrid_machinery::table::{Shapes, table};
use parking_lot::RwLock;
use serde_json::Value;

use crate::served::{Content, Custom, ScalePaths, ServedResource, builtin, key_prefix};

/// Group, version and plural.
type Address = (String, String, String);

/// All resources of a server.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// Numbers the views of custom resources: a changed definition is a new view.
    views: AtomicU64,
    custom: RwLock<BTreeMap<Address, Arc<ServedResource>>>,
}

impl Registry {
    /// The resource behind a path.
    pub(crate) fn resource(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<Arc<ServedResource>> {
        let address = (group.to_owned(), version.to_owned(), plural.to_owned());
        if let Some(served) = builtins().get(&address) {
            return Some(served.clone());
        }
        let custom = self.custom.read();
        custom.get(&address).cloned()
    }

    /// Serves what a definition says, in place of what it said before.
    pub(crate) fn define(&self, crd: &Value) -> Result<(), Vec<FieldError>> {
        let served = custom(crd, &self.views)?;
        let mut custom = self.custom.write();
        let (group, plural) = (text(crd, "/spec/group"), text(crd, "/spec/names/plural"));
        custom.retain(|(old_group, _, old_plural), _| (old_group, old_plural) != (&group, &plural));
        for served in served {
            let address = (
                group.clone(),
                served.read.version.to_string(),
                plural.clone(),
            );
            custom.insert(address, Arc::new(served));
        }
        Ok(())
    }

    /// Stops serving a definition's resources.
    pub(crate) fn undefine(&self, crd: &Value) {
        let (group, plural) = (text(crd, "/spec/group"), text(crd, "/spec/names/plural"));
        let mut custom = self.custom.write();
        custom.retain(|(old_group, _, old_plural), _| (old_group, old_plural) != (&group, &plural));
    }
}

/// The built-in resources, each in the first version its group lists it in: other versions would need
/// a conversion of their own.
fn builtins() -> &'static BTreeMap<Address, Arc<ServedResource>> {
    static BUILTINS: OnceLock<BTreeMap<Address, Arc<ServedResource>>> = OnceLock::new();
    BUILTINS.get_or_init(|| {
        let table = table();
        let mut found: BTreeMap<Address, Arc<ServedResource>> = BTreeMap::new();
        for (group, versions) in table.groups() {
            for resource in versions.iter().flat_map(|version| {
                table
                    .resources()
                    .iter()
                    .filter(move |r| r.group == *group && r.version == *version)
            }) {
                let is_stored = ["get", "list"]
                    .iter()
                    .all(|verb| resource.verbs.iter().any(|has| has == verb));
                let is_known = found
                    .keys()
                    .any(|(g, _, p)| g == group && *p == resource.plural);
                let shape = table.shape(group, &resource.version, &resource.kind);
                if let (true, false, Some(shape)) = (is_stored, is_known, shape) {
                    let address = (
                        group.clone(),
                        resource.version.clone(),
                        resource.plural.clone(),
                    );
                    found.insert(address, Arc::new(builtin(resource, shape)));
                }
            }
        }
        found
    })
}

/// The resources that a definition describes, one for each served version.
fn custom(crd: &Value, views: &AtomicU64) -> Result<Vec<ServedResource>, Vec<FieldError>> {
    let empty = Vec::new();
    let versions = crd
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .unwrap_or(&empty);
    let mut shapes = BTreeMap::new();
    let group = text(crd, "/spec/group");
    for version in versions {
        let schema = &version["schema"]["openAPIV3Schema"];
        let api_version = format!("{group}/{}", text(version, "/name"));
        shapes.insert(api_version, Arc::new(Shapes::structural(schema)));
    }
    let served = versions
        .iter()
        .enumerate()
        .filter(|(_, version)| version["served"] == true);
    served
        .map(|(number, version)| {
            let at = format!("spec.versions[{number}].schema.openAPIV3Schema");
            let schema = Schema::parse(&version["schema"]["openAPIV3Schema"], &at)?;
            let view = views.fetch_add(1, Ordering::Relaxed);
            Ok(custom_version(
                crd,
                version,
                Arc::new(schema),
                view,
                &shapes,
            ))
        })
        .collect()
}

fn custom_version(
    crd: &Value,
    version: &Value,
    schema: Arc<Schema>,
    view_id: u64,
    shapes: &BTreeMap<String, Arc<Shapes>>,
) -> ServedResource {
    let (group, plural) = (text(crd, "/spec/group"), text(crd, "/spec/names/plural"));
    let subresources = version["subresources"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let api_version = format!("{group}/{}", text(version, "/name"));
    let kind = text(crd, "/spec/names/kind");
    let list_kind = match text(crd, "/spec/names/listKind") {
        name if name.is_empty() => format!("{kind}List"),
        name => name,
    };
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    let read = Resource {
        group: group.clone().into(),
        version: text(version, "/name").into(),
        kind: kind.into(),
        list_kind: list_kind.into(),
        plural: plural.clone().into(),
        namespaced: crd.pointer("/spec/scope").and_then(Value::as_str) == Some("Namespaced"),
        key_prefix: key_prefix(&group, &plural).into(),
        fields: fields
            .map(|it| text(it, "/jsonPath"))
            .map(|path| {
                let path = path.trim_start_matches('.').to_owned();
                Field {
                    name: path.clone().into(),
                    paths: vec![path.into()],
                    default: "".into(),
                }
            })
            .collect(),
        view: view(view_id, api_version.clone(), schema.clone()),
    };
    let scale = subresources.get("scale").map(|scale| ScalePaths {
        spec_replicas: text(scale, "/specReplicasPath")
            .trim_start_matches('.')
            .to_owned(),
        status_replicas: text(scale, "/statusReplicasPath")
            .trim_start_matches('.')
            .to_owned(),
        selector: scale["labelSelectorPath"]
            .as_str()
            .map(|path| path.trim_start_matches('.').to_owned()),
    });
    let custom = Custom {
        schema,
        shapes: shapes[&api_version].clone(),
        versions: shapes.clone(),
        has_status: subresources.contains_key("status"),
    };
    ServedResource {
        read: read.shared(),
        strategy: kinds::custom(custom.has_status),
        content: Content::Custom(Arc::new(custom)),
        subresources: subresources.keys().cloned().collect(),
        scale,
    }
}

/// Objects are stored in the version they were last written in, and shown in the one asked for, with
/// the defaults of today.
fn view(id: u64, api_version: String, schema: Arc<Schema>) -> View {
    let convert = move |stored: &Bytes| {
        let mut object: Value =
            serde_json::from_slice(stored).map_err(|error| Malformed(error.to_string()))?;
        object["apiVersion"] = api_version.as_str().into();
        schema.apply_defaults(&mut object);
        Ok(object.to_string().into())
    };
    View::Converted {
        id,
        convert: Arc::new(convert),
    }
}

pub(crate) fn text(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}
