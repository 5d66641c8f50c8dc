//! `edgegrid crds`, printed and as files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::Command;

fn edgegrid() -> Command {
    Command::new(env!("CARGO_BIN_EXE_edgegrid"))
}

#[test]
fn crds_prints_what_it_writes_as_files() {
    let folder = tempfile::tempdir().unwrap();
    let written = edgegrid()
        .args(["crds", "--output-dir"])
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(written.success());
    let printed = edgegrid().arg("crds").output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let mut files = 0;
    for entry in fs::read_dir(folder.path()).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(printed.contains(&format!("---\n{text}")));
        files += 1;
    }
    assert_eq!(files, 5);
    assert_eq!(printed.matches("---\n").count(), 5);
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = edgegrid()
        .args(["crds", "--output-dir"])
        .arg(file.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(
        stderr.contains(&format!("create {}", file.path().display())),
        "{stderr}"
    );
}
