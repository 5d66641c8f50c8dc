//! Rules of containers and of what stands in them.

use super::check::{Errors, FieldValue};
use super::vocabulary::{self, complaint, nanos};
use crate::names;
use crate::status::FieldError;
use std::collections::BTreeSet;

/// Names without a domain that mean something somewhere, if not in a container.
const QUOTA_RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "storage",
    "pods",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "resourcequotas",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Ways to act, in the order they are tried.
const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/// Names of ports and paths of mounts are unique within a container.
pub(super) fn container(container: &FieldValue<'_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for port in container.at("ports").items() {
        let name = port.at("name");
        if !name.is_empty()
            && vocabulary::port_name(name.text()).is_empty()
            && !names.insert(name.text())
        {
            name.duplicate(errors);
        }
    }
    let (mounts, devices) = (container.at("volumeMounts"), container.at("volumeDevices"));
    let mut paths = BTreeSet::new();
    for mount in mounts.items() {
        mount.at("name").needed(errors);
        let path = mount.at("mountPath");
        path.needed(errors);
        if !paths.insert(path.text()) {
            path.invalid(errors, "must be unique");
        }
        for below in ["subPath", "subPathExpr"] {
            let value = mount.at(below);
            let field = FieldValue {
                value: value.value,
                path: mounts.at(below).path,
            };
            field.complain(errors, vocabulary::descending_path(value.text()));
        }
        overlap(&mount.at("name"), &devices, "name", errors);
        overlap(&path, &devices, "devicePath", errors);
        let propagation = mount.at("mountPropagation").text();
        if propagation == "Bidirectional"
            && !container.at("securityContext").at("privileged").is_true()
        {
            mounts
                .at("mountPropagation")
                .forbid(errors, "only for privileged containers");
        }
    }
    volume_devices(&devices, &mounts, errors);
}

/// Neither a name nor a path is both mounted and given as a device.
fn overlap(own: &FieldValue<'_>, others: &FieldValue<'_>, field: &str, errors: &mut Errors) {
    let is_same = |other: &FieldValue<'_>| other.at(field).text() == own.text();
    if others.items().iter().any(is_same) {
        own.invalid(errors, "must not be both in volumeMounts and volumeDevices");
    }
}

fn volume_devices(devices: &FieldValue<'_>, mounts: &FieldValue<'_>, errors: &mut Errors) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for device in devices.items() {
        let (name, path) = (device.at("name"), device.at("devicePath"));
        if name.needed(errors) && !names.insert(name.text()) {
            name.invalid(errors, "must be unique");
        }
        path.needed(errors);
        let is_up = path.text().split('/').any(|part| part == "..");
        path.complain(errors, complaint(is_up, "can not contain '..'"));
        if !paths.insert(path.text()) {
            path.invalid(errors, "must be unique");
        }
        overlap(&name, mounts, "name", errors);
        overlap(&path, mounts, "mountPath", errors);
    }
}

/// What a mount says about itself does not contradict. Some complaints name the list.
pub(super) fn mount(mount: &FieldValue<'_>, errors: &mut Errors) {
    const PROPAGATION: &[&str] = &["Bidirectional", "HostToContainer", "None"];
    let (path, expression) = (mount.at("subPath"), mount.at("subPathExpr"));
    if !path.is_empty() && !expression.is_empty() {
        expression.invalid(errors, "subPathExpr and subPath are mutually exclusive");
    }
    let list = mount.path.rsplit_once('[').map_or("", |(list, _)| list);
    let at_list = |field: &str| FieldValue {
        path: format!("{list}.{field}"),
        ..mount.at(field)
    };
    let (recursive, propagation) = (at_list("recursiveReadOnly"), at_list("mountPropagation"));
    if propagation.is_set() && !PROPAGATION.contains(&propagation.text()) {
        propagation.unsupported(errors, PROPAGATION);
    }
    match recursive.text() {
        "Enabled" | "IfPossible"
            if (!mount.at("readOnly").is_true() || !matches!(propagation.text(), "" | "None")) =>
        {
            recursive.forbid(
                errors,
                "only for mounts that are read only and not propagated",
            );
        }
        "Disabled" => {}
        _ if recursive.is_set() => {
            recursive.unsupported(errors, &["Disabled", "Enabled", "IfPossible"]);
        }
        _ => {}
    }
}

/// A port has a number and, if any, a proper name.
pub(super) fn port(port: &FieldValue<'_>, errors: &mut Errors) {
    let name = port.at("name");
    if !name.is_empty() {
        name.complain(errors, vocabulary::port_name(name.text()));
    }
    let number = port.at("containerPort");
    match number.number() {
        0 => number.require(errors, ""),
        port => number.complain(errors, vocabulary::port(port)),
    }
}

