//! Removal of what dead runs left: their children, network devices and folders.
//!
//! Every step can be repeated and is done under the dead run's own lock, so several runs may start at once,
//! and one that is killed while sweeping only leaves the rest to the next.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use super::try_lock;
use crate::leftovers;
use crate::pid::{kill, start_time};

/// How long the logs of a dead run are kept.
pub(super) const KEPT: Duration = Duration::from_hours(24);
/// A dead run keeps its logs and small files; larger ones (etcd's write-ahead log) would fill the disk.
pub(super) const LARGE: u64 = 1 << 20;

/// Removes what dead runs left. A failure to remove one of them does not keep this run from starting.
pub(super) fn sweep(base: &Path, own: &str) -> Result<()> {
    let entries = fs::read_dir(base).with_context(|| format!("list {}", base.display()))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let swept = match name.split_once('-') {
            Some((id, _)) if is_id(id) => remove_when_old(&entry.path()),
            None if is_id(&name) => sweep_run(&entry.path(), &name, own),
            _ => continue,
        };
        if let Err(error) = swept {
            tracing::warn!(run = name, "cannot remove what a dead run left: {error:#}");
        }
    }
    Ok(())
}

fn is_id(name: &str) -> bool {
    u32::from_str_radix(name, 16).is_ok()
}

/// Removes what the run of `folder` left, if it is dead; its lock is held meanwhile, so only one sweeps it.
fn sweep_run(folder: &Path, id: &str, own: &str) -> Result<()> {
    let _lock = match try_lock(folder) {
        Ok(Some(lock)) => lock,
        Ok(None) => return Ok(()),
        // Swept by another run just now, or another user's.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::PermissionDenied
            ) =>
        {
            return Ok(());
        }
        Err(error) => return Err(error).with_context(|| format!("lock {}", folder.display())),
    };
    kill_children(&folder.join("children"))?;
    leftovers::remove(&format!("eg{id}-"))?;
    if !trim(folder)? {
        return fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()));
    }
    remove_when_old(folder)?;
    if id == own && folder.exists() {
        // Our pid was used before: its logs make room for ours.
        let secs = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let aside = folder.with_file_name(format!("{id}-{secs}"));
        fs::rename(folder, &aside).with_context(|| format!("move {} aside", folder.display()))?;
    }
    Ok(())
}

fn kill_children(records: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(records) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let recorded = fs::read_to_string(entry.path())?;
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        kill(pid, |pid| {
            start_time(pid).is_some_and(|now| now == recorded)
        })
        .with_context(|| format!("end process {pid} of a dead run"))?;
        fs::remove_file(entry.path())?;
    }
    Ok(())
}

/// Removes large files that are no logs, and tells whether any log is left.
fn trim(folder: &Path) -> Result<bool> {
    let mut logs = false;
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let entry = entry?;
        let (path, meta) = (entry.path(), entry.metadata()?);
        if meta.is_dir() {
            logs |= trim(&path)?;
        } else if path.extension().is_some_and(|ext| ext == "log") {
            logs |= meta.len() > 0;
        } else if meta.len() >= LARGE {
            fs::remove_file(&path)?;
        }
    }
    Ok(logs)
}

fn remove_when_old(folder: &Path) -> Result<()> {
    // The lock file is written once, at the start of the run.
    let started = fs::metadata(folder.join("lock"))?.modified()?;
    if started.elapsed().is_ok_and(|age| age > KEPT) {
        fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    Ok(())
}
