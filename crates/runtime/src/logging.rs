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
    /// For people.
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

/// An error and its causes on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
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
}
