//! `cargo xtask words`: holds the language. One idea has one word, the one that Kubernetes or Rust has for it.
//!
//! The table is short on purpose: words that once stood here for something else and would creep back.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::process;

/// Check that no private word stands where Kubernetes or Rust has one.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    check()
}

/// Words, as an extended regular expression, and what to say instead.
struct Word {
    pattern: &'static str,
    instead: &'static str,
    files: &'static [&'static str],
}

/// This file has them all.
const NOT_HERE: &str = ":!xtask/src/words.rs";
const CODE: &[&str] = &["*.rs", NOT_HERE];
const CODE_AND_DOCS: &[&str] = &["*.rs", "*.md", "*.toml", "*.yaml", NOT_HERE];

#[rustfmt::skip]
const WORDS: &[Word] = &[
    Word { pattern: r"\bfn of\b", instead: "new, from_…, or a noun", files: CODE },
    Word { pattern: r"\bKeeper\b", instead: "Index (what is known), Publisher (the one commit)", files: CODE },
    Word { pattern: r"\b(Pressed|Piece|Lens|Eye)\b", instead: "Compressed, SliceEntry, RenderedView, Viewer", files: CODE },
    Word { pattern: r"\b(Believed|Doubtful)\b", instead: "ListOutcome, EmptyListGuard", files: CODE },
    Word { pattern: r"\b(Happened|Told|Says)\b", instead: "Applied and Deleted, ServerError, Effect", files: CODE },
    Word { pattern: r"\b(Whose|Wish|Judged|Fate)\b", instead: "Ownership, NodeSettings, SettledAt, Visibility or Retention", files: CODE },
    Word { pattern: r"\b(Heard|Trouble|Birth)\b", instead: "ControlLink, Problem, CreateStamp", files: CODE },
    Word { pattern: r"\b(Unexpressible|Taken)\b", instead: "SchemaMismatch, AlreadyExists", files: CODE },
    Word { pattern: r"\b(CALM|UNREST|PATIENCE|FAREWELL)\b", instead: "DEBOUNCE, DEBOUNCE_MAX, …_TIMEOUT, DRAIN_TIMEOUT", files: CODE },
    Word { pattern: r"\bPoisonError\b", instead: "parking_lot's locks, which nothing poisons", files: CODE },
    Word { pattern: r"\bfn [a-e][0-9]+_", instead: "a sentence about behaviour", files: CODE },
    Word { pattern: r"\b([Hh]omeless|[Ss]ister|[Dd]oomed|[Bb]equeath\w*)\b", instead: "unowned, sibling, being deleted, update_claim_owners", files: CODE_AND_DOCS },
    Word { pattern: r"\b[Pp]ressed text\b", instead: "compressed text", files: CODE_AND_DOCS },
    Word { pattern: r"\b(defects?|Defects?|mission|Mission|findings?|Findings?) [A-E]?[0-9]", instead: "the sentence itself: its list is not in this repository", files: CODE_AND_DOCS },
];

/// Fails with every line that has a private word.
pub(crate) fn check() -> Result<()> {
    let offences = offences(process::root())?;
    if offences.is_empty() {
        return Ok(());
    }
    bail!("words that have a plainer one:\n{}", offences.join("\n"));
}

fn offences(folder: &Path) -> Result<Vec<String>> {
    let mut offences = Vec::new();
    for word in WORDS {
        let lines = lines_with(word, folder)?;
        if !lines.is_empty() {
            offences.push(format!("say {}:\n{}", word.instead, lines.trim_end()));
        }
    }
    Ok(offences)
}

/// What git finds in its files, and in those that it does not know yet.
fn lines_with(word: &Word, folder: &Path) -> Result<String> {
    let mut grep = process::command("git");
    grep.current_dir(folder);
    grep.args(["grep", "--untracked", "-InE", word.pattern, "--"]);
    let found = grep.args(word.files).output().context("start git")?;
    match found.status.code() {
        Some(0 | 1) => Ok(String::from_utf8_lossy(&found.stdout).into_owned()),
        _ => bail!(
            "git grep: {}",
            String::from_utf8_lossy(&found.stderr).trim_end()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offences_in(name: &str, text: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let init = process::command("git")
            .args(["init", "--quiet"])
            .current_dir(folder.path())
            .status();
        assert!(init.unwrap().success());
        std::fs::write(folder.path().join(name), text).unwrap();
        offences(folder.path()).unwrap()
    }

    #[test]
    fn a_private_word_is_shown_with_its_line_and_what_to_say_instead() {
        let [offence] = &offences_in("a.rs", "\nimpl Fate {\n    fn of() {}\n}")[..1] else {
            panic!("nothing found");
        };
        assert_eq!(
            offence,
            "say new, from_…, or a noun:\na.rs:3:    fn of() {}"
        );
        let docs = offences_in("a.md", "It is doomed: see defect B7.");
        assert_eq!(docs.len(), 2, "{docs:?}");
    }

    #[test]
    fn words_that_only_contain_one_are_left_alone() {
        let text = "struct Pieces; // a piece of the eye, taken\nfn offer() {} let fn_of = 1;";
        assert!(offences_in("a.rs", text).is_empty());
        assert!(offences_in("a.md", "a Keeper, a Lens").is_empty());
    }
}
