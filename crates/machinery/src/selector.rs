//! Label and field selectors: the two query languages of lists and watches.
//!
//! `?labelSelector=` and `?fieldSelector=` are parsed once at the edge and then asked for every
//! object. Both types print in a canonical form that parses back to the same value, so a selector
//! can be kept in a continue token or used as a key.
//!
//! ```
//! use edgegrid_machinery::selector::{FieldSelector, LabelSelector};
//!
//! let labels = [("app".to_owned(), "web".to_owned())].into();
//! assert!(LabelSelector::parse("app in (web, api), !canary").unwrap().matches(&labels));
//! assert_eq!(FieldSelector::parse("metadata.name=a").unwrap().exact("metadata.name"), Some("a"));
//! ```

mod field;
mod label;
mod parse;

pub use field::{FieldSelector, FieldTerm};
pub use label::{LabelSelector, Operator, Requirement};

/// Why a selector was refused; the text is what the server answers with code 400.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text does not follow the grammar.
    #[error("found '{found}', expected: {expected}")]
    Unexpected {
        /// The token that was there.
        found: String,
        /// What could have stood in its place.
        expected: &'static str,
    },
    /// The set of an `in` or `notin` does not open.
    #[error("found '{found}' expected: '('")]
    NoSet {
        /// The token that was there.
        found: String,
    },
    /// One requirement of a label selector is malformed.
    #[error("unable to parse requirement: {source}")]
    Requirement {
        /// What is wrong with it.
        source: Box<Error>,
    },
    /// A key or value breaks the rules of labels.
    #[error("{field}: Invalid value: {value}: {why}")]
    Invalid {
        /// Path of the key or value within the requirement.
        field: String,
        /// The offending value, quoted.
        value: String,
        /// The complaints about it.
        why: String,
    },
    /// Several keys or values of one requirement break the rules.
    #[error("[{}]", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Several(Vec<Error>),
    /// A requirement of a `metav1.LabelSelector` names an operator that does not exist.
    #[error("{0:?} is not a valid label selector operator")]
    UnknownOperator(String),
    /// A `metav1.LabelSelector` has a member of the wrong JSON type.
    #[error("{0}: must be {1}")]
    Shape(&'static str, &'static str),
    /// A term of a field selector has no operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    NoOperator {
        /// The selector as it was sent.
        selector: String,
        /// The term in question.
        term: String,
    },
    /// A backslash stands before something that needs none.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// A comma or equals sign in a value lacks its backslash.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
}
