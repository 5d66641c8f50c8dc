//! One test process is one run, and a run that dies leaves nothing behind for long.
//!
//! A process that is killed cannot clean up. So each run writes down what it owns (children, folders; its
//! network devices carry its id in their names) and holds a file lock for as long as it lives. The kernel
//! gives the lock back whatever way the process ends, so the next run tells the dead from the living by
//! trying the lock, and removes what the dead left:
//!
//! ```text
//! <temp>/edgegrid-runs/<pid in hex>/lock            held while the run lives
//!                                  /children/<pid>  start time of a child, so that a reused pid is safe
//!                                  /<name>-<n>/     folders of this run: data, logs
//!                     /locks/<name>                 leases shared by all runs: ports, subnets
//! ```

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Deref;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

mod sweep;

use crate::pid::start_time;
use sweep::sweep;

/// Ports handed out: below Linux' ephemeral range, so that no outgoing connection takes one.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// What this process owns outside of itself; there is one per process.
#[derive(Debug)]
pub struct Run {
    id: String,
    base: PathBuf,
    folder: PathBuf,
    next: AtomicUsize,
    // Never read: being open is what tells other runs that this one lives.
    _lock: File,
}

/// A folder that goes away when dropped, unless the test is failing: then its path is printed instead.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
}

/// A free loopback TCP port that no other run is given while this lives.
#[derive(Debug)]
pub struct PortLease {
    port: u16,
    _lock: File,
}

impl Run {
    /// The run of this process. The first call also removes what dead runs left behind.
    pub fn current() -> Result<&'static Run> {
        static RUN: OnceLock<Result<Run, String>> = OnceLock::new();
        RUN.get_or_init(|| {
            Run::start(&std::env::temp_dir(), std::process::id())
                .map_err(|error| format!("{error:#}"))
        })
        .as_ref()
        .map_err(|error| anyhow::anyhow!("{error}"))
    }

    /// Short name of this run (the pid in hex), part of the name of everything it makes.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A new folder for data and logs; `name` says to a human what is in it.
    pub fn folder(&self, name: &str) -> Result<RunFolder> {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let path = self.folder.join(format!("{name}-{number}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(RunFolder { path }),
                // Logs of a dead run with our pid that another run was sweeping when we started.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("create folder {}", path.display()));
                }
            }
        }
    }

    /// Writes down that `pid` is a child of this run, to be ended by a later run if this one cannot.
    pub fn record_child(&self, pid: u32) -> Result<()> {
        // A child that is gone already needs no record.
        let Some(started) = start_time(pid) else {
            return Ok(());
        };
        let path = self.child(pid);
        fs::write(&path, started)
            .with_context(|| format!("record child process in {}", path.display()))
    }

    /// Takes a child off the record once it has been waited for.
    pub fn forget_child(&self, pid: u32) {
        // An outdated record is harmless: its start time matches no living process.
        let _ = fs::remove_file(self.child(pid));
    }

    /// A loopback TCP port that is free now and is given to nobody else until the lease is dropped.
    pub fn lease_port(&self) -> Result<PortLease> {
        let count = PORTS.len();
        // Runs start at different places, so that they rarely try the same lock.
        let start = std::process::id() as usize * 97 + self.next.fetch_add(1, Ordering::Relaxed);
        for port in PORTS.cycle().skip(start % count).take(count) {
            if let Some(lock) = self.try_lease(&format!("port-{port}"))?
                && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
            {
                return Ok(PortLease { port, _lock: lock });
            }
        }
        bail!(
            "no free loopback port in {PORTS:?}: end other test runs or the programs that hold them (ss -ltnp)"
        )
    }

    /// The lock called `name`, shared by all runs of this machine, or nothing if it is taken.
    pub(crate) fn try_lease(&self, name: &str) -> Result<Option<File>> {
        let path = self.base.join("locks").join(name);
        let opened = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let file = match opened {
            Ok(file) => file,
            // Left by another user: not ours to take.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("open lock {}", path.display()));
            }
        };
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("take lock {}", path.display()))
            }
        }
    }

    fn start(temp: &Path, pid: u32) -> Result<Run> {
        let base = temp.join("edgegrid-runs");
        shared_folder(&base)?;
        shared_folder(&base.join("locks"))?;
        let id = format!("{pid:x}");
        sweep(&base, &id)?;
        let folder = base.join(&id);
        let lock = claim(&folder)?;
        Ok(Run {
            id,
            base,
            folder,
            next: AtomicUsize::new(0),
            _lock: lock,
        })
    }

    fn child(&self, pid: u32) -> PathBuf {
        self.folder.join("children").join(pid.to_string())
    }
}

impl RunFolder {
    /// Leaves the folder where it is and gives its path: for output that a human wants to look at later.
    pub fn keep(self) -> PathBuf {
        let path = self.path.clone();
        std::mem::forget(self);
        path
    }
}

impl Deref for RunFolder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<Path> for RunFolder {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("logs kept in {}", self.path.display());
        } else if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(folder = %self.path.display(), %error, "folder of this run stays until it is swept");
        }
    }
}

impl PortLease {
    /// The leased port, free on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// A folder that all users of the machine may add to, as the temporary folder itself.
fn shared_folder(path: &Path) -> Result<()> {
    let made = fs::create_dir(path);
    match made {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o1777)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
    .with_context(|| {
        format!(
            "create folder {}; set TMPDIR to a folder you may write to",
            path.display()
        )
    })
}

/// Makes `folder` this run's own. Another run may be sweeping it at this moment, then it is made anew.
fn claim(folder: &Path) -> Result<File> {
    for _ in 0..100 {
        let locked = fs::create_dir_all(folder).and_then(|()| try_lock(folder));
        match locked {
            Ok(Some(lock)) => {
                fs::create_dir_all(folder.join("children"))
                    .with_context(|| format!("create folder {}", folder.display()))?;
                return Ok(lock);
            }
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("take folder {}", folder.display()));
            }
            Ok(None) | Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
    bail!(
        "folder {} belongs to a living process with our pid (a container sharing the temporary folder?): \
         set TMPDIR to another folder",
        folder.display()
    )
}

/// The lock of a run's folder, or nothing while its run lives.
fn try_lock(folder: &Path) -> std::io::Result<Option<File>> {
    let path = folder.join("lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)?;
    match file.try_lock() {
        // Locked, but a sweep may have removed the file between our opening and our locking it.
        Ok(()) => Ok((fs::metadata(&path)?.ino() == file.metadata()?.ino()).then_some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests;
