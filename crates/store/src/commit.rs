//! What a writer says: changes with the conditions they hold under, and the seam for a log on disk.

use bytes::Bytes;
use std::io;
use std::sync::Arc;

/// One change of a transaction.
#[derive(Debug, Clone)]
pub struct Write {
    /// The key to change.
    pub key: Arc<str>,
    /// What must hold of the key for the whole transaction to go ahead.
    pub expect: Expect,
    /// The new value of the key, or its deletion.
    pub change: Change,
}

/// The condition a write is made under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// No condition: the key may exist or not.
    Anything,
    /// The key is absent.
    Absent,
    /// The key is present, in any version.
    Present,
    /// The key's version is the one this revision wrote.
    Revision(u64),
}

/// What a write does to its key.
#[derive(Debug, Clone)]
pub enum Change {
    /// Stores a new version.
    Put(Bytes),
    /// Removes the key; removing an absent one changes nothing.
    Delete,
    /// Only checks the expectation.
    Check,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The key is not as the writer expected.
    #[error("{key}: expected {expected:?}, found revision {found:?}")]
    Conflict {
        /// The key in question.
        key: Arc<str>,
        /// What the writer expected.
        expected: Expect,
        /// The revision of the version that is there, if any.
        found: Option<u64>,
    },
    /// A transaction names a key twice, so its outcome would depend on their order.
    #[error("{0}: written twice in one transaction")]
    Twice(Arc<str>),
    /// The journal refused the change.
    #[error("append to the journal")]
    Journal(#[from] io::Error),
    /// The revisions are used up.
    #[error("no revision after {0}")]
    Exhausted(u64),
}

/// One committed change as a journal sees it.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// The revision of the change.
    pub revision: u64,
    /// The revision that created the key.
    pub created: u64,
    /// The key that changed.
    pub key: &'a str,
    /// The value put, or nothing for a delete.
    pub value: Option<&'a Bytes>,
}

/// Where a durable log goes: it sees every transaction in order, before any reader does.
///
/// Called under the writer's lock and no other, so a slow disk delays writers and nobody else. An
/// error fails the transaction and leaves the store as it was.
pub trait Journal: Send {
    /// Takes note of a transaction; its records come in the order of their revisions.
    fn append(&mut self, transaction: &[Record<'_>]) -> io::Result<()>;
}

/// Keeps nothing: the store lives as long as the process.
#[derive(Debug)]
pub(crate) struct Forgetful;

impl Journal for Forgetful {
    fn append(&mut self, _: &[Record<'_>]) -> io::Result<()> {
        Ok(())
    }
}

impl Expect {
    pub(crate) fn matches(self, found: Option<u64>) -> bool {
        match self {
            Expect::Anything => true,
            Expect::Absent => found.is_none(),
            Expect::Present => found.is_some(),
            Expect::Revision(revision) => found == Some(revision),
        }
    }
}
