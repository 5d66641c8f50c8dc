//! Endpoints and slices of them.

use super::check::{Errors, FieldValue};
use super::vocabulary;
use crate::names;
use crate::status::FieldError;
use serde_json::Value;
use std::collections::BTreeSet;

const MOST_ENDPOINTS: usize = 1000;
const MOST_ADDRESSES: usize = 100;
const MOST_PORTS: usize = 20_000;
const MOST_HINTS: usize = 8;

pub(super) fn endpoints(endpoints: &Value, errors: &mut Errors) {
    for subset in FieldValue::root(endpoints).at("subsets").items() {
        let lists = [subset.at("addresses"), subset.at("notReadyAddresses")];
        if lists.iter().all(FieldValue::is_empty) {
            subset.require(errors, "must specify `addresses` or `notReadyAddresses`");
        }
        for address in lists.iter().flat_map(FieldValue::items) {
            let ip = address.at("ip");
            ip.complain(errors, vocabulary::ip(ip.text()));
            ip.complain(errors, vocabulary::endpoint_ip(ip.text()));
            address.at("hostname").dns_label(errors);
            address.at("nodeName").dns_subdomain(errors);
        }
        let ports = subset.at("ports").items();
        for port in ports.iter().filter(|_| ports.len() > 1) {
            port.at("name").needed(errors);
        }
    }
}

/// What was accepted once is not validated again.
pub(super) fn endpoints_update(endpoints: &Value, old: &Value, errors: &mut Errors) {
    if endpoints["subsets"] == old["subsets"] {
        errors.retain(|error| !error.field().starts_with("subsets"));
    }
}

pub(super) fn slice(slice: &Value, errors: &mut Errors) {
    let slice = FieldValue::root(slice);
    let family = slice.at("addressType");
    if family.needed(errors) {
        family.one_of(errors, &["FQDN", "IPv4", "IPv6"]);
    }
    slice_ports(&slice.at("ports"), errors);
    let endpoints = slice.at("endpoints");
    let items = endpoints.items();
    if items.len() > MOST_ENDPOINTS {
        return errors.push(too_many(&endpoints, items.len(), MOST_ENDPOINTS));
    }
    for endpoint in &items {
        addresses(&endpoint.at("addresses"), family.text(), errors);
        endpoint.at("nodeName").dns_subdomain(errors);
        endpoint.at("hostname").dns_label(errors);
        topology(&endpoint.at("deprecatedTopology"), errors);
        hints(&endpoint.at("hints"), errors);
    }
}

pub(super) fn slice_update(slice: &Value, old: &Value, errors: &mut Errors) {
    if slice["endpoints"] == old["endpoints"] {
        errors.retain(|error| !error.field().starts_with("endpoints"));
    }
    if slice["addressType"] != old["addressType"] {
        errors.push(FieldError::invalid(
            "addressType",
            Value::Null,
            vocabulary::IMMUTABLE,
        ));
    }
}

/// Topology is no longer written; node names and zones have fields of their own.
pub(super) fn prepare_slice(slice: &mut Value) {
    for endpoint in slice
        .get_mut("endpoints")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(endpoint) = endpoint.as_object_mut() {
            endpoint.remove("deprecatedTopology");
        }
    }
}

/// The generation goes up with the content, dropped topology included, and with the labels.
pub(super) fn prepare_slice_update(slice: &mut Value, old: &Value) {
    let differs = |field: &str| slice.pointer(field) != old.pointer(field);
    let watched = ["/addressType", "/endpoints", "/ports", "/metadata/labels"];
    if watched.iter().any(|field| differs(field)) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        slice["metadata"]["generation"] = (generation + 1).into();
    }
    if slice["endpoints"] != old["endpoints"] {
        prepare_slice(slice);
    }
}

fn slice_ports(ports: &FieldValue<'_>, errors: &mut Errors) {
    let items = ports.items();
    if items.len() > MOST_PORTS {
        return errors.push(too_many(ports, items.len(), MOST_PORTS));
    }
    let mut names = BTreeSet::new();
    for port in &items {
        let name = port.at("name");
        if !names.insert(name.text()) {
            errors.push(FieldError::duplicate(name.path.clone(), name.text()));
        }
    }
}

fn addresses(addresses: &FieldValue<'_>, family: &str, errors: &mut Errors) {
    let items = addresses.items();
    match items.len() {
        0 => addresses.require(errors, ""),
        count if count > MOST_ADDRESSES => errors.push(too_many(addresses, count, MOST_ADDRESSES)),
        _ => {}
    }
    for address in &items {
        let text = address.text();
        if family == "FQDN" {
            fqdn(address, errors);
            continue;
        }
        if !matches!(family, "IPv4" | "IPv6") {
            continue;
        }
        let wrong = vocabulary::ip(text);
        if !wrong.is_empty() {
            address.complain(errors, wrong);
            continue;
        }
        if text.contains(':') != (family == "IPv6") {
            errors.push(FieldError::invalid(
                &*addresses.path,
                text,
                format!("must be an {family} address"),
            ));
        }
        address.complain(errors, vocabulary::endpoint_ip(text));
    }
}

/// A full domain name has at least two parts.
fn fqdn(address: &FieldValue<'_>, errors: &mut Errors) {
    let name = address.text().strip_suffix('.').unwrap_or(address.text());
    let wrong = names::dns_subdomain(name);
    if name.is_empty() {
        address.require(errors, "");
    } else if !wrong.is_empty() {
        errors.extend(
            wrong
                .into_iter()
                .map(|why| FieldError::invalid(&*address.path, name, why)),
        );
    } else if !name.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(&*address.path, name, why));
    }
}

fn topology(topology: &FieldValue<'_>, errors: &mut Errors) {
    let count = topology.keys().count();
    if count > 16 {
        errors.push(too_many(topology, count, 16));
    }
    topology.labels(errors);
}

fn hints(hints: &FieldValue<'_>, errors: &mut Errors) {
    for (list, rule) in [
        ("forZones", names::label_value as fn(&str) -> Vec<String>),
        ("forNodes", names::dns_subdomain),
    ] {
        let list = hints.at(list);
        let items = list.items();
        if items.len() > MOST_HINTS {
            return errors.push(too_many(&list, items.len(), MOST_HINTS));
        }
        let mut seen = BTreeSet::new();
        for name in items.iter().map(|hint| hint.at("name")) {
            if !seen.insert(name.text()) {
                name.duplicate(errors);
            }
            name.complain(errors, rule(name.text()));
        }
    }
}

fn too_many(field: &FieldValue<'_>, count: usize, most: usize) -> FieldError {
    FieldError::too_many(&*field.path, count, most as u64)
}
