//! What a label selector is, and which labels it matches.

use super::{Error, parse};
use crate::names;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A conjunction of requirements on labels; the empty one matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: BTreeSet<String>,
}

/// How a requirement compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// `key=value`: the label is there and has this value
    Equals,
    /// `key==value`, the same in other clothes
    DoubleEquals,
    /// `key!=value`; also true when the label is absent
    NotEquals,
    /// `key in (a,b)`: the label is there and has one of the values
    In,
    /// `key notin (a,b)`; also true when the label is absent
    NotIn,
    /// `key`: the label is there, with any value
    Exists,
    /// `!key`: the label is absent
    DoesNotExist,
    /// `key>7`, both sides integers
    GreaterThan,
    /// `key<7`, both sides integers
    LessThan,
}

impl LabelSelector {
    /// Parses the text of a `labelSelector` query parameter.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut requirements = parse::requirements(text)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// Reads a `metav1.LabelSelector`; `None` (for an absent or null one) selects nothing.
    pub fn from_json(selector: &Value) -> Result<Option<Self>, Error> {
        if selector.is_null() {
            return Ok(None);
        }
        let selector = selector
            .as_object()
            .ok_or(Error::Shape("selector", "an object"))?;
        let mut requirements = Vec::new();
        if let Some(labels) = present(selector.get("matchLabels")) {
            let labels = labels
                .as_object()
                .ok_or(Error::Shape("matchLabels", "an object"))?;
            for (key, value) in labels {
                let value = value
                    .as_str()
                    .ok_or(Error::Shape("matchLabels", "a map of strings"))?;
                requirements.push(Requirement::new(key, Operator::Equals, [value.to_owned()])?);
            }
        }
        if let Some(list) = present(selector.get("matchExpressions")) {
            for expression in list
                .as_array()
                .ok_or(Error::Shape("matchExpressions", "a list"))?
            {
                requirements.push(Requirement::from_json(expression)?);
            }
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Some(Self { requirements }))
    }

    /// A selector of exactly these requirements.
    pub fn new(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        let mut requirements: Vec<_> = requirements.into_iter().collect();
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements }
    }

    /// Whether labels held in a map satisfy every requirement.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_with(|key| labels.get(key).map(String::as_str))
    }

    /// Whether the labels of an object, as JSON, satisfy every requirement.
    pub fn matches_object(&self, object: &Value) -> bool {
        let labels = object
            .get("metadata")
            .and_then(|metadata| metadata.get("labels"));
        self.matches_with(|key| {
            labels
                .and_then(|labels| labels.get(key))
                .and_then(Value::as_str)
        })
    }

    /// Whether labels behind a lookup satisfy every requirement.
    pub fn matches_with<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.matches(label(&requirement.key)))
    }

    /// Whether there is nothing to satisfy.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, ordered by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// The only value `key` can have in a match, if the selector says so.
    pub fn exact(&self, key: &str) -> Option<&str> {
        self.requirements
            .iter()
            .find_map(|requirement| match requirement.operator {
                Operator::Equals | Operator::DoubleEquals | Operator::In
                    if requirement.key == key && requirement.values.len() == 1 =>
                {
                    requirement.values.first().map(String::as_str)
                }
                _ => None,
            })
    }
}

impl Requirement {
    /// Builds a requirement whose key and values follow the rules of labels.
    pub fn new(
        key: &str,
        operator: Operator,
        values: impl IntoIterator<Item = String>,
    ) -> Result<Self, Error> {
        let values: BTreeSet<String> = values.into_iter().collect();
        let mut wrong: Vec<Error> = invalid("key".to_owned(), key, &names::qualified_name(key))
            .into_iter()
            .collect();
        wrong.extend(arity(operator, &values));
        for (index, value) in values.iter().enumerate() {
            if matches!(operator, Operator::GreaterThan | Operator::LessThan)
                && value.parse::<i64>().is_err()
            {
                let why = "for 'Gt', 'Lt' operators, the value must be an integer".to_owned();
                wrong.extend(invalid(format!("values[{index}]"), value, &[why]));
            }
        }
        for (index, value) in values.iter().enumerate() {
            wrong.extend(invalid(
                format!("values[{index}][{key}]"),
                value,
                &names::label_value(value),
            ));
        }
        match wrong.len() {
            0 => Ok(Self {
                key: key.to_owned(),
                operator,
                values,
            }),
            1 => Err(wrong.remove(0)),
            _ => Err(Error::Several(wrong)),
        }
    }

