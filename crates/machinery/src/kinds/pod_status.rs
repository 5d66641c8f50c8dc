//! What kubelets may say of pods.

use super::check::{Errors, FieldValue};
use super::vocabulary::{self, between};
use crate::names;
use crate::status::FieldError;
use serde_json::Value;
use std::collections::BTreeSet;

/// Lists of statuses, each with the list of containers it is about.
const LISTS: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];

pub(super) fn check(pod: &Value, old: &Value, errors: &mut Errors) {
    let (root, before) = (FieldValue::root(pod), FieldValue::root(old));
    let (spec, status) = (root.at("spec"), root.at("status"));
    conditions(&status.at("conditions"), errors);
    for (list, containers) in LISTS {
        let containers = spec.at(containers).items();
        let statuses = status.at(list);
        stay_terminated(
            &statuses,
            &before.at("status").at(list),
            &spec,
            &containers,
            errors,
        );
        for container in statuses.items() {
            users(&container, spec.at("os").at("name").text(), errors);
            let allocated = container.at("allocatedResourcesStatus");
            if list != "ephemeralContainerStatuses" {
                devices(&container, &containers, errors);
            } else if !allocated.is_empty() {
                allocated.forbid(errors, "must not be specified in container status");
            }
        }
    }
    claims(&spec, &status, errors);
    extended_claim(&spec, &status.at("extendedResourceClaimStatus"), errors);
    addresses(&status, "podIPs", "podIP", errors);
    addresses(&status, "hostIPs", "hostIP", errors);
    let nominated = status.at("nominatedNodeName");
    let was = before.at("status").at("nominatedNodeName");
    let is_bound = !before.at("spec").at("nodeName").is_empty();
    if is_bound && !nominated.is_empty() && nominated.text() != was.text() {
        nominated.forbid(errors, "may not be set on pods that are bound to a node");
    }
}

fn conditions(conditions: &FieldValue<'_>, errors: &mut Errors) {
    for condition in conditions.items() {
        condition.at("observedGeneration").not_negative(errors);
        let kind = condition.at("type");
        let complaints = names::qualified_name(kind.text()).into_iter();
        let path = condition.at("Type").path;
        errors.extend(complaints.map(|why| FieldError::invalid(&*path, kind.text(), why)));
    }
}

/// What has ended and may not start again stays ended.
fn stay_terminated(
    now: &FieldValue<'_>,
    before: &FieldValue<'_>,
    spec: &FieldValue<'_>,
    containers: &[FieldValue<'_>],
    errors: &mut Errors,
) {
    for old in before.items() {
        let ended = old.at("state").at("terminated");
        let same = |other: &&FieldValue<'_>| other.at("name").text() == old.at("name").text();
        let runs = |new: &FieldValue<'_>| same(&new) && !new.at("state").at("terminated").is_set();
        let runs = now.items().iter().any(runs);
        let container = containers.iter().find(same);
        let restarts = container
            .is_some_and(|container| may_restart(container, spec, ended.at("exitCode").number()));
        if ended.is_set() && runs && !restarts {
            old.at("state")
                .forbid(errors, "may not be transitioned to non-terminated state");
        }
    }
}

fn may_restart(container: &FieldValue<'_>, spec: &FieldValue<'_>, code: i64) -> bool {
    let matching = container
        .at("restartPolicyRules")
        .items()
        .into_iter()
        .find(|rule| {
            let codes = rule.at("exitCodes");
            let named = codes
                .at("values")
                .items()
                .iter()
                .any(|value| value.number() == code);
            codes.is_set() && named == (codes.at("operator").text() == "In")
        });
    let own = container.at("restartPolicy");
    let policy = if own.is_set() {
        own
    } else {
        spec.at("restartPolicy")
    };
    matching.is_some()
        || match policy.text() {
            "Always" => true,
            "OnFailure" => code != 0,
            _ => false,
        }
}

fn users(status: &FieldValue<'_>, system: &str, errors: &mut Errors) {
    let user = status.at("user").at("linux");
    if !user.is_set() {
        return;
    }
    if system == "windows" {
        return user.forbid(errors, "cannot be set for a windows pod");
    }
    let (most, most_user) = (i64::from(i32::MAX), i64::from(u32::MAX));
    let id = user.at("uid");
    id.complain(errors, between(id.number(), 0, most_user));
    let groups = user.at("supplementalGroups").items();
    for group in groups.into_iter().chain([user.at("gid")]) {
        group.complain(errors, between(group.number(), 0, most));
    }
}

/// Devices belong to what the container asked for, and each is reported once.
fn devices(status: &FieldValue<'_>, containers: &[FieldValue<'_>], errors: &mut Errors) {
    let same = |other: &&FieldValue<'_>| other.at("name").text() == status.at("name").text();
    let container = containers.iter().find(same);
    for allocated in status.at("allocatedResourcesStatus").items() {
        let name = allocated.at("name");
        let is_asked = |container: &FieldValue<'_>| {
            let resources = container.at("resources");
            let claims = resources.at("claims").items();
            match name.text().strip_prefix("claim:") {
                None => resources.at("requests").key(name.text()).is_set(),
                Some(wanted) => claims.iter().any(|claim| {
                    let (claim, request) = (claim.at("name").text(), claim.at("request").text());
                    wanted == claim && request.is_empty() || wanted == format!("{claim}/{request}")
                }),
            }
        };
        if container.is_some_and(|container| !is_asked(container)) {
            name.invalid(errors, "must match what the container requests");
        }
        let mut seen = BTreeSet::new();
        for device in allocated.at("resources").items() {
            let (health, id) = (device.at("health"), device.at("resourceID"));
            if !["Healthy", "Unhealthy", "Unknown"].contains(&health.text()) {
                health.unsupported(errors, &["Healthy", "Unhealthy", "Unknown"]);
            }
            let message = device.at("message");
            if message.is_set() && message.is_empty() {
                message.require(errors, "must be non-empty if specified");
            }
            if !seen.insert(id.text()) {
                id.duplicate(errors);
            }
        }
    }
}

