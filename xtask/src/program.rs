//! Programs of ours: built by cargo, which also says where it has put them.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use cargo_metadata::{Artifact, Message};

use crate::process;

/// A program of the workspace.
#[derive(Clone, Copy)]
pub(crate) struct Program {
    package: &'static str,
    /// How cargo is asked for this kind of target.
    flag: &'static str,
    name: &'static str,
}

/// How it is built.
#[derive(Clone, Copy)]
pub(crate) enum Build {
    /// By itself: a broken test elsewhere is no reason to go without.
    Alone,
    /// By itself and with optimisation, for what produces figures.
    Release,
    /// By itself and as it is shipped, for what figures are of.
    Shipped,
    /// Together with all tests. Cargo unites the features of what it builds together, so next to a test
    /// run this saves compiling most dependencies a second time.
    WithTests,
}

/// The program that users run.
pub(crate) const EDGEGRID: Program = Program {
    package: "edgegrid",
    flag: "--bin",
    name: "edgegrid",
};

/// A program of the `benches` package.
pub(crate) const fn measuring(name: &'static str) -> Program {
    Program {
        package: "edgegrid-benches",
        flag: "--example",
        name,
    }
}

/// A program of the `e2e` package.
pub(crate) const fn comparing(name: &'static str) -> Program {
    Program {
        package: "edgegrid-e2e",
        flag: "--example",
        name,
    }
}

impl Program {
    /// Builds it; arguments can be added to the command.
    pub(crate) fn built(self, build: Build) -> Result<Command> {
        let what: &[&str] = match build {
            Build::Alone => &["--package", self.package],
            Build::Release => &["--package", self.package, "--release"],
            Build::Shipped => &["--package", self.package, "--profile", "dist"],
            Build::WithTests => &["--workspace", "--tests"],
        };
        let mut cargo = process::cargo();
        cargo.args(["build", "--message-format=json-render-diagnostics"]);
        cargo.args([self.flag, self.name]).args(what);
        let messages = process::output_in_view(&mut cargo)?;
        let found: Option<PathBuf> = Message::parse_stream(messages.as_bytes())
            .filter_map(Result::ok)
            .find_map(|message| match message {
                Message::CompilerArtifact(artifact) if self.is(&artifact) => artifact.executable,
                _ => None,
            })
            .map(Into::into);
        let path = found.with_context(|| format!("cargo named no program `{}`", self.name))?;
        Ok(process::command(path))
    }

    /// The program itself, not the tests inside it, which are an artifact of the same target.
    fn is(self, artifact: &Artifact) -> bool {
        let target = &artifact.target;
        let is_runnable = target.is_bin() || target.is_example();
        is_runnable && target.name == self.name && !artifact.profile.test
    }
}
