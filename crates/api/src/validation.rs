//! The rules that the API server itself enforces, with messages that say the way out.
//!
//! A rule must never lock an object that was stored before the rule existed: labels,
//! status, other fields and finalizers have to stay writable. Rules on one field are
//! patterns and enums on the leaf, which Kubernetes lets pass while the field is
//! unchanged. It cannot do that for rules over several fields when the object holds
//! opaque content, so those compare with `oldSelf` themselves.

use kube::core::{Message, Rule};
use schemars::{Schema, SchemaGenerator, json_schema};

/// A label key: an optional DNS prefix and a slash, then a name of at most 63 characters.
pub const LABEL_KEY_PATTERN: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";

/// Longest label key: a prefix of 253 characters, the slash and a name of 63.
pub const LABEL_KEY_MAX_LENGTH: usize = 317;

/// Longest name of a template.
pub const TEMPLATE_NAME_MAX_LENGTH: usize = 253;

/// Most entries in `templates`; the cost of the rule over them is bounded by it.
pub const TEMPLATES_MAX: usize = 5000;

/// `gridUniqKey` is there, or was missing before too.
pub(crate) fn grid_key_is_set() -> Rule {
    let is_set = |grid: &str| format!("(has({grid}.spec) && has({grid}.spec.gridUniqKey))");
    Rule::new(format!(
        "{} || (oldSelf.hasValue() && !{})",
        is_set("self"),
        is_set("oldSelf.value()")
    ))
    .message(
        "gridUniqKey is missing: set it to the node label key that names the sites, \
         for example the name of a NodeGroup",
    )
    .field_path(".spec.gridUniqKey")
    .optional_old_self(true)
}

/// Repeats the pattern of `gridUniqKey` as a rule, because its message is plainer than a pattern's.
pub(crate) fn grid_key_is_a_label_key() -> Rule {
    Rule::new(format!("self.matches(r'{LABEL_KEY_PATTERN}')")).message(
        "gridUniqKey must be a node label key, for example location or \
             topology.kubernetes.io/zone: letters, digits, '-', '_' and '.', at most 63 \
             characters after an optional DNS prefix and '/'",
    )
}

/// `template` is the spec of a workload, or was not before either.
pub(crate) fn template_is_a_workload(kind: &str) -> Rule {
    let complete =
        |spec: &str| format!("(has({spec}.template.selector) && has({spec}.template.template))");
    Rule::new(format!(
        "!has(self.template) || {} || (oldSelf.hasValue() && has(oldSelf.value().template) && !{})",
        complete("self"),
        complete("oldSelf.value()")
    ))
    .message(Message::Message(format!(
        "template must be the spec of a {kind}: give it a selector and a template for the \
         pods; the spec of a Service belongs into a ServiceGrid"
    )))
    .field_path(".template")
    .optional_old_self(true)
}

/// Every name in `templates` is a key of `templatePool`, or was the same unknown name before.
pub(crate) fn templates_are_in_pool() -> Rule {
    let known = in_pool("self", "self.templates[unit]");
    let was_unknown = format!(
        "oldSelf.hasValue() && has(oldSelf.value().templates) \
         && unit in oldSelf.value().templates \
         && oldSelf.value().templates[unit] == self.templates[unit] \
         && !({})",
        in_pool("oldSelf.value()", "self.templates[unit]")
    );
    Rule::new(format!(
        "!has(self.templates) || self.templates.all(unit, {known} || ({was_unknown}))"
    ))
    .message(Message::Expression(format!(
        "'templates names ' + self.templates[self.templates.filter(unit, !({known}))[0]] \
         + ', which is not in templatePool: add it there or name one that is; \
         default or empty means spec.template'"
    )))
    .optional_old_self(true)
}

/// `defaultTemplateName` is a key of `templatePool`, or was the same unknown name before.
pub(crate) fn default_template_is_in_pool() -> Rule {
    let known = in_pool("self", "self.defaultTemplateName");
    let was_unknown = format!(
        "oldSelf.hasValue() && has(oldSelf.value().defaultTemplateName) \
         && oldSelf.value().defaultTemplateName == self.defaultTemplateName \
         && !({})",
        in_pool("oldSelf.value()", "self.defaultTemplateName")
    );
    Rule::new(format!(
        "!has(self.defaultTemplateName) || {known} || ({was_unknown})"
    ))
    .message(Message::Expression(
        "'defaultTemplateName ' + self.defaultTemplateName + ' is not in templatePool: \
         add it there or name one that is; default or empty means spec.template'"
            .into(),
    ))
    .optional_old_self(true)
}

/// The object's name can stand as a node label's key and value. Names never change, so
/// only new objects are asked.
pub(crate) fn name_is_a_label(kind: &str) -> Rule {
    Rule::new("oldSelf.hasValue() || size(self.metadata.name) <= 63")
        .message(Message::Message(format!(
            "the name of a {kind} becomes the key and value of node labels: \
             use at most 63 characters"
        )))
        .optional_old_self(true)
}

/// Bounded, because the cost of [`templates_are_in_pool`] is.
pub(crate) fn templates(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": TEMPLATES_MAX,
        "additionalProperties": { "type": "string", "maxLength": TEMPLATE_NAME_MAX_LENGTH },
    })
}

/// CEL: `name` means `spec.template` or is a key of the pool of `spec`.
fn in_pool(spec: &str, name: &str) -> String {
    format!(
        "{name} in ['', '{}'] || (has({spec}.templatePool) && {name} in {spec}.templatePool)",
        crate::names::DEFAULT_TEMPLATE
    )
}
