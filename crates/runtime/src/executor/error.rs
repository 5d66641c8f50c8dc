//! Why a write did not happen, by what the caller can do about it.
//!
//! Classes come from the reason and the causes in the server's answer, never from its words. There is
//! one exception, which upstream leaves no other way: apply refuses a body that its
//! schema cannot express with a plain 500 whose message holds the paths.

use std::fmt;

use kube::Error;
use kube::core::Status;
use kube::core::response::reason;

/// The field by which a body says for which object it was made.
const UID: &str = "metadata.uid";

/// A write that did not happen, or of which nobody knows whether it did.
#[derive(Debug, thiserror::Error)]
#[error("{verb} {object}: {class}")]
pub struct WriteError {
    /// The kind of write that was tried.
    pub verb: Verb,
    /// On which object, for people.
    pub object: String,
    /// Why it did not happen.
    pub class: Class,
}

/// The kinds of write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Verb {
    Apply,
    ApplyStatus,
    Patch,
    Create,
    Delete,
}

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum Class {
    /// Nothing was sent: somebody else may lead.
    #[error("this process is not the leader")]
    NotLeader,
    /// The object is not (any more) what the write was made for: read again, decide again.
    #[error("somebody else changed it: {0}")]
    Conflict(String),
    /// No such object, or no such kind.
    #[error("it does not exist")]
    NotFound,
    /// An object of that name exists.
    #[error("an object of that name exists")]
    AlreadyExists,
    /// Kubernetes forbids the object, or the change.
    #[error("{message}")]
    Invalid {
        /// The message of the API server.
        message: String,
        /// Which fields, and why.
        causes: Vec<Cause>,
    },
    /// The body does not match the schema by which apply reads it: a field that the server does not know,
    /// or a list with two entries of one key.
    #[error("{message}")]
    SchemaMismatch {
        /// The message of the API server.
        message: String,
        /// The fields concerned, as `.spec.template.spec.containers[name="a"].port`.
        paths: Vec<String>,
    },
    /// The body is not what the server can read.
    #[error("{0}")]
    Malformed(String),
    /// Rights, a quota, an admission rule, or a namespace that is going away.
    #[error("{0}")]
    Forbidden(String),
    /// The server has too much to do.
    #[error("{0}")]
    TooManyRequests(String),
    /// Any other answer of the server.
    #[error("{0}")]
    Refused(String),
    /// No answer in time: it may or may not have happened.
    #[error("no answer in time")]
    NoAnswer,
    /// The answer did not get through: it may or may not have happened.
    #[error("no answer")]
    Transport(#[source] Error),
}

/// A field that made an object invalid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// The field, as `spec.selector`.
    pub field: String,
    /// Kubernetes' word for what is wrong, as `FieldValueInvalid`.
    pub reason: String,
    /// The message of the API server about this field.
    pub message: String,
}

impl Verb {
    /// The verb in one word, for metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::ApplyStatus => "apply_status",
            Self::Patch => "patch",
            Self::Create => "create",
            Self::Delete => "delete",
        }
    }

    const fn is_apply(self) -> bool {
        matches!(self, Self::Apply | Self::ApplyStatus)
    }
}

impl Class {
    /// The class of an error of kube's client.
    pub(super) fn from_error(verb: Verb, error: Error) -> Self {
        match error {
            Error::Api(status) => Self::from_status(verb, &status),
            other => Self::Transport(other),
        }
    }

    fn from_status(verb: Verb, status: &Status) -> Self {
        let causes = causes(status);
        let message = status.message.clone();
        match () {
            () if status.is_already_exists() => Self::AlreadyExists,
            () if status.is_conflict() => Self::Conflict(message),
            () if status.is_not_found() => Self::NotFound,
            // A `test` that failed: upstream says Invalid, but names no field.
            () if status.is_invalid() && verb == Verb::Patch && causes.is_empty() => {
                Self::Conflict(message)
            }
            // The body named another uid: the object was replaced.
            () if status.is_invalid() && causes.iter().any(|cause| cause.field == UID) => {
                Self::Conflict(message)
            }
            () if status.is_invalid() => Self::Invalid { message, causes },
            () if status.is_forbidden() => Self::Forbidden(message),
            () if verb.is_apply() && status.reason == reason::UNKNOWN => schema_mismatch(message),
            () => match status.reason.as_str() {
                reason::BAD_REQUEST => Self::Malformed(message),
                reason::TOO_MANY_REQUESTS => Self::TooManyRequests(message),
                _ => Self::Refused(message),
            },
        }
    }

    /// The class in one word, for metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotLeader => "not_leader",
            Self::Conflict(_) => "conflict",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::Invalid { .. } => "invalid",
            Self::SchemaMismatch { .. } => "schema_mismatch",
            Self::Malformed(_) => "malformed",
            Self::Forbidden(_) => "forbidden",
            Self::TooManyRequests(_) => "too_many_requests",
            Self::Refused(_) => "refused",
            Self::NoAnswer => "no_answer",
            Self::Transport(_) => "transport",
        }
    }

    /// Whether the same write would fail in the same way until the body or the object changes.
    pub const fn is_permanent(&self) -> bool {
        matches!(
            self,
            Self::Invalid { .. } | Self::SchemaMismatch { .. } | Self::Malformed(_)
        )
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApplyStatus => "apply status of",
            other => other.name(),
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

fn causes(status: &Status) -> Vec<Cause> {
    let details = status.details.iter();
    let causes = details.flat_map(|details| &details.causes);
    causes
        .map(|cause| Cause {
            field: cause.field.clone(),
            reason: cause.reason.clone(),
            message: cause.message.clone(),
        })
        .collect()
}

/// A 500 of apply is about the body if it names a path in it; anything else is the server's problem.
fn schema_mismatch(message: String) -> Class {
    let paths: Vec<String> = paths(&message);
    if paths.is_empty() {
        return Class::Refused(message);
    }
    Class::SchemaMismatch { message, paths }
}

/// The field paths in a message: words that begin with a dot and end with a colon.
fn paths(message: &str) -> Vec<String> {
    message
        .split_whitespace()
        .filter_map(|word| word.strip_suffix(':'))
        .filter(|word| word.starts_with('.') && word.len() > 1)
        .map(str::to_owned)
        .collect()
}
