//! One at a time: a lock that the kernel takes back when its holder dies, however it dies.

use std::fs::{File, TryLockError};
use std::path::Path;

use anyhow::{Context, Result};

/// A locked file; dropping it releases the lock.
pub(crate) struct Exclusive {
    _file: File,
}

/// Waits for the lock file at `path`, making it if needed; calls `waiting` once if another holds it.
pub(crate) fn exclusive(path: &Path, waiting: impl FnOnce()) -> Result<Exclusive> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    let file = File::create(path).with_context(|| format!("open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(Exclusive { _file: file }),
        Err(TryLockError::WouldBlock) => waiting(),
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("lock {}", path.display()));
        }
    }
    file.lock()
        .with_context(|| format!("wait for {}", path.display()))?;
    Ok(Exclusive { _file: file })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_second_holder_says_so_and_waits_for_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deeper/set.lock");
        let first = exclusive(&path, || panic!("nobody holds it")).unwrap();

        let (sender, events) = mpsc::channel();
        let second = std::thread::spawn(move || {
            let held = exclusive(&path, || sender.send("waiting").unwrap()).unwrap();
            sender.send("held").unwrap();
            held
        });
        assert_eq!(events.recv().unwrap(), "waiting");
        assert!(
            events.try_recv().is_err(),
            "held while the first still holds it"
        );
        drop(first);
        assert_eq!(events.recv().unwrap(), "held");
        drop(second.join().unwrap());
    }
}
