//! What built-in kinds do beyond their shape: defaults, preparation, validation, naming.
//!
//! ```text
//! create: normal ─► default ─► prepare_create ─► validate_create
//! update: normal ─► default ─► prepare_update(old) ─► validate_update(old)
//! status: normal ─► default ─► prepare_status_update(old) ─► validate_status_update(old)
//! ```
//!
//! Objects are expected in normal form ([`crate::table::normal`]), which is also the check of
//! types; `metadata` is the business of [`crate::metadata`]. Rules hang on types wherever they
//! can, so that a pod template is treated alike in every workload; only what a kind alone knows is
//! code of that kind. Everything here is a fact of Kubernetes 1.37 and was compared with its server.
//!
//! ```
//! use edgegrid_machinery::kinds;
//! use serde_json::json;
//!
//! let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
//! kinds::builtin("", "Secret").apply_defaults(&mut secret);
//! assert_eq!(secret["type"], "Opaque");
//! ```

mod apps;
mod apps_default;
mod apps_status;
mod batch;
mod check;
mod claim;
mod config;
mod container;
mod default;
mod definition;
mod dropped;
mod endpoints;
mod event;
mod field;
mod list;
mod node;
mod pod;
mod pod_containers;
mod pod_default;
mod pod_status;
mod pod_update;
mod prepare;
mod rules;
mod scheduling;
mod security;
mod service;
mod service_prepare;
mod types;
mod vocabulary;
mod volume;
mod walk;
mod warnings;

use crate::metadata::Generation;
use crate::names::NameRule;
use crate::status::FieldError;
use crate::table::{Shape, table};
use serde_json::Value;

pub use field::SelectableField;

/// What the status is to the main resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    /// A new object has none, and an update keeps it: controllers fill it in.
    Dropped,
    /// It stays as it was sent with a new object, as for Nodes; an update keeps it.
    Kept,
    /// A field like any other.
    Field,
}

/// The behaviour of one kind, as upstream's registry strategies have it.
#[derive(Debug)]
pub struct Strategy {
    group: &'static str,
    named: &'static str,
    name: NameRule,
    generation: Generation,
    status: Status,
    unconditional_update: bool,
    create_on_update: bool,
    fields: &'static [&'static str],
    status_keeps: &'static [&'static str],
    code: Code,
}

/// What only this kind does; most kinds need little of it.
#[derive(Debug, Clone, Copy)]
struct Code {
    create: fn(&mut Value),
    update: fn(&mut Value, &Value),
    status_update: fn(&mut Value, &Value),
    /// What the rules of types see instead of the object itself.
    view: Option<fn(&Value) -> Value>,
    check: fn(&Value, &mut Vec<FieldError>),
    check_create: fn(&Value, &mut Vec<FieldError>),
    check_update: fn(&Value, &Value, &mut Vec<FieldError>),
    check_status: fn(&Value, &Value, &mut Vec<FieldError>),
}

/// The behaviour of a built-in kind; neutral for kinds that have none.
pub fn builtin(group: &str, kind: &str) -> &'static Strategy {
    list::STRATEGIES
        .iter()
        .find(|known| known.group == group && known.named == kind)
        .unwrap_or(&list::PLAIN)
}

/// The behaviour of custom resources, with or without the status subresource.
pub fn custom(has_status: bool) -> &'static Strategy {
    if has_status {
        &list::CUSTOM_WITH_STATUS
    } else {
        &list::CUSTOM
    }
}

impl Strategy {
    /// Fills in the defaults of what was left open.
    pub fn apply_defaults(&self, object: &mut Value) {
        if let Some(shape) = self.shape(object) {
            default::apply(object, shape);
        }
    }

    /// Drops what a client may not set on a new object, and sets what the server knows.
    pub fn prepare_create(&self, object: &mut Value) {
        if self.status == Status::Dropped {
            prepare::reset_status(object, self.shape(object));
        }
        self.drop_disabled(object);
        (self.code.create)(object);
    }

    /// Takes from the stored object what an update of the main resource may not touch.
    pub fn prepare_update(&self, object: &mut Value, old: &Value) {
        if self.status != Status::Field {
            prepare::restore(object, old, "status");
        }
        self.drop_disabled(object);
        (self.code.update)(object, old);
    }

