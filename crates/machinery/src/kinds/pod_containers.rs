//! What holds between the containers of a pod and the rest of it.

use super::check::{Errors, FieldValue};
use super::vocabulary::nanos;
use crate::names;
use crate::status::FieldError;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The lists of containers, in the order in which names are claimed.
pub(super) const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Ways to ask a container how it is, and to tell it.
const HANDLERS: [&str; 4] = [
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
];

/// What a container that was added for debugging may say.
const EPHEMERAL: &[&str] = &[
    "name",
    "image",
    "command",
    "args",
    "workingDir",
    "envFrom",
    "env",
    "volumeMounts",
    "volumeDevices",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "securityContext",
    "stdin",
    "stdinOnce",
    "targetContainerName",
    "tty",
];

/// What containers find in their pod.
struct Pod<'a> {
    spec: &'a FieldValue<'a>,
    /// Volumes without errors, by their names.
    volumes: BTreeMap<&'a str, &'a Value>,
    claims: BTreeSet<&'a str>,
}

/// Checks all containers; errors inside of the volumes are known by now.
pub(super) fn check(spec: &FieldValue<'_>, errors: &mut Errors) {
    let claims = spec.at("resourceClaims").items();
    let pod = Pod {
        spec,
        volumes: sound_volumes(spec, errors),
        claims: claims.iter().map(|claim| claim.at("name").text()).collect(),
    };
    for list in CONTAINERS {
        for container in spec.at(list).items() {
            pod.volumes_are_there(&container, errors);
            pod.claims_are_there(&container.at("resources"), errors);
            pod.resize_policies(&container, errors);
            match list {
                "containers" => pod.sleeps_end(&container, errors),
                "initContainers" => pod.init_container(&container, errors),
                _ => pod.ephemeral_container(&container, errors),
            }
            if list != "ephemeralContainers" {
                restart_policy(&container, errors);
            }
        }
    }
    let resources = spec.at("resources");
    if resources.at("claims").is_set() {
        resources
            .at("claims")
            .forbid(errors, "may not be set for a pod");
    }
    pod.claims_are_there(&resources, errors);
    pod.resources_suffice(&resources, errors);
}

