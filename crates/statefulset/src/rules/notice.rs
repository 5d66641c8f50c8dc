//! The events that users see, word for word as Kubernetes' own controller writes them.

use super::set::Set;
use crate::names;

/// An event about a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Whether somebody should look.
    pub is_warning: bool,
    /// Why, in one word for machines.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
}

/// What was done to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// The pod was created.
    Create,
    /// The pod or its claims were changed.
    Update,
    /// The pod was deleted.
    Delete,
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Verb::Create => "Create",
            Verb::Update => "Update",
            Verb::Delete => "Delete",
        }
    }
}

/// The event about a write to a pod; with an error it failed.
pub fn pod_notice(set: &Set, verb: Verb, pod: &str, error: Option<&str>) -> Notice {
    let (verb, name) = (verb.word(), &set.name);
    match error {
        None => normal(
            verb,
            format!("{verb} Pod {pod} in StatefulSet {name} successful"),
        ),
        Some(error) => failed(
            verb,
            format!("{verb} Pod {pod} in StatefulSet {name} failed error: {error}"),
        ),
    }
}

/// The event about a new claim; with an error its creation failed.
pub fn claim_notice(set: &Set, claim: &str, pod: &str, error: Option<&str>) -> Notice {
    let (verb, name) = (Verb::Create.word(), &set.name);
    match error {
        None => normal(
            verb,
            format!("{verb} Claim {claim} Pod {pod} in StatefulSet {name} success"),
        ),
        Some(error) => failed(
            verb,
            format!(
                "{verb} Claim {claim} for Pod {pod} in StatefulSet {name} failed error: {error}"
            ),
        ),
    }
}

/// A claim whose owners we leave alone.
pub(super) fn conflicting_controller(claim: &str) -> Notice {
    let message = format!(
        "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a managing controller, \
         the retention policy is ignored for this claim"
    );
    warning(names::CONFLICTING_CONTROLLER, message)
}

/// A strategy of a later Kubernetes.
pub(super) fn unknown_strategy(strategy: &str) -> Notice {
    warning(
        names::UNKNOWN_STRATEGY,
        format!("Update strategy {strategy} is not known; pods are not updated"),
    )
}

/// The event about another controller that does our work.
pub fn foreign_controller(manager: &str) -> Notice {
    let message = format!(
        "{manager} acts on this StatefulSet too; pausing until it stops. Run only one of the two: \
         start kube-controller-manager with --controllers=*,-statefulset-controller"
    );
    warning(names::FOREIGN_CONTROLLER, message)
}

fn normal(verb: &str, message: String) -> Notice {
    Notice {
        is_warning: false,
        reason: format!("Successful{verb}"),
        message,
    }
}

fn failed(verb: &str, message: String) -> Notice {
    warning(&format!("Failed{verb}"), message)
}

fn warning(reason: &str, message: String) -> Notice {
    Notice {
        is_warning: true,
        reason: reason.to_owned(),
        message,
    }
}
