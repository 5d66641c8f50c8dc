//! A compiled expression, and the values it is run with.

use super::super::Schema;
use super::functions::{FUNCTIONS, none, redirect, some};
use super::{cost, nesting, value};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{ExecutionError, IdedExpr, Value};
use std::fmt;
use std::sync::{Arc, LazyLock};

/// Longest expression, in bytes.
const TEXT_MAX: usize = 16 * 1024;
/// Deepest nesting the parser follows.
const NESTING_MAX: u16 = 64;
/// Enough for the deepest text that is tried, in a debug build.
const DEEP_STACK: usize = 32 << 20;
/// Syntax trees up to this depth are run where they are; each level takes some 30 KiB in a debug build.
const SHALLOW: usize = 24;
/// Longest complaint of the interpreter that is passed on.
const COMPLAINT_MAX: usize = 256;

/// A CEL expression ready to run.
pub(crate) struct Program {
    expression: IdedExpr,
    uses_old: bool,
    depth: usize,
}

/// `self` and `oldSelf` for one value.
pub(crate) struct Bindings {
    new: Value,
    old: Option<Value>,
}

impl Bindings {
    /// Converts a value and its old counterpart as their schema says.
    pub(super) fn new(
        schema: &Schema,
        new: &serde_json::Value,
        old: Option<&serde_json::Value>,
        root: bool,
    ) -> Self {
        let convert = |json| value::from_json(json, Some(schema), root);
        Self {
            new: convert(new),
            old: old.map(convert),
        }
    }

    /// The value a name stands for.
    pub(super) fn variable(&self, name: &str) -> Option<&Value> {
        match name {
            "self" => Some(&self.new),
            "oldSelf" => self.old.as_ref(),
            _ => None,
        }
    }
}

impl Program {
    /// Parses an expression and refuses names that mean nothing here.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("rule is not specified".to_owned());
        }
        if text.len() > TEXT_MAX {
            return Err(format!("must not be longer than {TEXT_MAX} bytes"));
        }
        nesting::check(text)?;
        let mut expression = parse(text)?;
        let (names, depth) = cost::free_names(&expression)?;
        redirect(&mut expression);
        if let Some(unknown) = names
            .iter()
            .find(|name| !matches!(name.as_str(), "self" | "oldSelf"))
        {
            return Err(format!(
                "compilation failed: undeclared reference to '{unknown}' (in container '')"
            ));
        }
        Ok(Self {
            expression,
            uses_old: names.contains("oldSelf"),
            depth,
        })
    }

    /// Whether the expression looks at the old value.
    pub(crate) fn uses_old(&self) -> bool {
        self.uses_old
    }

    /// An upper bound of the work the expression does with these values.
    pub(super) fn cost(&self, bindings: &Bindings) -> u64 {
        cost::bound(&self.expression, bindings)
    }

    /// Runs a rule; with `optional`, `oldSelf` is an optional value and always there.
    pub(super) fn is_true(&self, bindings: &Bindings, optional: bool) -> Result<bool, String> {
        match self.run(bindings, optional) {
            Ok(Value::Bool(is_true)) => Ok(is_true),
            Ok(_) => Err("must evaluate to a bool".to_owned()),
            Err(error) => Err(complaint(&error)),
        }
    }

    /// Runs a message expression; `None` when it fails or gives no string.
    pub(super) fn text(&self, bindings: &Bindings) -> Option<String> {
        match self.run(bindings, false) {
            Ok(Value::String(text)) => Some(text.trim().to_owned()),
            _ => None,
        }
    }

    fn run(&self, bindings: &Bindings, optional: bool) -> Result<Value, ExecutionError> {
        let mut context = FUNCTIONS.new_inner_scope();
        context.add_variable_from_value("self", bindings.new.clone());
        match (&bindings.old, optional) {
            (Some(old), true) => context.add_variable_from_value("oldSelf", some(old.clone())),
            (None, true) => context.add_variable_from_value("oldSelf", none()),
            (Some(old), false) => context.add_variable_from_value("oldSelf", old.clone()),
            (None, false) => {}
        }
        if self.depth <= SHALLOW {
            return Value::resolve(&self.expression, &context);
        }
        let result = on_deep_stack(|| Value::resolve(&self.expression, &context));
        result.unwrap_or_else(|| {
            Err(ExecutionError::function_error(
                "rule",
                "the interpreter gave up",
            ))
        })
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("uses_old", &self.uses_old)
            .finish_non_exhaustive()
    }
}

/// The parser takes some 150 KiB of stack for each pair of brackets in a debug build.
fn parse(text: &str) -> Result<IdedExpr, String> {
    let parsed = on_deep_stack(|| {
        let parser = Parser::default()
            .enable_optional_syntax(true)
            .max_recursion_depth(NESTING_MAX);
        parser
            .parse(text)
            .map_err(|errors| format!("compilation failed: {errors}"))
    });
    parsed.unwrap_or_else(|| Err("compilation failed: the parser gave up".to_owned()))
}

/// Runs a deep recursion on a stack of its own; `None` if that broke down.
fn on_deep_stack<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .stack_size(DEEP_STACK)
            .spawn_scoped(scope, act);
        thread.ok()?.join().ok()
    })
}

/// One of the interpreter's own functions, applied to a string.
pub(super) fn apply(function: &'static LazyLock<Option<IdedExpr>>, text: &str) -> Option<Value> {
    let mut context = FUNCTIONS.new_inner_scope();
    context.add_variable_from_value("x", Value::String(Arc::new(text.to_owned())));
    Value::resolve(function.as_ref()?, &context).ok()
}

fn complaint(error: &ExecutionError) -> String {
    let text = match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::NoSuchOverload => "no such overload".to_owned(),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(Value::Int(index)) => {
            format!("index out of bounds: {index}")
        }
        other => other.to_string(),
    };
    text.chars().take(COMPLAINT_MAX).collect()
}
