//! Short names as lines of a hosts file, for a CoreDNS with the `hosts` plugin.
//!
//! ```text
//! 10.1.0.1 of.somebody.else                       kept
//! # edgegrid begin …                              ours, sorted, written anew with every change
//! 10.0.0.1 db-0.db-svc.default.svc.cluster.local
//! # edgegrid end
//! ```

mod write;

use crate::records::Records;
use std::collections::BTreeSet;
use std::io::Write;
use std::net::IpAddr;

pub use write::{Hosts, Metrics, WriteError, WriteMode};

const BEGIN: &[u8] =
    b"# edgegrid begin: short names of this site's pods, written anew with every change";
const END: &[u8] = b"# edgegrid end";

/// All short names, a line for each address; sorted by namespace, service and name.
pub fn lines(records: &Records, domain: &str) -> Vec<u8> {
    let mut lines = Vec::new();
    for (service, alias, host) in records.aliases() {
        let (name, namespace) = (&service.name, &service.namespace);
        for address in &host.addresses {
            // Writing to a Vec cannot fail.
            let _ = writeln!(lines, "{address} {alias}.{name}.{namespace}.svc.{domain}");
        }
    }
    lines
}

/// A file with the lines in it: what others wrote stays, but for what SuperEdge's daemon left of
/// the same names, each alone with an address on its line.
pub fn merge(file: &[u8], lines: &[u8]) -> Vec<u8> {
    let marks = BEGIN.len() + END.len() + 2;
    let mut merged = Vec::with_capacity(file.len().max(lines.len() + marks));
    let foreign = foreign(file);
    let names = if foreign.is_empty() {
        BTreeSet::new()
    } else {
        names(lines)
    };
    for line in foreign {
        if !names_one_of(line, &names) {
            merged.extend_from_slice(line);
            merged.push(b'\n');
        }
    }
    for part in [BEGIN, b"\n", lines, END, b"\n"] {
        merged.extend_from_slice(part);
    }
    merged
}

/// The lines that are not between our marks. A begin without an end, as a write that was cut short
/// leaves it, ends with the first line that is not like ours.
fn foreign(file: &[u8]) -> Vec<&[u8]> {
    let mut all: Vec<&[u8]> = file.split(|byte| *byte == b'\n').collect();
    if all.last().is_some_and(|last| last.is_empty()) {
        all.pop();
    }
    let mut foreign = Vec::new();
    let mut lines = all.into_iter().peekable();
    while let Some(line) = lines.next() {
        if line != BEGIN {
            if line != END {
                foreign.push(line);
            }
            continue;
        }
        while lines.next_if(|line| parsed(line).is_some()).is_some() {}
        lines.next_if(|line| *line == END);
    }
    foreign
}

/// The names that our lines give addresses.
fn names(lines: &[u8]) -> BTreeSet<&str> {
    let lines = lines.split(|byte| *byte == b'\n');
    lines.filter_map(parsed).map(|(_, name)| name).collect()
}

/// Whether a line gives one of the names an address, and does nothing else.
fn names_one_of(line: &[u8], names: &BTreeSet<&str>) -> bool {
    let name = parsed(line).map(|(_, name)| name.trim_end_matches('.').to_ascii_lowercase());
    name.is_some_and(|name| names.contains(&*name))
}

/// A line of one address and one name, without a comment.
fn parsed(line: &[u8]) -> Option<(IpAddr, &str)> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_whitespace();
    let (address, name) = (words.next()?.parse().ok()?, words.next()?);
    let alone = words.next().is_none() && !name.starts_with('#');
    alone.then_some((address, name))
}

#[cfg(test)]
mod tests;
