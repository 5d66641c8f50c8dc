//! The file itself: written when all names are known, and then with every change.

use super::{lines, merge};
use crate::names::{Names, State};
use edgegrid_runtime::logging::chain;
use edgegrid_runtime::shutdown::Shutdown;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Changes that come within this time of a write go to disk together: flash wears out.
const GATHER: Duration = Duration::from_millis(500);
/// How often the file is looked at without a change: somebody may have removed it.
const LOOK: Duration = Duration::from_secs(30);
/// What a new file may be: everybody reads it, as SuperEdge's.
const MODE: u32 = 0o644;

/// How a file replaces another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// Beside it, and renamed: a reader sees the old one or the new one.
    Rename,
    /// Into it: for a file that is mounted by itself, which cannot be renamed over.
    InPlace,
}

/// A hosts file that is kept up to date.
#[derive(Debug, Clone)]
pub struct Hosts {
    /// Where it is.
    pub path: PathBuf,
    /// How it is written.
    pub mode: WriteMode,
    /// The cluster's domain.
    pub domain: String,
}

/// What the hosts file counts.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    lines: Gauge,
    writes: Counter,
    failures: Counter,
}

/// Why a hosts file is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// It could not be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        #[source]
        /// Why.
        source: io::Error,
    },
    /// It could not be written.
    #[error("write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        #[source]
        /// Why.
        source: io::Error,
    },
    /// It is a mount of its own.
    #[error("replace {}: it is mounted by itself, so use --hosts-in-place or mount its folder", path.display())]
    Mounted {
        /// The file.
        path: PathBuf,
        #[source]
        /// The error of the system.
        source: io::Error,
    },
}

impl Metrics {
    /// Shows them in a registry.
    pub fn register(&self, to: &mut Registry) {
        let to = to.sub_registry_with_prefix("edgegrid_hosts");
        to.register("lines", "Lines of short names", self.lines.clone());
        to.register("writes", "Times the file was written", self.writes.clone());
        to.register(
            "failures",
            "Times the file could not be written",
            self.failures.clone(),
        );
    }
}

impl Hosts {
    /// Keeps the file as the names are until shutdown. It is not touched before all names have
    /// been known once, nor at the end: who is cut off keeps what there is.
    pub async fn keep(self, names: Names, metrics: Metrics, stop: Shutdown) {
        let mut state = names.subscribe();
        let mut said = String::new();
        let known = async { state.wait_for(|state| state.complete).await.is_ok() };
        tokio::select! {
            known = known => if !known { return },
            () = stop.requested() => return,
        }
        loop {
            state.mark_unchanged();
            let outcome = self.write(&names, &metrics).await;
            said = report(outcome, &metrics, &said);
            tokio::select! {
                () = self.due(&mut state) => {}
                () = stop.requested() => return,
            }
        }
    }

    async fn due(&self, state: &mut tokio::sync::watch::Receiver<State>) {
        sleep(GATHER).await;
        // The sender lives in the names that are asked next.
        let _ = timeout(LOOK, state.changed()).await;
    }

    async fn write(&self, names: &Names, metrics: &Metrics) -> Result<(), WriteError> {
        let lines = lines(&names.read(), &self.domain);
        let count = lines.split(|byte| *byte == b'\n').count() - 1; // nothing is behind the last one
        metrics.lines.set(i64::try_from(count).unwrap_or(i64::MAX));
        let hosts = self.clone();
        let work = move || hosts.update(|file| merge(file, &lines));
        let done = tokio::task::spawn_blocking(work).await;
        let written = done.map_err(|error| self.failed(io::Error::other(error)))??;
        metrics.writes.inc_by(u64::from(written));
        Ok(())
    }

    /// Changes the file's text; false if it is as it should be already.
    fn update(&self, change: impl FnOnce(&[u8]) -> Vec<u8>) -> Result<bool, WriteError> {
        let old = match fs::read(&self.path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(source) => {
                let path = self.path.clone();
                return Err(WriteError::Read { path, source });
            }
        };
        let new = change(old.as_deref().unwrap_or_default());
        if old.as_deref() == Some(&*new) {
            return Ok(false);
        }
        match self.mode {
            WriteMode::InPlace => self.overwrite(&new).map_err(|error| self.failed(error))?,
            WriteMode::Rename => self.replace(&new)?,
        }
        Ok(true)
    }

    /// The new text first, the rest of the old one cut off after: a reader never finds it empty.
    fn overwrite(&self, text: &[u8]) -> io::Result<()> {
        self.make_folder()?;
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.path)?;
        file.write_all(text)?;
        file.set_len(text.len() as u64)?;
        file.sync_all()
    }

    fn replace(&self, text: &[u8]) -> Result<(), WriteError> {
        let new = beside(&self.path);
        let written = self.make_folder().and_then(|()| {
            let mut file = File::create(&new)?;
            let mode = fs::metadata(&self.path).map_or(MODE, |old| old.permissions().mode());
            file.set_permissions(fs::Permissions::from_mode(mode))?;
            file.write_all(text)?;
            file.sync_all()
        });
        written.map_err(|error| self.failed(error))?;
        fs::rename(&new, &self.path).map_err(|source| {
            // What was written beside it is of no use then; it is overwritten the next time.
            let _ = fs::remove_file(&new);
            match source.kind() {
                ErrorKind::ResourceBusy | ErrorKind::CrossesDevices => WriteError::Mounted {
                    path: self.path.clone(),
                    source,
                },
                _ => self.failed(source),
            }
        })
    }

    fn make_folder(&self) -> io::Result<()> {
        self.path.parent().map_or(Ok(()), fs::create_dir_all)
    }

    fn failed(&self, source: io::Error) -> WriteError {
        let path = self.path.clone();
        WriteError::Write { path, source }
    }
}

/// In the same folder, so that it can be renamed.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".edgegrid-new");
    path.with_file_name(name)
}

/// Logs an error once for as long as it goes on; gives what was logged.
fn report(outcome: Result<(), WriteError>, metrics: &Metrics, said: &str) -> String {
    let Err(error) = outcome else {
        return String::new();
    };
    metrics.failures.inc();
    let error = chain(&error);
    if error != said {
        tracing::warn!(error, "cannot write the hosts file, will retry");
    }
    error
}

#[cfg(test)]
mod tests;
