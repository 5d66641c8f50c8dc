//! `cargo xtask upstream`: real etcd, Kubernetes and CoreDNS on this machine, built from pinned modules.
//!
//! What is there already costs one look at the file system; Go is asked for only when something is
//! missing.

mod build;
mod go;
mod progress;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use edgegrid_upstream::{Built, Program, Set, all, cache_root, defaults, locate, locate_in, sets};

/// Build the programs of others that tests and the demo run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to build, such as `kubectl@1.33` or `etcd`; nothing means all that tests rely on.
    #[arg(value_name = "PROGRAM")]
    programs: Vec<Program>,

    /// Show every known program and whether it is built.
    #[arg(long, conflicts_with_all = ["programs", "path"])]
    list: bool,

    /// Print the file of one built program, for scripts.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "programs")]
    path: Option<Program>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.list {
        print!("{}", table(&cache_root()?));
        return Ok(());
    }
    if let Some(program) = &args.path {
        println!("{}", locate(program)?.display());
        return Ok(());
    }
    let programs = if args.programs.is_empty() {
        defaults().collect()
    } else {
        args.programs.clone()
    };
    ensure(&programs)
}

/// Builds those of `programs` that are missing, set by set.
pub(crate) fn ensure(programs: &[Program]) -> Result<()> {
    let cache = cache_root()?;
    let missing = missing(&cache, programs);
    if missing.is_empty() {
        eprintln!("upstream: nothing to build, all is there");
        return Ok(());
    }
    can_build(&missing)?;
    for set in sets() {
        let of_set = members(set, &missing);
        if !of_set.is_empty() {
            build::set(&cache, set, &of_set)
                .with_context(|| format!("build {} {}", set.name(), set.version()))?;
        }
    }
    Ok(())
}

/// Builds the load that measured SuperEdge, a Go program of ours, and says where it is.
pub(crate) fn load() -> Result<PathBuf> {
    has_go()?;
    let (folder, directory) = (Path::new("benches/load"), cache_root()?.join("load"));
    build::module(folder, &directory, "seload").context("build benches/load")
}

/// Whether `programs` are built, or could be with the Go of this machine.
pub(crate) fn can_ensure(programs: &[Program]) -> Result<()> {
    can_build(&missing(&cache_root()?, programs))
}

/// Whether there is a Go that the newest set can be read and built with.
pub(crate) fn has_go() -> Result<()> {
    sets()
        .iter()
        .map(Set::minimum_go)
        .max()
        .map_or(Ok(()), go::require)
}

fn can_build(missing: &[Program]) -> Result<()> {
    missing
        .iter()
        .map(|program| program.set().minimum_go())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .try_for_each(go::require)
}

fn missing(cache: &Path, programs: &[Program]) -> Vec<Program> {
    let is_missing = |program: &&Program| locate_in(cache, program).is_err();
    programs.iter().filter(is_missing).copied().collect()
}

fn members(set: &'static Set, programs: &[Program]) -> Vec<Program> {
    set.programs()
        .filter(|program| programs.contains(program))
        .collect()
}

fn table(cache: &Path) -> String {
    let rows: Vec<[String; 3]> = all()
        .map(|program| {
            let state = match (locate_in(cache, &program), program.built()) {
                (Ok(path), _) => format!("ready  {}", path.display()),
                (Err(_), Built::ByDefault) => "missing".to_owned(),
                (Err(_), Built::OnDemand) => "on demand".to_owned(),
            };
            [
                program.to_string(),
                program.set().version().to_owned(),
                state,
            ]
        })
        .collect();
    let width = rows.iter().map(|[name, ..]| name.len()).max().unwrap_or(0);
    let mut table = format!("{:width$}  {:8}  STATE\n", "PROGRAM", "VERSION");
    for [name, version, state] in rows {
        let _ = writeln!(table, "{name:width$}  {version:8}  {state}");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_tells_ready_from_missing_from_on_demand() {
        let cache = tempfile::tempdir().unwrap();
        let etcd = Program::parse("etcd").unwrap().path_in(cache.path());
        std::fs::create_dir_all(etcd.parent().unwrap()).unwrap();
        std::fs::write(&etcd, "").unwrap();

        let table = table(cache.path());
        let line = |start: &str| table.lines().find(|l| l.starts_with(start)).unwrap();
        assert!(
            line("etcd ").ends_with(&format!("ready  {}", etcd.display())),
            "{table}"
        );
        assert!(line("etcdctl").ends_with("3.7.3     missing"), "{table}");
        assert!(line("e2e.test@1.37").ends_with("on demand"), "{table}");
    }

    #[test]
    fn programs_are_grouped_by_set_whatever_the_order_asked_for() {
        let asked: Vec<Program> = ["kubectl@1.33", "etcdctl", "kube-proxy@1.33", "etcd"]
            .map(|name| Program::parse(name).unwrap())
            .into();
        let groups: Vec<String> = sets()
            .iter()
            .map(|set| members(set, &asked))
            .filter(|group| !group.is_empty())
            .map(|group| {
                group
                    .iter()
                    .map(Program::to_string)
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        assert_eq!(groups, ["etcd etcdctl", "kube-proxy@1.33 kubectl@1.33"]);
    }
}
