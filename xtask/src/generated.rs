//! Manifests in `deploy` that are what the program itself prints, never edited.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::program::{Build, EDGEGRID};

/// Manifests that one command of the program writes.
pub(crate) struct Generated {
    /// Arguments of `edgegrid` that write the files.
    pub(crate) command: &'static str,
    /// Folders below the one it writes to, and where in the repository they belong.
    pub(crate) folders: &'static [(&'static str, &'static str)],
    /// What writes them anew.
    pub(crate) remedy: &'static str,
}

// No doc comment: clap would show it instead of the command's own.
#[derive(clap::Args)]
pub(crate) struct Mode {
    /// Change nothing; fail if a file is not what the program prints.
    #[arg(long)]
    check: bool,
}

/// File name to content.
type Manifests = BTreeMap<String, String>;

impl Generated {
    pub(crate) fn run(&self, mode: &Mode) -> Result<()> {
        if mode.check {
            self.check(Build::Alone)
        } else {
            self.write()
        }
    }

    /// Fails with the names of the files that are not as generated.
    pub(crate) fn check(&self, build: Build) -> Result<()> {
        let mut wrong = Vec::new();
        for (home, generated) in self.generate(build)? {
            let drifted = drifted(&read(&process::root().join(home))?, &generated);
            wrong.extend(drifted.into_iter().map(|name| format!("{home}/{name}")));
        }
        if wrong.is_empty() {
            return Ok(());
        }
        bail!(
            "not as the program prints it: {}; run `{}` and commit the result",
            wrong.join(", "),
            self.remedy
        );
    }

    fn write(&self) -> Result<()> {
        for (home, generated) in self.generate(Build::Alone)? {
            for name in replace(&process::root().join(home), &generated)? {
                println!("{home}/{name}");
            }
        }
        Ok(())
    }

    /// Folder of the repository to what it should hold.
    fn generate(&self, build: Build) -> Result<Vec<(&'static str, Manifests)>> {
        let mut edgegrid = EDGEGRID.built(build)?;
        let folder = tempfile::tempdir().context("make a folder for the generated manifests")?;
        process::run(
            edgegrid
                .args([self.command, "--output-dir"])
                .arg(folder.path()),
        )?;
        let of = |(below, home): &(&str, &'static str)| {
            let generated = read(&folder.path().join(below))?;
            if generated.is_empty() {
                bail!("`edgegrid {}` wrote nothing for {home}", self.command);
            }
            Ok((*home, generated))
        };
        self.folders.iter().map(of).collect()
    }
}

/// Makes `folder` hold exactly `generated`; gives the names of the files that it touched.
fn replace(folder: &Path, generated: &Manifests) -> Result<Vec<String>> {
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let touched = drifted(&read(folder)?, generated);
    for name in &touched {
        let path = folder.join(name);
        match generated.get(name) {
            Some(content) => std::fs::write(&path, content),
            None => std::fs::remove_file(&path), // of a kind that is no more
        }
        .with_context(|| format!("write {}", path.display()))?;
    }
    Ok(touched)
}

fn read(folder: &Path) -> Result<Manifests> {
    if !folder.exists() {
        return Ok(Manifests::new());
    }
    let mut manifests = Manifests::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry
            .with_context(|| format!("list {}", folder.display()))?
            .path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
            && let Some(name) = path.file_name()
        {
            let content = std::fs::read_to_string(&path)
                .with_context(|| format!("read {}", path.display()))?;
            manifests.insert(name.to_string_lossy().into_owned(), content);
        }
    }
    Ok(manifests)
}

/// Names of files that are missing, different, or left over.
fn drifted(committed: &Manifests, generated: &Manifests) -> Vec<String> {
    let names: BTreeSet<&String> = committed.keys().chain(generated.keys()).collect();
    names
        .into_iter()
        .filter(|name| committed.get(*name) != generated.get(*name))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifests(files: &[(&str, &str)]) -> Manifests {
        files
            .iter()
            .map(|(name, content)| ((*name).to_owned(), (*content).to_owned()))
            .collect()
    }

    #[test]
    fn missing_changed_and_left_over_files_have_drifted() {
        let committed = manifests(&[("same", "1"), ("changed", "1"), ("left-over", "1")]);
        let generated = manifests(&[("same", "1"), ("changed", "2"), ("missing", "1")]);
        assert_eq!(
            drifted(&committed, &generated),
            ["changed", "left-over", "missing"]
        );
        assert!(drifted(&generated, &generated).is_empty());
    }

    #[test]
    fn writing_leaves_exactly_what_was_generated() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("left-over.yaml"), "1").unwrap();
        let generated = manifests(&[("a.yaml", "1"), ("b.yaml", "2")]);

        let touched = replace(folder.path(), &generated).unwrap();
        assert_eq!(touched, ["a.yaml", "b.yaml", "left-over.yaml"]);
        assert_eq!(read(folder.path()).unwrap(), generated);
        assert!(replace(folder.path(), &generated).unwrap().is_empty());
    }
}
