//! The one place that writes to standard output.

use std::io::{self, ErrorKind, Write};

/// Writes `text` for the user or for the next program in a pipe. A reader that stopped
/// early, as `head` does, is no error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
