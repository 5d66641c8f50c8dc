//! The rule for a list that is empty though something is known: it counts only if the next one is empty too.
//!
//! A server that has just started, or one that has lost its data, answers with nothing; a site must not go dark for that.

/// What became of a complete list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ListOutcome {
    /// It is what is known now.
    Accepted,
    /// It is empty though something is known: nothing has changed, list again.
    NeedsConfirmation,
}

/// Remembers, for one feed, whether the last list was suspiciously empty.
#[derive(Debug, Default)]
pub(crate) struct EmptyListGuard {
    saw_empty: bool,
}

impl EmptyListGuard {
    /// Judges a list that came with a revision; `loses_everything` if it is empty though something is known.
    pub(super) fn outcome(&mut self, loses_everything: bool, revision: &str) -> ListOutcome {
        // Without a revision nobody can say that the second answer is not the first one again.
        let confirms = self.saw_empty && !revision.is_empty();
        self.saw_empty = loses_everything && !confirms;
        if self.saw_empty {
            ListOutcome::NeedsConfirmation
        } else {
            ListOutcome::Accepted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_second_empty_list_in_a_row_takes_everything_away() {
        let mut guard = EmptyListGuard::default();
        assert_eq!(guard.outcome(true, "7"), ListOutcome::NeedsConfirmation);
        assert_eq!(guard.outcome(false, "8"), ListOutcome::Accepted);
        assert_eq!(guard.outcome(true, "9"), ListOutcome::NeedsConfirmation);
        assert_eq!(guard.outcome(true, ""), ListOutcome::NeedsConfirmation);
        assert_eq!(guard.outcome(true, "9"), ListOutcome::Accepted);
    }
}
