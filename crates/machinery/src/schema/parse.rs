//! From the JSON of `JSONSchemaProps` to a [`Schema`].

use super::{Additional, Checks, ListType, Pattern, Rule, Schema, Type};
use crate::status::FieldError;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Schemas nest no deeper than this.
const MAX_DEPTH: usize = 64;

/// Parses a schema; complaints are about shape, patterns and rules, not about structure.
pub(super) fn schema(schema: &Value, at: &str) -> Result<Schema, Vec<FieldError>> {
    if depth(schema) > MAX_DEPTH * 3 {
        return Err(vec![FieldError::invalid(
            at,
            "",
            format!("must not nest deeper than {MAX_DEPTH} levels"),
        )]);
    }
    let props = Props::deserialize(schema)
        .map_err(|error| vec![FieldError::invalid(at, "", error.to_string())])?;
    let mut parser = Parser { errors: Vec::new() };
    let parsed = parser.node(props, at);
    if parser.errors.is_empty() {
        Ok(parsed)
    } else {
        Err(parser.errors)
    }
}

#[allow(clippy::struct_excessive_bools, reason = "mirrors JSONSchemaProps")]
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Props {
    #[serde(rename = "type")]
    kind: String,
    nullable: bool,
    default: Option<Value>,
    format: String,
    maximum: Option<f64>,
    exclusive_maximum: bool,
    minimum: Option<f64>,
    exclusive_minimum: bool,
    multiple_of: Option<f64>,
    max_length: Option<u64>,
    min_length: Option<u64>,
    pattern: String,
    max_items: Option<u64>,
    min_items: Option<u64>,
    max_properties: Option<u64>,
    min_properties: Option<u64>,
    required: Vec<String>,
    #[serde(rename = "enum")]
    values: Vec<Value>,
    items: Option<Box<Props>>,
    properties: BTreeMap<String, Props>,
    additional_properties: Option<PropsOrBool>,
    all_of: Vec<Props>,
    any_of: Vec<Props>,
    one_of: Vec<Props>,
    not: Option<Box<Props>>,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    preserve_unknown: bool,
    #[serde(rename = "x-kubernetes-embedded-resource")]
    embedded: bool,
    #[serde(rename = "x-kubernetes-int-or-string")]
    int_or_string: bool,
    #[serde(rename = "x-kubernetes-list-type")]
    list_type: String,
    #[serde(rename = "x-kubernetes-list-map-keys")]
    list_map_keys: Vec<String>,
    #[serde(rename = "x-kubernetes-validations")]
    rules: Vec<RuleProps>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum PropsOrBool {
    Bool(bool),
    Props(Box<Props>),
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RuleProps {
    rule: String,
    message: String,
    message_expression: String,
    reason: Option<String>,
    field_path: String,
    optional_old_self: bool,
}

struct Parser {
    errors: Vec<FieldError>,
}

impl Parser {
    fn node(&mut self, mut props: Props, at: &str) -> Schema {
        let rules = std::mem::take(&mut props.rules);
        let rules = rules.into_iter().enumerate();
        let rules = rules
            .filter_map(|(i, rule)| self.rule(rule, &format!("{at}.x-kubernetes-validations[{i}]")))
            .collect();
        Schema {
            kind: self.kind(&props.kind, at),
            nullable: props.nullable,
            default: props.default.take().filter(|default| !default.is_null()),
            items: props
                .items
                .take()
                .map(|items| Box::new(self.node(*items, &format!("{at}.items")))),
            properties: std::mem::take(&mut props.properties)
                .into_iter()
                .map(|(name, child)| {
                    let child = self.node(child, &format!("{at}.properties[{name}]"));
                    (name, child)
                })
                .collect(),
            additional: self.additional(props.additional_properties.take(), at),
            preserve_unknown: props.preserve_unknown,
            embedded: props.embedded,
            int_or_string: props.int_or_string,
            list: match props.list_type.as_str() {
                "set" => ListType::Set,
                "map" => ListType::Map(std::mem::take(&mut props.list_map_keys)),
                _ => ListType::Atomic,
            },
            rules,
            checks: self.checks(props, at),
        }
    }

    fn kind(&mut self, kind: &str, at: &str) -> Option<Type> {
        Some(match kind {
            "" => return None,
            "object" => Type::Object,
            "array" => Type::Array,
            "string" => Type::String,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "boolean" => Type::Boolean,
            other => {
                let supported = ["array", "boolean", "integer", "number", "object", "string"]
                    .map(str::to_owned);
                self.errors.push(FieldError::not_supported(
                    format!("{at}.type"),
                    other,
                    &supported,
                ));
                return None;
            }
        })
    }

    fn additional(&mut self, additional: Option<PropsOrBool>, at: &str) -> Additional {
        match additional {
            None => Additional::Unsaid,
            Some(PropsOrBool::Bool(any)) => Additional::Any(any),
            Some(PropsOrBool::Props(props)) => Additional::Of(Box::new(
                self.node(*props, &format!("{at}.additionalProperties")),
            )),
        }
    }

    fn checks(&mut self, props: Props, at: &str) -> Checks {
        let mut list = |name: &str, members: Vec<Props>| -> Vec<Schema> {
            let members = members.into_iter().enumerate();
            members
                .map(|(i, member)| self.node(member, &format!("{at}.{name}[{i}]")))
                .collect()
        };
        let (all_of, any_of, one_of) = (
            list("allOf", props.all_of),
            list("anyOf", props.any_of),
            list("oneOf", props.one_of),
        );
        Checks {
            format: (!props.format.is_empty()).then_some(props.format),
            maximum: props.maximum,
            exclusive_maximum: props.exclusive_maximum,
            minimum: props.minimum,
            exclusive_minimum: props.exclusive_minimum,
            multiple_of: props.multiple_of,
            max_length: props.max_length,
            min_length: props.min_length,
            pattern: self.pattern(&props.pattern, at),
            max_items: props.max_items,
            min_items: props.min_items,
            max_properties: props.max_properties,
            min_properties: props.min_properties,
            required: props.required,
            values: props.values,
            all_of,
            any_of,
            one_of,
            not: props
                .not
                .map(|not| Box::new(self.node(*not, &format!("{at}.not")))),
        }
    }

    fn pattern(&mut self, pattern: &str, at: &str) -> Option<Pattern> {
        if pattern.is_empty() {
            return None;
        }
        match Pattern::new(pattern) {
            Ok(compiled) => Some(compiled),
            Err(why) => {
                let why = format!("must be a valid regular expression, but isn't: {why}");
                self.errors
                    .push(FieldError::invalid(format!("{at}.pattern"), pattern, why));
                None
            }
        }
    }

    #[cfg(feature = "cel")]
    fn rule(&mut self, rule: RuleProps, at: &str) -> Option<Rule> {
        let program = self.program(&rule.rule, &format!("{at}.rule"))?;
        let message_program = if rule.message_expression.is_empty() {
            None
        } else {
            Some(self.program(&rule.message_expression, &format!("{at}.messageExpression"))?)
        };
        if rule.optional_old_self && !program.uses_old() {
            let why = "may not be set if oldSelf is not used in rule";
            self.errors.push(FieldError::invalid(
                format!("{at}.optionalOldSelf"),
                true,
                why,
            ));
        }
        Some(Rule {
            text: rule.rule,
            message: rule.message,
            reason: rule.reason,
            field: rule.field_path,
            optional_old: rule.optional_old_self,
            program,
            message_program,
        })
    }

    #[cfg(feature = "cel")]
    fn program(&mut self, text: &str, at: &str) -> Option<super::rules::Program> {
        match super::rules::Program::compile(text) {
            Ok(program) => Some(program),
            Err(why) => {
                self.errors.push(FieldError::invalid(at, text, why));
                None
            }
        }
    }

    #[cfg(not(feature = "cel"))]
    #[allow(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "same shape as with the feature"
    )]
    fn rule(&mut self, rule: RuleProps, _at: &str) -> Option<Rule> {
        Some(Rule {
            text: rule.rule,
            message: rule.message + &rule.message_expression,
            reason: rule.reason,
            field: rule.field_path,
            optional_old: rule.optional_old_self,
        })
    }
}

fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut pending = vec![(value, 1)];
    while let Some((value, depth)) = pending.pop() {
        deepest = deepest.max(depth);
        match value {
            Value::Array(items) => pending.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(map) => pending.extend(map.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    deepest
}
