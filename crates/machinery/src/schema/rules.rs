//! `x-kubernetes-validations`: rules of a schema in CEL, validated at every value they stand on.
//!
//! ```text
//! walk the object with its schema
//!   └─ at each value: bind self (and oldSelf) ─► bound the cost ─► evaluate ─► error, or warning if unchanged
//! ```
//!
//! The interpreter itself cannot be stopped, so every rule is bounded before it runs, from its
//! syntax tree and the sizes of the values it gets; all rules of one object share a budget.

mod cost;
mod functions;
mod nesting;
mod program;
mod value;

pub(super) use program::Program;

use super::correlate::{Pair, old_item};
use super::{Rule, Schema, Type, Validation};
use crate::status::{FieldError, FieldErrorKind};
use program::Bindings;
use serde_json::Value;

/// What all rules of one object may cost together.
const BUDGET: u64 = 10_000_000;
/// Longest message an expression may produce, in bytes.
const MESSAGE_MAX: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// Evaluates all rules of `schema` over a whole object.
pub(super) fn evaluate(
    schema: &Schema,
    object: &Value,
    old: Option<&Value>,
    validation: &mut Validation,
) {
    let mut evaluation = Evaluation {
        budget: BUDGET,
        validation,
    };
    let pair = old.map(|old| Pair {
        schema,
        new: object,
        old,
    });
    let _ = evaluation.walk(&RuleTarget {
        schema,
        new: object,
        old,
        path: String::new(),
        root: true,
        ratchet: Ratchet { pair, parent: None },
    });
}

/// One value with all that is known about where it came from.
struct RuleTarget<'a> {
    schema: &'a Schema,
    new: &'a Value,
    old: Option<&'a Value>,
    path: String,
    root: bool,
    ratchet: Ratchet<'a>,
}

/// The pair at this value, or the nearest one above.
#[derive(Clone, Copy)]
struct Ratchet<'a> {
    pair: Option<Pair<'a>>,
    parent: Option<Pair<'a>>,
}

impl<'a> Ratchet<'a> {
    fn below(self, child: impl FnOnce(Pair<'a>) -> Option<Pair<'a>>) -> Self {
        match self.pair {
            None => self,
            Some(pair) => Self {
                pair: child(pair),
                parent: Some(pair),
            },
        }
    }

    fn field(self, name: &str) -> Self {
        if self.parent.is_none() && self.pair.is_some() && matches!(name, "apiVersion" | "kind") {
            return Self {
                pair: None,
                parent: None,
            };
        }
        self.below(|pair| pair.field(name))
    }

    fn is_unchanged(self) -> bool {
        self.pair.or(self.parent).is_some_and(Pair::is_equal)
    }
}

/// Running out of budget ends the walk.
struct Exhausted;

struct Evaluation<'v> {
    budget: u64,
    validation: &'v mut Validation,
}

