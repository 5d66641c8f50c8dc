//! The functions rules can call: those of the libraries, and the few that need another hand.

use super::cost::parts_mut;
use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{Expr, operators};
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::{Key, OptionalValue};
use kube_cel::cel::{Context, ExecutionError, IdedExpr, ResolveResult, Value};
use std::sync::{Arc, LazyLock};

/// The types of CEL; a name stands for itself, so that `type(x) == int` can be said.
pub(super) const TYPES: [&str; 12] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "timestamp",
    "type",
    "uint",
];

const OPTIONAL_SELECT: &str = "@optional_select";

/// All functions, without any variable.
pub(super) static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut context = Context::default().with_all();
    for name in TYPES {
        context.add_variable_from_value(name, Value::String(Arc::new(name.to_owned())));
    }
    context.add_function("type", |value: Value| Arc::new(type_of(&value).to_owned()));
    context.add_function("dyn", |value: Value| -> ResolveResult { Ok(value) });
    context.add_function("size", size);
    context.add_function(
        OPTIONAL_SELECT,
        |operand: Value, key: Value| -> ResolveResult { Ok(optional_select(&operand, &key)) },
    );
    context
});

/// Puts our functions where the interpreter's own go wrong: `a.?b` and `a[?b]` without that key.
pub(super) fn redirect(node: &mut IdedExpr) {
    if let Expr::Call(call) = &mut node.expr
        && matches!(
            call.func_name.as_str(),
            operators::OPT_SELECT | operators::OPT_INDEX
        )
    {
        OPTIONAL_SELECT.clone_into(&mut call.func_name);
    }
    for part in parts_mut(&mut node.expr) {
        redirect(part);
    }
}

/// An optional that has a value.
pub(super) fn some(value: Value) -> Value {
    Value::Opaque(Arc::new(OptionalValue::of(value)))
}

/// An optional that has none.
pub(super) fn none() -> Value {
    Value::Opaque(Arc::new(OptionalValue::none()))
}

fn optional_select(operand: &Value, key: &Value) -> Value {
    let operand = match <&OptionalValue>::try_from(operand) {
        Ok(optional) => match optional.value() {
            Some(value) => value,
            None => return none(),
        },
        Err(_) => operand,
    };
    let found = match (operand, key) {
        (Value::Map(map), Value::String(key)) => map.map.get(&Key::String(Arc::clone(key))),
        (Value::Map(map), Value::Int(key)) => map.map.get(&Key::Int(*key)),
        (Value::List(items), Value::Int(index)) => usize::try_from(*index)
            .ok()
            .and_then(|index| items.get(index)),
        _ => None,
    };
    found.cloned().map_or_else(none, some)
}

/// Strings are measured in characters.
fn size(This(value): This<Value>) -> Result<i64, ExecutionError> {
    let length = match &value {
        Value::String(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => items.len(),
        Value::Map(map) => map.map.len(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(i64::try_from(length).unwrap_or(i64::MAX))
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Duration(_) => "duration",
        Value::Timestamp(_) => "timestamp",
        Value::Null => "null_type",
        Value::Function(..) | Value::Opaque(_) => "dyn",
    }
}
