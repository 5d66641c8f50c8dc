//! One constructor for every class of answer, with the words the real server uses.

use super::{Cause, Details, FieldError, GroupResource, Outcome, Reason, Status, quoted};
use std::fmt;

impl Status {
    /// 404: there is no such object.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} not found", quoted(name));
        Self::about(Reason::NotFound, message, resource, name)
    }

    /// 404: there is no such path.
    pub fn unknown_path() -> Self {
        Self::failure(
            Reason::NotFound,
            "the server could not find the requested resource".to_owned(),
        )
        .with_details(Details::default())
    }

    /// 401: nobody knows who asks.
    pub fn unauthorized() -> Self {
        Self::failure(Reason::Unauthorized, "Unauthorized".to_owned())
    }

    /// 409: the name is taken.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} already exists", quoted(name));
        Self::about(Reason::AlreadyExists, message, resource, name)
    }

    /// 409: every generated name was taken.
    pub fn generated_name_taken(resource: &GroupResource, name: &str) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            quoted(name)
        );
        Self::about(Reason::AlreadyExists, message, resource, name).retry_after(1)
    }

    /// 409: a precondition on revision, uid or field ownership does not hold.
    pub fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {resource} {}: {why}",
            quoted(name)
        );
        Self::about(Reason::Conflict, message, resource, name)
    }

    /// 409: the object changed since the client read it.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 409: other managers own what an apply wants to change.
    pub fn apply_conflict(message: String, causes: Vec<Cause>) -> Self {
        Self::failure(Reason::Conflict, message).with_details(Details {
            causes,
            ..Details::default()
        })
    }

    /// 422: the object breaks rules.
    pub fn invalid(kind: &GroupResource, name: &str, errors: &[FieldError]) -> Self {
        let list = FieldError::join(errors);
        let tail = if list.is_empty() {
            String::new()
        } else {
            format!(": {list}")
        };
        let mut status = Self::about(
            Reason::Invalid,
            format!("{kind} {} is invalid{tail}", quoted(name)),
            kind,
            name,
        );
        if let Some(details) = &mut status.details {
            details.causes = errors.iter().map(FieldError::cause).collect();
        }
        status
    }

    /// 400: the request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(Reason::BadRequest, message.into())
    }

    /// 403: not allowed, or admission said no.
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = match (resource.resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{resource} is forbidden: {why}"),
            (false, false) => format!("{resource} {} is forbidden: {why}", quoted(name)),
        };
        Self::about(Reason::Forbidden, message, resource, name)
    }

    /// 410: the wanted history is gone for good.
    pub fn gone(message: impl Into<String>) -> Self {
        Self::failure(Reason::Gone, message.into())
    }

    /// 410: a revision is older than the history.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(Reason::Expired, message.into())
    }

    /// 410: a watch or list asks for a revision that was compacted.
    pub fn too_old(asked: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {asked} ({oldest})"))
    }

    /// 410: a list cannot go on at its revision; `token` goes on at the present one.
    pub fn expired_continue(token: impl Into<String>) -> Self {
        let mut status = Self::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        );
        status.continue_token = Some(token.into());
        status
    }

    /// 429: the client must wait that many seconds before it tries again; zero leaves that to it.
    pub fn too_many_requests(message: impl Into<String>, seconds: u32) -> Self {
        Self::failure(Reason::TooManyRequests, message.into())
            .with_details(Details::default())
            .retry_after(seconds)
    }

    /// 503: not ready yet.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::failure(Reason::ServiceUnavailable, message.into())
    }

    /// 504: the request took too long.
    pub fn timeout(message: impl fmt::Display, seconds: u32) -> Self {
        Self::failure(Reason::Timeout, format!("Timeout: {message}"))
            .with_details(Details::default())
            .retry_after(seconds)
    }

    /// 504: the asked revision is in the future.
    pub fn too_large_resource_version(asked: u64, current: u64, seconds: u32) -> Self {
        let cause = Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        Self::timeout(
            format!("Too large resource version: {asked}, current: {current}"),
            seconds,
        )
        .with_cause(cause)
    }

    /// 405 outside of any resource.
    pub fn method_not_allowed() -> Self {
        Self::failure(
            Reason::MethodNotAllowed,
            "the server does not allow this method on the requested resource".to_owned(),
        )
        .with_details(Details::default())
    }

    /// 406: none of the asked media types can be produced.
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let accepted = accepted.join(", ");
        Self::failure(
            Reason::NotAcceptable,
            format!("only the following media types are accepted: {accepted}"),
        )
    }

    /// 413: the body is larger than is allowed.
    pub fn request_too_large(why: impl fmt::Display) -> Self {
        let message = format!("Request entity too large: {why}");
        Self::failure(Reason::RequestEntityTooLarge, message)
    }

    /// 415: the path takes no body of this media type.
    pub fn media_type_not_routed() -> Self {
        let message = "415: Unsupported Media Type".to_owned();
        Self::failure(Reason::UnsupportedMediaType, message)
    }

    /// 422: a patch cannot be carried out; the server does not say why.
    pub fn rejected(message: impl fmt::Display) -> Self {
        Self::failure(Reason::Invalid, message.to_string()).with_details(Details::default())
    }

    /// 415: the body has a media type nobody reads.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let accepted = accepted.join(", ");
        Self::failure(
            Reason::UnsupportedMediaType,
            format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            ),
        )
    }

    /// 500: a defect of the server.
    pub fn internal(why: impl fmt::Display) -> Self {
        let cause = Cause {
            message: why.to_string(),
            ..Cause::default()
        };
        Self::failure(
            Reason::InternalError,
            format!("Internal error occurred: {why}"),
        )
        .with_details(Details {
            causes: vec![cause],
            ..Details::default()
        })
    }

    /// 500 without a reason: the object to create says which revision it has.
    pub fn revision_on_create() -> Self {
        Self::nameless("resourceVersion should not be set on objects to be created".to_owned())
    }

    /// 500 without a reason: what is applied cannot be read with the schema of its kind.
    pub fn unmergeable(why: impl fmt::Display) -> Self {
        Self::nameless(why.to_string())
    }

    /// 500 without a reason: a revision that is no number.
    pub fn malformed_revision(text: &str) -> Self {
        Self::nameless(format!(
            "strconv.ParseUint: parsing {}: invalid syntax",
            quoted(text)
        ))
    }

    /// The answer to a delete that removed the object at once.
    pub fn deleted(resource: &GroupResource, name: &str, uid: &str) -> Self {
        let details = Details {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            uid: uid.to_owned(),
            ..Details::default()
        };
        Self {
            outcome: Outcome::Success,
            message: String::new(),
            details: Some(Box::new(details)),
            continue_token: None,
        }
    }
}
