//! Regular expressions of schemas, which are written in Go's dialect.
//!
//! Both engines run in linear time; they differ in what `\d`, `\w` and `\s` mean beyond ASCII, in
//! stray braces, and in how a bracket inside a class reads. The text is translated once, when
//! the schema is parsed, and the compiled program is bounded in size.

use regex::{Regex, RegexBuilder};

/// The compiled program may take this many bytes.
const SIZE_LIMIT: usize = 1 << 20;

/// A pattern with the text the user wrote, for the error message.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern written in Go's dialect.
    pub fn new(text: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(&translate(text))
            .size_limit(SIZE_LIMIT)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            text: text.to_owned(),
            regex,
        })
    }

    /// Whether the pattern is found anywhere in `value`.
    pub fn is_match(&self, value: &str) -> bool {
        self.regex.is_match(value)
    }

    /// The pattern as written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn translate(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len() + 16);
    let (mut at, mut class_start) = (0, None);
    while at < chars.len() {
        let c = chars[at];
        let rest = &chars[at + 1..];
        match (c, class_start) {
            ('\\', _) => {
                let Some(&escaped) = rest.first() else {
                    out.push('\\');
                    break;
                };
                out.push_str(&escape(escaped, class_start.is_some()));
                at += 2;
                continue;
            }
            ('[', None) => {
                out.push('[');
                if rest.first() == Some(&'^') {
                    out.push('^');
                    at += 1;
                }
                class_start = Some(at + 1);
            }
            ('[', Some(_)) if rest.first() == Some(&':') => out.push('['),
            (']', Some(start)) if at > start => {
                out.push(']');
                class_start = posix_end(&chars, at).then_some(start);
            }
            ('[' | ']' | '&' | '~', Some(_)) => out.extend(['\\', c]),
            ('{', None) if !is_repetition(rest) => out.push_str("\\{"),
            _ => out.push(c),
        }
        at += 1;
    }
    out
}

fn escape(c: char, in_class: bool) -> String {
    let class = match c {
        'd' | 'D' => "0-9",
        'w' | 'W' => "0-9A-Za-z_",
        's' | 'S' => r"\t\n\f\r ",
        'b' | 'B' => return format!("(?-u:\\{c})"),
        _ if c.is_ascii_alphanumeric() => return format!("\\{c}"),
        _ => return regex::escape(&c.to_string()),
    };
    match (c.is_ascii_uppercase(), in_class) {
        (true, _) => format!("[^{class}]"),
        (false, true) => class.to_owned(),
        (false, false) => format!("[{class}]"),
    }
}

/// Whether the bracket at `at` closes a `[:name:]` and not the class around it.
fn posix_end(chars: &[char], at: usize) -> bool {
    at > 0
        && chars[at - 1] == ':'
        && chars[..at - 1]
            .iter()
            .rev()
            .take_while(|c| c.is_ascii_alphabetic() || **c == '^')
            .count()
            > 0
        && chars[..at - 1]
            .iter()
            .rposition(|c| !c.is_ascii_alphabetic() && *c != '^')
            .is_some_and(|before| before > 0 && chars[before] == ':' && chars[before - 1] == '[')
}

fn is_repetition(rest: &[char]) -> bool {
    let Some(end) = rest.iter().position(|c| *c == '}') else {
        return false;
    };
    let inner: String = rest[..end].iter().collect();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match inner.split_once(',') {
        None => digits(&inner),
        Some((low, high)) => digits(low) && (high.is_empty() || digits(high)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dialect_of_go_is_understood() {
        let cases = [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١", false),
            (r"^[\w.-]+$", "a_b.c-d", true),
            (r"^[a-z[]+$", "a[", true),
            (r"^[[:alpha:]_]+$", "a_B", true),
            (r"^{a}$", "{a}", true),
            (r"^a{2,3}$", "aaa", true),
            (r"^\_\-$", "_-", true),
            (r"^[^\s]+$", "a b", false),
            (r"^[]a]+$", "]a", true),
            (r"^[a&&b]+$", "&", true),
            (r"\bfoo\b", "a foo b", true),
        ];
        for (pattern, value, expected) in cases {
            assert_eq!(
                Pattern::new(pattern).unwrap().is_match(value),
                expected,
                "{pattern} on {value}"
            );
        }
    }

    #[test]
    fn a_program_that_would_be_huge_is_refused() {
        assert!(Pattern::new("((a{1000}){1000}){1000}").is_err());
    }
}
