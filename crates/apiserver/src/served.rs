//! A resource as the server serves it in one version: where it is stored, and how it behaves.
//!
//! Built-in kinds behave by the tables of `machinery`, custom resources by their definition; the
//! verbs ask this type and never which of the two it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use edgegrid_listwatch::{Field, Resource, View};
use edgegrid_machinery::apply::ConvertError;
use edgegrid_machinery::apply::{
    PathSet, PlainVersions, Versions, builtin_reset_fields, custom_reset_fields,
};
use edgegrid_machinery::kinds::Kind;
use edgegrid_machinery::metadata::{self, Generation};
use edgegrid_machinery::names::NameRule;
use edgegrid_machinery::schema::{Schema, Verdict};
use edgegrid_machinery::status::{FieldError, GroupResource, Status};
use edgegrid_machinery::table::{Shape, Shapes, normal, table, wrapped, zero};
use serde_json::Value;

/// What a request must know of a resource.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) read: Arc<Resource>,
    pub(crate) behaviour: Behaviour,
    /// Names of what hangs below an object's path.
    pub(crate) subresources: Vec<String>,
    pub(crate) scale: Option<ScalePaths>,
}

/// Where a kind keeps what its Scale shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) selector: Option<String>,
}

/// How objects of a kind behave.
#[derive(Debug)]
pub(crate) enum Behaviour {
    Builtin {
        kind: &'static Kind,
        shape: Shape<'static>,
    },
    Custom(Arc<Custom>),
}

/// One version of a custom resource.
#[derive(Debug)]
pub(crate) struct Custom {
    pub(crate) schema: Arc<Schema>,
    pub(crate) shapes: Shapes,
    /// Shapes of all served versions, by `apiVersion`.
    pub(crate) versions: BTreeMap<String, Arc<Shapes>>,
    pub(crate) has_status: bool,
}

/// A body in the form in which it is stored, and the paths of what was dropped.
pub(crate) struct Decoded {
    pub(crate) object: Value,
    pub(crate) unknown: Vec<String>,
}

impl Served {
    /// The resource in messages and details: `deployments.apps`.
    pub(crate) fn group_resource(&self) -> GroupResource {
        GroupResource::new(&*self.read.group, &*self.read.plural)
    }

    /// The kind in messages about its content: `Deployment.apps`.
    pub(crate) fn group_kind(&self) -> GroupResource {
        GroupResource::new(&*self.read.group, &*self.read.kind)
    }

    /// Drops what the kind does not know.
    pub(crate) fn decode(&self, mut object: Value) -> Result<Decoded, Status> {
        match &self.behaviour {
            Behaviour::Builtin { shape, .. } => {
                let normal = normal(&object, *shape).map_err(|error| {
                    let kind = &self.read.kind;
                    let version = &self.read.version;
                    Status::bad_request(format!(
                        "{kind} in version {version:?} cannot be handled as a {kind}: {error}"
                    ))
                })?;
                Ok(Decoded {
                    object: normal.object,
                    unknown: normal.unknown,
                })
            }
            Behaviour::Custom(custom) => {
                let pruned = custom.schema.prune(&mut object);
                let mut decoded = self.decode_metadata(object)?;
                decoded.unknown.extend(pruned);
                Ok(decoded)
            }
        }
    }

    /// Like [`Served::decode`] for what apply made: its types are known to fit, and of a custom
    /// resource also nulls stay.
    pub(crate) fn decode_applied(&self, object: Value) -> Result<Decoded, Status> {
        match &self.behaviour {
            Behaviour::Builtin { shape, .. } => {
                let object = wrapped(&object, *shape);
                self.decode(object)
            }
            Behaviour::Custom(_) => self.decode_metadata(object),
        }
    }

    fn decode_metadata(&self, mut object: Value) -> Result<Decoded, Status> {
        let mut unknown = Vec::new();
        if let Some(metadata) = object.get("metadata") {
            let normal = normal(metadata, table().object_meta()).map_err(|error| {
                Status::bad_request(format!("{} metadata: {error}", self.read.kind))
            })?;
            unknown.extend(normal.unknown.iter().map(|path| format!("metadata.{path}")));
            object["metadata"] = normal.object;
        }
        Ok(Decoded { object, unknown })
    }

    pub(crate) fn default(&self, object: &mut Value) {
        match &self.behaviour {
            Behaviour::Builtin { kind, .. } => kind.default(object),
            Behaviour::Custom(custom) => custom.schema.default(object),
        }
    }

    pub(crate) fn prepare_create(&self, object: &mut Value) {
        match &self.behaviour {
            Behaviour::Builtin { kind, .. } => kind.prepare_create(object),
            Behaviour::Custom(custom) if custom.has_status => remove(object, "status"),
            Behaviour::Custom(_) => {}
        }
    }

