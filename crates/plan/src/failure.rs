//! Why a unit is not as wanted, and when it is tried again.
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

/// The failures of a grid's last writes, by unit.
pub type Failures = BTreeMap<String, Failure>;

/// Wait after the first failure.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// No wait is longer.
const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// A conflict is part of life; one that repeats this often is not.
const USUAL_CONFLICTS: u32 = 3;

/// Why a unit is not as wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// One word, from [`edgegrid_api::names::reason`].
    pub reason: &'static str,
    /// What is wrong and the way out.
    pub message: String,
}

/// A write that did not happen, or of which nobody knows whether it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why.
    pub trouble: Trouble,
    /// What was tried: another body or another state of the child is another matter.
    pub of: String,
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
    /// When grid or child is another.
    WhenChanged,
    /// At a moment.
    At(Timestamp),
}

/// How a write failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Somebody else wrote in between.
    Conflict(String),
    /// Kubernetes forbids the object or the change.
    Invalid {
        /// The server's words.
        message: String,
        /// The fields concerned, with Kubernetes' word for what is wrong.
        causes: Vec<(String, String)>,
    },
    /// Apply cannot express the body.
    Unexpressible {
        /// The server's words.
        message: String,
        /// The fields concerned.
        paths: Vec<String>,
    },
    /// Any other answer: rights, quota, admission, a busy server.
    Refused(String),
    /// No answer: it may or may not have happened.
    NoAnswer(String),
}

impl Trouble {
    /// A trouble.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

impl Failure {
    /// What is remembered of a write that failed; `existed` says whether the object was there.
    pub fn after(
        earlier: Option<&Self>,
        refusal: &Refusal,
        (of, existed): (&str, bool),
        now: Timestamp,
    ) -> Self {
        let times = earlier
            .filter(|earlier| earlier.of == of)
            .map_or(1, |earlier| earlier.times.saturating_add(1));
        let trouble = refusal.trouble(existed);
        let retry = match trouble.reason {
            reason::IMMUTABLE | reason::NOT_APPLICABLE => Retry::WhenChanged,
            _ => Retry::At(now.saturating_add(wait(times)).unwrap_or(now)),
        };
        Self {
            trouble,
            of: of.to_owned(),
            times,
            retry,
            is_uncertain: matches!(refusal, Refusal::NoAnswer(_)),
        }
    }

    /// Whether what is to be written now must wait. Something else than what failed need not: a
    /// corrected template is tried at once.
    pub fn holds_back(&self, of: &str, now: Timestamp) -> bool {
        let is_early = match self.retry {
            Retry::WhenChanged => true,
            Retry::At(moment) => now < moment,
        };
        self.of == of && is_early
    }

    /// How long it still waits; `None` if only a change helps.
    pub fn remaining(&self, now: Timestamp) -> Option<Duration> {
        match self.retry {
            Retry::WhenChanged => None,
            Retry::At(moment) => Some(now.duration_until(moment).try_into().unwrap_or_default()),
        }
    }

    /// Whether people should hear of it.
    pub fn matters(&self) -> bool {
        self.trouble.reason != reason::CONFLICT || self.times >= USUAL_CONFLICTS
    }
}

impl Refusal {
    /// What it means for the unit.
    pub fn trouble(&self, existed: bool) -> Trouble {
        match self {
            Self::Conflict(message) => Trouble::new(reason::CONFLICT, message.clone()),
            Self::Unexpressible { message, paths } => not_applicable(message, paths),
            Self::Invalid { causes, .. } if existed && immutable(causes).is_some() => {
                let field = immutable(causes).unwrap_or_default();
                immutable_trouble(&field)
            }
            Self::Invalid { message, .. } | Self::Refused(message) => {
                Trouble::new(reason::REFUSED, message.clone())
            }
            Self::NoAnswer(message) => Trouble::new(reason::NO_ANSWER, message.clone()),
        }
    }
}

/// A change that Kubernetes forbids, and the way out.
pub(crate) fn immutable_trouble(field: &str) -> Trouble {
    Trouble::new(
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

fn not_applicable(message: &str, paths: &[String]) -> Trouble {
    let paths = paths.join(", ");
    Trouble::new(
        reason::NOT_APPLICABLE,
        format!("the template cannot be applied because of {paths}: correct it there ({message})"),
    )
}

fn wait(times: u32) -> Duration {
    let doublings = times.saturating_sub(1).min(31);
    FIRST_WAIT.saturating_mul(1 << doublings).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

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
            Refusal::Unexpressible {
                message: "field not declared in schema".into(),
                paths: vec![".spec.template.spec.typo".into()],
            },
        ] {
            let failure = Failure::after(None, &refusal, ("body 1", true), NOW);
            let later = NOW + jiff::Span::new().hours(24 * 300);
            assert!(failure.holds_back("body 1", later), "{failure:?}");
            assert!(!failure.holds_back("body 2", NOW), "{failure:?}");
        }
    }

    #[test]
    fn trouble_names_the_field_and_the_way_out() {
        let typo = Refusal::Unexpressible {
            message: "field not declared in schema".into(),
            paths: vec![".spec.template.spec.typo".into()],
        };
        assert!(
            typo.trouble(false)
                .message
                .contains(".spec.template.spec.typo")
        );
        let selector = invalid("spec.selector", "FieldValueInvalid").trouble(true);
        assert_eq!(selector.reason, reason::IMMUTABLE);
        assert!(selector.message.contains("spec.selector cannot be changed"));
        // Nothing can be immutable in an object that was not there.
        let new = invalid("spec.selector", "FieldValueInvalid").trouble(false);
        assert_eq!(new.reason, reason::REFUSED);
    }

    /// A conflict must not be taken for success.
    #[test]
    fn everything_else_is_tried_again_ever_more_seldom() {
        let mut failure = None;
        let waits: Vec<_> = (0..13)
            .map(|_| {
                let refusal = Refusal::Conflict("late".into());
                let next = Failure::after(failure.as_ref(), &refusal, ("b", true), NOW);
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
        let first = Failure::after(None, &refusal, ("b", true), NOW);
        let again = Failure::after(Some(&first), &refusal, ("b", true), NOW);
        let other = Failure::after(Some(&again), &refusal, ("c", true), NOW);
        assert!(again.holds_back("b", NOW));
        assert!(
            !again.holds_back("c", NOW),
            "what was corrected is tried at once"
        );
        assert_eq!([first.times, again.times, other.times], [1, 2, 1]);
    }

    #[test]
    fn a_single_conflict_is_not_worth_a_word() {
        let refusal = Refusal::Conflict("late".into());
        let first = Failure::after(None, &refusal, ("b", true), NOW);
        let second = Failure::after(Some(&first), &refusal, ("b", true), NOW);
        let third = Failure::after(Some(&second), &refusal, ("b", true), NOW);
        assert_eq!(
            [first.matters(), second.matters(), third.matters()],
            [false, false, true]
        );
    }
}
