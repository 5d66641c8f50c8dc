//! Removal of network namespaces, devices and processes by the prefix of their names.
//!
//! Used twice: by a lab that ends, and for the labs of runs that were killed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{command, pid};

/// Where `ip netns` keeps a name per namespace.
pub(crate) const NAMESPACES: &str = "/run/netns";
/// Where `ip netns exec` looks for files that replace those of `/etc`.
pub(crate) const OVERLAYS: &str = "/etc/netns";

/// Removes every network device, namespace (with the processes in it) and `/etc/netns` entry whose name
/// starts with `prefix`. What is gone already is no error.
pub(crate) fn remove(prefix: &str) -> Result<()> {
    let namespaces = named(NAMESPACES, prefix);
    kill_inside(&namespaces)?;
    let mut batch = String::new();
    // Devices first: those of a namespace vanish some time after it, and their names would stay taken.
    for device in named("/sys/class/net", prefix) {
        let _ = writeln!(batch, "link del {device}");
    }
    for namespace in &namespaces {
        let _ = writeln!(batch, "netns del {namespace}");
    }
    if !batch.is_empty() {
        // With -force it goes on after an error and fails in the end: a veth's other half may be gone already.
        let removed =
            command::output_with_input(Command::new("ip").args(["-force", "-batch", "-"]), &batch);
        let left = [named("/sys/class/net", prefix), named(NAMESPACES, prefix)].concat();
        if !left.is_empty() {
            removed.with_context(|| format!("remove {}", left.join(", ")))?;
        }
    }
    for overlay in named(OVERLAYS, prefix) {
        let path = Path::new(OVERLAYS).join(overlay);
        fs::remove_dir_all(&path).with_context(|| format!("remove {}", path.display()))?;
    }
    Ok(())
}

/// Entries of `folder` whose names start with `prefix`; none when there is no such folder.
fn named(folder: &str, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .collect()
}

/// Kills every process whose network is one of `namespaces`, as it would keep the namespace alive.
pub(crate) fn kill_inside(namespaces: &[String]) -> Result<()> {
    let ids: BTreeSet<_> = namespaces
        .iter()
        .filter_map(|name| identity(&format!("{NAMESPACES}/{name}")))
        .collect();
    if ids.is_empty() {
        return Ok(());
    }
    let is_inside =
        |pid: u32| identity(&format!("/proc/{pid}/ns/net")).is_some_and(|id| ids.contains(&id));
    for entry in fs::read_dir("/proc").context("list processes")?.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if is_inside(pid) {
            pid::kill(pid, is_inside)
                .with_context(|| format!("end process {pid} in a lab namespace"))?;
        }
    }
    Ok(())
}

/// Two paths lead to the same namespace when these are equal.
fn identity(path: &str) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}
