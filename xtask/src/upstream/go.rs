//! The Go toolchain of this machine: is it there, is it new enough, and how it is started.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use edgegrid_upstream::ENVIRONMENT;

use crate::process;

/// `go` in the folder of a module, given from the workspace's root; deaf to the user's Go settings.
pub(super) fn command(module: &Path) -> Command {
    let mut go = go();
    go.current_dir(process::root().join(module));
    go
}

/// Fails with what to install unless Go `minimum` or newer is on PATH.
pub(super) fn require(minimum: &str) -> Result<()> {
    let advice = format!(
        "install Go {minimum} or newer and put its `bin` folder on PATH \
         (Go is not let to fetch a newer toolchain by itself)"
    );
    if process::on_path("go").is_none() {
        bail!("there is no `go` on PATH: {advice}");
    }
    let said = process::output(go().arg("version"))?;
    let found = version(&said).with_context(|| format!("no version in {said:?}"))?;
    let needed = numbers(minimum).with_context(|| format!("no version in {minimum:?}"))?;
    if found < needed {
        bail!("the `go` on PATH is {}.{}: {advice}", found.0, found.1);
    }
    Ok(())
}

fn go() -> Command {
    let mut go = process::command("go");
    go.envs(ENVIRONMENT.iter().copied());
    go
}

/// Reads `go version go1.26.8 linux/amd64`, and development versions, which carry one more word.
fn version(said: &str) -> Option<(u32, u32)> {
    said.split_whitespace()
        .filter_map(|word| word.strip_prefix("go"))
        .find_map(numbers)
}

fn numbers(version: &str) -> Option<(u32, u32)> {
    let (major, rest) = version.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_go_prints_them() {
        assert_eq!(version("go version go1.26.8 linux/amd64\n"), Some((1, 26)));
        assert_eq!(version("go version go1.27rc1 linux/arm64"), Some((1, 27)));
        assert_eq!(
            version("go version devel go1.28-0a1b2c linux/amd64"),
            Some((1, 28))
        );
        assert_eq!(version("go is a game"), None);
    }

    #[test]
    fn minors_compare_as_numbers() {
        assert!(numbers("1.9") < numbers("1.26"));
    }
}
