//! DELETE: removes an object, or marks it while a finalizer or a grace period keeps it.

use std::collections::BTreeSet;

use edgegrid_machinery::metadata;
use edgegrid_machinery::metadata::{
    Preconditions, Propagation, mark_deleted, propagation_finalizers, shorten_grace,
};
use edgegrid_machinery::status::{FieldError, Status};
use edgegrid_store::{CommitError, Expect};
use http::StatusCode;
use serde_json::{Value, json};

use crate::admission::Operation;
use crate::answer::{Answer, Content};
use crate::options::{dry_run, invalid, unsupported};
use crate::request::{Live, Request};
use crate::{body, crds, namespaces, storage};

/// Resources whose answer to a delete is the object, not a status.
const SHOWS_DELETED: [&str; 7] = [
    "pods",
    "services",
    "serviceaccounts",
    "persistentvolumeclaims",
    "persistentvolumes",
    "podtemplates",
    "resourcequotas",
];

/// Resources that own nothing, so that no policy for dependents applies.
const NOBODY_DEPENDS_ON: [&str; 1] = ["events"];

/// What a delete request asks for, from its body or its query.
#[derive(Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) grace: Option<i64>,
    pub(crate) dry_run: bool,
    pub(crate) policy: Option<Propagation>,
    /// The older form of the policy, as it was asked.
    pub(crate) orphan: Option<bool>,
}

pub(crate) fn delete(request: &mut Request<'_>) -> Result<Answer, Status> {
    let options = read_options(request)?;
    delete_object(request, &options)
}

/// Removes the object named by the request.
pub(crate) fn delete_object(
    request: &Request<'_>,
    options: &DeleteOptions,
) -> Result<Answer, Status> {
    request.retried(|| {
        let live = request.live(request.name())?;
        let preconditions = Preconditions {
            uid: options.uid.as_deref(),
            resource_version: options.resource_version.as_deref(),
        };
        // Upstream names the kind here where others name the resource, but for namespaces.
        let served = &request.served;
        let named = match &*served.read.plural {
            "namespaces" => served.group_resource(),
            _ => served.group_kind(),
        };
        preconditions.check(&live.object, &named)?;
        request.admit(Operation::Delete, Some(&live.object), &mut Value::Null)?;
        storage::committed(delete_live(request, &live, options))
    })
}

fn delete_live(
    request: &Request<'_>,
    live: &Live,
    options: &DeleteOptions,
) -> Result<Answer, CommitError> {
    let mut object = live.object.clone();
    let mut expect = Expect::Revision(live.entry.revision());
    let left = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let is_pending = |left: i64| left > 0 && options.grace.is_none_or(|asked| asked >= left);
    let is_graceful = request
        .served
        .strategy
        .grace(&object, options.grace)
        .is_some();
    if namespaces::is_ending(request, &object) || (is_graceful && left.is_some_and(is_pending)) {
        // It ends as it was asked to before.
        return Ok(Answer::ok(Content::Stored(live.entry.clone())));
    }
    if !NOBODY_DEPENDS_ON.contains(&&*request.served.read.plural) {
        set_finalizers(&mut object, options.policy);
    }
    crds::prepare_delete(request, &mut object);
    let grace = request
        .served
        .strategy
        .grace(&object, options.grace)
        .unwrap_or(0);
    let stamp = request.server.clock.stamp_in(grace);
    let was_marked = !object["metadata"]["deletionTimestamp"].is_null();
    if was_marked {
        shorten_grace(&mut object, &stamp, grace);
    } else {
        mark_deleted(&mut object, &stamp, grace);
    }
    namespaces::prepare_delete(request, &mut object);
    if metadata::is_removable(&object) && namespaces::is_finalized(request, &object) {
        // What could have had time to end is marked first, so that watchers see it end.
        if is_graceful
            && object != live.object
            && let Content::Stored(marked) = storage::put(request, request.name(), &object, expect)?
        {
            expect = Expect::Revision(marked.revision());
        }
        // What has no time to end by itself is shown as it was.
        let last = if is_graceful { &object } else { &live.object };
        let content = storage::remove(request, last, expect)?;
        return Ok(removed(request, &object, content));
    }
    if object == live.object {
        return Ok(Answer::ok(Content::Stored(live.entry.clone())));
    }
    let content = storage::put(request, request.name(), &object, expect)?;
    if crds::is_crd(request) && !request.options.dry_run {
        delete_instances(request, &object);
    }
    // 202 is only for the deprecated `orphanDependents: false`, as in the reference server.
    let code = if options.orphan == Some(false) {
        StatusCode::ACCEPTED
    } else {
        StatusCode::OK
    };
    Ok(Answer {
        code,
        ..Answer::ok(content)
    })
}

