//! Pods: what is set when one is made, and what holds between the parts of one.

use super::check::{Errors, FieldValue};
use super::default::inner;
use super::pod_containers::{CONTAINERS, requested};
use super::scheduling;
use super::vocabulary::{self, between, nanos};
use crate::names;
use crate::quantity::Quantity;
use crate::status::FieldError;
use crate::table::is_zero;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A new pod is pending, has a class of service, and knows whether scheduling gates keep it from nodes.
pub(super) fn prepare_create(pod: &mut Value) {
    default_requests(pod);
    let class = service_class(pod);
    pod["status"] = json!({ "phase": "Pending", "qosClass": class });
    if pod["spec"]["schedulingGates"]
        .as_array()
        .is_some_and(|gates| !gates.is_empty())
    {
        pod["status"]["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": pod["metadata"]["creationTimestamp"],
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
}

/// A pod that is limited as a whole asks for what its containers do, or else for all it may have.
fn default_requests(pod: &mut Value) {
    let Some(limits) = pod["spec"]["resources"]["limits"].as_object().cloned() else {
        return;
    };
    let spec = FieldValue::root(pod).at("spec");
    let asked = |name: &str| {
        let containers = CONTAINERS[..2]
            .iter()
            .flat_map(|list| spec.at(list).items());
        let mut amounts = containers.filter_map(|container| {
            let amount = container.at("resources").at("requests").key(name);
            amount.text().parse::<Quantity>().ok()
        });
        let total = amounts.next()?.with_nanos(requested(&spec, name));
        Some(total.to_string())
    };
    let of_containers = ["cpu", "memory"].map(|name| (name, asked(name).map(Value::from)));
    let resources = pod.pointer_mut("/spec/resources");
    let Some(resources) = resources
        .and_then(Value::as_object_mut)
        .filter(|_| !limits.is_empty())
    else {
        return;
    };
    let requests = inner(resources, "requests");
    for (name, amount) in of_containers {
        if let Some(amount) = amount {
            requests.entry(name).or_insert(amount);
        }
    }
    for (name, amount) in limits {
        requests.entry(name).or_insert(amount);
    }
}

/// Resources of the pod as a whole stay when a client does not know of them.
pub(super) fn prepare_update(pod: &mut Value, old: &Value) {
    keep(pod, old, "spec", &["resources"]);
}

/// The class of service is decided once, and what older kubelets do not know stays.
pub(super) fn prepare_status_update(pod: &mut Value, old: &Value) {
    const KEPT: &[&str] = &[
        "resourceClaimStatuses",
        "extendedResourceClaimStatus",
        "observedGeneration",
        "qosClass",
    ];
    keep(pod, old, "status", KEPT);
    keep_condition_generations(pod, &old["status"]);
}

/// Puts back what was there and is left out.
fn keep(pod: &mut Value, old: &Value, part: &str, fields: &[&str]) {
    let Some(new) = pod.get_mut(part).and_then(Value::as_object_mut) else {
        return;
    };
    for field in fields {
        let before = &old[part][field];
        if !before.is_null() && new.get(*field).is_none_or(is_zero) {
            new.insert((*field).to_owned(), before.clone());
        }
    }
}

/// A condition that does not say which generation it is about is about the same as before.
fn keep_condition_generations(pod: &mut Value, old: &Value) {
    let mut before: Vec<&Value> = old["conditions"].as_array().into_iter().flatten().collect();
    let conditions = pod.pointer_mut("/status/conditions");
    let conditions = conditions
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten();
    for condition in conditions.filter_map(Value::as_object_mut) {
        let kind = condition.get("type");
        let same = before.iter().position(|old| old.get("type") == kind);
        let generation = same.map(|index| before.remove(index)["observedGeneration"].clone());
        let is_open = condition.get("observedGeneration").is_none_or(is_zero);
        if let Some(generation) = generation.filter(|known| is_open && !known.is_null()) {
            condition.insert("observedGeneration".to_owned(), generation);
        }
    }
}

/// Seconds between the deletion of a pod and its end.
pub(super) fn grace(pod: &Value, asked: Option<i64>) -> u64 {
    let own = || {
        pod["spec"]["terminationGracePeriodSeconds"]
            .as_i64()
            .unwrap_or(0)
    };
    let unscheduled = pod["spec"]["nodeName"].as_str().is_none_or(str::is_empty);
    let over = matches!(
        pod["status"]["phase"].as_str(),
        Some("Failed" | "Succeeded")
    );
    if unscheduled || over {
        return 0;
    }
    u64::try_from(asked.unwrap_or_else(own)).unwrap_or(1)
}

/// Guaranteed if all is limited and asked for alike, burstable if anything is, else best effort.
fn service_class(pod: &Value) -> &'static str {
    let of_containers = CONTAINERS[..2]
        .iter()
        .filter_map(|list| pod["spec"][*list].as_array())
        .flatten()
        .map(|container| &container["resources"]);
    let own = &pod["spec"]["resources"];
    let is_said = |list: &str| own[list].as_object().is_some_and(|list| !list.is_empty());
    let resources: Vec<&Value> = if is_said("requests") || is_said("limits") {
        vec![own]
    } else {
        of_containers.collect()
    };
    let (mut any, mut all) = (false, true);
    for resources in resources {
        let amount = |list: &str, name: &str| nanos(&resources[list][name]);
        for name in ["cpu", "memory"] {
            let (request, limit) = (amount("requests", name), amount("limits", name));
            any |= request > 0 || limit > 0;
            all &= limit > 0 && (request == limit || request == 0);
        }
    }
    match (any, all) {
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
        (false, _) => "BestEffort",
    }
}

/// What only a pod that is being made must obey.
pub(super) fn check_create(pod: &Value, errors: &mut Errors) {
    let spec = FieldValue::root(pod).at("spec");
    if !spec.at("ephemeralContainers").is_empty() {
        spec.at("ephemeralContainers")
            .forbid(errors, "cannot be set on create");
    }
    if !spec.at("nodeName").is_empty() && !spec.at("schedulingGates").is_empty() {
        spec.at("nodeName").forbid(
            errors,
            "cannot be set until all schedulingGates have been cleared",
        );
    }
    own_rules(&spec, errors);
}

/// What holds for pods but not for templates of pods.
pub(super) fn own_rules(spec: &FieldValue<'_>, errors: &mut Errors) {
    spec.at("terminationGracePeriodSeconds")
        .not_negative(errors);
    if spec.at("serviceAccountName").is_empty() {
        for volume in spec.at("volumes").items() {
            for source in volume.at("projected").at("sources").items() {
                let token = source.at("serviceAccountToken");
                if token.is_set() {
                    token.forbid(errors, "only for pods with a serviceAccountName");
                }
            }
        }
    }
    for list in CONTAINERS {
        for container in spec.at(list).items() {
            let image = container.at("image");
            if image.text().trim() != image.text() {
                image.invalid(errors, "must not have leading or trailing whitespace");
            }
        }
    }
}

/// On the network of the host a port is a port of the host; a template may leave that open.
fn ports_on_host(spec: &FieldValue<'_>, errors: &mut Errors) {
    if !spec.at("hostNetwork").is_true() {
        return;
    }
    let is_pod = spec.path == "spec";
    for port in spec
        .at("containers")
        .items()
        .iter()
        .flat_map(|container| container.at("ports").items())
    {
        let (host, own) = (
            port.at("hostPort").number(),
            port.at("containerPort").number(),
        );
        if (is_pod || host != 0) && host != own {
            let why = "must match `containerPort` when `hostNetwork` is true";
            errors.push(FieldError::invalid(port.at("hostPort").path, host, why));
        }
    }
}

/// What holds between the parts of a pod.
pub(super) fn spec(spec: &FieldValue<'_>, errors: &mut Errors) {
    let containers = spec.at("containers");
    containers.needed(errors);
    unique_names(spec, errors);
    unique_host_ports(&containers, errors);
    host_namespaces(spec, errors);
    operating_system(spec, errors);
    host_processes(spec, errors);
    hostname_override(spec, errors);
    unique_claims(spec, errors);
    scheduling::spread_once(spec, errors);
    ports_on_host(spec, errors);
    let deadline = spec.at("activeDeadlineSeconds");
    if deadline.is_set() {
        deadline.complain(errors, between(deadline.number(), 1, i64::from(i32::MAX)));
    }
    let mut gates = BTreeSet::new();
    for gate in spec.at("schedulingGates").items() {
        let name = FieldValue {
            path: gate.path.clone(),
            ..gate.at("name")
        };
        name.complain(errors, names::qualified_name(name.text()));
        if !gates.insert(name.text()) {
            name.duplicate(errors);
        }
    }
    if spec.at("dnsPolicy").text() == "None" {
        let config = spec.at("dnsConfig");
        if !config.is_set() {
            config.require(errors, "must provide `dnsConfig` when `dnsPolicy` is None");
        } else if config.at("nameservers").is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            config.at("nameservers").require(errors, why);
        }
    }
}

