//! What is seen of a Go build while it runs: a counter for people, and the tail for when it fails.
//!
//! With `-v` Go prints the name of each package that it compiles, and nothing for one that it finds in
//! its cache, so the total is an upper bound.

use std::collections::{BTreeSet, VecDeque};
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use crate::stopwatch::{Stopwatch, human};

/// Lines of Go's own words kept for an error: a compile error with its surroundings fits.
const TAIL: usize = 30;

/// How often the counter is shown: on a terminal one line is written over, but a log must not grow by
/// the second.
const IN_PLACE_EVERY: Duration = Duration::from_millis(200);
const PLAIN_EVERY: Duration = Duration::from_secs(15);

pub(super) struct Progress {
    label: String,
    packages: BTreeSet<String>,
    compiled: usize,
    downloaded: usize,
    tail: VecDeque<String>,
    watch: Stopwatch,
    shown_at: Duration,
    display: Display,
}

#[derive(Clone, Copy, PartialEq)]
enum Display {
    InPlace,
    Plain,
}

impl Progress {
    pub(super) fn new(label: &str) -> Self {
        let display = if std::io::stderr().is_terminal() {
            Display::InPlace
        } else {
            Display::Plain
        };
        Self {
            label: label.to_owned(),
            packages: BTreeSet::new(),
            compiled: 0,
            downloaded: 0,
            tail: VecDeque::new(),
            watch: Stopwatch::start(),
            shown_at: Duration::ZERO,
            display,
        }
    }

    /// A package that the build may have to compile.
    pub(super) fn expect(&mut self, package: String) {
        self.packages.insert(package);
    }

    /// A line of Go's standard error.
    pub(super) fn note(&mut self, line: String) {
        if self.packages.contains(&line) {
            self.compiled += 1;
        } else if line.starts_with("go: downloading ") {
            self.downloaded += 1;
        } else {
            self.tail.push_back(line);
        }
        if self.tail.len() > TAIL {
            self.tail.pop_front();
        }
    }

    /// Shows the counter if it is time to.
    pub(super) fn tick(&mut self) {
        let now = self.elapsed();
        let every = match self.display {
            Display::InPlace => IN_PLACE_EVERY,
            Display::Plain => PLAIN_EVERY,
        };
        if now.saturating_sub(self.shown_at) < every {
            return;
        }
        self.shown_at = now;
        let line = self.line(now);
        match self.display {
            Display::InPlace => eprint!("\r\x1b[K{line}"),
            Display::Plain => eprintln!("{line}"),
        }
        let _ = std::io::stderr().flush();
    }

    /// Leaves the terminal's line free for whatever comes next.
    pub(super) fn clear(&self) {
        if self.display == Display::InPlace {
            eprint!("\r\x1b[K");
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.watch.elapsed()
    }

    /// The last words of Go that were not progress.
    pub(super) fn tail(&self) -> String {
        self.tail
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn line(&self, now: Duration) -> String {
        let mut parts = vec![if self.packages.is_empty() {
            "reading modules".to_owned()
        } else {
            let (compiled, most) = (self.compiled, self.packages.len());
            format!("compiled {compiled} of at most {most} packages")
        }];
        if self.downloaded > 0 {
            parts.push(format!("{} modules downloaded", self.downloaded));
        }
        parts.push(human(now));
        format!("{}: {}", self.label, parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(lines: &[&str]) -> Progress {
        let mut progress = Progress::new("etcd");
        for package in ["fmt", "net/http"] {
            progress.expect(package.to_owned());
        }
        for line in lines {
            progress.note((*line).to_owned());
        }
        progress
    }

    #[test]
    fn packages_and_downloads_are_counted_and_kept_out_of_the_tail() {
        let progress = progress(&[
            "go: downloading example.org/a v1.0.0",
            "fmt",
            "# net/http",
            "broken.go:1: no",
        ]);
        assert_eq!(
            progress.line(Duration::from_secs(61)),
            "etcd: compiled 1 of at most 2 packages, 1 modules downloaded, 1 min 1 s"
        );
        assert_eq!(progress.tail(), "# net/http\nbroken.go:1: no");
    }

    #[test]
    fn the_tail_keeps_the_end() {
        let lines: Vec<String> = (0..TAIL + 5).map(|n| format!("line {n}")).collect();
        let progress = progress(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(progress.tail().starts_with("line 5\n"));
        assert!(progress.tail().ends_with(&format!("line {}", TAIL + 4)));
    }
}
