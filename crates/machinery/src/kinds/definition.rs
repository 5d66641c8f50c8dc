//! Definitions of custom resources: names, versions and storage. Schemas are validated elsewhere.

use super::check::{Errors, FieldValue};
use super::default::{fill, inner};
use crate::names;
use crate::status::FieldError;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

pub(super) fn default(spec: &mut Map<String, Value>) {
    let names = inner(spec, "names");
    let kind = names
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if !kind.is_empty() {
        fill(names, "singular", kind.to_lowercase());
        fill(names, "listKind", format!("{kind}List"));
    }
    fill(spec, "conversion", json!({ "strategy": "None" }));
}

/// Nothing is accepted yet; the version that is stored is known.
pub(super) fn prepare_create(definition: &mut Value) {
    let stored: Vec<Value> = storage_version(definition).into_iter().collect();
    definition["status"] = json!({ "conditions": null, "acceptedNames": { "plural": "", "kind": "" }, "storedVersions": stored });
}

/// A version that becomes the stored one joins those that may be found in the store.
pub(super) fn prepare_update(definition: &mut Value, _: &Value) {
    let Some(version) = storage_version(definition) else {
        return;
    };
    let stored = &mut definition["status"]["storedVersions"];
    if !stored.is_array() {
        *stored = json!([]);
    }
    if let Some(stored) = stored
        .as_array_mut()
        .filter(|stored| !stored.contains(&version))
    {
        stored.push(version);
    }
}

fn storage_version(definition: &Value) -> Option<Value> {
    let versions = definition["spec"]["versions"].as_array()?;
    versions
        .iter()
        .find(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
}

/// The name says which resource is defined.
pub(super) fn check_name(definition: &Value, errors: &mut Errors) {
    let root = FieldValue::root(definition);
    let (name, spec) = (root.at("metadata").at("name"), root.at("spec"));
    if name.text()
        != format!(
            "{}.{}",
            spec.at("names").at("plural").text(),
            spec.at("group").text()
        )
    {
        name.invalid(errors, r#"must be spec.names.plural+"."+spec.group"#);
    }
}

pub(super) fn check(definition: &Value, errors: &mut Errors) {
    let root = FieldValue::root(definition);
    let spec = root.at("spec");
    let group = spec.at("group");
    if group.needed(errors) {
        let wrong = names::dns_subdomain(group.text());
        if !wrong.is_empty() {
            group.invalid(errors, &wrong.join(","));
        } else if !group.text().contains('.') {
            group.invalid(errors, "should be a domain with at least one dot");
        }
    }
    let scope = spec.at("scope");
    if scope.needed(errors) {
        scope.one_of(errors, &["Cluster", "Namespaced"]);
    }
    definition_names(&spec.at("names"), errors);
    versions(&spec.at("versions"), errors);
    let strategy = spec.at("conversion").at("strategy");
    strategy.one_of(errors, &["None", "Webhook"]);
    stored_versions(&root, errors);
}

fn definition_names(names: &FieldValue<'_>, errors: &mut Errors) {
    for field in ["plural", "singular", "kind", "listKind"] {
        names.at(field).needed(errors);
    }
    let labels = |field: &FieldValue<'_>, mixed: bool, errors: &mut Errors| {
        let wrong = names::dns_1035_label(&if mixed {
            field.text().to_lowercase()
        } else {
            field.text().to_owned()
        });
        if !field.is_empty() && !wrong.is_empty() {
            let hint = if mixed {
                "may have mixed case, but should otherwise match: "
            } else {
                ""
            };
            field.invalid(errors, &format!("{hint}{}", wrong.join(",")));
        }
    };
    labels(&names.at("plural"), false, errors);
    labels(&names.at("singular"), false, errors);
    labels(&names.at("kind"), true, errors);
    labels(&names.at("listKind"), true, errors);
    for list in ["shortNames", "categories"] {
        for name in names.at(list).items() {
            labels(&name, false, errors);
        }
    }
    if !names.at("kind").is_empty() && names.at("kind").text() == names.at("listKind").text() {
        names
            .at("listKind")
            .invalid(errors, "kind and listKind may not be the same");
    }
}

fn versions(versions: &FieldValue<'_>, errors: &mut Errors) {
    let items = versions.items();
    let mut seen = BTreeSet::new();
    for version in &items {
        let name = version.at("name");
        version_name(&name, errors);
        let schema = version.at("schema").at("openAPIV3Schema");
        if !schema.is_set() {
            schema.require(errors, "");
        }
        seen.insert(name.text());
    }
    if seen.len() < items.len() {
        versions.invalid(errors, "must contain unique version names");
    }
    let stored = items
        .iter()
        .filter(|version| version.at("storage").is_true());
    if stored.count() != 1 {
        versions.invalid(
            errors,
            "must have exactly one version marked as storage version",
        );
    }
}

/// The first version is also known to the server as "the" version, and validated again as such.
fn version_name(name: &FieldValue<'_>, errors: &mut Errors) {
    let wrong = names::dns_1035_label(name.text()).join(",");
    if wrong.is_empty() {
        return;
    }
    errors.push(FieldError::invalid(&*name.path, name.text(), &*wrong));
    if name.path.ends_with("versions[0].name") {
        errors.push(FieldError::invalid("spec.version", name.text(), wrong));
    }
}

/// What may be in the store must be known.
fn stored_versions(root: &FieldValue<'_>, errors: &mut Errors) {
    let stored = root.at("status").at("storedVersions");
    let versions = root.at("spec").at("versions").items();
    if stored.is_empty() {
        let why = "must have at least one stored version";
        return errors.push(FieldError::invalid(stored.path, Value::Null, why));
    }
    let mut left = stored.items();
    for version in &versions {
        let name = version.at("name");
        let at = left.iter().position(|stored| stored.text() == name.text());
        if version.at("storage").is_true() && at.is_none() {
            stored.invalid(
                errors,
                &format!("must have the storage version {}", name.text()),
            );
        }
        if let Some(at) = at {
            left.remove(at);
        }
    }
    for version in left {
        let name = version.text();
        let why = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        version.invalid(errors, &why);
    }
}

pub(super) fn check_update(definition: &Value, old: &Value, errors: &mut Errors) {
    let spec = FieldValue::root(definition).at("spec");
    let old_spec = &old["spec"];
    let conditions = old["status"]["conditions"].as_array();
    let established = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    if established {
        spec.at("scope").fixed(errors, &old_spec["scope"]);
        spec.at("names")
            .at("kind")
            .fixed(errors, &old_spec["names"]["kind"]);
    }
    spec.at("group").fixed(errors, &old_spec["group"]);
    spec.at("names")
        .at("plural")
        .fixed(errors, &old_spec["names"]["plural"]);
}
