//! Tables of figures, for a terminal and for the documentation.

use std::fmt::Write as _;
use std::fs;
use std::thread::available_parallelism;

use anyhow::{Context, Result};

/// From the workspace's root, where `cargo xtask` runs the measurements.
const FILE: &str = "docs/figures.md";
const END: &str = "<!-- end -->";

/// Puts the tables of a subject into `docs/figures.md`, in place of those of an earlier run.
pub fn write(subject: &str, tables: &str) -> Result<()> {
    write_to(FILE, subject, tables)
}

/// [`write()`] into another file.
pub fn write_to(file: &str, subject: &str, tables: &str) -> Result<()> {
    let begin = format!("<!-- begin: cargo xtask bench {subject} --write -->");
    let old = fs::read_to_string(file).with_context(|| format!("read {file}"))?;
    let (before, rest) = old
        .split_once(&begin)
        .with_context(|| format!("{file} lacks {begin}"))?;
    let (_, after) = rest
        .split_once(END)
        .with_context(|| format!("{file} lacks {END} after {begin}"))?;
    let new = format!("{before}{begin}\n\n{tables}\n{END}{after}");
    fs::write(file, new).with_context(|| format!("write {file}"))
}

/// The machine in general words.
pub fn machine() -> String {
    let cores = available_parallelism().map_or(0, usize::from);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let gib = kib.unwrap_or_default() / (1024 * 1024);
    format!(
        "{cores} cores ({}), {gib} GiB, Linux, shared with other work",
        std::env::consts::ARCH
    )
}

/// Markdown that can be read as it is, too.
pub fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for (n, row) in rows.iter().enumerate() {
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(text, "| {cell:width$} ");
        }
        text.push_str("|\n");
        if n == 0 {
            for width in widths {
                let _ = write!(text, "|{}", "-".repeat(width + 2));
            }
            text.push_str("|\n");
        }
    }
    text
}
