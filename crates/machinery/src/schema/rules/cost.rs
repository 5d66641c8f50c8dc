//! How much work an expression can be, known before it runs.
//!
//! Every node of the syntax tree is given a cost and a size. The size of data is known, the size
//! of a result follows from its parts: a sum where values are joined, a product where one is
//! repeated for each of another. A loop costs its body for each element of its range.

use super::functions::TYPES;
use super::program::Bindings;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue,
};
use kube_cel::cel::{Value, objects::Key};
use std::collections::{BTreeMap, BTreeSet};

/// Syntax trees are no deeper than this.
const DEPTH_MAX: usize = 200;
/// So many elements or bytes are handled for the cost of one step.
const CHUNK: u64 = 16;

/// The names an expression takes from outside and its depth, or why it cannot be validated.
pub(super) fn free_names(expression: &IdedExpr) -> Result<(BTreeSet<String>, usize), String> {
    let mut free = Free {
        bound: Vec::new(),
        names: BTreeSet::new(),
        deepest: 0,
    };
    free.node(expression, 1)?;
    Ok((free.names, free.deepest))
}

/// An upper bound of the steps an expression takes.
pub(super) fn bound(expression: &IdedExpr, bindings: &Bindings) -> u64 {
    Estimate {
        bindings,
        locals: BTreeMap::new(),
    }
    .node(expression)
    .cost
}

struct Free {
    bound: Vec<String>,
    names: BTreeSet<String>,
    deepest: usize,
}

impl Free {
    fn node(&mut self, node: &IdedExpr, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("must not nest deeper than {DEPTH_MAX} levels"));
        }
        self.deepest = self.deepest.max(depth);
        match &node.expr {
            Expr::Ident(name) => {
                if !self.bound.contains(name) && !TYPES.contains(&name.as_str()) {
                    self.names.insert(name.clone());
                }
            }
            Expr::Comprehension(loops) => {
                self.node(&loops.iter_range, depth + 1)?;
                self.node(&loops.accu_init, depth + 1)?;
                let before = self.bound.len();
                self.bound
                    .extend([loops.iter_var.clone(), loops.accu_var.clone()]);
                self.bound.extend(loops.iter_var2.clone());
                for part in [&loops.loop_cond, &loops.loop_step, &loops.result] {
                    self.node(part, depth + 1)?;
                }
                self.bound.truncate(before);
            }
            // `optional.none()` and `math.greatest()` parse as calls on a name that is a library.
            Expr::Call(call) => {
                let is_library = |target: &IdedExpr| matches!(&target.expr, Expr::Ident(name) if is_library(name) && !self.bound.contains(name));
                if let Some(target) = call.target.as_deref().filter(|target| !is_library(target)) {
                    self.node(target, depth + 1)?;
                }
                for part in &call.args {
                    self.node(part, depth + 1)?;
                }
            }
            other => {
                for part in parts(other) {
                    self.node(part, depth + 1)?;
                }
            }
        }
        Ok(())
    }
}

fn is_library(name: &str) -> bool {
    matches!(
        name,
        "optional" | "math" | "sets" | "base64" | "ip" | "cidr" | "format" | "strings" | "lists"
    )
}

/// Cost of getting a value, and an upper bound of its size in elements and bytes.
#[derive(Clone, Copy)]
struct Work {
    cost: u64,
    size: u64,
}

struct Estimate<'a> {
    bindings: &'a Bindings,
    locals: BTreeMap<&'a str, u64>,
}

impl<'a> Estimate<'a> {
    fn node(&mut self, node: &'a IdedExpr) -> Work {
        if let Some(value) = self.data(node) {
            return Work {
                cost: 1,
                size: size_of(value),
            };
        }
        match &node.expr {
            Expr::Ident(name) => Work {
                cost: 1,
                size: self.locals.get(name.as_str()).copied().unwrap_or(1),
            },
            Expr::Literal(LiteralValue::String(text)) => Work {
                cost: 1,
                size: length(text.inner().len()),
            },
            Expr::Literal(_) => Work { cost: 1, size: 1 },
            Expr::Comprehension(loops) => self.repeated(loops),
            Expr::Call(call) => self.called(call),
            other => {
                let parts: Vec<Work> = parts(other)
                    .into_iter()
                    .map(|part| self.node(part))
                    .collect();
                let cost = total(parts.iter().map(|part| part.cost)).saturating_add(1);
                Work {
                    cost,
                    size: total(parts.iter().map(|part| part.size)).saturating_add(1),
                }
            }
        }
    }

