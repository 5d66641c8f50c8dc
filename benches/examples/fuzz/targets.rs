//! What is fed: one target per parser, the whole API server, and the DNS server's packets.

mod machinery;
mod names;
mod requests;

use std::path::Path;

use anyhow::{Result, bail};

use crate::run::{Outcome, Plan, run};
use machinery::{Apply, Patches, Schemas, Selectors};
use names::{Answers, Questions};
use requests::{Paths, Requests};

pub(crate) const NAMES: &[&str] = &[
    "json",
    "merge",
    "strategic",
    "apply",
    "label",
    "field",
    "schema",
    "path",
    "request",
    "question",
    "answer",
];

/// Targets with state start anew after so many inputs, so that it stays small.
pub(crate) const STATE_FOR: u64 = 2_000;

pub(crate) fn run_one(name: &str, plan: &Plan, trail: &Path) -> Result<Outcome> {
    match name {
        "json" => run(name, plan, trail, Patches::json),
        "merge" => run(name, plan, trail, Patches::merge),
        "strategic" => run(name, plan, trail, Patches::strategic),
        "apply" => run(name, plan, trail, Apply::new),
        "label" => run(name, plan, trail, Selectors::label),
        "field" => run(name, plan, trail, Selectors::field),
        "schema" => run(name, plan, trail, Schemas::new),
        "path" => run(name, plan, trail, Paths::new),
        "request" => run(name, plan, trail, Requests::new),
        "question" => run(name, plan, trail, Questions::new),
        "answer" => run(name, plan, trail, Answers::new),
        _ => bail!("no target {name}"),
    }
}
