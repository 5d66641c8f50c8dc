//! Commands that run to their end, and where their programs are.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs `command` to its end and gives its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    output_with_input(command, "")
}

/// [`output`] with `input` as the command's standard input.
pub fn output_with_input(command: &mut Command, input: &str) -> Result<String> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("start {}", line(command)))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that ends before it has read all says why on stderr, which tells more than a broken pipe.
        let _ = stdin.write_all(input.as_bytes());
    }
    let result = child
        .wait_with_output()
        .with_context(|| format!("wait for {}", line(command)))?;
    let (stdout, stderr) = (
        String::from_utf8_lossy(&result.stdout),
        String::from_utf8_lossy(&result.stderr),
    );
    if !result.status.success() {
        bail!(
            "{}: {}\n{}",
            line(command),
            result.status,
            stderr.trim_end()
        );
    }
    Ok(stdout.into_owned())
}

/// [`output_with_input`] for async code: it waits on a thread made for that.
pub async fn output_async(mut command: Command, input: String) -> Result<String> {
    tokio::task::spawn_blocking(move || output_with_input(&mut command, &input))
        .await
        .context("run a command")?
}

/// The command as a human would type it.
pub(crate) fn line(command: &Command) -> String {
    let mut line = String::new();
    for word in std::iter::once(command.get_program()).chain(command.get_args()) {
        let word = word.to_string_lossy();
        let separator = if line.is_empty() { "" } else { " " };
        let quote = if word.is_empty() || word.contains([' ', '"', '\'', '{', '$']) {
            "'"
        } else {
            ""
        };
        let _ = write!(line, "{separator}{quote}{word}{quote}");
    }
    line
}

/// Where `program` is, or an error that says which Debian package has it.
pub(crate) fn require(program: &str, package: &str) -> Result<PathBuf> {
    find(OsStr::new(program)).with_context(|| {
        format!("program {program} is missing: apt-get install {package} (or put it on PATH)")
    })
}

/// Where a program is, by path or on PATH.
pub(crate) fn find(program: &OsStr) -> Option<PathBuf> {
    if Path::new(program).components().count() > 1 {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_shows_command_status_and_stderr() {
        assert_eq!(
            output_with_input(&mut Command::new("cat"), "abc").unwrap(),
            "abc"
        );
        let error = output(&mut shell("echo broken >&2; exit 3"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("sh -c 'echo broken")
                && error.contains("status: 3")
                && error.ends_with("broken"),
            "{error}"
        );
    }
}
