//! A resource as the server serves it in one version: where it is stored, and how it behaves.
//!
//! Built-in kinds behave by the tables of `machinery`, custom resources by their definition; the
//! verbs ask this type and never which of the two it is.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use axum::body::Bytes;
use edgegrid_listwatch::{Field, Resource, View, storable};
use edgegrid_machinery::apply::ConvertError;
use edgegrid_machinery::apply::{
    PathSet, PlainVersions, Versions, builtin_reset_fields, custom_reset_fields,
};
use edgegrid_machinery::kinds::{self, Strategy};
use edgegrid_machinery::metadata;
use edgegrid_machinery::schema::{Schema, Validation, settle_numbers};
use edgegrid_machinery::status::{FieldError, GroupResource, Status};
use edgegrid_machinery::table::{Shape, Shapes, normal, table, wrapped, zero};
use serde_json::Value;

use crate::events;

/// What a request must know of a resource.
#[derive(Debug)]
pub(crate) struct ServedResource {
    pub(crate) read: Arc<Resource>,
    /// Defaults, preparation and validation of the kind.
    pub(crate) strategy: &'static Strategy,
    pub(crate) content: Content,
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

/// What objects consist of.
#[derive(Debug)]
pub(crate) enum Content {
    Builtin(Shape<'static>),
    Custom(Arc<Custom>),
}

/// One version of a custom resource.
#[derive(Debug)]
pub(crate) struct Custom {
    pub(crate) schema: Arc<Schema>,
    pub(crate) shapes: Arc<Shapes>,
    /// Shapes of all served versions, by `apiVersion`.
    pub(crate) versions: BTreeMap<String, Arc<Shapes>>,
    pub(crate) has_status: bool,
}

impl ServedResource {
    /// The resource in messages and details: `deployments.apps`.
    pub(crate) fn group_resource(&self) -> GroupResource {
        GroupResource::new(&*self.read.group, &*self.read.plural)
    }

    /// The kind in messages about its content: `Deployment.apps`.
    pub(crate) fn group_kind(&self) -> GroupResource {
        GroupResource::new(&*self.read.group, &*self.read.kind)
    }

    /// A body in the form in which it is stored, and the paths of what was dropped.
    pub(crate) fn decode(&self, mut object: Value) -> Result<(Value, Vec<String>), Status> {
        match &self.content {
            Content::Builtin(shape) => {
                let normal = normal(&object, *shape).map_err(|error| {
                    let kind = &self.read.kind;
                    let version = &self.read.version;
                    Status::bad_request(format!(
                        "{kind} in version {version:?} cannot be handled as a {kind}: {error}"
                    ))
                })?;
                Ok((normal.object, normal.unknown))
            }
            Content::Custom(custom) => {
                settle_numbers(&mut object);
                let pruned = custom.schema.prune(&mut object);
                let (object, mut unknown) = self.decode_metadata(object)?;
                unknown.extend(pruned);
                Ok((object, unknown))
            }
        }
    }

    /// Like [`ServedResource::decode`] for what apply made: its types are known to fit, and nulls of a custom
    /// resource stay, for the validation to refuse.
    pub(crate) fn decode_applied(&self, mut object: Value) -> Result<(Value, Vec<String>), Status> {
        match &self.content {
            Content::Builtin(shape) => self.decode(wrapped(&object, *shape)),
            Content::Custom(_) => {
                settle_numbers(&mut object);
                self.decode_metadata(object)
            }
        }
    }

    fn decode_metadata(&self, mut object: Value) -> Result<(Value, Vec<String>), Status> {
        let mut unknown = Vec::new();
        if let Some(metadata) = object.get("metadata") {
            let normal = normal(metadata, table().object_meta()).map_err(|error| {
                Status::bad_request(format!("{} metadata: {error}", self.read.kind))
            })?;
            unknown.extend(normal.unknown.iter().map(|path| format!("metadata.{path}")));
            object["metadata"] = normal.object;
        }
        Ok((object, unknown))
    }

