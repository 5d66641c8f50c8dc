//! Structural schemas: what a `CustomResourceDefinition` says about its objects.
//!
//! ```text
//! body ─► read_strict ─► prune ─► default ─► validate (types, lists, embedded objects, rules)
//!          duplicates     unknown fields       errors with field paths, warnings
//! ```
//!
//! [`Schema::parse`] takes the `openAPIV3Schema` of one version and refuses what is not structural;
//! everything after that walks the parsed tree. A rule of an update knows the old object: values
//! that were already invalid and did not change are let through (ratcheting).
//!
//! ```
//! use edgegrid_machinery::schema::Schema;
//! use serde_json::json;
//!
//! let schema = Schema::parse(&json!({
//!     "type": "object",
//!     "properties": {"size": {"type": "integer", "minimum": 1, "default": 3}},
//! }), "schema").unwrap();
//! let mut object = json!({"extra": true});
//! assert_eq!(schema.prune(&mut object), ["extra"]);
//! schema.apply_defaults(&mut object);
//! assert_eq!(object, json!({"size": 3}));
//! assert_eq!(schema.validate(&json!({"size": 0})).errors.len(), 1);
//! ```

mod combine;
mod correlate;
mod default;
mod embedded;
mod format;
mod lists;
mod number;
mod parse;
mod pattern;
mod prune;
mod read;
#[cfg(feature = "cel")]
mod rules;
mod structural;
mod validate;
mod walk;

pub use pattern::Pattern;
pub use read::{Duplicate, MAX_DEPTH, ReadError, read_strict, settle_numbers};

use crate::status::FieldError;
use serde_json::Value;
use std::collections::BTreeMap;

/// One node of a parsed schema.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a keyword of its own"
)]
#[derive(Debug, Default)]
pub struct Schema {
    kind: Option<Type>,
    nullable: bool,
    default: Option<Value>,
    items: Option<Box<Schema>>,
    properties: BTreeMap<String, Schema>,
    additional: Additional,
    preserve_unknown: bool,
    embedded: bool,
    int_or_string: bool,
    list: ListType,
    rules: Vec<Rule>,
    checks: Checks,
}

/// The JSON type a value must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// What may stand beside the named properties.
#[derive(Debug, Default)]
enum Additional {
    /// Nothing was said: unknown fields are pruned.
    #[default]
    Unsaid,
    /// `additionalProperties: true` or `false`.
    Any(bool),
    /// Every other value follows this schema.
    Of(Box<Schema>),
}

/// How the items of a list are told apart.
#[derive(Debug, Default, PartialEq, Eq)]
enum ListType {
    #[default]
    Atomic,
    Set,
    /// By the values of these keys.
    Map(Vec<String>),
}

/// Constraints that look at one value only.
#[derive(Debug, Default)]
struct Checks {
    format: Option<String>,
    maximum: Option<f64>,
    exclusive_maximum: bool,
    minimum: Option<f64>,
    exclusive_minimum: bool,
    multiple_of: Option<f64>,
    max_length: Option<u64>,
    min_length: Option<u64>,
    pattern: Option<Pattern>,
    max_items: Option<u64>,
    min_items: Option<u64>,
    max_properties: Option<u64>,
    min_properties: Option<u64>,
    required: Vec<String>,
    values: Vec<Value>,
    all_of: Vec<Schema>,
    any_of: Vec<Schema>,
    one_of: Vec<Schema>,
    not: Option<Box<Schema>>,
}

/// One entry of `x-kubernetes-validations`.
#[cfg_attr(
    not(feature = "cel"),
    allow(dead_code, reason = "rules are kept but not run without the feature")
)]
#[derive(Debug)]
struct Rule {
    text: String,
    message: String,
    reason: Option<String>,
    field: String,
    optional_old: bool,
    #[cfg(feature = "cel")]
    program: rules::Program,
    #[cfg(feature = "cel")]
    message_program: Option<rules::Program>,
}

/// What the validation of one object found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Validation {
    /// Why the object is refused; empty when it is fine.
    pub errors: Vec<FieldError>,
    /// Broken rules that were let through because nothing changed there.
    pub warnings: Vec<String>,
    /// How many errors there were before the rules were evaluated, if they were.
    before_rules: Option<usize>,
}

