//! How files looked when they were read, so that a change is noticed without reading them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::SystemTime;

/// The marks of some files. A link counts as what it leads to: kubelets and Secret volumes swap links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileMarks(BTreeMap<PathBuf, Option<Mark>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    inode: u64,
    length: u64,
    modified: Option<SystemTime>,
}

impl FileMarks {
    /// The marks that files have now. Take them before the files are read: a change in between is then seen later.
    pub fn take(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let marks = files.into_iter().map(|file| {
            let mark = fs::metadata(&file).ok().map(|metadata| Mark {
                inode: metadata.ino(),
                length: metadata.len(),
                modified: metadata.modified().ok(),
            });
            (file, mark)
        });
        Self(marks.collect())
    }

    /// The marks that the same files have now.
    #[must_use]
    pub fn now(&self) -> Self {
        Self::take(self.0.keys().cloned())
    }
}
