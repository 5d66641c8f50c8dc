//! Kinds that hold data or names: `ConfigMap`, `Secret`, `ServiceAccount`, `Namespace`, `Lease`.

use super::check::{Errors, FieldValue};
use super::default::{fill, inner};
use super::vocabulary::{self, IMMUTABLE};
use crate::names;
use crate::status::FieldError;
use crate::table::base64;
use serde_json::{Map, Value, json};

/// All data of one object together, in bytes.
const DATA_MAX: usize = 1024 * 1024;
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const SEALED: &str = "field is immutable when `immutable` is set";

/// Data each type of secret must have; one of the list of a type is enough if it says so.
const SECRET_KEYS: &[(&str, &[&str], bool)] = &[
    ("kubernetes.io/dockercfg", &[".dockercfg"], false),
    (
        "kubernetes.io/dockerconfigjson",
        &[".dockerconfigjson"],
        false,
    ),
    ("kubernetes.io/basic-auth", &["username", "password"], true),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"], false),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"], false),
];

/// Namespaces can be selected by name.
pub(super) fn default_namespace(namespace: &mut Map<String, Value>) {
    let name = namespace
        .get("metadata")
        .and_then(|metadata| metadata["name"].as_str())
        .unwrap_or_default()
        .to_owned();
    if !name.is_empty() {
        inner(inner(namespace, "metadata"), "labels").insert(NAME_LABEL.to_owned(), name.into());
    }
}

/// What was written as plain text is data like any other, and wins over it.
pub(super) fn default_secret(secret: &mut Map<String, Value>) {
    fill(secret, "type", "Opaque");
    let Some(Value::Object(plain)) = secret.remove("stringData") else {
        return;
    };
    if plain.is_empty() {
        return;
    }
    let data = inner(secret, "data");
    for (key, text) in plain {
        let encoded = base64(text.as_str().unwrap_or_default().as_bytes());
        data.insert(key, encoded.into());
    }
}

pub(super) fn default_subject(subject: &mut Map<String, Value>) {
    if matches!(
        subject.get("kind").and_then(Value::as_str),
        Some("User" | "Group")
    ) {
        fill(subject, "apiGroup", "rbac.authorization.k8s.io");
    }
}

/// A namespace goes only when the server has emptied it.
pub(super) fn prepare_namespace(namespace: &mut Value) {
    namespace["status"] = json!({ "phase": "Active" });
    let Some(namespace) = namespace.as_object_mut() else {
        return;
    };
    default_namespace(namespace);
    let spec = inner(namespace, "spec");
    let finalizers = spec.entry("finalizers").or_insert(Value::Null);
    if !finalizers.is_array() {
        *finalizers = json!([]);
    }
    if let Some(list) = finalizers
        .as_array_mut()
        .filter(|list| !list.contains(&"kubernetes".into()))
    {
        list.push("kubernetes".into());
    }
}

/// Finalizers of namespaces change through their own subresource.
pub(super) fn prepare_namespace_update(namespace: &mut Value, old: &Value) {
    let Some(namespace) = namespace.as_object_mut() else {
        return;
    };
    let spec = inner(namespace, "spec");
    match old["spec"].get("finalizers") {
        Some(finalizers) => spec.insert("finalizers".to_owned(), finalizers.clone()),
        None => spec.remove("finalizers"),
    };
}

pub(super) fn namespace(namespace: &Value, errors: &mut Errors) {
    let finalizers = FieldValue::root(namespace).at("spec").at("finalizers");
    for name in finalizers.items() {
        let mut wrong = names::qualified_name(name.text());
        let known = name.text().contains('/') || name.text() == "kubernetes";
        wrong.extend(vocabulary::complaint(
            !known,
            "name is neither a standard finalizer name nor is it fully qualified",
        ));
        errors.extend(
            wrong
                .into_iter()
                .map(|why| FieldError::invalid(&*finalizers.path, name.text(), why)),
        );
    }
}

/// The phase says whether the namespace is going.
pub(super) fn namespace_status(namespace: &Value, _: &Value, errors: &mut Errors) {
    let going = !namespace["metadata"]["deletionTimestamp"].is_null();
    let phase = FieldValue {
        path: "status.Phase".to_owned(),
        ..FieldValue::root(namespace).at("status").at("phase")
    };
    match (going, phase.text()) {
        (false, phase_text) if phase_text != "Active" => {
            phase.invalid(
                errors,
                "may only be 'Active' if `deletionTimestamp` is empty",
            );
        }
        (true, phase_text) if phase_text != "Terminating" => {
            phase.invalid(
                errors,
                "may only be 'Terminating' if `deletionTimestamp` is not empty",
            );
        }
        _ => {}
    }
}

