//! The sets and programs of `versions.toml`, and how people name them.
//!
//! A program of Kubernetes exists in several versions and is written `kubectl@1.33`; without a version
//! the newest is meant. etcd's and CoreDNS' programs exist once and carry no version.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::Error;

/// Programs that are pinned and built together: one Go module of ours, one version of theirs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    name: String,
    version: String,
    go: String,
    modules: Vec<String>,
    programs: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    package: String,
    #[serde(default)]
    built: Built,
    #[serde(default)]
    kind: ProgramKind,
}

/// When `cargo xtask upstream` builds a program.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Built {
    /// With every run that names no program.
    #[default]
    ByDefault,
    /// Only when named: few tests need it and it costs minutes.
    OnDemand,
}

/// How Go makes a program out of its package.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramKind {
    /// A main package: `go build`.
    #[default]
    Main,
    /// A package's tests as a program: `go test -c`.
    Test,
}

/// One program of one set; cheap to copy, and only ever one that `versions.toml` lists.
#[derive(Clone, Copy)]
pub struct Program {
    set: &'static Set,
    entry: &'static Entry,
}

/// Every set, in the order in which they are built.
pub fn sets() -> &'static [Set] {
    &CATALOGUE
}

/// Every program of every set.
pub fn all() -> impl Iterator<Item = Program> {
    sets().iter().flat_map(Set::programs)
}

/// The programs that a run without arguments builds, and that tests may rely on.
pub fn defaults() -> impl Iterator<Item = Program> {
    all().filter(|program| program.built() == Built::ByDefault)
}

impl Set {
    /// The set's name, which is also its folder under `upstream/`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The exact version, without a leading `v`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The oldest Go that builds the set, as `major.minor`.
    pub fn minimum_go(&self) -> &str {
        &self.go
    }

    /// The Go modules that carry [`Set::version`].
    pub fn modules(&self) -> impl Iterator<Item = &str> {
        self.modules.iter().map(String::as_str)
    }

    /// `1.37` for a set of Kubernetes, nothing for the others.
    pub fn kubernetes_minor(&self) -> Option<&str> {
        self.name.strip_prefix("kubernetes-")
    }

    /// The set's programs in the order listed.
    pub fn programs(&'static self) -> impl Iterator<Item = Program> {
        self.programs
            .iter()
            .map(move |entry| Program { set: self, entry })
    }
}

impl Program {
    /// Reads `etcd`, `kubectl@1.33`, or `kubectl` for the newest one.
    pub fn parse(asked: &str) -> Result<Self, Error> {
        let (name, minor) = match asked.split_once('@') {
            Some((name, minor)) => (name, Some(minor)),
            None => (asked, None),
        };
        all()
            .find(|program| {
                program.name() == name
                    && (minor.is_none() || program.set.kubernetes_minor() == minor)
            })
            .ok_or_else(|| Error::Unknown {
                asked: asked.to_owned(),
                known: known_names(),
            })
    }

    /// The file name, such as `kube-proxy`.
    pub fn name(&self) -> &'static str {
        &self.entry.name
    }

    /// The set it is built with.
    pub fn set(&self) -> &'static Set {
        self.set
    }

    /// The import path of its Go package.
    pub fn package(&self) -> &'static str {
        &self.entry.package
    }

    /// Whether it is built without being asked for.
    pub fn built(&self) -> Built {
        self.entry.built
    }

    /// How Go makes it.
    pub fn kind(&self) -> ProgramKind {
        self.entry.kind
    }
}

impl FromStr for Program {
    type Err = Error;

    fn from_str(asked: &str) -> Result<Self, Error> {
        Self::parse(asked)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.set.kubernetes_minor() {
            Some(minor) => write!(f, "{}@{minor}", self.name()),
            None => f.write_str(self.name()),
        }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({self})")
    }
}

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.set.name == other.set.name
    }
}

impl Eq for Program {}

static CATALOGUE: LazyLock<Vec<Set>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Versions {
        set: Vec<Set>,
    }
    let versions: Versions = toml::from_str(include_str!("../versions.toml"))
        .expect("invariant: versions.toml is part of this crate and read by its tests");
    versions.set
});

fn known_names() -> String {
    let names: Vec<String> = all().map(|program| program.to_string()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names(programs: impl Iterator<Item = Program>) -> Vec<String> {
        programs.map(|program| program.to_string()).collect()
    }

    #[test]
    fn a_kubernetes_program_without_a_version_is_the_newest() {
        let kubectl = Program::parse("kubectl").unwrap();
        assert_eq!(kubectl.to_string(), "kubectl@1.37");
        assert_eq!(kubectl.set().version(), "1.37.1");
    }

    #[test]
    fn every_program_is_found_again_by_the_name_it_shows() {
        for program in all() {
            assert_eq!(Program::parse(&program.to_string()).unwrap(), program);
        }
    }

    #[test]
    fn no_two_programs_share_a_name() {
        let unique: BTreeSet<String> = names(all()).into_iter().collect();
        assert_eq!(unique.len(), all().count());
    }

    #[test]
    fn an_unknown_program_or_version_is_refused_with_the_known_ones() {
        for asked in ["kubelet", "kubectl@1.99", "etcd@3.7", "kubectl@", ""] {
            let message = Program::parse(asked).unwrap_err().to_string();
            assert!(message.contains(&format!("`{asked}`")), "{message}");
            assert!(message.contains("kubectl@1.33"), "{message}");
        }
    }

    #[test]
    fn defaults_hold_the_newest_kubernetes_whole_and_the_older_data_paths() {
        assert_eq!(
            names(defaults()),
            [
                "etcd",
                "etcdctl",
                "kube-apiserver@1.37",
                "kube-controller-manager@1.37",
                "kube-scheduler@1.37",
                "kube-proxy@1.37",
                "kubectl@1.37",
                "kube-proxy@1.35",
                "kubectl@1.35",
                "kube-proxy@1.33",
                "kubectl@1.33",
                "coredns",
            ]
        );
    }
}
