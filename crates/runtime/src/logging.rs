//! Log lines on standard error: text for people, JSON for machines.
//!
//! Nothing here redacts: what is secret is never handed to a log call. Objects are logged by
//! kind and name, errors by their message, bodies not at all.

use std::io::{IsTerminal, stderr};
use std::str::FromStr;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt;

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Lines for people, with colours on a terminal.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// What is logged: a level (`info`), or levels by part (`info,edgegrid_runtime=debug`).
#[derive(Debug)]
pub struct Filter(EnvFilter);

/// A filter that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("log level {text:?}")]
pub struct BadFilter {
    text: String,
    #[source]
    source: ParseError,
}

impl FromStr for Filter {
    type Err = BadFilter;

    fn from_str(text: &str) -> Result<Self, BadFilter> {
        EnvFilter::builder()
            .parse(text)
            .map(Self)
            .map_err(|source| BadFilter {
                text: text.into(),
                source,
            })
    }
}

/// Logs from now on. A second call changes nothing.
pub fn start(format: Format, filter: Filter) {
    let builder = fmt::Subscriber::builder()
        .with_env_filter(filter.0)
        .with_writer(stderr);
    // Somebody who already logs, as a test may, keeps doing so.
    let _ = match format {
        Format::Text => {
            let lines = builder.with_ansi(stderr().is_terminal()).finish();
            tracing::subscriber::set_global_default(lines)
        }
        Format::Json => {
            let lines = builder.json().flatten_event(true).finish();
            tracing::subscriber::set_global_default(lines)
        }
    };
}

/// An error and its causes on one line. Of an answer of the API server only its message: kube's own text
/// repeats the whole Status after it.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    if let Some(kube::Error::Api(status)) = error.downcast_ref() {
        return if status.message.is_empty() {
            format!("the API server answered with status {}", status.code)
        } else {
            status.message.clone()
        };
    }
    let text = error.to_string();
    let Some(cause) = error.source() else {
        return text;
    };
    let (raw, cause) = (cause.to_string(), chain(cause));
    if !raw.is_empty() && text.contains(&raw) {
        text.replace(&raw, &cause)
    } else if text.contains(&cause) {
        text
    } else {
        format!("{text}: {cause}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_for_all_and_by_part_and_nonsense_is_named() {
        for text in ["info", "warn,edgegrid_runtime=debug"] {
            assert!(text.parse::<Filter>().is_ok(), "{text}");
        }
        let refused = "edgegrid=loud".parse::<Filter>().unwrap_err();
        assert_eq!(refused.to_string(), r#"log level "edgegrid=loud""#);
    }

    #[derive(Debug, thiserror::Error)]
    enum Failure {
        #[error("read the list")]
        Beside(#[source] kube::Error),
        #[error("cannot list: {0}")]
        Within(#[source] kube::Error),
    }

    #[test]
    fn an_answer_of_the_api_server_is_logged_as_its_message_alone() {
        let answer = || {
            let status = kube::core::Status::failure("pods is forbidden", "Forbidden");
            kube::Error::Api(status.with_code(403).boxed())
        };
        assert_eq!(chain(&answer()), "pods is forbidden");
        let beside = Failure::Beside(answer());
        assert_eq!(chain(&beside), "read the list: pods is forbidden");
        let within = Failure::Within(answer());
        assert_eq!(chain(&within), "cannot list: pods is forbidden");
        let silent = kube::core::Status::failure("", "").with_code(502).boxed();
        assert_eq!(
            chain(&kube::Error::Api(silent)),
            "the API server answered with status 502"
        );
    }
}