    fn from_json(expression: &Value) -> Result<Self, Error> {
        let text = |member: &str| expression.get(member).and_then(Value::as_str);
        let key = text("key").ok_or(Error::Shape("matchExpressions.key", "a string"))?;
        let operator = match text("operator").unwrap_or_default() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => return Err(Error::UnknownOperator(other.to_owned())),
        };
        let mut values = Vec::new();
        if let Some(list) = present(expression.get("values")) {
            for value in list
                .as_array()
                .ok_or(Error::Shape("matchExpressions.values", "a list"))?
            {
                let value = value
                    .as_str()
                    .ok_or(Error::Shape("matchExpressions.values", "a list of strings"))?;
                values.push(value.to_owned());
            }
        }
        Self::new(key, operator, values)
    }

    /// The label this is about.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How the label is compared with the values.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// What it compares with.
    pub fn values(&self) -> &BTreeSet<String> {
        &self.values
    }

    fn matches(&self, label: Option<&str>) -> bool {
        match (self.operator, label) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, label) => {
                label.is_some_and(|label| self.values.contains(label))
            }
            (Operator::NotEquals | Operator::NotIn, label) => {
                !label.is_some_and(|label| self.values.contains(label))
            }
            (Operator::Exists, label) => label.is_some(),
            (Operator::DoesNotExist, label) => label.is_none(),
            (Operator::GreaterThan, label) => self.compare(label, |label, bound| label > bound),
            (Operator::LessThan, label) => self.compare(label, |label, bound| label < bound),
        }
    }

    fn compare(&self, label: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let label = label.and_then(|label| label.parse().ok());
        let bound = self.values.first().and_then(|bound| bound.parse().ok());
        label
            .zip(bound)
            .is_some_and(|(label, bound)| holds(label, bound))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let values = || {
            self.values
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(",")
        };
        match self.operator {
            Operator::Equals => write!(f, "{key}={}", values()),
            Operator::DoubleEquals => write!(f, "{key}=={}", values()),
            Operator::NotEquals => write!(f, "{key}!={}", values()),
            Operator::In => write!(f, "{key} in ({})", values()),
            Operator::NotIn => write!(f, "{key} notin ({})", values()),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{}", values()),
            Operator::LessThan => write!(f, "{key}<{}", values()),
        }
    }
}

/// The refusal of a key or value, if there are complaints about it.
pub(super) fn invalid(field: String, value: &str, complaints: &[String]) -> Option<Error> {
    (!complaints.is_empty()).then(|| Error::Invalid {
        field,
        value: format!("{value:?}"),
        why: complaints.join("; "),
    })
}

fn arity(operator: Operator, values: &BTreeSet<String>) -> Option<Error> {
    let (holds, why) = match operator {
        Operator::In | Operator::NotIn => (
            !values.is_empty(),
            "for 'in', 'notin' operators, values set can't be empty",
        ),
        Operator::Equals | Operator::DoubleEquals | Operator::NotEquals => (
            values.len() == 1,
            "exact-match compatibility requires one single value",
        ),
        Operator::Exists | Operator::DoesNotExist => (
            values.is_empty(),
            "values set must be empty for exists and does not exist",
        ),
        Operator::GreaterThan | Operator::LessThan => (
            values.len() == 1,
            "for 'Gt', 'Lt' operators, exactly one value is required",
        ),
    };
    let value = serde_json::to_string(values).unwrap_or_default();
    (!holds).then(|| Error::Invalid {
        field: "values".to_owned(),
        value,
        why: why.to_owned(),
    })
}

fn present(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}
