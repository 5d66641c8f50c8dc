//! Revisions that may have been given out, noted on disk before they are: after a restart the
//! first one is beyond all that a client may remember.

use super::private;
use edgegrid_store::{Journal, Record};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// So many are set aside at a time, so that the disk is hardly ever touched.
const BLOCK: u64 = 1 << 20;
pub(super) const FILE: &str = "revisions";

/// Sets revisions aside.
#[derive(Debug)]
pub(crate) struct Reserve {
    folder: Option<PathBuf>,
    /// Everything up to here may be given out.
    through: u64,
}

impl Reserve {
    /// Reads what was set aside; gives the revision to go on after, which is beyond it and not
    /// before the clock.
    pub(crate) fn open(folder: Option<&Path>, clock: u64) -> (Self, u64) {
        let noted = folder.and_then(|folder| fs::read_to_string(folder.join(FILE)).ok());
        let noted: u64 = noted.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let start = noted.max(clock);
        let reserve = Self {
            folder: folder.map(Path::to_owned),
            through: start,
        };
        (reserve, start)
    }

    fn note(&self, through: u64) -> io::Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        private::create_folder(folder)?;
        let new = folder.join("revisions.new");
        let mut file = private::create_file(&new)?;
        writeln!(file, "{through}")?;
        file.sync_all()?;
        fs::rename(&new, folder.join(FILE))?;
        File::open(folder)?.sync_all()
    }
}

impl Journal for Reserve {
    /// A disk that refuses does not stop the view: the next start then relies on the clock.
    fn append(&mut self, transaction: &[Record<'_>]) -> io::Result<()> {
        let last = transaction.last().map_or(0, |record| record.revision);
        if last > self.through {
            self.through = last.saturating_add(BLOCK);
            if let Err(error) = self.note(self.through) {
                tracing::warn!(%error, "cannot note the revisions that are given out");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgegrid_store::{Expect, Store};

    #[test]
    fn revisions_only_grow_over_restarts_whatever_the_clock_says() {
        let folder = tempfile::tempdir().unwrap();
        let mut last = 0;
        for clock in [1_000, 5, 3_000_000, 0] {
            let (reserve, start) = Reserve::open(Some(folder.path()), clock);
            let store: Store = Store::builder().after(start).journal(reserve).build();
            assert!(
                store.revision() >= last,
                "{} after {last}",
                store.revision()
            );
            for n in 0..5 {
                let event = store.put(format!("{n}"), "", Expect::Anything).unwrap();
                assert!(event.revision > last);
                last = event.revision;
            }
        }
    }

    #[test]
    fn a_disk_that_refuses_does_not_stop_the_view() {
        let (reserve, start) = Reserve::open(Some(Path::new("/dev/null/nothing")), 7);
        let store: Store = Store::builder().after(start).journal(reserve).build();
        assert_eq!(store.put("a", "", Expect::Anything).unwrap().revision, 8);
    }
}