    /// Takes from the old object what this endpoint may not change.
    pub(crate) fn prepare_update(
        &self,
        object: &mut Value,
        old: &Value,
        subresource: Option<&str>,
    ) {
        match (&self.behaviour, subresource) {
            (Behaviour::Builtin { kind, .. }, Some("status")) => {
                kind.prepare_status_update(object, old);
            }
            (Behaviour::Builtin { .. }, Some("finalize")) => {
                put(object, "status", old.get("status"));
            }
            (Behaviour::Builtin { kind, .. }, _) => kind.prepare_update(object, old),
            (Behaviour::Custom(_), Some("status")) => only_status(object, old),
            (Behaviour::Custom(custom), _) if custom.has_status => {
                put(object, "status", old.get("status"));
            }
            (Behaviour::Custom(_), _) => {}
        }
    }

    pub(crate) fn validate_create(&self, object: &Value) -> Verdict {
        let verdict = match &self.behaviour {
            Behaviour::Builtin { kind, .. } => Verdict::of(kind.validate_create(object)),
            Behaviour::Custom(custom) => custom.schema.validate(object),
        };
        let rules = self.metadata_rules();
        let of_metadata = metadata::validate(&object["metadata"], rules, "metadata");
        self.with_metadata(object, verdict, of_metadata, true)
    }

    /// Adds what is wrong with the metadata, unless something else ended the judgement.
    fn with_metadata(
        &self,
        object: &Value,
        mut verdict: Verdict,
        of_metadata: Vec<FieldError>,
        is_new: bool,
    ) -> Verdict {
        let is_over = match &self.behaviour {
            Behaviour::Builtin { kind, .. } => kind.ends_judgement(object, &verdict.errors, is_new),
            Behaviour::Custom(_) => false,
        };
        if !is_over {
            verdict.put_first(of_metadata);
        }
        verdict
    }

    fn metadata_rules(&self) -> metadata::Rules {
        metadata::Rules {
            name: self.name_rule(),
            namespaced: self.read.namespaced,
            strict_finalizers: match &self.behaviour {
                Behaviour::Builtin { kind, .. } => kind.strict_finalizers(),
                Behaviour::Custom(_) => false,
            },
        }
    }

    pub(crate) fn validate_update(
        &self,
        object: &Value,
        old: &Value,
        subresource: Option<&str>,
    ) -> Verdict {
        let verdict = match (&self.behaviour, subresource) {
            (Behaviour::Builtin { kind, .. }, Some("status")) => {
                Verdict::of(kind.validate_status_update(object, old))
            }
            (Behaviour::Builtin { kind, .. }, _) => Verdict::of(kind.validate_update(object, old)),
            (Behaviour::Custom(custom), Some("status")) => {
                custom.schema.validate_status_update(object, old)
            }
            (Behaviour::Custom(custom), _) => custom.schema.validate_update(object, old),
        };
        let (new, old) = (&object["metadata"], &old["metadata"]);
        let mut of_metadata = metadata::validate_update(new, old, "metadata");
        if subresource.is_none() {
            let again = metadata::validate(new, self.metadata_rules(), "metadata");
            let with_prefix = match &self.behaviour {
                Behaviour::Builtin { kind, .. } => kind.judges_prefix_again(),
                Behaviour::Custom(_) => false,
            };
            let is_told =
                |error: &FieldError| with_prefix || error.field() != "metadata.generateName";
            let again = again.into_iter().filter(is_told);
            of_metadata.extend(again);
        }
        self.with_metadata(object, verdict, of_metadata, false)
    }

    pub(crate) fn generation(&self) -> Generation {
        match &self.behaviour {
            Behaviour::Builtin { kind, .. } => kind.generation(),
            Behaviour::Custom(custom) if custom.has_status => Generation::ContentButStatus,
            Behaviour::Custom(_) => Generation::Content,
        }
    }

    /// Whether an update may leave out the revision it was made from.
    pub(crate) fn allows_unconditional_update(&self) -> bool {
        match &self.behaviour {
            Behaviour::Builtin { kind, .. } => kind.allows_unconditional_update(),
            Behaviour::Custom(_) => false,
        }
    }

    /// Seconds that a deleted object is left to end by itself.
    pub(crate) fn grace(&self, object: &Value, asked: Option<i64>) -> u64 {
        match &self.behaviour {
            Behaviour::Builtin { kind, .. } => kind.grace(object, asked).unwrap_or(0),
            Behaviour::Custom(_) => 0,
        }
    }

    /// Whether all objects can be deleted with one request: namespaces cannot.
    pub(crate) fn deletes_collections(&self) -> bool {
        let resource = table().resource(&self.read.group, &self.read.version, &self.read.plural);
        resource.is_none_or(|known| known.verbs.iter().any(|verb| verb == "deletecollection"))
    }

    /// Whether objects get time to end by themselves: only pods do.
    pub(crate) fn is_graceful(&self) -> bool {
        self.read.group.is_empty() && self.read.plural == "pods"
    }