/// What a pod shares with its host does not contradict.
fn host_namespaces(spec: &FieldValue<'_>, errors: &mut Errors) {
    let is_true = |field: &str| spec.at(field).is_true();
    let share = spec.at("shareProcessNamespace");
    if share.is_true() && is_true("hostPID") {
        share.invalid(errors, "may not be enabled with hostPID");
    }
    for name in spec
        .at("securityContext")
        .at("sysctls")
        .items()
        .iter()
        .map(|item| item.at("name"))
    {
        let is_of = |space: &str| name.text().replace('/', ".").starts_with(space);
        let (net, ipc) = (
            is_of("net."),
            is_of("kernel.shm") || is_of("kernel.msg") || is_of("fs.mqueue."),
        );
        if (net && is_true("hostNetwork")) || (ipc && is_true("hostIPC")) {
            name.invalid(errors, "may not be set in a namespace of the host");
        }
    }
    let own_users = spec.at("hostUsers").value == &Value::Bool(false);
    let containers = || CONTAINERS.iter().flat_map(|list| spec.at(list).items());
    if !own_users {
        for container in containers() {
            let mount = container.at("securityContext").at("procMount");
            if mount.text() == "Unmasked" {
                mount.invalid(errors, "`hostUsers` must be false to use `Unmasked`");
            }
        }
        return;
    }
    let why = "when `hostUsers` is false";
    // The reference server spells two of them in another case.
    for (field, shown) in [
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ] {
        if is_true(field) {
            spec.at(shown).forbid(errors, why);
        }
    }
    for devices in containers().map(|container| container.at("volumeDevices")) {
        if !devices.is_empty() {
            devices.forbid(errors, why);
        }
    }
}