    fn repeated(&mut self, loops: &'a ComprehensionExpr) -> Work {
        let range = self.node(&loops.iter_range);
        let turns = self.data(&loops.iter_range).map_or(range.size, turns_of);
        let init = self.node(&loops.accu_init);
        let item = range.size.saturating_sub(turns.saturating_sub(1));
        let before = self.locals.clone();
        self.locals.insert(&loops.iter_var, item);
        self.locals
            .extend(loops.iter_var2.as_deref().map(|name| (name, item)));
        self.locals.insert(&loops.accu_var, init.size);
        let (condition, step) = (self.node(&loops.loop_cond), self.node(&loops.loop_step));
        let size = init.size.saturating_add(step.size.saturating_mul(turns));
        self.locals.insert(&loops.accu_var, size);
        let result = self.node(&loops.result);
        self.locals = before;
        let grows = matches!(loops.accu_init.expr, Expr::List(_) | Expr::Map(_));
        let copying = if grows { turns / CHUNK } else { 0 };
        let turn = condition
            .cost
            .saturating_add(step.cost)
            .saturating_add(copying);
        let once = range
            .cost
            .saturating_add(init.cost)
            .saturating_add(result.cost);
        Work {
            cost: once.saturating_add(turn.saturating_mul(turns)),
            size,
        }
    }

    fn called(&mut self, call: &'a CallExpr) -> Work {
        let parts = call.target.as_deref().into_iter().chain(&call.args);
        let parts: Vec<Work> = parts.map(|part| self.node(part)).collect();
        let product = parts
            .iter()
            .fold(1_u64, |size, part| size.saturating_mul(part.size.max(1)));
        let sum = total(parts.iter().map(|part| part.size));
        let cost = total(parts.iter().map(|part| part.cost));
        let (size, work) = match call.func_name.as_str() {
            // The interpreter copies a container for each look into it, so indexing is not cheap.
            "matches" | "find" | "findAll" | "replace" | "join" | "format" => {
                (product, product / CHUNK)
            }
            "_&&_" | "_||_" | "!_" | "size" | "_==_" | "_!=_" | "@in" | "hasValue" => {
                (1, sum / CHUNK)
            }
            _ => (sum, sum / CHUNK),
        };
        Work {
            cost: cost.saturating_add(work).saturating_add(1),
            size,
        }
    }

    /// The value a path as `self.spec.ports` leads to, if it is data.
    fn data(&self, node: &IdedExpr) -> Option<&'a Value> {
        match &node.expr {
            Expr::Ident(name) if !self.locals.contains_key(name.as_str()) => {
                self.bindings.variable(name)
            }
            Expr::Select(select) if !select.test => match self.data(&select.operand)? {
                Value::Map(map) => map.map.get(&Key::String(select.field.clone().into())),
                _ => None,
            },
            Expr::Call(call) if call.func_name == "value" && call.args.is_empty() => {
                self.data(call.target.as_deref()?)
            }
            _ => None,
        }
    }
}

fn parts(expr: &Expr) -> Vec<&IdedExpr> {
    match expr {
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Map(map) => map.entries.iter().flat_map(entry).collect(),
        Expr::Struct(object) => object.entries.iter().flat_map(entry).collect(),
        _ => Vec::new(),
    }
}

fn entry(entry: &IdedEntryExpr) -> Vec<&IdedExpr> {
    match &entry.expr {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(pair) => vec![&pair.key, &pair.value],
    }
}

/// Every expression directly below this one.
pub(super) fn parts_mut(expr: &mut Expr) -> Vec<&mut IdedExpr> {
    match expr {
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Select(select) => vec![&mut select.operand],
        Expr::Map(map) => map.entries.iter_mut().flat_map(entry_mut).collect(),
        Expr::Struct(object) => object.entries.iter_mut().flat_map(entry_mut).collect(),
        Expr::Call(call) => call
            .target
            .as_deref_mut()
            .into_iter()
            .chain(&mut call.args)
            .collect(),
        Expr::Comprehension(loops) => {
            let loops = &mut **loops;
            vec![
                &mut loops.iter_range,
                &mut loops.accu_init,
                &mut loops.loop_cond,
                &mut loops.loop_step,
                &mut loops.result,
            ]
        }
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}

fn entry_mut(entry: &mut IdedEntryExpr) -> Vec<&mut IdedExpr> {
    match &mut entry.expr {
        EntryExpr::StructField(field) => vec![&mut field.value],
        EntryExpr::MapEntry(pair) => vec![&mut pair.key, &mut pair.value],
    }
}

fn size_of(value: &Value) -> u64 {
    match value {
        Value::List(items) => total(items.iter().map(size_of)).saturating_add(1),
        Value::Map(map) => total(map.map.values().map(size_of))
            .saturating_add(length(map.map.len()))
            .saturating_add(1),
        Value::String(text) => length(text.len()).max(1),
        Value::Bytes(bytes) => length(bytes.len()).max(1),
        _ => 1,
    }
}

fn turns_of(value: &Value) -> u64 {
    match value {
        Value::List(items) => length(items.len()),
        Value::Map(map) => length(map.map.len()),
        _ => 1,
    }
}

fn total(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}

fn length(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
