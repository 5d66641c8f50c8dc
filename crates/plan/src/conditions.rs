//! Conditions in the status of our kinds, with a time that changes only when the condition does.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Most names that a message lists.
const LISTED: usize = 10;

/// Builds the conditions of one status from those of the last.
#[derive(Debug)]
pub struct Conditions<'a> {
    /// The conditions of the last status.
    pub earlier: &'a [Condition],
    /// Generation of the spec that the conditions are about.
    pub generation: Option<i64>,
    /// The time.
    pub now: Timestamp,
}

impl Conditions<'_> {
    /// A condition that is `True` or `False`.
    pub fn make(
        &self,
        type_: &str,
        holds: bool,
        reason: &str,
        message: impl Into<String>,
    ) -> Condition {
        let status = if holds { "True" } else { "False" };
        let earlier = self.earlier.iter().find(|earlier| earlier.type_ == type_);
        let since = earlier
            .filter(|earlier| earlier.status == status)
            .map(|earlier| earlier.last_transition_time.clone());
        let whole_second = Timestamp::from_second(self.now.as_second()).unwrap_or(self.now);
        Condition {
            type_: type_.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            observed_generation: self.generation,
            last_transition_time: since.unwrap_or(Time(whole_second)),
        }
    }
}

/// A few names and how many more there are: `a, b and 3 more`.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let shown = names
        .iter()
        .take(LISTED)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let start = Timestamp::constant(1_767_225_600, 5);
        let later = start + jiff::Span::new().minutes(5);
        let first = Conditions {
            earlier: &[],
            generation: Some(1),
            now: start,
        }
        .make("Ready", true, "A", "all");
        let earlier = [first.clone()];
        let next = Conditions {
            earlier: &earlier,
            generation: Some(2),
            now: later,
        };
        let same = next.make("Ready", true, "B", "still");
        let other = next.make("Ready", false, "C", "no");
        assert_eq!(same.last_transition_time, first.last_transition_time);
        assert_eq!(other.last_transition_time.0.as_second(), later.as_second());
    }

    #[test]
    fn a_message_lists_only_a_few_names() {
        let names: Vec<String> = (0..12).map(|n| n.to_string()).collect();
        assert_eq!(listed(["a", "b"]), "a, b");
        assert!(listed(names.iter().map(String::as_str)).ends_with("9 and 2 more"));
    }
}
