//! Short names as lines of a hosts file, for a CoreDNS with the `hosts` plugin.
//!
//! ```text
//! 10.1.0.1 of.somebody.else                       kept
//! # edgegrid begin …                              ours, sorted, written anew with every change
//! 10.0.0.1 db-0.db-svc.default.svc.cluster.local
//! # edgegrid end
//! ```

mod file;

use crate::records::Records;
use std::collections::BTreeSet;
use std::net::IpAddr;

pub use file::{Hosts, Metrics, WriteError, WriteMode};

const BEGIN: &[u8] =
    b"# edgegrid begin: short names of this site's pods, written anew with every change";
const END: &[u8] = b"# edgegrid end";

/// A line: name before address, so that lines are sorted by name.
pub type Line = (String, IpAddr);

/// The lines of all short names, sorted.
pub fn lines(records: &Records, domain: &str) -> BTreeSet<Line> {
    let mut lines = BTreeSet::new();
    for (service, alias, host) in records.aliases() {
        let name = format!(
            "{alias}.{}.{}.svc.{domain}",
            service.name, service.namespace
        );
        lines.extend(
            host.addresses
                .iter()
                .map(|address| (name.clone(), *address)),
        );
    }
    lines
}

/// A file with the lines in it: what others wrote stays, but for what SuperEdge's daemon left of
/// the same names, each alone with an address on its line.
pub fn merge(file: &[u8], lines: &BTreeSet<Line>) -> Vec<u8> {
    let mut merged = Vec::with_capacity(file.len());
    for line in foreign(file) {
        if !names_one_of(line, lines) {
            merged.extend_from_slice(line);
            merged.push(b'\n');
        }
    }
    merged.extend_from_slice(BEGIN);
    for (name, address) in lines {
        merged.extend_from_slice(format!("\n{address} {name}").as_bytes());
    }
    merged.push(b'\n');
    merged.extend_from_slice(END);
    merged.push(b'\n');
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

/// Whether a line gives one of the names an address, and does nothing else.
fn names_one_of(line: &[u8], lines: &BTreeSet<Line>) -> bool {
    let Some((_, name)) = parsed(line) else {
        return false;
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let lowest = IpAddr::from([0, 0, 0, 0]);
    let mut from = lines.range((name.clone(), lowest)..);
    from.next().is_some_and(|(first, _)| *first == name)
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
