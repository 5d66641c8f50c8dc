//! Why a unit is not as wanted, and when its write is tried again.
//!
//! ```text
//! pass n: plan ─► write refused ─► Failure, kept by the controller ─► pass n+1: plan, status
//! ```
//!
//! What Kubernetes forbids, or apply cannot express, stays so until grid or child changes: a typo
//! must neither vanish nor loop. Everything else is tried again, ever more seldom.

use std::collections::BTreeMap;
use std::time::Duration;

use edgegrid_api::names::reason;
use jiff::Timestamp;

use crate::step::Scope;

/// The failures of a grid's last writes.
pub type Failures = BTreeMap<Scope, Failure>;

/// The [`Failure::attempt_hash`] of a removal, of which there is only one kind.
pub const REMOVAL_ATTEMPT: &str = "removal";
/// Wait after the first failure.
const BACKOFF_BASE: Duration = Duration::from_millis(500);
/// No wait is longer.
const BACKOFF_MAX: Duration = Duration::from_mins(5);
/// A conflict is part of life; one that repeats this often is reported.
const CONFLICTS_UNTIL_REPORTED: u32 = 3;

/// What keeps a unit from being as wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// One word, from [`edgegrid_api::names::reason`].
    pub reason: &'static str,
    /// What is wrong and the way out.
    pub message: String,
}

/// A write that did not happen, or of which nobody knows whether it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why it failed, in words for people.
    pub problem: Problem,
    /// Hash of what was tried: another body or another state of the child is another attempt.
    pub attempt_hash: String,
    /// How often in a row.
    pub times: u32,
    /// When it may be tried again.
    pub retry: Retry,
    /// Whether the write may have taken effect all the same.
    pub is_uncertain: bool,
}

/// When a write may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Only once the grid or the child has changed.
    WhenChanged,
    /// From this moment on.
    At(Timestamp),
}

/// A write that was tried.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// Hash of what was tried.
    pub hash: &'a str,
    /// Whether the object was there before.
    pub object_existed: bool,
}

/// How a write failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Somebody else wrote in between.
    Conflict(String),
    /// Kubernetes forbids the object or the change.
    Invalid {
        /// What the API server answered.
        message: String,
        /// The fields concerned, with Kubernetes' word for what is wrong.
        causes: Vec<(String, String)>,
    },
    /// The body does not match the schema, so apply cannot express it.
    SchemaMismatch {
        /// What the API server answered.
        message: String,
        /// The fields that do not match the schema.
        paths: Vec<String>,
    },
    /// Any other answer: rights, quota, admission, a busy server.
    Refused(String),
    /// No answer: it may or may not have happened.
    NoAnswer(String),
}

impl Problem {
    /// A problem with a reason from [`edgegrid_api::names::reason`].
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

impl Failure {
    /// What is remembered of a write that failed.
    pub fn after(
        earlier: Option<&Self>,
        refusal: &Refusal,
        attempt: Attempt<'_>,
        now: Timestamp,
    ) -> Self {
        let times = earlier
            .filter(|earlier| earlier.attempt_hash == attempt.hash)
            .map_or(1, |earlier| earlier.times.saturating_add(1));
        let problem = refusal.problem(attempt.object_existed);
        let retry = match problem.reason {
            reason::IMMUTABLE | reason::NOT_APPLICABLE => Retry::WhenChanged,
            _ => Retry::At(now.saturating_add(wait(times)).unwrap_or(now)),
        };
        Self {
            problem,
            attempt_hash: attempt.hash.to_owned(),
            times,
            retry,
            is_uncertain: matches!(refusal, Refusal::NoAnswer(_)),
        }
    }

    /// Whether what is to be written now must wait. Something else than what failed need not: a
    /// corrected template is tried at once.
    pub fn is_backing_off(&self, attempt_hash: &str, now: Timestamp) -> bool {
        let is_early = match self.retry {
            Retry::WhenChanged => true,
            Retry::At(moment) => now < moment,
        };
        self.attempt_hash == attempt_hash && is_early
    }

    /// How long it still waits; `None` if only a change helps.
    pub fn remaining(&self, now: Timestamp) -> Option<Duration> {
        match self.retry {
            Retry::WhenChanged => None,
            Retry::At(moment) => Some(now.duration_until(moment).try_into().unwrap_or_default()),
        }
    }

