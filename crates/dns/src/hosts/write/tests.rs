use super::*;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};

fn hosts(folder: &Path, mode: WriteMode) -> Hosts {
    Hosts {
        path: folder.join("edge/hosts"),
        mode,
        domain: "x".to_owned(),
    }
}

fn text(number: usize) -> Vec<u8> {
    let lines = (0..50 + number % 50).map(|at| format!("10.0.0.{at} db-{at}.s.n.svc.x\n"));
    lines.collect::<String>().into_bytes()
}

// SuperEdge cuts the file to nothing before it writes it.
#[test]
fn a_reader_never_finds_the_file_empty() {
    for mode in [WriteMode::Rename, WriteMode::InPlace] {
        let folder = tempfile::tempdir().unwrap();
        let hosts = hosts(folder.path(), mode);
        hosts.update(|_| text(0)).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..100 {
                    hosts.update(|_| text(number)).unwrap();
                }
                done.store(true, Ordering::Relaxed);
            });
            while !done.load(Ordering::Relaxed) {
                let read = fs::read(&hosts.path).unwrap();
                assert!(read.starts_with(&text(0)), "{mode:?}: {} bytes", read.len());
            }
        });
    }
}

#[test]
fn what_is_as_it_should_be_is_not_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = hosts(folder.path(), WriteMode::Rename);
    assert!(hosts.update(|_| text(0)).unwrap());
    assert!(!hosts.update(<[u8]>::to_vec).unwrap());
}

#[test]
fn in_place_the_file_stays_the_same_one_and_a_new_one_keeps_its_rights() {
    let folder = tempfile::tempdir().unwrap();
    let in_place = hosts(folder.path(), WriteMode::InPlace);
    in_place.update(|_| text(9)).unwrap();
    let inode = |hosts: &Hosts| fs::metadata(&hosts.path).unwrap().ino();
    let first = inode(&in_place);
    in_place.update(|_| b"less\n".to_vec()).unwrap();
    assert_eq!(
        (inode(&in_place), fs::read(&in_place.path).unwrap()),
        (first, b"less\n".to_vec())
    );
    fs::set_permissions(&in_place.path, fs::Permissions::from_mode(0o600)).unwrap();
    let renamed = hosts(folder.path(), WriteMode::Rename);
    renamed.update(|_| text(1)).unwrap();
    assert_ne!(inode(&renamed), first);
    let mode = fs::metadata(&renamed.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_file_that_cannot_be_written_says_which_and_why() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = hosts(folder.path(), WriteMode::Rename);
    fs::create_dir_all(&hosts.path).unwrap();
    let error = hosts.update(|_| text(0)).unwrap_err();
    assert!(chain(&error).contains("edge/hosts"), "{}", chain(&error));
}
