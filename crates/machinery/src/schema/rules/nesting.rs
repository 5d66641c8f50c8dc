//! How deep a parser would have to go for a text, known before it starts.
//!
//! The parser of CEL recurses, and a text of nothing but brackets would exhaust the stack. This
//! reads just enough of the language (strings, comments, brackets, operators) to refuse such texts.

/// The deepest nesting that is tried; what passes also fits the caller's stack when it is run.
const LIMIT: u32 = 200;
/// What a bracket or a conditional counts: each goes through all levels of precedence.
const BRACKET: u32 = 8;

/// Refuses what the parser cannot follow, and what it is known to get wrong.
pub(super) fn check(text: &str) -> Result<(), String> {
    let mut scan = Scan {
        rest: text,
        frames: vec![Frame::default()],
        last: ' ',
    };
    loop {
        let before = scan.last;
        let negates = scan.rest.starts_with('!') && !scan.rest.starts_with("!=");
        let minus = scan.rest.starts_with('-') && before == '~';
        if !scan.step() {
            return Ok(());
        }
        if scan.depth() > LIMIT {
            return Err("nests too deep to be evaluated".to_owned());
        }
        if (negates && before == '!') || minus {
            return Err("compilation failed: repeated negation is not supported".to_owned());
        }
    }
}

/// What is pending inside one pair of brackets.
#[derive(Default)]
struct Frame {
    /// Operators that lean on each other to the left.
    chain: u32,
    /// Conditionals that contain each other to the right.
    conditionals: u32,
}

struct Scan<'a> {
    rest: &'a str,
    frames: Vec<Frame>,
    /// The last character that was no space; `~` for a minus that negates.
    last: char,
}

impl Scan<'_> {
    fn depth(&self) -> u32 {
        let frames = self.frames.iter();
        frames
            .map(|frame| BRACKET + frame.chain + frame.conditionals * BRACKET)
            .fold(0, u32::saturating_add)
    }

    /// Consumes one token; `false` at the end.
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else {
            return false;
        };
        let mut length = first.len_utf8();
        match first {
            '\'' | '"' => length = string_length(self.rest, false),
            'r' | 'R' if self.rest[1..].starts_with(['\'', '"']) => {
                length = 1 + string_length(&self.rest[1..], true);
            }
            '/' if self.rest.starts_with("//") => {
                length = self.rest.find('\n').unwrap_or(self.rest.len());
            }
            '&' | '|' if self.rest.starts_with("&&") || self.rest.starts_with("||") => {
                length = 2;
                self.frame().chain = 0;
            }
            '(' | '[' | '{' => self.frames.push(Frame::default()),
            ')' | ']' | '}' => {
                if self.frames.len() > 1 {
                    self.frames.pop();
                }
                self.frame().chain += 1;
            }
            ',' => *self.frame() = Frame::default(),
            '?' => {
                self.frame().chain = 0;
                self.frame().conditionals += 1;
            }
            ':' => self.frame().chain = 0,
            _ if first.is_alphabetic() || first == '_' => {
                let is_word = |c: char| c.is_alphanumeric() || c == '_';
                length = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
                if &self.rest[..length] == "in" {
                    self.frame().chain += 1;
                }
            }
            _ if first.is_ascii_punctuation() => self.frame().chain += 1,
            _ => {}
        }
        if !first.is_whitespace() {
            let after_operator = matches!(
                self.last,
                ' ' | '('
                    | '['
                    | '{'
                    | ','
                    | '='
                    | '<'
                    | '>'
                    | '+'
                    | '*'
                    | '/'
                    | '%'
                    | '?'
                    | ':'
                    | '&'
                    | '|'
            );
            self.last = if first == '-' && after_operator {
                '~'
            } else {
                first
            };
        }
        self.rest = &self.rest[length..];
        true
    }

    fn frame(&mut self) -> &mut Frame {
        if self.frames.is_empty() {
            self.frames.push(Frame::default());
        }
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }
}

/// Length of the string literal that `text` starts with, up to the end if it is not closed.
fn string_length(text: &str, raw: bool) -> usize {
    let quote = &text[..1];
    let triple = quote.repeat(3);
    let quote = if text.starts_with(&triple) {
        triple.as_str()
    } else {
        quote
    };
    let mut at = quote.len();
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with(quote) {
            return at + quote.len();
        }
        let mut chars = rest.chars();
        let first = chars.next().map_or(1, char::len_utf8);
        let escaped = !raw && rest.starts_with('\\');
        at += first
            + if escaped {
                chars.next().map_or(0, char::len_utf8)
            } else {
                0
            };
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negated_negation_is_refused_and_not_misread() {
        for refused in ["!!true", "! !self.a", "--1 == 1", "(- -1) == 1"] {
            assert!(check(refused).is_err(), "{refused}");
        }
        for fine in [
            "!true",
            "1 - -1 == 2",
            "a != b",
            "!(!a)",
            "-1 - 1 == -2",
            "a ? -1 : -2",
        ] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
    }

    #[test]
    fn ordinary_rules_are_shallow_and_towers_are_not() {
        for fine in [
            "self.a.b.c == 'x' || self.a.b.d in ['a', 'b']",
            "self.all(x, x.y.exists(z, z.matches(r'^([a-z](((((((((((((((((((((((((((((('))))",
            &vec!["self == 'a'"; 500].join(" || "),
            &format!("self in [{}]", vec!["'v'"; 500].join(", ")),
            "'((((((((((((((((((((((((((((((((((((((' == \"\\\"((((((((((((((((((((((\"",
            "// ((((((((((((((((((((((((((((((((((((((((((((\ntrue",
        ] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        for deep in [
            "(".repeat(50),
            "a".to_owned() + &".a".repeat(500),
            "a ? b : ".repeat(50),
            "!".repeat(500),
        ] {
            assert!(check(&deep).is_err(), "{deep}");
        }
    }
}
