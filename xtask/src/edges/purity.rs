//! Does a pure crate reach what it must not?
//!
//! Asked of `cargo tree` for that crate alone: `cargo metadata` shows features as the whole workspace
//! unites them, and there `kube` has a client because other crates want one. What code can reach
//! without any dependency (std's clock, the environment) is for clippy, so the ban must be there.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::Package;

use crate::process;

/// Crates that bring a runtime, a client or randomness.
const UNREACHABLE: &[&str] = &["hyper", "kube-client", "kube-runtime", "rand", "tokio"];

/// Calls that read a clock or the environment.
const BANNED_CALLS: &[&str] = &[
    "jiff::Timestamp::now",
    "jiff::Zoned::now",
    "std::env::var",
    "std::env::var_os",
    "std::env::vars",
    "std::time::Instant::now",
    "std::time::SystemTime::now",
];

/// What is wrong with a crate that says it is pure.
pub(super) fn check(package: &Package) -> Result<Vec<String>> {
    let name = package.name.as_str();
    let mut violations = Vec::new();
    for reached in reached(&tree(name, &["--prefix", "none", "--format", "{p}"])?) {
        let path = tree(name, &["--invert", reached])?;
        violations.push(format!(
            "`{name}` is pure but reaches `{reached}`:\n{}",
            path.trim_end()
        ));
    }
    let path = package.manifest_path.with_file_name("clippy.toml");
    let lints = match std::fs::read_to_string(&path) {
        Ok(lints) => lints,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("read {path}")),
    };
    let allowed = allowed_calls(&lints).with_context(|| format!("read {path}"))?;
    if !allowed.is_empty() {
        let shown = path
            .strip_prefix(process::root())
            .map_or(path.as_path().as_std_path(), Path::new);
        violations.push(format!(
            "`{name}` is pure: add to disallowed-methods in {}: {}",
            shown.display(),
            allowed.join(", ")
        ));
    }
    Ok(violations)
}

fn tree(package: &str, arguments: &[&str]) -> Result<String> {
    let mut tree = process::cargo();
    tree.args(["tree", "--quiet", "--package", package, "--edges", "normal"])
        .args(arguments);
    process::output(&mut tree)
}

/// The unreachable crates that a flat `cargo tree` names.
fn reached(tree: &str) -> Vec<&'static str> {
    let names: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    UNREACHABLE
        .iter()
        .filter(|name| names.contains(**name))
        .copied()
        .collect()
}

/// The calls that a `clippy.toml` fails to ban.
fn allowed_calls(lints: &str) -> Result<Vec<&'static str>> {
    let lints: toml::Table = lints.parse().context("parse as TOML")?;
    let banned: BTreeSet<&str> = lints
        .get("disallowed-methods")
        .and_then(toml::Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|ban| ban.as_str().or_else(|| ban.get("path")?.as_str()))
        .collect();
    Ok(BANNED_CALLS
        .iter()
        .filter(|call| !banned.contains(**call))
        .copied()
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_a_client_or_randomness_in_reach_is_found_by_its_whole_name() {
        let tree = "edgegrid-plan v0.1.0 (crates/plan)\nkube v5.0.0\ntokio v1.54.1\ntokio-util v0.7.0 (*)\nrand_core v0.9.0\n";
        assert_eq!(reached(tree), ["tokio"]);
        assert!(reached("kube-core v5.0.0\nserde v1.0.0 (proc-macro)\n").is_empty());
    }

    #[test]
    fn clocks_and_environment_must_be_banned_in_either_notation() {
        let all = BANNED_CALLS
            .iter()
            .map(|call| format!("{call:?}"))
            .collect::<Vec<_>>()
            .join(", ");
        assert!(
            allowed_calls(&format!("disallowed-methods = [{all}]"))
                .unwrap()
                .is_empty()
        );

        let some = r#"disallowed-methods = [{ path = "std::env::var", reason = "an argument" }, "std::env::vars"]"#;
        let allowed = allowed_calls(some).unwrap();
        assert!(!allowed.contains(&"std::env::var") && !allowed.contains(&"std::env::vars"));
        assert!(allowed.contains(&"jiff::Zoned::now"));
    }

    #[test]
    fn no_clippy_file_bans_nothing() {
        assert_eq!(allowed_calls("").unwrap(), BANNED_CALLS);
    }
}
