//! Files and folders that nobody else may read: they tell of every Service and pod of the site.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;
const OTHERS: u32 = 0o077;

/// Makes a folder, or closes one that is there. What is above it is not ours alone.
pub(super) fn create_folder(folder: &Path) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(FOLDER).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {
            close(folder, FOLDER);
            Ok(())
        }
        made => made,
    }
}

/// Makes a file, or empties one.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(FILE);
    let file = file.open(path)?;
    close(path, FILE);
    Ok(file)
}

/// Closes what an earlier version left open in a folder, and the folder.
pub(super) fn tighten(folder: &Path, files: &[&str]) {
    close(folder, FOLDER);
    for file in files {
        close(&folder.join(file), FILE);
    }
}

/// Takes rights from others. A file system without rights of its own does not stop the view.
fn close(path: &Path, mode: u32) {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return;
    };
    if metadata.is_symlink() || metadata.permissions().mode() & OTHERS == 0 {
        return;
    }
    if let Err(error) = fs::set_permissions(path, Permissions::from_mode(mode)) {
        tracing::debug!(path = %path.display(), %error, "cannot take rights from others");
    }
}
