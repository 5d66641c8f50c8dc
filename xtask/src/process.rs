//! Starting other programs: always from the workspace's root, always with an error that names the command.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Folders of programs such as iptables, which the PATH of a plain user or of a container may lack.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// The workspace's root folder.
pub(crate) fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// A program, to be run at the workspace's root, with [`SYSTEM_FOLDERS`] on its PATH.
///
/// Without what `cargo run` told us about our own package: build scripts look at it, and
/// would compile their crates anew whenever one changes between `cargo xtask` and `cargo`.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).env("PATH", search_path());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// The cargo that runs us, so that every step uses one toolchain.
pub(crate) fn cargo() -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs to the end with our own input and output; a failing exit is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("start {}", line(command)))?;
    if !status.success() {
        bail!("`{}` ended with {status}", line(command));
    }
    Ok(())
}

/// Runs to the end and gives back what it printed; a failing exit is an error that shows standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    captured(command.stderr(Stdio::piped()))
}

/// [`output`] for commands whose standard error is for people to follow meanwhile.
pub(crate) fn output_in_view(command: &mut Command) -> Result<String> {
    captured(command.stderr(Stdio::inherit()))
}

fn captured(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {}", line(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let message = format!("`{}` ended with {}\n{said}", line(command), output.status);
        bail!("{}", message.trim_end());
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("read the output of {}", line(command)))
}

/// Where `program` is on PATH or in [`SYSTEM_FOLDERS`].
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&search_path())
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

fn search_path() -> OsString {
    with_system_folders(&std::env::var_os("PATH").unwrap_or_default())
}

fn with_system_folders(path: &OsStr) -> OsString {
    let mut folders: Vec<PathBuf> = std::env::split_paths(path).collect();
    for folder in SYSTEM_FOLDERS.map(PathBuf::from) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    std::env::join_paths(folders).unwrap_or_else(|_| path.to_owned())
}

/// The command as one would type it, without the folders of the program itself.
fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program());
    std::iter::once(program)
        .chain(command.get_args())
        .map(|word| quoted(&word.to_string_lossy()))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:@,+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_system_are_found_whatever_path_says() {
        let path = |text: &str| with_system_folders(OsStr::new(text));
        assert_eq!(path("/usr/bin"), "/usr/bin:/usr/sbin:/sbin");
        assert_eq!(path("/sbin:/usr/sbin"), "/sbin:/usr/sbin");
    }

    #[test]
    fn a_command_is_shown_so_that_a_shell_takes_it_back() {
        let mut shown = command("/somewhere/cargo-nextest");
        shown.args(["nextest", "run", "-E", "binary(crds) | binary(validation)"]);
        assert_eq!(
            line(&shown),
            "cargo-nextest nextest run -E 'binary(crds) | binary(validation)'"
        );
    }

    #[test]
    fn a_failing_command_is_an_error_that_names_it_and_shows_what_it_said() {
        let mut failing = command("sh");
        failing.args(["-c", "echo the reason >&2; exit 3"]);
        let message = output(&mut failing).unwrap_err().to_string();
        assert!(
            message.contains("the reason") && message.contains("sh -c"),
            "{message}"
        );
    }
}
