//! Processes that are not our children, by their pid.

use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Kills `pid` if it is still the process that `is_meant` says; safe against the pid being reused meanwhile.
pub(crate) fn kill(pid: u32, is_meant: impl Fn(u32) -> bool) -> std::io::Result<()> {
    let Some(handle) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Ok(());
    };
    // The handle stays with this very process, so what is true after taking it is true when the signal is sent.
    let Ok(process) = pidfd_open(handle, PidfdFlags::empty()) else {
        return Ok(());
    };
    if !is_meant(pid) {
        return Ok(());
    }
    match pidfd_send_signal(process, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// When `pid` was started, in clock ticks since boot: with the pid it names one process for good.
pub(crate) fn start_time(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets and may hold blanks and brackets itself.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19).map(str::to_owned)
}
