//! Conditions in the status of our kinds.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Most names that a message lists; the rest is counted.
const NAMES_SHOWN: usize = 10;

/// Conditions of a status, set one after the other.
#[derive(Debug)]
pub struct Conditions<'a> {
    before: &'a [Condition],
    generation: Option<i64>,
    now: Timestamp,
    found: Vec<Condition>,
}

impl<'a> Conditions<'a> {
    /// Starts from the conditions of the status that is there.
    pub fn new(before: &'a [Condition], generation: Option<i64>, now: Timestamp) -> Self {
        Self {
            before,
            generation,
            now,
            found: Vec::new(),
        }
    }

    /// A condition that is true or false. Its time is that of the last change from the
    /// one to the other, so an unchanged world gives an unchanged status.
    pub fn make(
        &self,
        type_: &str,
        is_so: bool,
        reason: &str,
        message: impl Into<String>,
    ) -> Condition {
        let status = if is_so { "True" } else { "False" };
        let same = |old: &&Condition| old.type_ == type_ && old.status == status;
        let since = self
            .before
            .iter()
            .find(same)
            .map(|old| old.last_transition_time.clone());
        Condition {
            type_: type_.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            last_transition_time: since.unwrap_or(Time(whole_second(self.now))),
            observed_generation: self.generation,
        }
    }

    /// Sets a condition to true or false.
    pub fn set(&mut self, type_: &str, is_so: bool, reason: &str, message: impl Into<String>) {
        let condition = self.make(type_, is_so, reason, message);
        self.found.push(condition);
    }

    /// Sets a condition to true, for conditions that are only there while they are true.
    pub fn set_true(&mut self, type_: &str, reason: &str, message: impl Into<String>) {
        self.set(type_, true, reason, message);
    }

    /// All of them, sorted by type.
    pub fn finish(mut self) -> Vec<Condition> {
        self.found.sort_by(|one, other| one.type_.cmp(&other.type_));
        self.found
    }
}

/// Names in a row, not too many.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let shown = names[..names.len().min(NAMES_SHOWN)].join(", ");
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A moment without fractions of a second, as Kubernetes stores it.
fn whole_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_moves_only_when_the_answer_does() {
        let (early, late) = (Timestamp::constant(10, 5), Timestamp::constant(20, 0));
        let mut first = Conditions::new(&[], Some(1), early);
        first.set("Ready", true, "A", "");
        let first = first.finish();
        assert_eq!(first[0].last_transition_time.0, Timestamp::constant(10, 0));
        let mut same = Conditions::new(&first, Some(2), late);
        same.set("Ready", true, "B", "");
        assert_eq!(
            same.finish()[0].last_transition_time.0,
            Timestamp::constant(10, 0)
        );
        let mut other = Conditions::new(&first, Some(2), late);
        other.set("Ready", false, "B", "");
        assert_eq!(other.finish()[0].last_transition_time.0, late);
    }

    #[test]
    fn long_lists_are_counted() {
        let names: Vec<String> = (0..12).map(|n| n.to_string()).collect();
        let text = listed(names.iter().map(String::as_str));
        assert_eq!(text, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more");
    }
}