    /// The bytes to store for an object.
    pub(crate) fn storable(&self, object: &Value) -> Bytes {
        match self.read.view {
            View::Converted { .. } if !self.is_custom() => storable(&events::stored(object)),
            _ => storable(object),
        }
    }

    /// Fills in the defaults of what was left open.
    pub(crate) fn apply_defaults(&self, object: &mut Value) {
        match &self.content {
            Content::Builtin(_) => self.strategy.apply_defaults(object),
            Content::Custom(custom) => custom.schema.apply_defaults(object),
        }
    }

    /// Takes from the old object what this endpoint may not change.
    pub(crate) fn prepare_update(
        &self,
        object: &mut Value,
        old: &Value,
        subresource: Option<&str>,
    ) {
        match subresource {
            Some("status") => self.strategy.prepare_status_update(object, old),
            // The one endpoint that may change the finalizers of a namespace.
            Some("finalize") => set_field(object, "status", old.get("status")),
            _ => self.strategy.prepare_update(object, old),
        }
    }

    pub(crate) fn validate_create(&self, object: &Value) -> Validation {
        let mut validation = match &self.content {
            Content::Builtin(_) => Validation::from_errors(self.strategy.validate_create(object))
                .with_warnings(self.strategy.warnings(object, None)),
            Content::Custom(custom) => custom.schema.validate(object),
        };
        let metadata = &object["metadata"];
        if !self
            .strategy
            .short_circuits(object, &validation.errors, true)
        {
            let rules = self.metadata_rules();
            validation.put_first(metadata::validate(metadata, rules, "metadata"));
        }
        self.warn_of_finalizers(&mut validation, metadata, None);
        validation
    }

    pub(crate) fn validate_update(
        &self,
        object: &Value,
        old: &Value,
        subresource: Option<&str>,
    ) -> Validation {
        let mut validation = match (&self.content, subresource) {
            (Content::Builtin(_), Some("status")) => {
                Validation::from_errors(self.strategy.validate_status_update(object, old))
            }
            (Content::Builtin(_), _) => {
                Validation::from_errors(self.strategy.validate_update(object, old))
                    .with_warnings(self.strategy.warnings(object, Some(old)))
            }
            (Content::Custom(custom), Some("status")) => {
                custom.schema.validate_status_update(object, old)
            }
            (Content::Custom(custom), _) => custom.schema.validate_update(object, old),
        };
        let (metadata, old) = (&object["metadata"], &old["metadata"]);
        if !self
            .strategy
            .short_circuits(object, &validation.errors, false)
        {
            validation.put_first(self.changed_metadata(metadata, old, subresource));
        }
        self.warn_of_finalizers(&mut validation, metadata, Some(old));
        validation
    }

    fn changed_metadata(
        &self,
        metadata: &Value,
        old: &Value,
        subresource: Option<&str>,
    ) -> Vec<FieldError> {
        let mut errors = metadata::validate_update(metadata, old, "metadata");
        if subresource.is_none() {
            let again = metadata::validate(metadata, self.metadata_rules(), "metadata");
            let with_prefix = self.strategy.revalidates_generate_name();
            let is_told =
                |error: &FieldError| with_prefix || error.field() != "metadata.generateName";
            errors.extend(again.into_iter().filter(is_told));
        }
        errors
    }

    fn metadata_rules(&self) -> metadata::Rules {
        metadata::Rules {
            name: self.strategy.name_rule(),
            namespaced: self.read.namespaced,
            strict_finalizers: !self.is_custom() && self.strategy.strict_finalizers(),
        }
    }

    /// Built-in kinds refuse what others are only warned of.
    fn warn_of_finalizers(
        &self,
        validation: &mut Validation,
        metadata: &Value,
        old: Option<&Value>,
    ) {
        if self.is_custom() {
            let warnings = metadata::finalizer_warnings(metadata, old);
            validation.warnings.extend(warnings);
        }
    }

    /// Whether all objects can be deleted with one request: namespaces cannot.
    pub(crate) fn deletes_collections(&self) -> bool {
        let resource = table().resource(&self.read.group, &self.read.version, &self.read.plural);
        resource.is_none_or(|known| known.verbs.iter().any(|verb| verb == "deletecollection"))
    }

