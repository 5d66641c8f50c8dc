//! Answers of the writing verbs.

use std::sync::Arc;

use edgegrid_listwatch::{Body, Form, Memo, served_object, status_response};
use edgegrid_machinery::status::Status;
use edgegrid_store::Entry;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

use crate::served::ServedResource;

const WARNING: HeaderName = HeaderName::from_static("warning");
/// Warnings beyond this are cut, as clients print every one.
const WARNING_LENGTH: usize = 256;

/// What a write led to.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) content: Content,
    pub(crate) warnings: Vec<String>,
}

/// What an answer shows.
#[derive(Debug)]
pub(crate) enum Content {
    /// The object as it is stored now.
    Stored(Arc<Entry<Memo>>),
    /// An object that is not, or no longer, stored.
    Object(Value),
    Status(Status),
}

impl Answer {
    pub(crate) fn ok(content: Content) -> Self {
        Self {
            code: StatusCode::OK,
            content,
            warnings: Vec::new(),
        }
    }

    pub(crate) fn created(content: Content) -> Self {
        Self {
            code: StatusCode::CREATED,
            ..Self::ok(content)
        }
    }

    /// The answer as a response, in the form that was asked for.
    pub(crate) fn into_response(
        self,
        served: &ServedResource,
        form: Form,
    ) -> Result<Response<Body>, Status> {
        let mut response = match self.content {
            Content::Stored(entry) => {
                let object = served_object(&entry, &served.read).map_err(Status::internal)?;
                let mut bytes = Vec::with_capacity(object.length(form, entry.revision()));
                object.write(form, entry.revision(), &mut bytes);
                json_response(bytes)
            }
            Content::Object(object) => {
                json_response(in_form(object, form).to_string().into_bytes())
            }
            Content::Status(status) => status_response(&status),
        };
        *response.status_mut() = self.code;
        for warning in &self.warnings {
            let text: String = warning
                .replace('"', "\\\"")
                .chars()
                .take(WARNING_LENGTH)
                .collect();
            if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{text}\"")) {
                response.headers_mut().append(WARNING, value);
            }
        }
        Ok(response)
    }
}

fn in_form(mut object: Value, form: Form) -> Value {
    match form {
        Form::Object => object,
        Form::Metadata(version) => json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": version.api_version(),
            "metadata": object["metadata"].take(),
        }),
    }
}

pub(crate) fn json_response(bytes: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::full(bytes.into()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
