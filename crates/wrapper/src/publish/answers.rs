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