pub(super) fn config_map(map: &Value, errors: &mut Errors) {
    let (data, binary) = (
        FieldValue::root(map).at("data"),
        FieldValue::root(map).at("binaryData"),
    );
    keys(&data, errors);
    keys(&binary, errors);
    for key in data.keys().filter(|key| binary.value.get(key).is_some()) {
        errors.push(FieldError::invalid(
            data.key(key).path,
            key,
            "duplicate of key present in binaryData",
        ));
    }
    let plain: usize = data
        .keys()
        .map(|key| data.value[key].as_str().map_or(0, str::len))
        .sum();
    if plain + decoded_size(&binary) > DATA_MAX {
        errors.push(FieldError::too_long("[]", DATA_MAX as u64));
    }
}

pub(super) fn config_map_update(map: &Value, old: &Value, errors: &mut Errors) {
    sealed(map, old, &["data", "binaryData"], errors);
}

pub(super) fn secret(secret: &Value, errors: &mut Errors) {
    let root = FieldValue::root(secret);
    let data = root.at("data");
    keys(&data, errors);
    if decoded_size(&data) > DATA_MAX {
        errors.push(FieldError::too_long("data", DATA_MAX as u64));
    }
    let kind = root.at("type").text();
    if kind == "kubernetes.io/service-account-token" {
        root.at("metadata")
            .at("annotations")
            .key(ACCOUNT)
            .needed(errors);
    }
    let Some((_, needed, one_is_enough)) = SECRET_KEYS.iter().find(|(known, _, _)| *known == kind)
    else {
        return;
    };
    if *one_is_enough && needed.iter().any(|key| data.key(key).is_set()) {
        return;
    }
    for key in needed.iter().filter(|key| !data.key(key).is_set()) {
        data.key(key).require(errors, "");
    }
}

pub(super) fn secret_update(secret: &Value, old: &Value, errors: &mut Errors) {
    let kind = FieldValue::root(secret).at("type");
    if kind.value != &old["type"] {
        kind.invalid(errors, IMMUTABLE);
    }
    sealed(secret, old, &["data"], errors);
}

/// A secret without a type keeps the one it has.
pub(super) fn prepare_secret_update(secret: &mut Value, old: &Value) {
    if secret["type"].as_str().is_none_or(str::is_empty) {
        secret["type"] = old["type"].clone();
    }
}

/// Of its secrets a service account keeps the names.
pub(super) fn prepare_service_account(account: &mut Value) {
    for reference in account
        .get_mut("secrets")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(reference) = reference.as_object_mut() {
            reference.retain(|field, _| field == "name");
        }
    }
}

pub(super) fn lease(lease: &Value, errors: &mut Errors) {
    let spec = FieldValue::root(lease).at("spec");
    let duration = spec.at("leaseDurationSeconds");
    if duration.is_set() && duration.number() <= 0 {
        duration.invalid(errors, "must be greater than 0");
    }
    spec.at("leaseTransitions").not_negative(errors);
}

/// Data that was sealed stays, and stays sealed.
fn sealed(object: &Value, old: &Value, fields: &[&str], errors: &mut Errors) {
    if old["immutable"] != true {
        return;
    }
    let root = FieldValue::root(object);
    if !root.at("immutable").is_true() {
        root.at("immutable").forbid(errors, SEALED);
    }
    for field in fields {
        let old = FieldValue::root(old).at(field);
        if root.at(field).value != old.value && !(root.at(field).is_empty() && old.is_empty()) {
            root.at(field).forbid(errors, SEALED);
        }
    }
}

fn keys(data: &FieldValue<'_>, errors: &mut Errors) {
    for key in data.keys() {
        let wrong = vocabulary::config_key(key).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid(data.key(key).path, key, why)));
    }
}

/// The size of base64 data once decoded.
fn decoded_size(data: &FieldValue<'_>) -> usize {
    let sizes = data.keys().map(|key| {
        let text = data.value[key].as_str().unwrap_or_default();
        text.trim_end_matches('=').len() * 3 / 4
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_of_a_secret_becomes_data() {
        for (text, encoded) in [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj")] {
            assert_eq!(base64(text.as_bytes()), encoded);
        }
        let mut secret =
            json!({ "data": { "a": "MQ==", "b": "MQ==" }, "stringData": { "a": "2" } });
        default_secret(secret.as_object_mut().unwrap());
        let data = json!({ "a": "Mg==", "b": "MQ==" });
        assert_eq!(secret, json!({ "type": "Opaque", "data": data }));
    }
}
