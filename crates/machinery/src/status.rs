//! `metav1.Status`: the one shape in which the server says no.
//!
//! Clients switch on `reason`, `code` and the causes, people read `message`; both are fixed by
//! what Kubernetes' own server answers, so every class of answer has a constructor here and no
//! handler builds one by hand.
//!
//! ```
//! use edgegrid_machinery::status::{GroupResource, Status};
//!
//! let status = Status::not_found(&GroupResource::new("apps", "deployments"), "web");
//! assert_eq!(status.code(), 404);
//! assert_eq!(status.message(), r#"deployments.apps "web" not found"#);
//! ```

mod answers;
mod field;

pub use field::{FieldError, FieldErrorKind, go_float, quoted};

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};
use std::fmt;

/// A resource within its group, printed as `deployments.apps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupResource {
    /// API group, empty for the core group.
    pub group: String,
    /// Plural resource name; a kind where the server names kinds.
    pub resource: String,
}

/// Machine-readable classes of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// 401: the request has no valid credentials.
    Unauthorized,
    /// Not allowed, or admission said no.
    Forbidden,
    /// No such object, or no such path.
    NotFound,
    /// The name is taken.
    AlreadyExists,
    /// Somebody else was faster, or owns the field.
    Conflict,
    /// The object is no longer there in the wanted form.
    Gone,
    /// The object breaks rules; see the causes.
    Invalid,
    /// The server gave up, try again.
    ServerTimeout,
    /// The request took too long.
    Timeout,
    /// 429: the client must wait before it tries again.
    TooManyRequests,
    /// The request makes no sense.
    BadRequest,
    /// This verb does not exist here.
    MethodNotAllowed,
    /// None of the asked media types can be produced.
    NotAcceptable,
    /// The body is too big.
    RequestEntityTooLarge,
    /// The body has a media type nobody reads.
    UnsupportedMediaType,
    /// A defect of the server.
    InternalError,
    /// A revision or continue token is older than the history.
    Expired,
    /// 503: the server is not ready yet.
    ServiceUnavailable,
}

/// One of possibly several things that are wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cause {
    /// Machine-readable class, e.g. `FieldValueInvalid`; empty when there is none.
    pub reason: String,
    /// The sentence for people.
    pub message: String,
    /// Path of the field, when one is to blame.
    pub field: String,
}

/// What the answer is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Details {
    /// Name of the object.
    pub name: String,
    /// API group of the object, empty for the core group.
    pub group: String,
    /// Its resource or kind.
    pub kind: String,
    /// Uid of the object, empty if none is known.
    pub uid: String,
    /// What is wrong in particular.
    pub causes: Vec<Cause>,
    /// How long to wait before another try; zero means unsaid.
    pub retry_after_seconds: u32,
}

/// An answer that is not an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    outcome: Outcome,
    message: String,
    details: Option<Box<Details>>,
    continue_token: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Success,
    Failure(Option<Reason>, u16),
}

impl Status {
    /// The HTTP code that goes with the answer.
    pub fn code(&self) -> u16 {
        match self.outcome {
            Outcome::Success => 200,
            Outcome::Failure(_, code) => code,
        }
    }

    /// The machine-readable class; `None` for a success and for the few failures that have none.
    pub fn reason(&self) -> Option<Reason> {
        match self.outcome {
            Outcome::Success => None,
            Outcome::Failure(reason, _) => reason,
        }
    }

    /// The sentence for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What the answer is about.
    pub fn details(&self) -> Option<&Details> {
        self.details.as_deref()
    }

    /// The same answer with one more cause.
    #[must_use]
    pub fn with_cause(mut self, cause: Cause) -> Self {
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// The answer as the JSON that goes over the wire.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    fn nameless(message: String) -> Self {
        Self {
            outcome: Outcome::Failure(None, 500),
            message,
            details: None,
            continue_token: None,
        }
    }

    fn failure(reason: Reason, message: String) -> Self {
        Self {
            outcome: Outcome::Failure(Some(reason), reason.code()),
            message,
            details: None,
            continue_token: None,
        }
    }

    fn about(reason: Reason, message: String, resource: &GroupResource, name: &str) -> Self {
        Self::failure(reason, message).with_details(Details {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            ..Details::default()
        })
    }

    fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }
}

impl Reason {
    /// The HTTP code that goes with the class.
    pub fn code(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::NotAcceptable => 406,
            Self::AlreadyExists | Self::Conflict => 409,
            Self::Gone | Self::Expired => 410,
            Self::RequestEntityTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::Invalid => 422,
            Self::TooManyRequests => 429,
            Self::InternalError | Self::ServerTimeout => 500,
            Self::ServiceUnavailable => 503,
            Self::Timeout => 504,
        }
    }
}

impl GroupResource {
    /// A resource, or a kind, of a group.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
        }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.resource)
        } else {
            write!(f, "{}.{}", self.resource, self.group)
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", "Status")?;
        map.serialize_entry("apiVersion", "v1")?;
        match &self.continue_token {
            Some(token) => map.serialize_entry("metadata", &json!({ "continue": token }))?,
            None => map.serialize_entry("metadata", &json!({}))?,
        }
        let Outcome::Failure(reason, code) = self.outcome else {
            map.serialize_entry("status", "Success")?;
            map.serialize_entry("details", &self.details.as_deref().map(details_json))?;
            return map.end();
        };
        map.serialize_entry("status", "Failure")?;
        map.serialize_entry("message", &self.message)?;
        if let Some(reason) = reason {
            map.serialize_entry("reason", &format!("{reason:?}"))?;
        }
        if let Some(details) = &self.details {
            map.serialize_entry("details", &details_json(details))?;
        }
        map.serialize_entry("code", &code)?;
        map.end()
    }
}

fn details_json(details: &Details) -> Value {
    let mut json = serde_json::Map::new();
    for (key, text) in [
        ("name", &details.name),
        ("group", &details.group),
        ("kind", &details.kind),
        ("uid", &details.uid),
    ] {
        if !text.is_empty() {
            json.insert(key.to_owned(), text.as_str().into());
        }
    }
    if !details.causes.is_empty() {
        json.insert(
            "causes".to_owned(),
            details.causes.iter().map(cause_json).collect(),
        );
    }
    if details.retry_after_seconds > 0 {
        json.insert(
            "retryAfterSeconds".to_owned(),
            details.retry_after_seconds.into(),
        );
    }
    json.into()
}

fn cause_json(cause: &Cause) -> Value {
    let members = [
        ("reason", &cause.reason),
        ("message", &cause.message),
        ("field", &cause.field),
    ];
    let present = members.into_iter().filter(|(_, text)| !text.is_empty());
    present
        .map(|(key, text)| (key.to_owned(), Value::from(text.as_str())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