    /// Whether it belongs into status and events.
    pub fn is_reportable(&self) -> bool {
        self.problem.reason != reason::CONFLICT || self.times >= CONFLICTS_UNTIL_REPORTED
    }
}

impl Refusal {
    /// The refusal in words for people; `existed` says whether the object was there.
    pub fn problem(&self, existed: bool) -> Problem {
        match self {
            Self::Conflict(message) => Problem::new(reason::CONFLICT, message.clone()),
            Self::SchemaMismatch { message, paths } => not_applicable(message, paths),
            Self::Invalid { causes, .. } if existed && immutable(causes).is_some() => {
                let field = immutable(causes).unwrap_or_default();
                immutable_problem(&field)
            }
            Self::Invalid { message, .. } | Self::Refused(message) => {
                Problem::new(reason::REFUSED, message.clone())
            }
            Self::NoAnswer(message) => Problem::new(reason::NO_ANSWER, message.clone()),
        }
    }
}

/// A change that Kubernetes forbids, and the way out.
pub(crate) fn immutable_problem(field: &str) -> Problem {
    Problem::new(
        reason::IMMUTABLE,
        format!(
            "{field} cannot be changed in an existing object: put it back, or delete the unit's object \
             (--cascade=orphan keeps its pods), and it is made anew"
        ),
    )
}

/// Fields that stay as an object was made with.
const FIXED: [&str; 4] = [
    "spec.selector",
    "spec.serviceName",
    "spec.volumeClaimTemplates",
    "spec.podManagementPolicy",
];

/// The field that may not change. Which ones those are is known, so that no words of the server
/// have to be read; older servers forbid changes of a StatefulSet's `spec` as a whole.
fn immutable(causes: &[(String, String)]) -> Option<String> {
    causes
        .iter()
        .find_map(|(field, word)| match field.as_str() {
            "spec" if word == "FieldValueForbidden" => Some(
                "spec (for example volumeClaimTemplates, serviceName, podManagementPolicy)"
                    .to_owned(),
            ),
            field if FIXED.contains(&field) => Some(field.to_owned()),
            _ if field.starts_with("spec.clusterIP") => Some(field.clone()),
            _ => None,
        })
}

fn not_applicable(message: &str, paths: &[String]) -> Problem {
    let paths = paths.join(", ");
    Problem::new(
        reason::NOT_APPLICABLE,
        format!("the template cannot be applied because of {paths}: correct it there ({message})"),
    )
}

fn wait(times: u32) -> Duration {
    let doublings = times.saturating_sub(1).min(31);
    BACKOFF_BASE.saturating_mul(1 << doublings).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

    /// A change of an object that is there.
    fn change(hash: &str) -> Attempt<'_> {
        Attempt {
            hash,
            object_existed: true,
        }
    }

    fn invalid(field: &str, word: &str) -> Refusal {
        Refusal::Invalid {
            message: format!("{field} is bad"),
            causes: vec![(field.into(), word.into())],
        }
    }

    #[test]
    fn a_forbidden_change_waits_until_grid_or_child_changes() {
        for refusal in [
            invalid("spec", "FieldValueForbidden"),
            invalid("spec.selector", "FieldValueInvalid"),
            invalid("spec.volumeClaimTemplates", "FieldValueInvalid"),
            invalid("spec.clusterIPs[0]", "FieldValueInvalid"),
            Refusal::SchemaMismatch {
                message: "field not declared in schema".into(),
                paths: vec![".spec.template.spec.typo".into()],
            },
        ] {
            let failure = Failure::after(None, &refusal, change("body 1"), NOW);
            let later = NOW + jiff::Span::new().hours(24 * 300);
            assert!(failure.is_backing_off("body 1", later), "{failure:?}");
            assert!(!failure.is_backing_off("body 2", NOW), "{failure:?}");
        }
    }

    #[test]
    fn a_problem_names_the_field_and_the_way_out() {
        let typo = Refusal::SchemaMismatch {
            message: "field not declared in schema".into(),
            paths: vec![".spec.template.spec.typo".into()],
        };
        assert!(
            typo.problem(false)
                .message
                .contains(".spec.template.spec.typo")
        );
        let selector = invalid("spec.selector", "FieldValueInvalid").problem(true);
        assert_eq!(selector.reason, reason::IMMUTABLE);
        assert!(selector.message.contains("spec.selector cannot be changed"));
        // Nothing can be immutable in an object that was not there.
        let new = invalid("spec.selector", "FieldValueInvalid").problem(false);
        assert_eq!(new.reason, reason::REFUSED);
    }

    /// A conflict must not be taken for success.
    #[test]
    fn everything_else_is_tried_again_ever_more_seldom() {
        let mut failure = None;
        let waits: Vec<_> = (0..13)
            .map(|_| {
                let refusal = Refusal::Conflict("late".into());
                let next = Failure::after(failure.as_ref(), &refusal, change("b"), NOW);
                failure = Some(next.clone());
                next.remaining(NOW).unwrap().as_millis()
            })
            .collect();
        assert_eq!(waits[..4], [500, 1000, 2000, 4000]);
        assert_eq!(waits[12], 300_000);
    }

    #[test]
    fn another_body_starts_over() {
        let refusal = Refusal::Refused("quota".into());
        let first = Failure::after(None, &refusal, change("b"), NOW);
        let again = Failure::after(Some(&first), &refusal, change("b"), NOW);
        let other = Failure::after(Some(&again), &refusal, change("c"), NOW);
        assert!(again.is_backing_off("b", NOW));
        assert!(
            !again.is_backing_off("c", NOW),
            "what was corrected is tried at once"
        );
        assert_eq!([first.times, again.times, other.times], [1, 2, 1]);
    }

    #[test]
    fn a_single_conflict_is_not_worth_a_word() {
        let refusal = Refusal::Conflict("late".into());
        let first = Failure::after(None, &refusal, change("b"), NOW);
        let second = Failure::after(Some(&first), &refusal, change("b"), NOW);
        let third = Failure::after(Some(&second), &refusal, change("b"), NOW);
        assert_eq!(
            [
                first.is_reportable(),
                second.is_reportable(),
                third.is_reportable()
            ],
            [false, false, true]
        );
    }
}
