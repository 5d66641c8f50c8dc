//! What is known of discovery: it belongs to the cluster, and goes with everything else that does.

use super::Publisher;
use crate::discovery::{Discovered, Novelty, Question};

impl Publisher {
    /// How often everything was forgotten.
    pub(crate) fn cleared(&self) -> u64 {
        self.changes.borrow().cleared
    }

    /// The last good answer to a question of discovery.
    pub(crate) fn discovered(&self, question: &Question) -> Option<Discovered> {
        self.inner().discovery.find(question).cloned()
    }

    /// Takes note of an answer, unless everything was forgotten since it was asked for: then it may be
    /// another cluster's. Gives whether it is another one than before.
    pub(crate) fn set_discovered(
        &self,
        question: Question,
        answer: Discovered,
        cleared: u64,
    ) -> bool {
        let mut inner = self.inner();
        if self.cleared() != cleared {
            return false;
        }
        let novelty = inner.discovery.remember(question, answer);
        drop(inner);
        self.changes.send_if_modified(|changes| {
            match novelty {
                // Worth a snapshot of its own: without it a restart while cut off has no answer.
                Novelty::First => changes.view += 1,
                // Whoever asks for more must not wear the disk out.
                Novelty::Changed => changes.index += 1,
                Novelty::Same | Novelty::NotTaken => return false,
            }
            true
        });
        matches!(novelty, Novelty::First | Novelty::Changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::Head;
    use crate::index::slice_entry::Compressed;
    use edgegrid_listwatch::Store;
    use std::sync::Arc;

    #[test]
    fn an_answer_that_was_asked_for_before_all_was_forgotten_is_not_taken() {
        let clock = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
        let publisher = Publisher::new("a-0", Store::default(), false, 1, clock);
        let path = "/version".parse().unwrap();
        let question = Question::new(&http::Method::GET, &path, "application/json").unwrap();
        let answer = Discovered {
            head: Head {
                content_type: "application/json".to_owned(),
                etag: None,
            },
            body: Compressed::new(b"{}"),
        };
        let asked = publisher.cleared();
        publisher.start_over();
        assert!(!publisher.set_discovered(question.clone(), answer.clone(), asked));
        assert_eq!(publisher.discovered(&question), None);
        let asked = publisher.cleared();
        assert!(publisher.set_discovered(question.clone(), answer.clone(), asked));
        assert_eq!(publisher.discovered(&question), Some(answer));
    }
}