/// A variable has a name and one source of its value.
pub(super) fn env(env: &FieldValue<'_>, errors: &mut Errors) {
    let name = env.at("name");
    if name.needed(errors) {
        name.complain(errors, vocabulary::env_name(name.text()));
    }
    let from = env.at("valueFrom");
    if !from.is_set() {
        return;
    }
    field_ref(&from.at("fieldRef"), FIELDS, errors);
    let resource = from.at("resourceFieldRef");
    if resource.is_set() {
        resource_ref(&resource, false, errors);
    }
    let sources = [
        "fieldRef",
        "resourceFieldRef",
        "configMapKeyRef",
        "secretKeyRef",
        "fileKeyRef",
    ];
    let count = sources
        .iter()
        .filter(|source| from.at(source).is_set())
        .count();
    let why = match count {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !env.at("value").is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(FieldError::invalid(from.path, "", why));
}

/// Fields of a pod that a variable may show.
const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// A field of the pod, one of those that may be shown here.
pub(super) fn field_ref(reference: &FieldValue<'_>, fields: &[&str], errors: &mut Errors) {
    let (path, version) = (reference.at("fieldPath"), reference.at("apiVersion"));
    if !reference.is_set() || !path.needed(errors) {
        return;
    }
    if version.text() != "v1" {
        return path.invalid(
            errors,
            "error converting fieldPath: unsupported pod version",
        );
    }
    if fields.contains(&path.text()) {
        return;
    }
    let subscript = |map: &str| path.text().strip_prefix(map)?.strip_suffix("']");
    if let Some(key) = subscript("metadata.labels['").or(subscript("metadata.annotations['")) {
        let complaints = names::qualified_name(key).into_iter();
        errors.extend(complaints.map(|why| FieldError::invalid(&*reference.path, key, why)));
    } else if FIELDS.contains(&path.text())
        || matches!(path.text(), "metadata.labels" | "metadata.annotations")
    {
        path.unsupported(errors, fields);
    } else {
        let why = format!(
            "error converting fieldPath: field label not supported: {}",
            path.text()
        );
        path.invalid(errors, &why);
    }
}

/// An amount of the container's own resources, in units that fit it.
pub(super) fn resource_ref(reference: &FieldValue<'_>, in_volume: bool, errors: &mut Errors) {
    const RESOURCES: &[&str] = &[
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
    ];
    const BYTES: &[&str] = &[
        "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
    ];
    let (resource, divisor) = (reference.at("resource"), reference.at("divisor"));
    let is_huge = resource.text().contains(".hugepages-");
    if in_volume && reference.at("containerName").is_empty() {
        reference.at("containerName").require(errors, "");
    } else if resource.needed(errors) && !is_huge {
        resource.one_of(errors, RESOURCES);
    }
    let units = match resource.text() {
        "limits.cpu" | "requests.cpu" => &["1m", "1"],
        known if is_huge || RESOURCES.contains(&known) => BYTES,
        _ => return,
    };
    if nanos(divisor.value) != 0 && !units.contains(&divisor.text()) {
        divisor.invalid(errors, "is no unit of the resource");
    }
}

/// A variable from a file has a proper name there.
pub(super) fn file_key(reference: &FieldValue<'_>, errors: &mut Errors) {
    let (key, path) = (reference.at("key"), reference.at("path"));
    if !key.is_empty() {
        key.complain(errors, vocabulary::env_name(key.text()));
    }
    let is_up = path.text().split('/').any(|part| part == "..");
    path.complain(errors, complaint(is_up, "must not contain '..'"));
}

/// Variables come from one object at a time.
pub(super) fn env_from(from: &FieldValue<'_>, errors: &mut Errors) {
    let prefix = from.at("prefix");
    if !prefix.is_empty() {
        prefix.complain(errors, vocabulary::env_name(prefix.text()));
    }
    let sources = ["configMapRef", "secretRef"];
    for source in sources {
        let name = from.at(source).at("name");
        if from.at(source).is_set() && name.needed(errors) {
            name.dns_subdomain(errors);
        }
    }
    let list = from
        .path
        .rsplit_once('[')
        .map_or(&*from.path, |(list, _)| list);
    match sources
        .iter()
        .filter(|source| from.at(source).is_set())
        .count()
    {
        0 => errors.push(FieldError::invalid(
            list,
            "",
            "must specify one of: `configMapRef` or `secretRef`",
        )),
        1 => {}
        _ => errors.push(FieldError::invalid(
            list,
            "",
            "may not have more than one field specified at a time",
        )),
    }
}

/// Requests are within limits, amounts are not negative, names are known or have a domain.
pub(super) fn resources(resources: &FieldValue<'_>, errors: &mut Errors) {
    huge_pages(resources, errors);
    let (limits, requests) = (resources.at("limits"), resources.at("requests"));
    for list in [&limits, &requests] {
        for name in list.keys() {
            if resources.path.to_lowercase().contains("containers[") {
                resource_name(name, &list.key(name).path, errors);
            } else if !["cpu", "memory"].contains(&name) && !name.starts_with("hugepages-") {
                list.key(name)
                    .unsupported(errors, &["cpu", "hugepages-", "memory"]);
            }
            amount(name, &list.key(name), errors);
        }
    }
    for name in requests.keys() {
        let (request, limit) = (requests.key(name), limits.key(name));
        let overcommit = is_native(name) && !name.starts_with("hugepages-");
        if !limit.is_set() {
            if !overcommit {
                limits.require(errors, "Limit must be set for non overcommitable resources");
            }
            continue;
        }
        let (asked, most) = (nanos(request.value), nanos(limit.value));
        let relation = match asked != most && !overcommit {
            true => "equal to",
            false if asked > most => "less than or equal to",
            false => continue,
        };
        let why = format!("must be {relation} {name} limit of {}", limit.text());
        errors.push(FieldError::invalid(
            &*requests.path,
            request.value.clone(),
            why,
        ));
    }
}

/// Huge pages are backed by something that is counted too.
fn huge_pages(resources: &FieldValue<'_>, errors: &mut Errors) {
    let lists = [resources.at("limits"), resources.at("requests")];
    let names: Vec<&str> = lists.iter().flat_map(FieldValue::keys).collect();
    let counted = names.iter().any(|name| matches!(*name, "cpu" | "memory"));
    if !counted && names.iter().any(|name| name.starts_with("hugepages-")) {
        resources.forbid(errors, "HugePages require cpu or memory");
    }
}

/// An amount of a resource; things that cannot be split come in whole numbers.
pub(super) fn amount(name: &str, amount: &FieldValue<'_>, errors: &mut Errors) {
    let nanos = nanos(amount.value);
    if nanos < 0 {
        amount.invalid(errors, vocabulary::NOT_NEGATIVE);
    }
    let whole = name.starts_with("count/") || name == "pods" || !is_native(name);
    if whole && nanos % 1_000_000_000 != 0 {
        amount.invalid(errors, "must be an integer");
    }
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn resource_name(name: &str, path: &str, errors: &mut Errors) {
    let mut wrong = names::qualified_name(name);
    if wrong.is_empty() && !name.contains('/') {
        let why = "must be a standard resource type or fully qualified";
        wrong.extend(complaint(
            !QUOTA_RESOURCES.contains(&name) && !name.starts_with("hugepages-"),
            why,
        ));
    }
    let standard =
        ["cpu", "memory", "ephemeral-storage"].contains(&name) || name.starts_with("hugepages-");
    if !name.contains('/') {
        wrong.extend(complaint(
            !standard,
            "must be a standard resource for containers",
        ));
    } else if !is_native(name) {
        wrong.extend(complaint(
            name.starts_with("requests."),
            "doesn't follow extended resource name standard",
        ));
    }
    errors.extend(
        wrong
            .into_iter()
            .map(|why| FieldError::invalid(path, name, why)),
    );
}

/// A probe asks in one way; only readiness may need more than one success.
pub(super) fn probe(probe: &FieldValue<'_>, errors: &mut Errors) {
    handler(probe, errors);
    let grace = probe.at("terminationGracePeriodSeconds");
    if grace.is_set() && grace.number() <= 0 {
        grace.invalid(errors, "must be greater than 0");
    }
    let readiness = probe.path.ends_with("readinessProbe");
    if readiness && grace.is_set() {
        grace.invalid(errors, "must not be set for readinessProbes");
    }
    let successes = probe.at("successThreshold");
    if !readiness && successes.number() != 1 {
        successes.invalid(errors, "must be 1");
    }
}

/// Of several ways to act only the first is tried.
pub(super) fn first_handler(handler: &FieldValue<'_>, errors: &mut Errors) {
    handler.only_first_of(HANDLERS, errors);
}

/// Exactly one way to act.
pub(super) fn handler(handler: &FieldValue<'_>, errors: &mut Errors) {
    let mut given = HANDLERS
        .iter()
        .map(|way| handler.at(way))
        .filter(FieldValue::is_set);
    if given.next().is_none() {
        handler.require(errors, "must specify a handler type");
    }
    for another in given {
        another.forbid(errors, "may not specify more than 1 handler type");
    }
}