impl Validation {
    /// Errors that were found without a schema.
    pub fn from_errors(errors: Vec<FieldError>) -> Self {
        Self {
            errors,
            ..Self::default()
        }
    }

    /// The same, with warnings for the writer.
    #[must_use]
    pub fn with_warnings(self, warnings: Vec<String>) -> Self {
        Self { warnings, ..self }
    }

    /// Puts errors from elsewhere in front; rules are not evaluated for an object that has some.
    pub fn put_first(&mut self, errors: Vec<FieldError>) {
        if let Some(before) = self.before_rules
            && errors.iter().any(|error| error.kind().blocks_rules())
        {
            self.errors.truncate(before);
            self.errors.push(rules_skipped());
        }
        self.errors.splice(0..0, errors);
    }
}

fn rules_skipped() -> FieldError {
    let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    FieldError::invalid("<nil>", Value::Null, why)
}

impl Schema {
    /// Parses an `openAPIV3Schema`; `at` is where it stands, for the paths of the errors.
    pub fn parse(schema: &Value, at: &str) -> Result<Self, Vec<FieldError>> {
        let parsed = parse::schema(schema, at)?;
        let errors = structural::errors(&parsed, schema, at);
        if errors.is_empty() {
            Ok(parsed)
        } else {
            Err(errors)
        }
    }

    /// Removes fields the schema does not know, and nulls that may neither stay nor be defaulted;
    /// returns the paths of the former, sorted.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let unknown = prune::prune(self, object);
        default::drop_nulls(Some(self), object);
        unknown
    }

    /// Fills in the defaults of the schema, from the top.
    pub fn apply_defaults(&self, object: &mut Value) {
        default::fill(self, object);
    }

    /// Validates a new object.
    pub fn validate(&self, object: &Value) -> Validation {
        let mut errors = validate::errors(self, object, None, "");
        errors.extend(embedded::errors(self, object));
        errors.extend(lists::errors(self, object));
        self.with_rules(object, None, errors)
    }

    /// Validates a changed object; what was invalid before and is unchanged passes.
    pub fn validate_update(&self, object: &Value, old: &Value) -> Validation {
        let mut errors = validate::errors(self, object, Some(old), "");
        errors.extend(embedded::errors(self, object));
        errors.extend(self.new_list_errors(object, old));
        self.with_rules(object, Some(old), errors)
    }

    /// Validates a change through the status subresource: only `status` and the rules count.
    pub fn validate_status_update(&self, object: &Value, old: &Value) -> Validation {
        let mut errors = Vec::new();
        if let (Some(schema), Some(status)) = (self.properties.get("status"), object.get("status"))
        {
            errors.extend(validate::errors(
                schema,
                status,
                old.get("status"),
                "status",
            ));
        }
        errors.extend(embedded::errors(self, object));
        errors.extend(self.new_list_errors(object, old));
        self.with_rules(object, Some(old), errors)
    }

    fn new_list_errors(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        if lists::errors(self, old).is_empty() {
            lists::errors(self, object)
        } else {
            Vec::new()
        }
    }

    fn with_rules(
        &self,
        object: &Value,
        old: Option<&Value>,
        errors: Vec<FieldError>,
    ) -> Validation {
        let mut validation = Validation::from_errors(errors);
        if !self.has_rules() {
            return validation;
        }
        if validation
            .errors
            .iter()
            .any(|error| error.kind().blocks_rules())
        {
            validation.errors.push(rules_skipped());
            return validation;
        }
        validation.before_rules = Some(validation.errors.len());
        #[cfg(feature = "cel")]
        rules::evaluate(self, object, old, &mut validation);
        #[cfg(not(feature = "cel"))]
        let _ = (object, old);
        validation
    }

    /// The schema of a named field, be it declared or additional.
    fn child(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or(match &self.additional {
            Additional::Of(schema) => Some(schema),
            _ => None,
        })
    }

    fn additional_schema(&self) -> Option<&Schema> {
        match &self.additional {
            Additional::Of(schema) => Some(schema),
            _ => None,
        }
    }

    fn has_rules(&self) -> bool {
        let children = self
            .properties
            .values()
            .chain(self.items.as_deref())
            .chain(self.additional_schema());
        !self.rules.is_empty() || children.into_iter().any(Schema::has_rules)
    }
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}
