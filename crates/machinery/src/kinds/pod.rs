//! Pods: what is set when one is made, and what holds between the parts of one.

use super::check::{Errors, Place};
use super::vocabulary::{self, between, nanos};
use crate::names;
use crate::status::FieldError;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The lists of containers, in the order in which names are claimed.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// A new pod is pending, has a class of service, and knows whether gates hold it back.
pub(super) fn prepare_create(pod: &mut Value) {
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

/// The class of service is decided once.
pub(super) fn prepare_status_update(pod: &mut Value, old: &Value) {
    let class = &old["status"]["qosClass"];
    if pod["status"]["qosClass"].as_str().is_none_or(str::is_empty) && class.is_string() {
        pod["status"]["qosClass"] = class.clone();
    }
}

/// Seconds between the wish to delete a pod and its end.
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
    let lists = CONTAINERS[..2]
        .iter()
        .filter_map(|list| pod["spec"][*list].as_array())
        .flatten();
    let (mut any, mut all) = (false, true);
    for container in lists {
        let amount = |list: &str, name: &str| nanos(&container["resources"][list][name]);
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
    let spec = Place::root(pod).at("spec");
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
    images_are_trimmed(&spec, errors);
}

/// What holds for pods but not for templates of pods.
pub(super) fn images_are_trimmed(spec: &Place<'_>, errors: &mut Errors) {
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
fn ports_on_host(spec: &Place<'_>, errors: &mut Errors) {
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
pub(super) fn spec(spec: &Place<'_>, errors: &mut Errors) {
    let containers = spec.at("containers");
    containers.needed(errors);
    unique_names(spec, errors);
    unique_host_ports(&containers, errors);
    init_containers(spec, errors);
    ports_on_host(spec, errors);
    let deadline = spec.at("activeDeadlineSeconds");
    if deadline.is_set() {
        deadline.complain(errors, between(deadline.number(), 1, i64::from(i32::MAX)));
    }
    let mut gates = BTreeSet::new();
    for gate in spec.at("schedulingGates").items() {
        let name = Place {
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

fn unique_names(spec: &Place<'_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for list in CONTAINERS {
        for container in spec.at(list).items() {
            let name = container.at("name");
            if !names.insert(name.text()) && (list == "containers" || !name.is_empty()) {
                name.duplicate(errors);
            }
        }
    }
}

fn unique_host_ports(containers: &Place<'_>, errors: &mut Errors) {
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

/// Only init containers that keep running can be asked how they are.
fn init_containers(spec: &Place<'_>, errors: &mut Errors) {
    for container in spec.at("initContainers").items() {
        if container.at("restartPolicy").text() == "Always" {
            continue;
        }
        for field in [
            "lifecycle",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
        ] {
            if container.at(field).is_set() {
                let why = "may not be set for init containers without restartPolicy=Always";
                container.at(field).forbid(errors, why);
            }
        }
    }
    for list in &CONTAINERS[..2] {
        for container in spec.at(list).items() {
            container
                .at("restartPolicy")
                .one_of(errors, &["Always", "Never", "OnFailure"]);
        }
    }
}

/// What is mounted is a volume, and a sound one.
pub(super) fn mounts_have_volumes(spec: &Place<'_>, errors: &mut Errors) {
    let volumes = spec.at("volumes").items();
    let sound = |volume: &&Place<'_>| {
        let below = |error: &FieldError| {
            error
                .field()
                .strip_prefix(&*volume.path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        !errors.iter().any(below)
    };
    let sound: Vec<bool> = volumes.iter().map(|volume| sound(&volume)).collect();
    let mut known = BTreeSet::new();
    for (volume, sound) in volumes.iter().zip(sound) {
        let name = volume.at("name");
        if known.contains(name.text()) {
            name.duplicate(errors);
        } else if sound {
            known.insert(name.text());
        }
    }
    for list in CONTAINERS {
        for mount in spec
            .at(list)
            .items()
            .iter()
            .flat_map(|container| container.at("volumeMounts").items())
        {
            let name = mount.at("name");
            if !known.contains(name.text()) {
                errors.push(FieldError::not_found(name.path.clone(), name.text()));
            }
        }
    }
}

/// A template has labels and annotations like any object, and nothing ephemeral.
pub(super) fn template(template: &Place<'_>, errors: &mut Errors) {
    let labels = template.at("metadata").at("labels");
    Place {
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

pub(super) fn host_alias(alias: &Place<'_>, errors: &mut Errors) {
    let ip = alias.at("ip");
    ip.complain(errors, vocabulary::ip(ip.text()));
    for name in alias.at("hostnames").items() {
        name.complain(errors, names::dns_subdomain(name.text()));
    }
}

pub(super) fn dns_config(config: &Place<'_>, errors: &mut Errors) {
    let servers = config.at("nameservers");
    if servers.items().len() > 3 {
        servers.invalid(errors, "must not have more than 3 nameservers");
    }
    for server in servers.items() {
        server.complain(errors, vocabulary::ip(server.text()));
    }
    for option in config.at("options").items() {
        if option.at("name").is_empty() {
            option.require(errors, "must not be empty");
        }
    }
}