    /// What an apply through an endpoint never owns.
    pub(crate) fn reset_fields(&self, subresource: Option<&str>) -> PathSet {
        match &self.content {
            Content::Builtin(_) => builtin_reset_fields(&self.read.kind, subresource),
            Content::Custom(custom) => custom_reset_fields(custom.has_status, subresource),
        }
    }

    /// All versions in which objects may be written.
    pub(crate) fn api_versions(&self) -> Vec<String> {
        match &self.content {
            Content::Builtin(_) => vec![self.read.api_version()],
            Content::Custom(custom) => custom.versions.keys().cloned().collect(),
        }
    }

    /// The shape of objects in the served version.
    pub(crate) fn shape(&self) -> Shape<'_> {
        match &self.content {
            Content::Builtin(shape) => *shape,
            Content::Custom(custom) => custom.shapes.root(),
        }
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.content, Content::Custom(_))
    }
}

impl Versions for ServedResource {
    fn shape(&self, api_version: &str) -> Option<Shape<'_>> {
        if api_version == self.read.api_version() {
            return Some(ServedResource::shape(self));
        }
        match &self.content {
            Content::Builtin(_) => events::shape(&self.read.kind, api_version),
            Content::Custom(custom) => custom.versions.get(api_version).map(|shapes| shapes.root()),
        }
    }

    fn blank(&self, _: &str) -> Option<Value> {
        match &self.content {
            Content::Builtin(shape) => Some(zero(*shape)),
            Content::Custom(_) => None,
        }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        match &self.content {
            Content::Builtin(_) => events::convert(object, api_version),
            Content::Custom(_) => PlainVersions::default().convert(object, api_version),
        }
    }
}

/// Serves a built-in resource as the type table describes it.
pub(crate) fn builtin(
    resource: &edgegrid_machinery::table::ApiResource,
    shape: Shape<'static>,
) -> ServedResource {
    let strategy = kinds::builtin(&resource.group, &resource.kind);
    let (stored_group, view) = if events::is_converted(&resource.group, &resource.plural) {
        ("", events::view())
    } else {
        (resource.group.as_str(), View::Stored)
    };
    let read = Resource {
        group: resource.group.clone().into(),
        version: resource.version.clone().into(),
        kind: resource.kind.clone().into(),
        list_kind: format!("{}List", resource.kind).into(),
        plural: resource.plural.clone().into(),
        namespaced: resource.namespaced,
        key_prefix: key_prefix(stored_group, &resource.plural).into(),
        fields: strategy
            .selectable_fields()
            .map(|field| Field {
                name: field.name.into(),
                paths: field.paths.iter().map(|path| (*path).into()).collect(),
                default: field.default.into(),
            })
            .collect(),
        view,
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
    ServedResource {
        read: read.shared(),
        strategy,
        content: Content::Builtin(shape),
        subresources,
        scale,
    }
}

/// What a Scale is, for whoever reads or writes one.
pub(crate) fn scale_kind() -> Arc<ServedResource> {
    static SCALE: LazyLock<Arc<ServedResource>> = LazyLock::new(|| {
        let shape = table().shape("autoscaling", "v1", "Scale");
        Arc::new(ServedResource {
            read: Resource::new("autoscaling", "v1", "Scale", "scales").shared(),
            strategy: kinds::builtin("autoscaling", "Scale"),
            content: Content::Builtin(shape.expect("invariant: the table has the Scale")),
            subresources: Vec::new(),
            scale: None,
        })
    });
    SCALE.clone()
}

/// Where the objects of a resource are stored.
pub(crate) fn key_prefix(group: &str, plural: &str) -> String {
    let separator = if group.is_empty() { "" } else { "." };
    format!("{plural}{separator}{group}/")
}

pub(crate) fn set_field(object: &mut Value, field: &str, value: Option<&Value>) {
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

pub(crate) fn remove_field(object: &mut Value, field: &str) {
    set_field(object, field, None);
}
