//! What a ServiceGrid reports.

use edgegrid_api::names::{condition, reason};
use edgegrid_api::{ServiceGrid, ServiceGridStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::conditions::Conditions;
use crate::failure::{Failure, Trouble};
use crate::notice::Notice;
use crate::service_grid::Decision;
use crate::workload_grid::State;

/// What keeps the Service from being as wanted.
pub fn trouble(decision: &Decision, failure: Option<&Failure>) -> Option<Trouble> {
    match &decision.state {
        State::Held(trouble) => Some(trouble.clone()),
        State::Settled => None,
        _ => failure
            .filter(|failure| failure.matters())
            .map(|failure| failure.trouble.clone()),
    }
}

/// The status after a pass.
pub fn status(
    grid: &ServiceGrid,
    decision: &Decision,
    failure: Option<&Failure>,
    now: Timestamp,
) -> ServiceGridStatus {
    let earlier = grid.status.as_ref();
    let before = earlier.map_or(&[][..], |status| status.conditions.as_slice());
    let make = Conditions::new(before, grid.metadata.generation, now);
    let trouble = trouble(decision, failure);
    let service = decision.service.as_ref().filter(|_| {
        !matches!(&decision.state, State::Held(trouble) if trouble.reason == reason::NAME_TAKEN)
    });
    let balancer = service
        .and_then(|service| service.status.get("loadBalancer"))
        .filter(|balancer| {
            balancer
                .as_object()
                .is_some_and(|fields| !fields.is_empty())
        });
    ServiceGridStatus {
        service: service.and_then(|service| service.metadata.name.clone()),
        observed_generation: grid.metadata.generation,
        conditions: conditions(&make, decision, trouble.as_ref()),
        load_balancer: balancer.and_then(|balancer| serde_json::from_value(balancer.clone()).ok()),
        members: None,
    }
}

/// What people should hear.
pub fn warnings(decision: &Decision, failure: Option<&Failure>) -> Vec<Notice> {
    let troubles = trouble(decision, failure).into_iter();
    troubles
        .map(|trouble| Notice::warning(trouble.reason, trouble.message))
        .collect()
}

fn conditions(
    make: &Conditions<'_>,
    decision: &Decision,
    trouble: Option<&Trouble>,
) -> Vec<Condition> {
    let is_settled = decision.state == State::Settled;
    let (reason, message) = match trouble {
        Some(trouble) => (trouble.reason, trouble.message.clone()),
        None if is_settled => (
            reason::AS_WANTED,
            "the Service is as the grid asks for".to_owned(),
        ),
        None => (
            reason::ROLLING_OUT,
            "the Service is being written".to_owned(),
        ),
    };
    let mut conditions = vec![
        make.make(condition::READY, is_settled, reason, message.clone()),
        match trouble {
            Some(trouble) => make.make(condition::DEGRADED, true, trouble.reason, message.clone()),
            None => make.make(
                condition::DEGRADED,
                false,
                reason::AS_WANTED,
                "nothing fails",
            ),
        },
    ];
    let special = [
        (condition::NAME_TAKEN, reason::NAME_TAKEN),
        (condition::IMMUTABLE, reason::IMMUTABLE),
        (condition::NOT_APPLICABLE, reason::NOT_APPLICABLE),
        (condition::SUPEREDGE_RUNNING, reason::SUPEREDGE_RUNNING),
    ];
    let found = special
        .iter()
        .find(|(_, reason)| trouble.is_some_and(|trouble| trouble.reason == *reason));
    conditions.extend(found.map(|(type_, reason)| make.make(type_, true, reason, message)));
    conditions.extend(decision.malformed.as_ref().map(|trouble| {
        make.make(
            condition::TOPOLOGY_KEYS_MALFORMED,
            true,
            trouble.reason,
            trouble.message.clone(),
        )
    }));
    conditions
}