/// Volumes without an error, by name; a name is taken by the first of them.
fn sound_volumes<'a>(spec: &FieldValue<'a>, errors: &mut Errors) -> BTreeMap<&'a str, &'a Value> {
    let mut sound = BTreeMap::new();
    for volume in spec.at("volumes").items() {
        let below = |error: &FieldError| {
            let rest = error.field().strip_prefix(&*volume.path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let name = volume.at("name");
        if sound.contains_key(name.text()) {
            name.duplicate(errors);
        } else if !errors.iter().any(below) {
            sound.insert(name.text(), volume.value);
        }
    }
    sound
}

/// Rules of restarting come with a policy.
fn restart_policy(container: &FieldValue<'_>, errors: &mut Errors) {
    let (policy, rules) = (
        container.at("restartPolicy"),
        container.at("restartPolicyRules"),
    );
    let is_init = container.path.contains("initContainers[");
    match policy.text() {
        _ if !policy.is_set() => {
            if !rules.is_empty() {
                policy.require(errors, "must be specified when restart rules are used");
                // Nothing more is said of the rules of an init container then.
                let below = format!("{}[", rules.path);
                errors.retain(|error| !(is_init && error.field().starts_with(&below)));
            }
        }
        "Always" | "Never" | "OnFailure" => {}
        _ => policy.unsupported(errors, &["Always", "Never", "OnFailure"]),
    }
}

impl Pod<'_> {
    fn volumes_are_there(&self, container: &FieldValue<'_>, errors: &mut Errors) {
        for name in container
            .at("volumeMounts")
            .items()
            .iter()
            .map(|mount| mount.at("name"))
        {
            if !self.volumes.contains_key(name.text()) {
                errors.push(FieldError::not_found(&*name.path, name.text()));
            }
        }
        for name in container
            .at("volumeDevices")
            .items()
            .iter()
            .map(|device| device.at("name"))
        {
            match self.volumes.get(name.text()) {
                None => errors.push(FieldError::not_found(&*name.path, name.text())),
                Some(volume)
                    if volume["persistentVolumeClaim"].is_null()
                        && volume["ephemeral"].is_null() =>
                {
                    name.invalid(errors, "only a claim can be used as a block device");
                }
                Some(_) => {}
            }
        }
        self.files_are_empty_dirs(container, errors);
    }

    /// Variables come from files of volumes that start empty, sound or not.
    fn files_are_empty_dirs(&self, container: &FieldValue<'_>, errors: &mut Errors) {
        let volumes = self.spec.at("volumes").items();
        for variable in container.at("env").items() {
            let file = variable.at("valueFrom").at("fileKeyRef");
            let name = file.at("volumeName");
            let volume = volumes
                .iter()
                .rev()
                .find(|volume| volume.at("name").text() == name.text());
            match volume {
                _ if !file.is_set() => {}
                None => errors.push(FieldError::not_found(&*name.path, name.text())),
                Some(volume) if !volume.at("emptyDir").is_set() => {
                    name.invalid(errors, "must be a volume of type emptyDir");
                }
                Some(_) => {}
            }
        }
    }

    fn claims_are_there(&self, resources: &FieldValue<'_>, errors: &mut Errors) {
        let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
        for claim in resources.at("claims").items() {
            let (name, request) = (claim.at("name").text(), claim.at("request"));
            if name.is_empty() {
                claim.require(errors, "");
                continue;
            }
            let whole = seen.contains(&(name, ""));
            if !whole && !request.is_empty() {
                request.complain(errors, names::dns_label(request.text()));
            }
            let overlaps = |other: &&(&str, &str)| other.0 == name && request.is_empty();
            if whole
                || seen.iter().any(|other| overlaps(&other))
                || !seen.insert((name, request.text()))
            {
                claim.duplicate(errors);
            }
            if !self.claims.contains(name) {
                errors.push(FieldError::not_found(&*claim.path, name));
            }
        }
    }

    fn resize_policies(&self, container: &FieldValue<'_>, errors: &mut Errors) {
        const POLICIES: &[&str] = &["NotRequired", "RestartContainer"];
        let list = container.at("resizePolicy");
        let mut seen = BTreeSet::new();
        for policy in list.items() {
            let at_list = |field: &str| FieldValue {
                path: list.path.clone(),
                ..policy.at(field)
            };
            let (resource, restart) = (at_list("resourceName"), at_list("restartPolicy"));
            if !seen.insert(resource.text()) {
                policy.duplicate(errors);
            }
            if resource.needed(errors) {
                resource.one_of(errors, &["cpu", "memory"]);
            }
            if restart.needed(errors) {
                restart.one_of(errors, POLICIES);
            }
            let never = self.spec.at("restartPolicy").text() == "Never";
            if never && restart.text() != "NotRequired" {
                restart.invalid(errors, "must be 'NotRequired' in a pod that never restarts");
            }
        }
    }

    /// Only init containers that keep running can be asked how they are.
    fn init_container(&self, container: &FieldValue<'_>, errors: &mut Errors) {
        if container.at("restartPolicy").text() == "Always" {
            return self.sleeps_end(container, errors);
        }
        let why = "may not be set for init containers without restartPolicy=Always";
        for handler in HANDLERS.map(|field| container.at(field)) {
            forbid_all(&handler, why, errors);
        }
        for policy in container.at("resizePolicy").items() {
            let restart = policy.at("restartPolicy");
            if restart.text() == "RestartContainer" {
                restart.invalid(errors, "only for init containers with restartPolicy=Always");
            }
        }
    }

    /// Nothing that the pod relies on.
    fn ephemeral_container(&self, container: &FieldValue<'_>, errors: &mut Errors) {
        let why = "cannot be set for an Ephemeral Container";
        let fields = container.keys().filter(|field| !EPHEMERAL.contains(field));
        for field in fields.map(|field| container.at(field)) {
            if HANDLERS.iter().any(|handler| field.path.ends_with(handler)) {
                forbid_all(&field, why, errors);
            } else if !field.is_empty() {
                field.forbid(errors, why);
            }
        }
        for mount in container.at("volumeMounts").items() {
            for path in ["subPath", "subPathExpr"].map(|field| mount.at(field)) {
                if !path.is_empty() {
                    path.forbid(errors, why);
                }
            }
        }
        let target = container.at("targetContainerName");
        let is_target = |list: &&str| {
            let containers = self.spec.at(list).items();
            containers
                .iter()
                .any(|other| other.at("name").text() == target.text())
        };
        if !target.is_empty() && !CONTAINERS[..2].iter().any(is_target) {
            errors.push(FieldError::not_found(&*target.path, target.text()));
        }
    }

    /// A handler that only waits ends before its pod must.
    fn sleeps_end(&self, container: &FieldValue<'_>, errors: &mut Errors) {
        let grace = self.spec.at("terminationGracePeriodSeconds");
        for hook in ["postStart", "preStop"] {
            let hook = container.at("lifecycle").at(hook);
            let sleep = hook.at("sleep");
            let others = ["exec", "httpGet", "tcpSocket"];
            let is_first = !others.iter().any(|other| hook.at(other).is_set());
            let seconds = sleep.at("seconds").number();
            if sleep.is_set()
                && is_first
                && grace.is_set()
                && !(0..=grace.number()).contains(&seconds)
            {
                sleep.invalid(
                    errors,
                    "must be non-negative and less than the grace of the pod",
                );
            }
        }
    }

    /// What the pod asks for and may have covers what its containers do.
    fn resources_suffice(&self, resources: &FieldValue<'_>, errors: &mut Errors) {
        let requests = resources.at("requests");
        for name in requests.keys() {
            let request = requests.key(name);
            if requested(self.spec, name) > nanos(request.value) {
                request.invalid(errors, "must cover what the containers request");
            }
        }
        let limits = resources.at("limits");
        for (index, container) in self.spec.at("containers").items().iter().enumerate() {
            let own = container.at("resources").at("limits");
            for name in own.keys().filter(|name| limits.key(name).is_set()) {
                if nanos(own.key(name).value) > nanos(limits.key(name).value) {
                    let path = format!("{}.containers[{index}][{name}].limits", resources.path);
                    let why = "must be less than or equal to the limit of the pod";
                    errors.push(FieldError::invalid(path, own.key(name).value.clone(), why));
                }
            }
        }
    }
}

/// What the containers of a pod ask for together: those that keep running, or more while one starts.
pub(super) fn requested(spec: &FieldValue<'_>, resource: &str) -> i128 {
    let own = |container: &FieldValue<'_>| {
        nanos(container.at("resources").at("requests").key(resource).value)
    };
    let mut running = 0;
    let mut most = 0;
    for container in spec.at("initContainers").items() {
        if container.at("restartPolicy").text() == "Always" {
            running += own(&container);
            most = most.max(running);
        } else {
            most = most.max(running + own(&container));
        }
    }
    let main: i128 = spec.at("containers").items().iter().map(own).sum();
    most.max(running + main)
}

/// Reports that a field may not be here, instead of what is wrong inside of it.
fn forbid_all(field: &FieldValue<'_>, why: &str, errors: &mut Errors) {
    if !field.is_set() {
        return;
    }
    let below = format!("{}.", field.path);
    errors.retain(|error| error.field() != field.path && !error.field().starts_with(&below));
    field.forbid(errors, why);
}
