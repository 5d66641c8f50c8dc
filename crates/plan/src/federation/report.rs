//! What a member reports to the control cluster about a copy: the status of its own grid, and whether that is as the
//! copy says.

use edgegrid_api::names::{annotation, condition, reason};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::{GridObject, annotation_of, member_grid};
use crate::conditions::Conditions;
use crate::failure::Problem;

/// How the member stands to a copy.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing<'a> {
    /// It has the grid.
    Has(&'a GridObject),
    /// None of its nodes has the grid's key.
    NoUnits,
    /// Something keeps it from having the grid.
    Blocked(&'a Problem),
    /// It had the grid, and no longer has.
    Removed,
}

/// The status of a copy; `None` while the member is still at it, so that one change costs one report.
pub fn status(
    copy: &GridObject,
    mirror: Option<&GridObject>,
    standing: &Standing<'_>,
    now: Timestamp,
) -> Option<Value> {
    let generation = copy.metadata.generation;
    let before = conditions_of(&copy.status);
    let make = Conditions::new(&before, generation, now);
    let in_step =
        |is_so, reason, message: String| make.make(condition::IN_STEP, is_so, reason, message);
    let mut status = json!({});
    let own = match standing {
        Standing::Has(grid) => {
            if !has_caught_up(grid, mirror?) {
                return None;
            }
            status = grid.status.clone();
            in_step(true, reason::AS_WANTED, "the member has the grid".into())
        }
        Standing::NoUnits => {
            let key = copy.grid_key().unwrap_or_default();
            let message = format!("no node of the member has the label {key}");
            in_step(true, reason::NO_UNITS, message)
        }
        Standing::Blocked(problem) => in_step(false, problem.reason, problem.message.clone()),
        Standing::Removed => make.make(
            condition::REMOVED,
            true,
            reason::REMOVED,
            "the member no longer has the grid",
        ),
    };
    let mut conditions: Vec<Condition> = conditions_of(&status);
    // This condition tells the member's own people of the link; it is no news to the control cluster.
    conditions.retain(|found| found.type_ != condition::IN_STEP);
    for condition in &mut conditions {
        condition.observed_generation = generation;
    }
    conditions.push(own);
    if let Some(fields) = status.as_object_mut() {
        fields.remove("members");
    }
    status["conditions"] = json!(conditions);
    status["observedGeneration"] = json!(generation);
    Some(status)
}

/// Whether the member's grid is as the mirror says, and its status is about that.
fn has_caught_up(grid: &GridObject, mirror: &GridObject) -> bool {
    let wanted = member_grid::render_grid(mirror);
    let is_written =
        annotation_of(&grid.metadata, annotation::APPLIED) == Some(wanted.digest.as_str());
    let observed = grid.status["observedGeneration"].as_i64();
    is_written && observed.is_some() && observed == grid.metadata.generation
}

fn conditions_of(status: &Value) -> Vec<Condition> {
    serde_json::from_value(status["conditions"].clone()).unwrap_or_default()
}
