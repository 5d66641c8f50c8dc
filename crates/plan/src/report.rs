//! The events of a pass: one notice per kind of problem, one summary of what was done.

use std::collections::{BTreeMap, BTreeSet};

use edgegrid_api::names::reason;

use crate::conditions::listed;
use crate::failure::Problem;
use crate::grid_state::{Decision, State};
use crate::grid_status::describe;
use crate::notice::Notice;
use crate::rollout::WaitReason;
use crate::unreachable;

/// A warning for each kind of problem, however many units have it; the same words as long as the
/// same units do, so that it is published once per change.
pub fn warnings(decision: &Decision, problems: &BTreeMap<String, Problem>) -> Vec<Notice> {
    let reasons: BTreeSet<&'static str> = problems.values().map(|problem| problem.reason).collect();
    let mut warnings: Vec<Notice> = reasons
        .into_iter()
        .map(|reason| Notice::warning(reason, describe(reason, problems)))
        .collect();
    let unreachable = unreachable::describe(&decision.unreachable);
    warnings.extend(unreachable.map(|message| Notice::warning(reason::NODE_UNREACHABLE, message)));
    if let Some(WaitReason::Stopped(late)) = &decision.batch.wait_reason {
        let late = listed(late.iter().map(String::as_str));
        let message = format!(
            "the rollout stops: {late} got the new template and did not become Available in time; {} more units keep \
             what they have",
            decision.batch.waiting.len()
        );
        warnings.push(Notice::warning(reason::ROLLOUT_STOPPED, message));
    }
    warnings
}

/// One summary of the units whose writes worked, `None` if there were none.
pub fn summary(decision: &Decision, done: &BTreeSet<String>) -> Option<Notice> {
    let with = |wanted: fn(&State) -> bool| -> Vec<&str> {
        let units = decision.units.iter();
        units
            .filter(|(name, unit)| done.contains(*name) && wanted(&unit.state))
            .map(|(name, _)| name.as_str())
            .collect()
    };
    let removed = done
        .iter()
        .filter(|unit| !decision.units.contains_key(*unit))
        .map(String::as_str)
        .collect();
    let parts: Vec<String> = [
        ("made", with(|state| *state == State::New)),
        ("changed", with(|state| *state == State::Change)),
        ("put right", with(|state| *state == State::Repair)),
        ("removed", removed),
    ]
    .into_iter()
    .filter(|(_, units)| !units.is_empty())
    .map(|(what, units)| format!("{what} {}: {}", units.len(), listed(units)))
    .collect();
    (!parts.is_empty()).then(|| Notice::normal(reason::STAMPED, parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_units_with_one_problem_are_one_warning() {
        let problem = || Problem::new(reason::REFUSED, "exceeded quota");
        let problems = BTreeMap::from([("a".to_owned(), problem()), ("b".to_owned(), problem())]);
        let warnings = warnings(&Decision::default(), &problems);
        assert_eq!(
            warnings,
            [Notice::warning(
                reason::REFUSED,
                "units a, b: exceeded quota"
            )]
        );
    }

    #[test]
    fn a_pass_that_removed_a_unit_says_so_in_one_summary() {
        let done = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let summary = summary(&Decision::default(), &done).unwrap();
        assert_eq!(summary.message, "removed 2: a, b");
        assert_eq!(super::summary(&Decision::default(), &BTreeSet::new()), None);
    }
}
