//! Builds one set, or a module of ours: lock, look again, compile beside the final place, rename.
//!
//! ```text
//! <set>-<key>.lock           one builder at a time
//! <set>-<key>.partial-<pid>/ Go writes here; what a killed build left is thrown away by the next
//! <set>-<key>/               a file here is whole: a rename put it there
//! ```

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use edgegrid_upstream::{BUILD_FLAGS, Program, ProgramKind, Set};

use super::progress::Progress;
use super::{go, missing};
use crate::lock;
use crate::stopwatch::human;

/// How the extension of an unfinished build's folder starts.
const PARTIAL: &str = "partial-";

/// Builds those of `wanted`, all of `set`, that are still missing once we have the lock.
pub(super) fn set(cache: &Path, set: &'static Set, wanted: &[Program]) -> Result<()> {
    let directory = set.directory_in(cache);
    alone(set.name(), &directory, |partial| {
        let programs = missing(cache, wanted);
        if programs.is_empty() {
            eprintln!("{}: made by the other build", set.name());
            return Ok(());
        }
        compile(set, &programs, partial, &directory)
    })
}

/// Builds `name` from a module of ours into `directory`. Its source has no version, so Go is always asked;
/// it knows what has changed.
pub(super) fn module(folder: &Path, directory: &Path, name: &str) -> Result<PathBuf> {
    alone(name, directory, |partial| {
        make_folders(partial, directory)?;
        let mut progress = Progress::new(name);
        let mut list = go::command(folder);
        list.args(["list", "-deps"]);
        follow(list, &mut progress)?;
        let mut build = go::command(folder);
        build
            .args(["build", "-v"])
            .args(BUILD_FLAGS)
            .arg("-o")
            .arg(partial.join(name));
        follow(build, &mut progress)?;
        publish(partial, directory, name)
    })?;
    Ok(directory.join(name))
}

/// Lets one builder of `directory` at a time work in a folder beside it, which is gone afterwards.
fn alone(label: &str, directory: &Path, work: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let _lock = lock::exclusive(&directory.with_added_extension("lock"), || {
        eprintln!("{label}: another build of it is running, waiting");
    })?;
    remove_leftovers(directory)?;
    let partial = directory.with_added_extension(format!("{PARTIAL}{}", std::process::id()));
    let built = work(&partial);
    let _ = std::fs::remove_dir_all(&partial);
    built
}