/// Removes the objects of a definition that is being deleted, and the definition after the last.
fn delete_instances(request: &Request<'_>, crd: &Value) {
    for instance in crds::instances(request, crd) {
        if let Err(status) = delete_object(&instance, &DeleteOptions::default()) {
            tracing::warn!(
                key = instance.key(instance.name()),
                "cannot delete object of a CustomResourceDefinition that is being deleted: {}",
                status.message()
            );
        }
    }
    storage::finalize_definition(request, metadata::name(crd));
}

fn removed(request: &Request<'_>, object: &Value, content: Content) -> Answer {
    let plural = &*request.served.read.plural;
    if request.served.read.group.is_empty() && SHOWS_DELETED.contains(&plural) {
        return Answer::ok(content);
    }
    let text = |field: &str| {
        object["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let resource = request.served.group_resource();
    Answer::ok(Content::Status(Status::deleted(
        &resource,
        &text("name"),
        &text("uid"),
    )))
}

fn set_finalizers(object: &mut Value, policy: Option<Propagation>) {
    let old: Vec<String> = object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    let new = propagation_finalizers(&old, policy);
    if BTreeSet::from_iter(&new) == BTreeSet::from_iter(&old) {
        return;
    }
    let metadata = &mut object["metadata"];
    crate::served::set_field(
        metadata,
        "finalizers",
        (!new.is_empty()).then(|| json!(new)).as_ref(),
    );
}

/// What is asked for: by the body if there is one, else by the query.
pub(crate) fn read_options(request: &mut Request<'_>) -> Result<DeleteOptions, Status> {
    let query = &mut request.options;
    let mut options = DeleteOptions {
        grace: query.grace_period_seconds,
        ..DeleteOptions::default()
    };
    let mut policy = query.propagation_policy.clone();
    let mut orphan = query.orphan_dependents;
    let mut errors = Vec::new();
    if !request.body.is_empty() {
        let body = body::object(&request.body, &request.media_type)?.value;
        options = DeleteOptions::from_json(&body, &mut errors);
        query.dry_run |= options.dry_run;
        policy = body["propagationPolicy"].as_str().map(str::to_owned);
        orphan = body["orphanDependents"].as_bool();
    }
    let policy = policy.as_deref();
    if let (Some(policy), Some(_)) = (policy, orphan) {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid("propagationPolicy", policy, why));
    }
    options.policy = match (policy, orphan) {
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (Some(other), _) => {
            let known = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(unsupported("propagationPolicy", other, &known));
            None
        }
        (None, None) => None,
    };
    options.orphan = orphan;
    if errors.is_empty() {
        Ok(options)
    } else {
        Err(invalid("DeleteOptions", &errors))
    }
}

impl DeleteOptions {
    /// The `DeleteOptions` of a body, but for its policy.
    pub(crate) fn from_json(options: &Value, errors: &mut Vec<FieldError>) -> Self {
        let dry_runs = options["dryRun"].as_array().into_iter().flatten();
        let dry_runs: Vec<&str> = dry_runs.filter_map(Value::as_str).collect();
        errors.extend(dry_runs.iter().filter_map(|value| dry_run(value)));
        let text = |field: &str| {
            let value = options["preconditions"][field].as_str();
            value.map(str::to_owned)
        };
        Self {
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            grace: options["gracePeriodSeconds"].as_i64(),
            dry_run: !dry_runs.is_empty(),
            ..Self::default()
        }
    }
}