    /// Takes from the stored object what an update of the status may not touch.
    pub fn prepare_status_update(&self, object: &mut Value, old: &Value) {
        prepare::keep_all_but_status(object, old);
        for field in self.status_keeps {
            prepare::restore_metadata(object, old, field);
        }
        self.drop_disabled(object);
        (self.code.status_update)(object, old);
    }

    /// Broken rules of a new object, `metadata` left aside.
    pub fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(object);
        (self.code.check_create)(object, &mut errors);
        errors
    }

    /// Broken rules of a changed object, `metadata` left aside.
    pub fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(object);
        (self.code.check_update)(object, old, &mut errors);
        errors
    }

    /// Broken rules of a changed status, `metadata` left aside.
    pub fn validate_status_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        (self.code.check_status)(object, old, &mut errors);
        errors
    }

    /// Warnings about an object that is accepted; `old` is the object before.
    ///
    /// Who changes a pod is a program, and who leaves the spec alone knows of it already.
    pub fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let is_warned = old.is_none_or(|old| self.named != "Pod" && old["spec"] != object["spec"]);
        let shape = self.shape(object).filter(|_| is_warned);
        shape.map_or_else(Vec::new, |shape| warnings::doubled_variables(object, shape))
    }

    /// How names of this kind are formed.
    pub fn name_rule(&self) -> NameRule {
        self.name
    }

    /// When `metadata.generation` goes up.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether an update may leave out the revision it was made from.
    pub fn allows_unconditional_update(&self) -> bool {
        self.unconditional_update
    }

    /// Whether an update of a missing object creates it.
    pub fn allows_create_on_update(&self) -> bool {
        self.create_on_update
    }

    /// Whether validation stops before the metadata: addresses of a Service are allocated before anything
    /// else is validated, and new Events are validated before their metadata.
    pub fn short_circuits(&self, object: &Value, errors: &[FieldError], is_new: bool) -> bool {
        match (self.group, self.named) {
            ("", "Service") => service::has_wrong_addresses(object),
            ("", "Event") => is_new && !errors.is_empty(),
            _ => false,
        }
    }

    /// Whether updates validate `metadata.generateName` again.
    pub fn revalidates_generate_name(&self) -> bool {
        const KINDS: [&str; 10] = [
            "ConfigMap",
            "EndpointSlice",
            "Endpoints",
            "Namespace",
            "Node",
            "PersistentVolumeClaim",
            "Pod",
            "Secret",
            "Service",
            "ServiceAccount",
        ];
        KINDS.contains(&self.named)
    }

    /// Whether a finalizer must be a known one or have a domain.
    pub fn strict_finalizers(&self) -> bool {
        !matches!(self.named, "Lease" | "Event")
    }

    /// Fields that a field selector may name beside name and namespace.
    pub fn selectable_fields(&self) -> impl Iterator<Item = SelectableField> {
        let shape = table().shape(self.group, "v1", self.named);
        let fields = self.fields.iter();
        fields.map(move |name| field::named(name, shape))
    }

    /// The grace a delete of `object` gives, in seconds; nothing if the kind goes at once.
    ///
    /// Only pods have grace, and only those that a node may be running.
    pub fn grace(&self, object: &Value, asked: Option<i64>) -> Option<u64> {
        (self.group.is_empty() && self.named == "Pod").then(|| pod::grace(object, asked))
    }

    fn drop_disabled(&self, object: &mut Value) {
        if let Some(shape) = self.shape(object) {
            dropped::drop(object, shape);
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(shape) = self.shape(object) {
            match self.code.view {
                Some(view) => types::check(&view(object), shape, &mut errors),
                None => types::check(object, shape, &mut errors),
            }
        }
        (self.code.check)(object, &mut errors);
        errors
    }

    /// What the object says it is, so that kinds without behaviour of their own still have types.
    fn shape(&self, object: &Value) -> Option<Shape<'static>> {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = object["kind"].as_str().unwrap_or_default();
        table()
            .shape(group, version, kind)
            .or_else(|| table().shape(self.group, "v1", self.named))
    }
}
