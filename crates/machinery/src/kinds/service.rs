//! Services: ports, addresses and who may change them.

use super::check::{Errors, FieldValue};
use super::vocabulary::{self, between};
use crate::names;
use crate::status::FieldError;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
/// How long a client stays with its endpoint, in seconds: three hours, at most a day.
pub(super) const AFFINITY: (i64, i64) = (10800, 86400);

/// Reachable from outside of the cluster.
pub(super) fn is_external(kind: &str, has_external_ips: bool) -> bool {
    matches!(kind, "LoadBalancer" | "NodePort") || (kind == "ClusterIP" && has_external_ips)
}

/// Whether the addresses that a Service asks for contradict each other.
pub(super) fn has_wrong_addresses(service: &Value) -> bool {
    let spec = FieldValue::root(service).at("spec");
    let mut addresses = Errors::new();
    if spec.at("type").text() != "ExternalName" {
        cluster_addresses(&spec, &mut addresses);
    }
    !addresses.is_empty()
}

pub(super) fn check(service: &Value, errors: &mut Errors) {
    let spec = FieldValue::root(service).at("spec");
    let kind = spec.at("type");
    let mut addresses = Errors::new();
    if kind.text() != "ExternalName" {
        cluster_addresses(&spec, &mut addresses);
    }
    if !addresses.is_empty() {
        // Addresses are allocated before anything else is validated, and that ends here.
        *errors = addresses;
        return;
    }
    let headless = spec
        .at("clusterIPs")
        .value
        .get(0)
        .is_some_and(|ip| ip == "None");
    if spec.at("ports").is_empty() && !headless && kind.text() != "ExternalName" {
        spec.at("ports").require(errors, "");
    }
    if kind.needed(errors) {
        kind.one_of(errors, TYPES);
    }
    match kind.text() {
        "LoadBalancer" | "NodePort" if headless => {
            let why = format!("may not be set to 'None' for {} services", kind.text());
            errors.push(FieldError::invalid("spec.clusterIPs[0]", "None", why));
        }
        "ExternalName" => external_name(&spec, errors),
        _ => {}
    }
    ports(&spec, errors);
    spec.at("selector").labels(errors);
    affinity(&spec, errors);
    outside(&spec, errors);
    spec.at("internalTrafficPolicy")
        .one_of(errors, &["Cluster", "Local"]);
    spec.at("trafficDistribution")
        .one_of(errors, &["PreferClose", "PreferSameZone", "PreferSameNode"]);
}

fn external_name(spec: &FieldValue<'_>, errors: &mut Errors) {
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if !spec.at(field).is_empty() {
            spec.at(field)
                .forbid(errors, "may not be set for ExternalName services");
        }
    }
    let name = spec.at("externalName");
    let host = name.text().strip_suffix('.').unwrap_or(name.text());
    if host.is_empty() {
        return name.require(errors, "");
    }
    let complaints = names::dns_subdomain(host).into_iter();
    errors.extend(complaints.map(|why| FieldError::invalid(&*name.path, host, why)));
}

fn cluster_addresses(spec: &FieldValue<'_>, errors: &mut Errors) {
    let (one, all) = (spec.at("clusterIP"), spec.at("clusterIPs"));
    match (one.is_empty(), all.is_empty()) {
        (false, true) => all.require(errors, ""),
        (true, false) => all.invalid(errors, "must be empty when `clusterIP` is not specified"),
        (false, false) if all.value[0] != *one.value => {
            all.invalid(errors, "first value must match `clusterIP`");
        }
        _ => {}
    }
    let mut families = BTreeSet::new();
    for family in spec.at("ipFamilies").items() {
        if !["IPv4", "IPv6"].contains(&family.text()) {
            family.unsupported(errors, &["IPv4", "IPv6"]);
        }
        if !families.insert(family.text()) {
            family.duplicate(errors);
        }
    }
    spec.at("ipFamilyPolicy").one_of(
        errors,
        &["PreferDualStack", "RequireDualStack", "SingleStack"],
    );
    let items = all.items();
    for (index, ip) in items.iter().enumerate() {
        if index == 0 && ip.text() == "None" {
            if items.len() > 1 {
                all.invalid(errors, "'None' must be the first and only value");
            }
            continue;
        }
        ip.complain(errors, vocabulary::ip(ip.text()));
    }
    if items.len() > 2 {
        all.invalid(errors, "may only hold up to 2 values");
    }
}

fn ports(spec: &FieldValue<'_>, errors: &mut Errors) {
    let ports = spec.at("ports").items();
    let (mut names, mut numbers, mut on_nodes) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for port in &ports {
        let (name, protocol, number) = (port.at("name"), port.at("protocol"), port.at("port"));
        if name.is_empty() && ports.len() > 1 {
            name.require(errors, "");
        } else if !name.is_empty() && !names.insert(name.text()) {
            name.duplicate(errors);
        }
        if !numbers.insert((protocol.text(), number.number())) {
            let key = json!({ "port": number.value, "protocol": protocol.value, "targetPort": 0 });
            errors.push(FieldError::duplicate(&*port.path, key));
        }
        let on_node = port.at("nodePort");
        if on_node.number() == 0 {
            continue;
        }
        if spec.at("type").text() == "ClusterIP" {
            on_node.forbid(errors, "may not be used when `type` is 'ClusterIP'");
        }
        if !on_nodes.insert((protocol.text(), on_node.number())) {
            on_node.duplicate(errors);
        }
    }
}

