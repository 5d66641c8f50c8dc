//! The tools that steps of `cargo xtask test` run, each in one pinned version.
//!
//! A tool is taken from our cache, else from PATH if it has the version, else compiled once into the
//! cache. It is compiled without optimization: on a cold machine waiting for the compiler costs minutes,
//! and a slower tool costs seconds. All share one target folder meanwhile, because they share crates.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use edgegrid_upstream::cache_root;

use crate::stopwatch::{Stopwatch, human};
use crate::{lock, process};

/// A program from the crate registry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    package: &'static str,
    program: &'static str,
    version: &'static str,
    /// What it wants first when it is started by itself rather than as a subcommand of cargo.
    pub(crate) subcommand: &'static [&'static str],
    /// Features to compile it with: all defaults, or only what we use of it.
    features: &'static [&'static str],
}

pub(crate) const NEXTEST: Tool = Tool {
    package: "cargo-nextest",
    program: "cargo-nextest",
    version: "0.9.151",
    subcommand: &["nextest"],
    features: &["--no-default-features"], // no replacing of itself, no tracing probes
};

pub(crate) const DENY: Tool = Tool {
    package: "cargo-deny",
    program: "cargo-deny",
    version: "0.20.2",
    subcommand: &[],
    features: &[],
};

pub(crate) const TYPOS: Tool = Tool {
    package: "typos-cli",
    program: "typos",
    version: "1.52.0",
    subcommand: &[],
    features: &[],
};

/// Asked for its version it says `dev`, so one on PATH is never taken for ours.
pub(crate) const SHEAR: Tool = Tool {
    package: "cargo-shear",
    program: "cargo-shear",
    version: "1.13.2", // what 1.14.0 is locked to wants a newer Rust than ours
    subcommand: &[],
    features: &[],
};

/// Where the tool is, installing it first if need be.
pub(crate) fn ensure(tool: &Tool) -> Result<PathBuf> {
    ensure_all(&[tool])?;
    let cache = cache_root()?;
    find(&cache, tool).with_context(|| format!("find {} after its installation", tool.program))
}

/// Installs those that are missing, so that crates they have in common are compiled once.
pub(crate) fn ensure_all(tools: &[&Tool]) -> Result<()> {
    let cache = cache_root()?;
    if tools.iter().all(|tool| find(&cache, tool).is_some()) {
        return Ok(());
    }
    let _lock = lock::exclusive(&cache.join("tools.lock"), || {
        eprintln!("tools: another installation is running, waiting");
    })?;
    let target = cache.join("tools").join("target");
    let missing: Vec<&&Tool> = tools
        .iter()
        .filter(|tool| find(&cache, tool).is_none())
        .collect();
    let installed = missing
        .iter()
        .try_for_each(|tool| install(&cache, &target, tool));
    let _ = std::fs::remove_dir_all(&target); // gigabytes that only the next version could use
    installed
}

impl Tool {
    fn folder_in(&self, cache: &Path) -> PathBuf {
        cache
            .join("tools")
            .join(format!("{}-{}", self.package, self.version))
    }

    fn path_in(&self, cache: &Path) -> PathBuf {
        self.folder_in(cache).join("bin").join(self.program)
    }
}

fn find(cache: &Path, tool: &Tool) -> Option<PathBuf> {
    let cached = tool.path_in(cache);
    if cached.is_file() {
        return Some(cached);
    }
    let installed = process::on_path(tool.program)?;
    let mut version = process::command(&installed);
    let said = process::output(version.args(tool.subcommand).arg("--version")).ok()?;
    is_version(&said, tool.version).then_some(installed)
}

/// Whether the first line of what `--version` printed has exactly this version as a word.
fn is_version(said: &str, version: &str) -> bool {
    let mut words = said.lines().next().unwrap_or_default().split_whitespace();
    words.any(|word| word.trim_start_matches('v') == version)
}

fn install(cache: &Path, target: &Path, tool: &Tool) -> Result<()> {
    let watch = Stopwatch::start();
    eprintln!(
        "tools: compiling {} {}, some minutes",
        tool.package, tool.version
    );
    let mut install = process::cargo();
    install
        .args(["install", "--quiet", "--locked", "--debug", "--root"])
        .arg(tool.folder_in(cache))
        .args(["--version", tool.version])
        .args(tool.features)
        .arg(tool.package)
        .env("CARGO_TARGET_DIR", target) // also when the workspace's own is set
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
        .env("CARGO_INCREMENTAL", "0");
    process::run(&mut install)
        .with_context(|| format!("install {} {}", tool.package, tool.version))?;
    if !tool.path_in(cache).is_file() {
        bail!(
            "{} {} has no program `{}`",
            tool.package,
            tool.version,
            tool.program
        );
    }
    eprintln!(
        "tools: {} ready after {}",
        tool.package,
        human(watch.elapsed())
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pinned_version_is_taken_from_path() {
        assert!(is_version(
            "cargo-nextest 0.9.151 (0123456 2026-01-01)\nrelease: 0.9.151",
            "0.9.151"
        ));
        assert!(is_version("typos-cli 1.52.0", "1.52.0"));
        assert!(!is_version("typos-cli 1.52.01", "1.52.0"));
        assert!(!is_version("", "1.52.0"));
    }

    #[test]
    fn a_tool_in_the_cache_is_used_without_asking_it() {
        let cache = tempfile::tempdir().unwrap();
        let path = TYPOS.path_in(cache.path());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "").unwrap();
        assert_eq!(find(cache.path(), &TYPOS), Some(path));
    }
}