impl Evaluation<'_> {
    fn walk(&mut self, target: &RuleTarget<'_>) -> Result<(), Exhausted> {
        if target.new.is_null() {
            return Ok(());
        }
        if !target.schema.rules.is_empty() {
            self.rules(target)?;
        }
        match target.new {
            Value::Object(map) => {
                for (key, value) in map {
                    let Some(below) = target.schema.child(key) else {
                        continue;
                    };
                    let is_named = target.schema.properties.contains_key(key);
                    let path = match (is_named, target.path.is_empty()) {
                        (true, true) => key.clone(),
                        (true, false) => format!("{}.{key}", target.path),
                        (false, _) => format!("{}[{key}]", target.path),
                    };
                    let old = target
                        .old
                        .and_then(|old| old.get(key))
                        .filter(|old| !old.is_null());
                    let ratchet = target.ratchet.field(key);
                    self.walk(&RuleTarget {
                        schema: below,
                        new: value,
                        old,
                        path,
                        root: false,
                        ratchet,
                    })?;
                }
            }
            Value::Array(items) => {
                let Some(below) = target.schema.items.as_deref() else {
                    return Ok(());
                };
                for (index, item) in items.iter().enumerate() {
                    let old = target
                        .old
                        .and_then(|old| old_item(target.schema, old, item));
                    let path = format!("{}[{index}]", target.path);
                    let ratchet = target.ratchet.below(|pair| pair.item(index));
                    self.walk(&RuleTarget {
                        schema: below,
                        new: item,
                        old,
                        path,
                        root: false,
                        ratchet,
                    })?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rules(&mut self, target: &RuleTarget<'_>) -> Result<(), Exhausted> {
        let bindings = Bindings::new(target.schema, target.new, target.old, target.root);
        let at = if target.path.is_empty() {
            "<nil>"
        } else {
            &target.path
        };
        let kind = target.schema.kind.map_or("", Type::name);
        for rule in &target.schema.rules {
            if rule.program.uses_old() && target.old.is_none() && !rule.optional_old {
                continue;
            }
            self.spend(rule.program.cost(&bindings), at, kind)?;
            match rule.program.is_true(&bindings, rule.optional_old) {
                Ok(true) => {}
                Ok(false) => self.broken(rule, target, &bindings)?,
                Err(why) => self.validation.errors.push(FieldError::invalid(
                    at,
                    kind,
                    format!("{why} evaluating rule: {}", rule.shown()),
                )),
            }
        }
        Ok(())
    }

    fn broken(
        &mut self,
        rule: &Rule,
        target: &RuleTarget<'_>,
        bindings: &Bindings,
    ) -> Result<(), Exhausted> {
        let field = rule.field_below(&target.path);
        let mut detail = None;
        if let Some(program) = &rule.message_program {
            self.spend(
                program.cost(bindings),
                &field,
                target.schema.kind.map_or("", Type::name),
            )?;
            detail = program.text(bindings).filter(|text| is_message(text));
        }
        let detail = detail.unwrap_or_else(|| rule.default_message());
        let error = rule.error(&field, target, &detail);
        if !rule.program.uses_old() && target.ratchet.is_unchanged() {
            self.validation.warnings.push(error.to_string());
        } else {
            self.validation.errors.push(error);
        }
        Ok(())
    }

    fn spend(&mut self, cost: u64, at: &str, kind: &str) -> Result<(), Exhausted> {
        let Some(rest) = self.budget.checked_sub(cost) else {
            self.validation
                .errors
                .push(FieldError::invalid(at, kind, OUT_OF_BUDGET));
            return Err(Exhausted);
        };
        self.budget = rest;
        Ok(())
    }
}

impl Rule {
    fn shown(&self) -> &str {
        if self.message.is_empty() {
            self.text.trim()
        } else {
            self.message.trim()
        }
    }

    fn default_message(&self) -> String {
        if self.message.is_empty() {
            format!("failed rule: {}", self.text.trim())
        } else {
            self.message.trim().to_owned()
        }
    }

    /// The path blamed: the value's own, or the field below it that the rule names.
    fn field_below(&self, path: &str) -> String {
        let below = self.field.replace("['", "[").replace("']", "]");
        let below = below.trim_start_matches('.');
        match (path.is_empty(), below.is_empty()) {
            (true, true) => "<nil>".to_owned(),
            (true, false) => below.to_owned(),
            (false, true) => path.to_owned(),
            (false, false) if below.starts_with('[') => format!("{path}{below}"),
            (false, false) => format!("{path}.{below}"),
        }
    }

    fn error(&self, field: &str, target: &RuleTarget<'_>, detail: &str) -> FieldError {
        let kind = match self.reason.as_deref() {
            Some("FieldValueForbidden") => return FieldError::forbidden(field, detail),
            Some("FieldValueRequired") => return FieldError::required(field, detail),
            Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
            _ => FieldErrorKind::Invalid,
        };
        let detail = if kind == FieldErrorKind::Duplicate {
            ""
        } else {
            detail
        };
        match target.schema.kind {
            Some(Type::Object | Type::Array) => FieldError::without_value(kind, field, detail),
            _ => FieldError::with_value(kind, field, target.new.clone(), detail),
        }
    }
}

fn is_message(text: &str) -> bool {
    !text.is_empty() && text.len() <= MESSAGE_MAX && !text.contains('\n')
}