fn affinity(spec: &FieldValue<'_>, errors: &mut Errors) {
    let kind = spec.at("sessionAffinity");
    if kind.needed(errors) {
        kind.one_of(errors, &["ClientIP", "None"]);
    }
    let seconds = spec
        .at("sessionAffinityConfig")
        .at("clientIP")
        .at("timeoutSeconds");
    if kind.text() == "ClientIP" && !between(seconds.number(), 1, AFFINITY.1).is_empty() {
        seconds.invalid(
            errors,
            &format!("must be greater than 0 and less than {}", AFFINITY.1),
        );
    }
}

/// What only makes sense for services that can be reached from outside.
fn outside(spec: &FieldValue<'_>, errors: &mut Errors) {
    let balanced = spec.at("type").text() == "LoadBalancer";
    for ip in spec.at("externalIPs").items() {
        let wrong = vocabulary::ip(ip.text());
        let wrong = if wrong.is_empty() {
            vocabulary::endpoint_ip(ip.text())
        } else {
            wrong
        };
        ip.complain(errors, wrong);
    }
    for (field, shown) in [
        ("loadBalancerSourceRanges", "LoadBalancerSourceRanges"),
        (
            "allocateLoadBalancerNodePorts",
            "allocateLoadBalancerNodePorts",
        ),
        ("loadBalancerClass", "loadBalancerClass"),
    ] {
        let is_said = match spec.at(field).value {
            Value::Array(items) => !items.is_empty(),
            value => !value.is_null(),
        };
        if is_said && !balanced {
            spec.at(shown)
                .forbid(errors, "may only be used when `type` is 'LoadBalancer'");
        }
    }
    let ranges = FieldValue {
        path: spec.at("LoadBalancerSourceRanges").path,
        ..spec.at("loadBalancerSourceRanges")
    };
    for range in ranges.items() {
        range.complain(errors, vocabulary::cidr(range.text().trim()));
    }
    traffic(spec, balanced, errors);
}

fn traffic(spec: &FieldValue<'_>, balanced: bool, errors: &mut Errors) {
    let policy = spec.at("externalTrafficPolicy");
    if is_external(spec.at("type").text(), !spec.at("externalIPs").is_empty()) {
        policy.one_of(errors, &["Cluster", "Local"]);
    } else if !policy.is_empty() {
        policy.invalid(errors, "may only be set for externally-accessible services");
    }
    let health = spec.at("healthCheckNodePort");
    if health.number() != 0 && !(balanced && policy.text() == "Local") {
        let why =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        health.invalid(errors, why);
    }
}

/// Only a Service with a load balancer has addresses of one.
pub(super) fn check_status(service: &Value, _: &Value, errors: &mut Errors) {
    let root = FieldValue::root(service);
    let ingress = root.at("status").at("loadBalancer").at("ingress");
    if root.at("spec").at("type").text() != "LoadBalancer" && !ingress.is_empty() {
        ingress.forbid(
            errors,
            "may only be used when `spec.type` is 'LoadBalancer'",
        );
    }
}

pub(super) fn check_update(service: &Value, old: &Value, errors: &mut Errors) {
    let spec = FieldValue::root(service).at("spec");
    let old = &old["spec"];
    let kind = spec.at("type").text();
    if has_wrong_addresses(service) {
        return;
    }
    if kind == "LoadBalancer"
        && old["type"] == "LoadBalancer"
        && spec.at("loadBalancerClass").value != &old["loadBalancerClass"]
    {
        spec.at("loadBalancerClass")
            .invalid(errors, "may not change once set");
    }
    if kind != "ExternalName" && old["type"] != "ExternalName" {
        addresses_stay(&spec.at("clusterIPs"), &old["clusterIPs"], errors);
    }
}

/// Addresses once given stay, but one without them may get some.
fn addresses_stay(now: &FieldValue<'_>, before: &Value, errors: &mut Errors) {
    let headless = |ips: &Value| ips.get(0).is_some_and(|ip| ip == "None");
    if headless(now.value) && headless(before) {
        return;
    }
    for (index, ip) in before.as_array().into_iter().flatten().enumerate() {
        let why = match now.value.get(index) {
            Some(new) if new != ip => "may not change once set",
            None if index == 0 => "primary clusterIP can not be unset",
            _ => continue,
        };
        errors.push(FieldError::invalid(
            format!("{}[{index}]", now.path),
            now.value.clone(),
            why,
        ));
    }
}