/// Options of one system are not set for the other.
fn operating_system(spec: &FieldValue<'_>, errors: &mut Errors) {
    const LINUX: &[&str] = &[
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
    ];
    let system = spec.at("os");
    let foreign = match system.at("name").text() {
        _ if !system.is_set() => return,
        "" => return system.at("name").require(errors, ""),
        "linux" => &["windowsOptions"],
        "windows" => LINUX,
        _ => return system.unsupported(errors, &["linux", "windows"]),
    };
    let containers = CONTAINERS.iter().flat_map(|list| spec.at(list).items());
    let mut contexts: Vec<FieldValue<'_>> = containers
        .map(|container| container.at("securityContext"))
        .collect();
    contexts.push(spec.at("securityContext"));
    let mut fields: Vec<FieldValue<'_>> = contexts
        .iter()
        .flat_map(|context| foreign.iter().map(|field| context.at(field)))
        .collect();
    if foreign == LINUX {
        let own = ["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"];
        fields.extend(own.map(|field| spec.at(field)));
    }
    for field in fields.iter().filter(|field| field.is_set()) {
        field.forbid(errors, "cannot be set for a pod of this system");
    }
}

/// Processes of the host are all or nothing, and use its network.
fn host_processes(spec: &FieldValue<'_>, errors: &mut Errors) {
    fn own<'a>(field: &FieldValue<'a>) -> FieldValue<'a> {
        let options = field.at("securityContext").at("windowsOptions");
        options.at("hostProcess")
    }
    let pod = own(spec);
    let containers: Vec<FieldValue<'_>> = CONTAINERS
        .iter()
        .flat_map(|list| spec.at(list).items())
        .collect();
    let mut count = 0;
    for process in containers.iter().map(own) {
        if pod.is_set() && process.is_set() && pod.value != process.value {
            process.invalid(errors, "must be as in the pod");
        }
        count += usize::from(if process.is_set() {
            process.is_true()
        } else {
            pod.is_true()
        });
    }
    if count > 0 && count != containers.len() {
        spec.invalid(
            errors,
            "must have processes of the host in all containers or none",
        );
    }
    if count > 0 && !spec.at("hostNetwork").is_true() {
        spec.at("hostNetwork")
            .invalid(errors, "must be true for processes of the host");
    }
}

