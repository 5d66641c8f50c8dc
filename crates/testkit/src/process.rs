//! Programs under test as values: started with a log, ended when dropped.
//!
//! A test that panics must not leave a kube-apiserver behind, so ending lives in `Drop`, needs no async
//! runtime, and is backed by the record of [`Run`] for the case that we are killed.
//! Children stay in our process group: Ctrl-C reaches them as it reaches us.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, Signal, kill_process};

use crate::command::line;
use crate::run::Run;

/// Time a program has to end by itself after SIGTERM, in steps of [`STEP`].
const GRACE_STEPS: u32 = 300;
const STEP: Duration = Duration::from_millis(10);

/// A running program; dropping it ends it and waits until it is gone.
#[derive(Debug)]
pub struct Process {
    name: String,
    pid: u32,
    log: PathBuf,
    child: Mutex<Child>,
}

impl Process {
    /// Starts `command` with its output going to `<log_folder>/<name>.log`.
    pub fn start(name: &str, command: &mut Command, log_folder: &Path) -> Result<Process> {
        let log = log_folder.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log);
        let file = file.with_context(|| format!("create log {}", log.display()))?;
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        let child = command
            .spawn()
            .with_context(|| format!("start {name}: {}", line(command)))?;
        let process = Process {
            name: name.to_owned(),
            pid: child.id(),
            log,
            child: Mutex::new(child),
        };
        // After the value exists, so that an error here ends the program.
        Run::current()?.record_child(process.pid)?;
        Ok(process)
    }

    /// What the program was called when it was started.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Process id of the program.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// File with everything the program has printed.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How the program ended, if it has.
    pub fn exited(&self) -> Option<ExitStatus> {
        let status = self.child().try_wait().ok().flatten();
        if status.is_some() {
            self.forget();
        }
        status
    }

    /// The last `count` lines the program printed.
    pub fn tail(&self, count: usize) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }

    /// An error when the program has ended, with its last words; for loops that wait for it to be ready.
    pub fn expect_alive(&self) -> Result<()> {
        match self.exited() {
            Some(status) => bail!(
                "{} ended early ({status}), log {}:\n{}",
                self.name,
                self.log.display(),
                self.tail(20)
            ),
            None => Ok(()),
        }
    }

    /// Stops the program in the middle of what it does (SIGSTOP): its connections live, and nothing comes over them.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a paused program go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Asks the program to end (SIGTERM) and returns at once: to end several together, drop them afterwards.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        let mut child = self.child();
        // Only a child that has not been waited for surely still owns its pid.
        if matches!(child.try_wait(), Ok(None))
            && let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw)
        {
            // It may end between the two lines; then there is nobody to tell.
            let _ = kill_process(pid, signal);
        }
    }

    /// Ends the program now and waits until it is gone: SIGTERM first, SIGKILL after a short grace.
    pub fn stop(&self) {
        self.terminate();
        for _ in 0..GRACE_STEPS {
            if self.exited().is_some() {
                return;
            }
            thread::sleep(STEP);
        }
        tracing::warn!(
            name = self.name,
            pid = self.pid,
            "killed: did not end when asked to"
        );
        self.kill();
    }

    /// Kills the program as a crash would (SIGKILL) and waits until it is gone.
    pub fn kill(&self) {
        let mut child = self.child();
        let ended = child.kill().and_then(|()| child.wait());
        drop(child);
        match ended {
            Ok(_) => self.forget(),
            Err(error) => {
                tracing::warn!(name = self.name, pid = self.pid, %error, "cannot end process");
            }
        }
    }

    fn forget(&self) {
        if let Ok(run) = Run::current() {
            run.forget_child(self.pid);
        }
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
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
    fn a_dropped_process_is_gone_and_its_log_stays() {
        let folder = tempfile::tempdir().unwrap();
        let process = Process::start(
            "sleeper",
            &mut shell("echo hello; exec sleep 600"),
            folder.path(),
        )
        .unwrap();
        let proc = PathBuf::from(format!("/proc/{}", process.pid()));
        while process.tail(1) != "hello" {
            thread::sleep(STEP);
        }
        assert!(process.exited().is_none());
        drop(process);
        assert!(!proc.exists());
        assert_eq!(
            fs::read_to_string(folder.path().join("sleeper.log")).unwrap(),
            "hello\n"
        );
    }

    #[test]
    fn a_panic_ends_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let process =
            Process::start("sleeper", Command::new("sleep").arg("600"), folder.path()).unwrap();
        let proc = PathBuf::from(format!("/proc/{}", process.pid()));
        let panicked = thread::spawn(move || {
            let _process = process;
            panic!("on purpose");
        });
        panicked.join().unwrap_err();
        assert!(!proc.exists());
    }

    #[test]
    fn a_process_that_ends_early_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let process = Process::start(
            "broken",
            &mut shell("echo no disk >&2; exit 3"),
            folder.path(),
        )
        .unwrap();
        while process.exited().is_none() {
            thread::sleep(STEP);
        }
        let error = process.expect_alive().unwrap_err().to_string();
        assert!(
            error.contains("broken ended early") && error.contains("no disk"),
            "{error}"
        );
    }

    #[test]
    fn a_missing_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error =
            Process::start("x", &mut Command::new("no-such-program"), folder.path()).unwrap_err();
        assert!(
            format!("{error:#}").contains("no-such-program"),
            "{error:#}"
        );
    }
}
