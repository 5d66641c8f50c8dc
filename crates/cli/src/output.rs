//! What a user reads: the one place that writes to standard output, and errors in one sentence.

use std::io::{self, ErrorKind, Write};

/// Writes `text` for the user or for the next program in a pipe. A reader that stopped
/// early, as `head` does, is no error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// An error and its causes, as one sentence. Many errors say their cause themselves: that is not said again.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    let mut sentence = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !sentence.contains(&cause) {
            sentence = format!("{sentence}: {cause}");
        }
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_each_cause_once() {
        let cause = anyhow::anyhow!("no such file").context("open a.conf: no such file");
        let error = cause.context("read kubeconfig a.conf");
        assert_eq!(
            sentence(&error),
            "read kubeconfig a.conf: open a.conf: no such file"
        );
    }
}
