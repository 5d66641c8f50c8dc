//! Defaults and preparation of services.
//!
//! Cluster addresses, IP families and node ports come from the server's allocators, after
//! preparation; what they gave is kept here when an update leaves it out.

use super::default::{complete, fill, inner};
use super::service::{AFFINITY, is_external};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

pub(super) fn default(service: &mut Map<String, Value>) {
    let spec = inner(service, "spec");
    default_affinity(spec);
    fill(spec, "type", "ClusterIP");
    for port in spec
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        default_port(port);
    }
    let kind = text(spec, "type");
    if is_external(&kind, has_external_ips(spec)) {
        fill(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(&*kind, "NodePort" | "LoadBalancer" | "ClusterIP") {
        // A pointer upstream: an empty text is a value, and a wrong one.
        complete(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", true);
        default_ingress(service);
    }
}

fn default_affinity(spec: &mut Map<String, Value>) {
    fill(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "None" {
        spec.remove("sessionAffinityConfig");
    }
    let config = spec.get("sessionAffinityConfig");
    let seconds = config.and_then(|config| config.pointer("/clientIP/timeoutSeconds"));
    if spec["sessionAffinity"] == "ClientIP" && seconds.is_none_or(Value::is_null) {
        let config = json!({ "clientIP": { "timeoutSeconds": AFFINITY.0 } });
        spec.insert("sessionAffinityConfig".to_owned(), config);
    }
}

fn default_ingress(service: &mut Map<String, Value>) {
    let status = service.get_mut("status");
    let list =
        status.and_then(|status| status.pointer_mut("/loadBalancer/ingress")?.as_array_mut());
    for ingress in list.into_iter().flatten().filter_map(Value::as_object_mut) {
        if ingress.get("ip").is_some_and(|ip| ip != "") {
            fill(ingress, "ipMode", "VIP");
        }
    }
}

fn default_port(port: &mut Value) {
    let number = port["port"].clone();
    let Some(port) = port.as_object_mut() else {
        return;
    };
    fill(port, "protocol", "TCP");
    if port
        .get("targetPort")
        .is_none_or(|target| target.is_null() || target == 0 || target == "")
    {
        port.insert("targetPort".to_owned(), number);
    }
}

/// The one address is the first of all.
pub(super) fn prepare_create(service: &mut Value) {
    let spec = &mut service["spec"];
    if !is_blank(&spec["clusterIP"]) && is_blank(&spec["clusterIPs"]) {
        spec["clusterIPs"] = json!([spec["clusterIP"]]);
    }
}

/// Keeps what was allocated, and drops what the new type has no use for.
pub(super) fn prepare_update(service: &mut Value, old: &Value) {
    let old = &old["spec"];
    let (Some(spec), Some(old_spec)) = (
        service.get_mut("spec").and_then(Value::as_object_mut),
        old.as_object(),
    ) else {
        return;
    };
    let (new_kind, old_kind) = (text(spec, "type"), text(old_spec, "type"));
    addresses(spec, old, &new_kind, &old_kind);
    ports(spec, old, &new_kind, &old_kind);
    let was_external = is_external(&old_kind, has_external_ips(old_spec));
    if was_external && !is_external(&new_kind, has_external_ips(spec)) {
        drop_if_same(spec, old, "externalTrafficPolicy");
    }
    if new_kind != "LoadBalancer" && !service["status"]["loadBalancer"].is_null() {
        service["status"]["loadBalancer"] = json!({});
    }
}

fn ports(spec: &mut Map<String, Value>, old: &Value, new_kind: &str, old_kind: &str) {
    let on_nodes = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    match (on_nodes(old_kind), on_nodes(new_kind)) {
        (true, true) => keep_node_ports(spec, old),
        (true, false) => drop_node_ports(spec, old),
        _ => {}
    }
    if old_kind == "LoadBalancer" && new_kind != "LoadBalancer" {
        drop_if_same(spec, old, "allocateLoadBalancerNodePorts");
        drop_if_same(spec, old, "loadBalancerClass");
    }
    let was_checked = old_kind == "LoadBalancer" && old["externalTrafficPolicy"] == "Local";
    let is_checked = new_kind == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local";
    match (was_checked, is_checked) {
        (true, false) => drop_if_same(spec, old, "healthCheckNodePort"),
        (true, true) => keep(spec, old, "healthCheckNodePort"),
        _ => {}
    }
}

fn text(spec: &Map<String, Value>, field: &str) -> String {
    spec.get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn has_external_ips(spec: &Map<String, Value>) -> bool {
    spec.get("externalIPs")
        .and_then(Value::as_array)
        .is_some_and(|ips| !ips.is_empty())
}

fn addresses(spec: &mut Map<String, Value>, old: &Value, new_kind: &str, old_kind: &str) {
    const LOST: [&str; 5] = [
        "clusterIP",
        "clusterIPs",
        "ipFamilies",
        "ipFamilyPolicy",
        "internalTrafficPolicy",
    ];
    match (old_kind == "ExternalName", new_kind == "ExternalName") {
        (false, false) => {
            keep(spec, old, "clusterIP");
            if spec.get("clusterIP") == old.get("clusterIP") {
                keep(spec, old, "clusterIPs");
            } else if is_blank(spec.get("clusterIPs").unwrap_or(&Value::Null))
                || spec.get("clusterIPs") == old.get("clusterIPs")
            {
                let one = spec.get("clusterIP").cloned().unwrap_or_default();
                spec.insert("clusterIPs".to_owned(), json!([one]));
            }
            keep(spec, old, "ipFamilies");
            keep(spec, old, "ipFamilyPolicy");
        }
        (false, true) => LOST.iter().for_each(|field| drop_if_same(spec, old, field)),
        _ => {
            if let Some(ip) = spec.get("clusterIP").filter(|ip| !is_blank(ip)).cloned() {
                fill(spec, "clusterIPs", json!([ip]));
            }
        }
    }
}

fn keep_node_ports(spec: &mut Map<String, Value>, old: &Value) {
    let ports = |list: Option<&Value>| list.and_then(Value::as_array).cloned().unwrap_or_default();
    let (now, before) = (ports(spec.get("ports")), ports(old.get("ports")));
    let used = |port: &Value| now.iter().any(|other| other["nodePort"] == *port);
    for port in spec
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let same = before.iter().rev().find(|old| old["name"] == port["name"]);
        if let Some(old) = same
            .map(|old| &old["nodePort"])
            .filter(|old| !old.is_null() && !used(old))
            && port["nodePort"].as_i64().unwrap_or(0) == 0
        {
            port["nodePort"] = old.clone();
        }
    }
}

fn drop_node_ports(spec: &mut Map<String, Value>, old: &Value) {
    let numbers = |list: Option<&Value>| -> BTreeSet<i64> {
        list.and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|port| port["nodePort"].as_i64())
            .collect()
    };
    if !numbers(spec.get("ports")).is_subset(&numbers(old.get("ports"))) {
        return;
    }
    for port in spec
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(port) = port.as_object_mut() {
            port.remove("nodePort");
        }
    }
}

fn keep(spec: &mut Map<String, Value>, old: &Value, field: &str) {
    if is_blank(spec.get(field).unwrap_or(&Value::Null)) && !is_blank(&old[field]) {
        spec.insert(field.to_owned(), old[field].clone());
    }
}

fn drop_if_same(spec: &mut Map<String, Value>, old: &Value, field: &str) {
    if spec.get(field) == old.get(field) {
        spec.remove(field);
    }
}

fn is_blank(value: &Value) -> bool {
    crate::table::is_zero(value)
}
