//! Programs of ours: built by cargo, which also says where it has put them.

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

/// Programs that cargo has just built.
pub(crate) struct Built {
    artifacts: Vec<Artifact>,
}

/// Builds programs in one go, so that what they share is compiled once.
pub(crate) fn build(programs: &[Program], build: Build) -> Result<Built> {
    let mut cargo = process::cargo();
    cargo.args(["build", "--message-format=json-render-diagnostics"]);
    cargo.args(match build {
        Build::Alone => &[][..],
        Build::Release => &["--release"],
        Build::Shipped => &["--profile", "dist"],
        Build::WithTests => &["--workspace", "--tests"],
    });
    for program in programs {
        cargo.args([program.flag, program.name]);
        if !matches!(build, Build::WithTests) {
            cargo.args(["--package", program.package]);
        }
    }
    let messages = process::output_in_view(&mut cargo)?;
    let artifacts = Message::parse_stream(messages.as_bytes())
        .filter_map(|message| match message {
            Ok(Message::CompilerArtifact(artifact)) => Some(artifact),
            _ => None,
        })
        .collect();
    Ok(Built { artifacts })
}

impl Built {
    /// One of the programs; arguments can be added to the command.
    pub(crate) fn command(&self, program: Program) -> Result<Command> {
        let mut artifacts = self.artifacts.iter();
        let artifact = artifacts.find(|artifact| program.is(artifact));
        let path = artifact
            .and_then(|artifact| artifact.executable.as_ref())
            .with_context(|| format!("cargo named no program `{}`", program.name))?;
        Ok(process::command(path))
    }
}

impl Program {
    /// Builds it; arguments can be added to the command.
    pub(crate) fn built(self, how: Build) -> Result<Command> {
        build(&[self], how)?.command(self)
    }

    /// The program itself, not the tests inside it, which are an artifact of the same target.
    fn is(self, artifact: &Artifact) -> bool {
        let target = &artifact.target;
        let is_runnable = target.is_bin() || target.is_example();
        is_runnable && target.name == self.name && !artifact.profile.test
    }
}
