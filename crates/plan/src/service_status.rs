//! What a ServiceGrid reports.

use edgegrid_api::names::{condition, reason};
use edgegrid_api::{ServiceGrid, ServiceGridStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::conditions::Conditions;
use crate::failure::{Failure, Problem};
use crate::grid_state::State;
use crate::notice::Notice;
use crate::service_grid::Decision;

/// What keeps the Service from being as wanted.
pub fn problem(decision: &Decision, failure: Option<&Failure>) -> Option<Problem> {
    match &decision.state {
        State::Blocked(problem) => Some(problem.clone()),
        State::Settled => None,
        _ => failure
            .filter(|failure| failure.is_reportable())
            .map(|failure| failure.problem.clone()),
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
    let problem = problem(decision, failure);
    let service = decision.service.as_ref().filter(|_| {
        !matches!(&decision.state, State::Blocked(problem) if problem.reason == reason::NAME_TAKEN)
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
        conditions: conditions(&make, decision, problem.as_ref()),
        load_balancer: balancer.and_then(|balancer| serde_json::from_value(balancer.clone()).ok()),
        members: None,
    }
}

/// The warnings that are published as events.
pub fn warnings(decision: &Decision, failure: Option<&Failure>) -> Vec<Notice> {
    let problems = problem(decision, failure).into_iter();
    problems
        .map(|problem| Notice::warning(problem.reason, problem.message))
        .collect()
}

fn conditions(
    make: &Conditions<'_>,
    decision: &Decision,
    problem: Option<&Problem>,
) -> Vec<Condition> {
    let is_settled = decision.state == State::Settled;
    let (reason, message) = match problem {
        Some(problem) => (problem.reason, problem.message.clone()),
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
        match problem {
            Some(problem) => make.make(condition::DEGRADED, true, problem.reason, message.clone()),
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
        .find(|(_, reason)| problem.is_some_and(|problem| problem.reason == *reason));
    conditions.extend(found.map(|(type_, reason)| make.make(type_, true, reason, message)));
    conditions.extend(decision.malformed.as_ref().map(|problem| {
        make.make(
            condition::TOPOLOGY_KEYS_MALFORMED,
            true,
            problem.reason,
            problem.message.clone(),
        )
    }));
    conditions
}