    /// What an apply through an endpoint never owns.
    pub(crate) fn reset_fields(&self, subresource: Option<&str>) -> PathSet {
        match &self.behaviour {
            Behaviour::Builtin { .. } => builtin_reset_fields(&self.read.kind, subresource),
            Behaviour::Custom(custom) => custom_reset_fields(custom.has_status, subresource),
        }
    }

    /// The shape of objects in the served version.
    pub(crate) fn shape(&self) -> Shape<'_> {
        match &self.behaviour {
            Behaviour::Builtin { shape, .. } => *shape,
            Behaviour::Custom(custom) => custom.shapes.root(),
        }
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.behaviour, Behaviour::Custom(_))
    }

    fn name_rule(&self) -> NameRule {
        match &self.behaviour {
            Behaviour::Builtin { kind, .. } => kind.name_rule(),
            Behaviour::Custom(_) => NameRule::default(),
        }
    }
}

impl Served {
    /// Every version in which the kind is known.
    pub(crate) fn api_versions(&self) -> Vec<String> {
        match &self.behaviour {
            Behaviour::Builtin { .. } => vec![self.read.api_version()],
            Behaviour::Custom(custom) => custom.versions.keys().cloned().collect(),
        }
    }
}

impl Versions for Served {
    fn shape(&self, api_version: &str) -> Option<Shape<'_>> {
        if api_version == self.read.api_version() {
            return Some(Served::shape(self));
        }
        match &self.behaviour {
            Behaviour::Builtin { .. } => None,
            Behaviour::Custom(custom) => {
                custom.versions.get(api_version).map(|shapes| shapes.root())
            }
        }
    }

    fn blank(&self, _: &str) -> Option<Value> {
        match &self.behaviour {
            Behaviour::Builtin { shape, .. } => Some(zero(*shape)),
            Behaviour::Custom(_) => None,
        }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        PlainVersions::default().convert(object, api_version)
    }
}

/// A built-in resource.
pub(crate) fn builtin(
    resource: &edgegrid_machinery::table::Resource,
    shape: Shape<'static>,
) -> Served {
    let kind = edgegrid_machinery::kinds::of(&resource.group, &resource.kind);
    let read = Resource {
        group: resource.group.clone().into(),
        version: resource.version.clone().into(),
        kind: resource.kind.clone().into(),
        list_kind: format!("{}List", resource.kind).into(),
        plural: resource.plural.clone().into(),
        namespaced: resource.namespaced,
        key_prefix: key_prefix(&resource.group, &resource.plural).into(),
        fields: kind
            .selectable_fields()
            .iter()
            .map(|(name, pointer)| builtin_field(name, pointer))
            .collect(),
        view: View::Stored,
    };
    let subresources: Vec<String> = resource
        .subresources
        .iter()
        .map(|sub| sub.name.clone())
        .collect();
    let scale = subresources
        .iter()
        .any(|name| name == "scale")
        .then(|| ScalePaths {
            spec_replicas: "spec.replicas".into(),
            status_replicas: "status.replicas".into(),
            selector: Some("spec.selector".into()),
        });
    Served {
        read: read.shared(),
        behaviour: Behaviour::Builtin { kind, shape },
        subresources,
        scale,
    }
}

/// Where the objects of a resource are stored.
pub(crate) fn key_prefix(group: &str, plural: &str) -> String {
    let separator = if group.is_empty() { "" } else { "." };
    format!("{plural}{separator}{group}/")
}

/// A selectable field of a built-in kind. Flags that are left out count as false.
fn builtin_field(name: &str, pointer: &str) -> Field {
    let is_flag = matches!(name, "spec.unschedulable" | "spec.hostNetwork");
    let path = pointer.trim_start_matches('/').replace('/', ".");
    field(name, &path, if is_flag { "false" } else { "" })
}

pub(crate) fn field(name: &str, path: &str, default: &str) -> Field {
    Field {
        name: name.to_owned().into(),
        paths: vec![path.to_owned().into()],
        default: default.to_owned().into(),
    }
}

/// Everything from the old object but the status; of the metadata only who manages it may change.
fn only_status(object: &mut Value, old: &Value) {
    let status = object.get("status").cloned();
    let managers = object.pointer("/metadata/managedFields").cloned();
    let revision = object.pointer("/metadata/resourceVersion").cloned();
    object.clone_from(old);
    put(object, "status", status.as_ref());
    put(&mut object["metadata"], "managedFields", managers.as_ref());
    put(
        &mut object["metadata"],
        "resourceVersion",
        revision.as_ref(),
    );
}

pub(crate) fn put(object: &mut Value, field: &str, value: Option<&Value>) {
    let Some(map) = object.as_object_mut() else {
        return;
    };
    match value {
        Some(value) => {
            map.insert(field.to_owned(), value.clone());
        }
        None => {
            map.remove(field);
        }
    }
}

pub(crate) fn remove(object: &mut Value, field: &str) {
    put(object, field, None);
}
