//! What processes have used, as the kernel counts it.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Linux counts CPU time in hundredths of a second wherever it tells us (`sysconf(_SC_CLK_TCK)`).
const TICK: Duration = Duration::from_millis(10);
const KIB: u64 = 1024;

/// Used by some processes together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// User and system time since they started.
    pub cpu: Duration,
    /// Resident memory now, in bytes.
    pub resident: u64,
    /// Resident memory at its highest, in bytes.
    pub peak: u64,
    /// Resident memory that is no file's, in bytes: what the program itself asked for.
    pub anonymous: u64,
}

/// What these processes have used until now.
pub fn usage(pids: &[u32]) -> Result<Usage> {
    let mut sum = Usage::default();
    for pid in pids {
        let read = |file: &str| {
            let path = format!("/proc/{pid}/{file}");
            fs::read_to_string(&path).with_context(|| format!("read {path}"))
        };
        let ticks = ticks(&read("stat")?).with_context(|| format!("parse stat of {pid}"))?;
        sum.cpu += TICK * ticks;
        let status = read("status")?;
        let memory =
            |field: &str| memory(&status, field).with_context(|| format!("parse {field} of {pid}"));
        sum.resident += memory("VmRSS:")?;
        sum.peak += memory("VmHWM:")?;
        sum.anonymous += memory("RssAnon:")?;
    }
    Ok(sum)
}

/// `utime` and `stime` of proc(5); the command before them may contain blanks and brackets.
fn ticks(stat: &str) -> Option<u32> {
    let (_, after_command) = stat.rsplit_once(')')?;
    let mut fields = after_command.split_ascii_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn memory(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * KIB)
}