fn claims(spec: &FieldValue<'_>, status: &FieldValue<'_>, errors: &mut Errors) {
    let asked = spec.at("resourceClaims").items();
    let mut seen = BTreeSet::new();
    for claim in status.at("resourceClaimStatuses").items() {
        let (name, object) = (claim.at("name"), claim.at("resourceClaimName"));
        if !asked
            .iter()
            .any(|claim| claim.at("name").text() == name.text())
        {
            name.invalid(
                errors,
                "must match the name of an entry in `spec.resourceClaims`",
            );
        }
        if !seen.insert(name.text()) {
            name.duplicate(errors);
        }
        if object.is_set() {
            object.complain(errors, names::dns_subdomain(object.text()));
        }
    }
}

fn extended_claim(spec: &FieldValue<'_>, claim: &FieldValue<'_>, errors: &mut Errors) {
    if !claim.is_set() {
        return;
    }
    let containers = ["containers", "initContainers"]
        .map(|list| spec.at(list).items())
        .concat();
    let mappings = claim.at("requestMappings");
    mappings.needed(errors);
    let mut seen = BTreeSet::new();
    for mapping in mappings.items() {
        let fields =
            ["containerName", "resourceName", "requestName"].map(|field| mapping.at(field));
        let [container, resource, request] = &fields;
        let owner = containers
            .iter()
            .find(|owner| owner.at("name").text() == container.text());
        match owner.map(|owner| {
            owner
                .at("resources")
                .at("requests")
                .key(resource.text())
                .is_set()
        }) {
            None => container.invalid(errors, "must match the name of a container"),
            Some(false) => resource.invalid(errors, "must match a request of the container"),
            Some(true) => {}
        }
        let path = claim.at("requestName").path;
        let complaints = names::dns_label(request.text()).into_iter();
        errors.extend(complaints.map(|why| FieldError::invalid(&*path, request.text(), why)));
        if !seen.insert(fields.clone().map(|field| field.text().to_owned())) {
            for field in &fields {
                field.duplicate(errors);
            }
        }
    }
    let name = claim.at("resourceClaimName");
    if name.needed(errors) {
        name.dns_subdomain(errors);
    }
}

/// The one address is the first of all, and of each family there is one.
fn addresses(status: &FieldValue<'_>, all: &str, one: &str, errors: &mut Errors) {
    let (all, one) = (status.at(all), status.at(one));
    let items = all.items();
    for item in &items {
        let ip = item.at("ip");
        item.complain(errors, vocabulary::ip(ip.text()));
    }
    let is_six = |item: &FieldValue<'_>| item.at("ip").text().contains(':');
    if items.len() > 2 || (items.len() == 2 && is_six(&items[0]) == is_six(&items[1])) {
        all.invalid(errors, "may specify no more than one IP for each IP family");
    }
    if let Some(first) = items.first().map(|item| item.at("ip"))
        && first.text() != one.text()
    {
        first.invalid(errors, "must be the one address");
    }
}