fn hostname_override(spec: &FieldValue<'_>, errors: &mut Errors) {
    let name = spec.at("hostnameOverride");
    if !name.is_set() {
        return;
    }
    if spec.at("setHostnameAsFQDN").is_true() || spec.at("hostNetwork").is_true() {
        name.forbid(
            errors,
            "may not be specified with setHostnameAsFQDN or hostNetwork",
        );
    }
    if name.text().len() > 64 {
        errors.push(FieldError::too_long(&*name.path, 64));
    }
    name.complain(errors, names::dns_subdomain(name.text()));
}

fn unique_claims(spec: &FieldValue<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for name in spec
        .at("resourceClaims")
        .items()
        .iter()
        .map(|claim| claim.at("name"))
    {
        if !name.is_empty() && !seen.insert(name.text()) {
            name.duplicate(errors);
        }
    }
}

/// A claim is there or made, not both.
pub(super) fn resource_claim(claim: &FieldValue<'_>, errors: &mut Errors) {
    let sources = ["resourceClaimName", "resourceClaimTemplateName"];
    let given = sources.map(|source| claim.at(source));
    let given = given.into_iter().filter(FieldValue::is_set);
    let given = given.inspect(|name| name.complain(errors, names::dns_subdomain(name.text())));
    if given.count() != 1 {
        let why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
        claim.invalid(errors, why);
    }
}

fn unique_names(spec: &FieldValue<'_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for list in CONTAINERS {
        for container in spec.at(list).items() {
            let name = container.at("name");
            // An init container without a name does not claim it.
            let is_new = match list {
                "initContainers" if name.is_empty() => !names.contains(""),
                _ => names.insert(name.text()),
            };
            if !is_new {
                name.duplicate(errors);
            }
        }
    }
}

fn unique_host_ports(containers: &FieldValue<'_>, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for port in containers
        .items()
        .iter()
        .flat_map(|container| container.at("ports").items())
    {
        let number = port.at("hostPort");
        if number.number() == 0 {
            continue;
        }
        let shown = format!(
            "{}/{}/{}",
            port.at("protocol").text(),
            port.at("hostIP").text(),
            number.number()
        );
        if !taken.insert(shown.clone()) {
            errors.push(FieldError::duplicate(number.path, shown));
        }
    }
}

/// A template has labels and annotations like any object, and nothing ephemeral.
pub(super) fn template(template: &FieldValue<'_>, errors: &mut Errors) {
    let labels = template.at("metadata").at("labels");
    FieldValue {
        path: template.at("labels").path,
        value: labels.value,
    }
    .labels(errors);
    let annotations = template.at("metadata").at("annotations");
    for key in annotations.keys() {
        let path = template.at("annotations").path;
        let complaints = names::qualified_name(&key.to_lowercase()).into_iter();
        errors.extend(complaints.map(|why| FieldError::invalid(&*path, key, why)));
    }
    let ephemeral = template.at("spec").at("ephemeralContainers");
    if !ephemeral.is_empty() {
        ephemeral.forbid(errors, "ephemeral containers not allowed in pod template");
    }
}

pub(super) fn host_alias(alias: &FieldValue<'_>, errors: &mut Errors) {
    let ip = alias.at("ip");
    ip.complain(errors, vocabulary::ip(ip.text()));
    for name in alias.at("hostnames").items() {
        name.complain(errors, names::dns_subdomain(name.text()));
    }
}

pub(super) fn dns_config(config: &FieldValue<'_>, errors: &mut Errors) {
    let servers = config.at("nameservers");
    if servers.items().len() > 3 {
        servers.invalid(errors, "must not have more than 3 nameservers");
    }
    for server in servers.items() {
        server.complain(errors, vocabulary::ip(server.text()));
    }
    let searches = config.at("searches");
    if searches.items().len() > 32 {
        searches.invalid(errors, "must not have more than 32 search paths");
    }
    for search in searches
        .items()
        .iter()
        .filter(|search| search.text() != ".")
    {
        let name = search.text().strip_suffix('.').unwrap_or(search.text());
        search.complain(errors, names::dns_subdomain(&name.replace('_', "-")));
    }
    for option in config.at("options").items() {
        if option.at("name").is_empty() {
            option.require(errors, "must not be empty");
        }
    }
}