/// Removes what killed builds left: ours is the lock, so nobody else is building. The name carries the
/// builder's process id because a Go that outlives its killed builder still writes into the old folder.
fn remove_leftovers(directory: &Path) -> Result<()> {
    let (Some(parent), Some(name)) = (directory.parent(), directory.file_name()) else {
        return Ok(());
    };
    let start = format!("{}.{PARTIAL}", name.to_string_lossy());
    for entry in std::fs::read_dir(parent).with_context(|| format!("list {}", parent.display()))? {
        let path = entry
            .with_context(|| format!("list {}", parent.display()))?
            .path();
        if path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(&start))
        {
            std::fs::remove_dir_all(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    Ok(())
}

fn compile(set: &Set, programs: &[Program], partial: &Path, directory: &Path) -> Result<()> {
    make_folders(partial, directory)?;
    let label = format!("{} {}", set.name(), set.version());
    let mut progress = Progress::new(&label);
    let names: Vec<&str> = programs.iter().map(Program::name).collect();
    eprintln!("{label}: building {}", names.join(", "));

    let mut list = go::command(&folder(set));
    list.args(["list", "-deps"])
        .args(programs.iter().map(Program::package));
    follow(list, &mut progress)?;
    for invocation in invocations(programs) {
        follow(invocation.command(set, partial), &mut progress)?;
        for program in invocation.programs() {
            publish(partial, directory, program.name())?;
        }
    }
    eprintln!("{label}: ready after {}", human(progress.elapsed()));
    Ok(())
}

fn make_folders(partial: &Path, directory: &Path) -> Result<()> {
    for folder in [partial, directory] {
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    Ok(())
}

fn folder(set: &Set) -> PathBuf {
    Path::new("upstream").join(set.name())
}

/// One start of Go. Programs that Go names as we do share one; a package's tests never can.
#[derive(Debug, PartialEq)]
enum Invocation {
    Together(Vec<Program>),
    ByName(Program),
}

fn invocations(programs: &[Program]) -> Vec<Invocation> {
    let (together, by_name): (Vec<Program>, Vec<Program>) =
        programs.iter().copied().partition(|program| {
            program.kind() == ProgramKind::Main && go_name(program.package()) == program.name()
        });
    let together = Some(together)
        .filter(|group| !group.is_empty())
        .map(Invocation::Together);
    together
        .into_iter()
        .chain(by_name.into_iter().map(Invocation::ByName))
        .collect()
}

/// The file name that `go build -o DIR/` picks: the last element of the path that is not a major version.
fn go_name(package: &str) -> &str {
    let is_major = |element: &str| {
        element
            .strip_prefix('v')
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    package
        .rsplit('/')
        .find(|element| !is_major(element))
        .unwrap_or(package)
}

impl Invocation {
    fn programs(&self) -> &[Program] {
        match self {
            Self::Together(programs) => programs,
            Self::ByName(program) => std::slice::from_ref(program),
        }
    }

    fn command(&self, set: &Set, partial: &Path) -> Command {
        let mut go = go::command(&folder(set));
        let output = match self {
            Self::Together(_) => partial.join(""), // ends in a slash: Go picks the names
            Self::ByName(program) => partial.join(program.name()),
        };
        match self.programs() {
            [program] if program.kind() == ProgramKind::Test => go.args(["test", "-c"]),
            _ => go.args(["build", "-v"]), // names each package as it is compiled; `test` cannot
        };
        go.args(BUILD_FLAGS)
            .arg(format!("-ldflags={}", set.linker_flags()))
            .arg("-o")
            .arg(output)
            .args(self.programs().iter().map(Program::package));
        go
    }
}

/// Moves a finished program to where it is looked for.
fn publish(partial: &Path, directory: &Path, name: &str) -> Result<()> {
    let (from, to) = (partial.join(name), directory.join(name));
    std::fs::rename(&from, &to)
        .with_context(|| format!("move {} to {}", from.display(), to.display()))
}

enum Line {
    Output(String),
    Error(String),
}

/// Runs Go to its end: packages it lists are expected, what it says is noted, the counter keeps ticking.
fn follow(mut command: Command, progress: &mut Progress) -> Result<()> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("start go")?;
    let (sender, lines) = mpsc::channel();
    let readers = [
        child
            .stdout
            .take()
            .map(|stdout| forward(stdout, sender.clone(), Line::Output)),
        child
            .stderr
            .take()
            .map(|stderr| forward(stderr, sender, Line::Error)),
    ];
    loop {
        match lines.recv_timeout(Duration::from_millis(500)) {
            Ok(Line::Output(package)) => progress.expect(package),
            Ok(Line::Error(line)) => progress.note(line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        progress.tick();
    }
    for reader in readers.into_iter().flatten() {
        let _ = reader.join();
    }
    let status = child.wait().context("wait for go")?;
    progress.clear();
    if !status.success() {
        bail!("go ended with {status}:\n{}", progress.tail());
    }
    Ok(())
}

fn forward(
    stream: impl Read + Send + 'static,
    lines: Sender<Line>,
    wrap: fn(String) -> Line,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = lines.send(wrap(line));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str) -> Program {
        Program::parse(name).unwrap()
    }

    #[test]
    fn programs_that_go_names_as_we_do_are_built_together() {
        let asked = ["kube-proxy", "e2e.test", "kubectl"].map(program);
        assert_eq!(
            invocations(&asked),
            [
                Invocation::Together(vec![program("kube-proxy"), program("kubectl")]),
                Invocation::ByName(program("e2e.test")),
            ]
        );
    }

    #[test]
    fn etcd_is_built_by_name_because_go_would_call_it_server() {
        assert_eq!(go_name(program("etcd").package()), "server");
        assert_eq!(go_name(program("etcdctl").package()), "etcdctl");
        assert_eq!(
            invocations(&[program("etcd")]),
            [Invocation::ByName(program("etcd"))]
        );
    }

    #[test]
    fn a_test_package_is_compiled_as_a_test() {
        let invocation = Invocation::ByName(program("e2e.test"));
        let command = invocation.command(program("e2e.test").set(), Path::new("/partial"));
        let args: Vec<_> = command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect();
        assert_eq!(args[..2], ["test", "-c"]);
        assert!(args.contains(&"/partial/e2e.test".to_owned()), "{args:?}");
    }

    #[test]
    fn a_published_program_is_found_and_an_unfinished_one_is_not() {
        let cache = tempfile::tempdir().unwrap();
        let etcd = program("etcd");
        let directory = etcd.set().directory_in(cache.path());
        let partial = directory.with_added_extension("partial-1");
        for folder in [&partial, &directory] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(partial.join("etcd"), "program").unwrap();
        assert_eq!(missing(cache.path(), &[etcd]), [etcd]);

        publish(&partial, &directory, "etcd").unwrap();
        assert_eq!(missing(cache.path(), &[etcd]), []);
    }

    #[test]
    fn leftovers_of_killed_builds_go_and_all_else_stays() {
        let cache = tempfile::tempdir().unwrap();
        let directory = cache.path().join("etcd-0123");
        let kept = [directory.clone(), cache.path().join("etcd-4567.partial-1")];
        let leftover = cache.path().join("etcd-0123.partial-7");
        for folder in kept.iter().chain([&leftover]) {
            std::fs::create_dir_all(folder).unwrap();
        }
        remove_leftovers(&directory).unwrap();
        assert!(kept.iter().all(|folder| folder.exists()) && !leftover.exists());
    }

    #[test]
    fn a_set_that_is_there_starts_no_go() {
        let cache = tempfile::tempdir().unwrap();
        let etcd = program("etcd");
        let path = etcd.path_in(cache.path());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "program").unwrap();

        set(cache.path(), etcd.set(), &[etcd]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "program");
    }

    #[test]
    fn a_failing_build_shows_the_tail_of_what_was_said() {
        let mut failing = Command::new("sh");
        failing.args(["-c", "echo 'x.go:1: undefined: y' >&2; exit 1"]);
        let message = follow(failing, &mut Progress::new("etcd"))
            .unwrap_err()
            .to_string();
        assert!(message.contains("undefined: y"), "{message}");
    }
}
