//! Field selectors: equality of a few indexed fields.

use super::Error;
use std::fmt;

/// A conjunction of terms on fields; the empty one matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

/// One comparison of a field with a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldTerm {
    /// The field has this value; an absent field counts as empty.
    Is {
        /// Dotted path as the query wrote it, e.g. `metadata.name`.
        path: String,
        /// The value without its escapes.
        value: String,
    },
    /// The field has another value.
    IsNot {
        /// Dotted path as the query wrote it.
        path: String,
        /// The value without its escapes.
        value: String,
    },
}

impl FieldSelector {
    /// Parses the text of a `fieldSelector` query parameter.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut terms = Vec::new();
        for term in split_terms(text)
            .into_iter()
            .filter(|term| !term.is_empty())
        {
            let (path, negated, value) = split_term(term).ok_or_else(|| Error::NoOperator {
                selector: text.to_owned(),
                term: term.to_owned(),
            })?;
            let (path, value) = (path.to_owned(), unescape(value)?);
            terms.push(if negated {
                FieldTerm::IsNot { path, value }
            } else {
                FieldTerm::Is { path, value }
            });
        }
        terms.sort();
        Ok(Self { terms })
    }

    /// Whether the fields behind a lookup satisfy every term; an absent field reads as empty.
    pub fn matches(&self, field: impl Fn(&str) -> Option<String>) -> bool {
        self.terms.iter().all(|term| {
            let found = field(term.path()).unwrap_or_default();
            match term {
                FieldTerm::Is { value, .. } => found == *value,
                FieldTerm::IsNot { value, .. } => found != *value,
            }
        })
    }

    /// Whether there is nothing to satisfy.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The terms in a stable order.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// The fields asked about, so that a server can refuse those it has no index for.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(FieldTerm::path)
    }

    /// The only value `path` can have in a match; with `metadata.name` a list becomes a get.
    pub fn exact(&self, path: &str) -> Option<&str> {
        self.terms.iter().find_map(|term| match term {
            FieldTerm::Is { path: own, value } if own == path => Some(value.as_str()),
            _ => None,
        })
    }
}

impl FieldTerm {
    /// The field this is about.
    pub fn path(&self) -> &str {
        match self {
            Self::Is { path, .. } | Self::IsNot { path, .. } => path,
        }
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match term {
                FieldTerm::Is { path, value } => write!(f, "{path}={}", escape(value))?,
                FieldTerm::IsNot { path, value } => write!(f, "{path}!={}", escape(value))?,
            }
        }
        Ok(())
    }
}

fn split_terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let equals = term.find('=')?;
    let value = &term[equals + 1..];
    if let Some(path) = term[..equals].strip_suffix('!') {
        return Some((path, true, value));
    }
    Some((
        &term[..equals],
        false,
        value.strip_prefix('=').unwrap_or(value),
    ))
}

fn unescape(value: &str) -> Result<String, Error> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next @ ('\\' | ',' | '=')) => plain.push(next),
                other => {
                    return Err(Error::Escape(format!(
                        "\\{}",
                        other.map(String::from).unwrap_or_default()
                    )));
                }
            },
            ',' | '=' => return Err(Error::Unescaped(c)),
            _ => plain.push(c),
        }
    }
    Ok(plain)
}

fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
