//! The string formats that are checked; every other `format` is only a hint.

use super::{Pattern, Schema, Type};
use crate::names;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

/// The format of a schema, if it is one that is checked for its type.
pub(super) fn checked_format(schema: &Schema) -> Option<&str> {
    let format = schema.checks.format.as_deref()?;
    let counts = match schema.kind {
        _ if schema.int_or_string => FORMATS.iter().any(|(name, _)| *name == normal(format)),
        None | Some(Type::String) => FORMATS.iter().any(|(name, _)| *name == normal(format)),
        Some(Type::Integer) => matches!(format, "int32" | "int64"),
        Some(Type::Number) => matches!(format, "float" | "double"),
        Some(_) => false,
    };
    counts.then_some(format)
}

/// Whether a string has the format.
pub(super) fn is_valid(format: &str, text: &str) -> bool {
    let name = normal(format);
    FORMATS
        .iter()
        .find(|(known, _)| *known == name)
        .is_none_or(|(_, check)| check(text))
}

fn normal(format: &str) -> String {
    format.replace('-', "")
}

type Check = fn(&str) -> bool;

const FORMATS: [(&str, Check); 26] = [
    ("bsonobjectid", |text| {
        text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit())
    }),
    ("uri", is_uri),
    ("email", is_email),
    ("hostname", is_hostname),
    ("ipv4", |text| text.parse::<Ipv4Addr>().is_ok()),
    ("ipv6", |text| text.parse::<Ipv6Addr>().is_ok()),
    ("cidr", is_cidr),
    ("mac", is_mac),
    ("uuid", |text| matches(&UUID, text)),
    ("uuid3", |text| matches(&UUID3, text)),
    ("uuid4", |text| matches(&UUID4, text)),
    ("uuid5", |text| matches(&UUID5, text)),
    ("isbn", |text| is_isbn10(text) || is_isbn13(text)),
    ("isbn10", is_isbn10),
    ("isbn13", is_isbn13),
    ("creditcard", is_credit_card),
    ("ssn", |text| matches(&SSN, text)),
    ("hexcolor", |text| matches(&HEX_COLOR, text)),
    ("rgbcolor", |text| matches(&RGB_COLOR, text)),
    ("byte", is_base64),
    ("password", |_| true),
    ("date", is_date),
    ("duration", is_duration),
    ("datetime", is_date_time),
    ("k8sshortname", |text| names::dns_label(text).is_empty()),
    ("k8slongname", |text| names::dns_subdomain(text).is_empty()),
];

macro_rules! patterns {
    ($($name:ident = $text:expr;)*) => {
        $(static $name: LazyLock<Option<Pattern>> = LazyLock::new(|| Pattern::new($text).ok());)*
    };
}

patterns! {
    UUID = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID3 = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID4 = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    UUID5 = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    SSN = r"^\d{3}[- ]?\d{2}[- ]?\d{4}$";
    HEX_COLOR = "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
    RGB_COLOR = r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$";
    DURATION = r"^[-+]?(0|(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*)$";
    LONG_DURATION = r"^(\d+)\s*(nanoseconds|nanosecond|nanos|nano|ns|microseconds|microsecond|micros|micro|us|µs|milliseconds|millisecond|millis|milli|ms|seconds|second|secs|sec|s|minutes|minute|mins|min|m|hours|hour|hrs|hr|h|days|day|d|weeks|week|wks|wk|w)$";
    CARD = r"^(4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}|3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11})$";
}

fn matches(pattern: &LazyLock<Option<Pattern>>, text: &str) -> bool {
    pattern
        .as_ref()
        .is_some_and(|pattern| pattern.is_match(text))
}

fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b.is_ascii_control() || b == b' ') {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    is_scheme && !rest.is_empty()
}

fn is_email(text: &str) -> bool {
    let address = match (text.rfind('<'), text.strip_suffix('>')) {
        (Some(at), Some(front)) => &front[at + 1..],
        _ => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let is_atom = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    let is_dotted = |part: &str| !part.is_empty() && part.split('.').all(|atom| !atom.is_empty());
    local.chars().all(is_atom)
        && domain.chars().all(is_atom)
        && is_dotted(local)
        && is_dotted(domain)
}

/// One label with at most a dash after its first character, or labels before a top-level domain of letters.
fn is_hostname(text: &str) -> bool {
    let edge = |c: char| {
        c.is_alphanumeric() || "$+<=>^`|~".contains(c) || (!c.is_ascii() && !c.is_whitespace())
    };
    let is_label = |label: &str| {
        label.len() <= 63
            && label.starts_with(edge)
            && label.ends_with(edge)
            && label.chars().all(|c| edge(c) || c == '-')
    };
    let Some((labels, top)) = text.rsplit_once('.') else {
        let mut chars = text.chars();
        let rest = |rest: &str| rest.strip_prefix('-').unwrap_or(rest).chars().all(edge);
        return text.len() <= 63 && chars.next().is_some_and(edge) && rest(chars.as_str());
    };
    let is_top = (2..=63).contains(&top.chars().count()) && top.chars().all(char::is_alphabetic);
    text.len() <= 255 && is_top && labels.split('.').all(is_label)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let max = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    let is_plain =
        bits.bytes().all(|b| b.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
    is_plain && bits.parse::<u8>().is_ok_and(|bits| bits <= max)
}

fn is_mac(text: &str) -> bool {
    let by = |separator: char, width: usize| {
        let groups: Vec<&str> = text.split(separator).collect();
        let hex =
            |group: &&str| group.len() == width && group.bytes().all(|b| b.is_ascii_hexdigit());
        matches!(groups.len() * width / 2, 6 | 8 | 20) && groups.iter().all(hex)
    };
    by(':', 2) || by('-', 2) || by('.', 4)
}

fn is_isbn10(text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    let value = |(index, c): (usize, &char)| match c {
        'X' if index == 9 => Some(10),
        c => c.to_digit(10),
    };
    let Some(values) = digits
        .iter()
        .enumerate()
        .map(value)
        .collect::<Option<Vec<u32>>>()
    else {
        return false;
    };
    values.len() == 10
        && (1..)
            .zip(&values)
            .map(|(weight, value)| weight * value)
            .sum::<u32>()
            % 11
            == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits = text
        .chars()
        .filter(|c| !matches!(c, '-' | ' '))
        .map(|c| c.to_digit(10));
    let Some(values) = digits.collect::<Option<Vec<u32>>>() else {
        return false;
    };
    let weighted = values
        .iter()
        .enumerate()
        .map(|(index, value)| value * if index % 2 == 0 { 1 } else { 3 });
    values.len() == 13 && weighted.sum::<u32>() % 10 == 0
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let luhn = digits.bytes().rev().enumerate().map(|(index, byte)| {
        let digit = u32::from(byte - b'0');
        let doubled = digit * 2;
        if index % 2 == 0 {
            digit
        } else {
            doubled / 10 + doubled % 10
        }
    });
    matches(&CARD, &digits) && luhn.sum::<u32>() % 10 == 0
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

fn is_duration(text: &str) -> bool {
    matches(&DURATION, text) || matches(&LONG_DURATION, text)
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let shape = bytes.len() == 10
        && bytes.iter().enumerate().all(|(i, b)| {
            if i == 4 || i == 7 {
                *b == b'-'
            } else {
                b.is_ascii_digit()
            }
        });
    if !shape {
        return false;
    }
    let part = |range: std::ops::Range<usize>| text[range].parse::<u32>().unwrap_or(0);
    let (year, month, day) = (part(0..4), part(5..7), part(8..10));
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    if !text.is_ascii()
        || text.len() < 20
        || !is_date(&text[..10])
        || !matches!(text.as_bytes()[10], b'T' | b't')
    {
        return false;
    }
    let is_clock = |clock: &str, limits: &[u32]| {
        let parts: Vec<&str> = clock.split(':').collect();
        let fits = |(part, limit): (&&str, &u32)| {
            part.len() == 2 && part.parse::<u32>().is_ok_and(|n| n < *limit)
        };
        parts.len() == limits.len() && parts.iter().zip(limits).all(fits)
    };
    let rest = &text[19..];
    let zone = rest.strip_prefix('.').map_or(rest, |rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit())
    });
    let is_zone = matches!(zone, "Z" | "z")
        || zone
            .strip_prefix(['+', '-'])
            .is_some_and(|zone| is_clock(zone, &[24, 60]));
    is_clock(&text[11..19], &[24, 60, 60]) && is_zone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_tell_right_from_wrong() {
        let cases = [
            ("date", "2026-02-29", false),
            ("date", "2024-02-29", true),
            ("date-time", "2026-02-28T10:00:00Z", true),
            ("date-time", "2026-02-28T10:00:00.5+01:00", true),
            ("date-time", "2026-02-28 10:00:00", false),
            ("duration", "1h30m", true),
            ("duration", "5 days", true),
            ("duration", "soon", false),
            ("ipv4", "10.0.0.1", true),
            ("ipv4", "::1", false),
            ("cidr", "10.0.0.0/8", true),
            ("cidr", "10.0.0.0/33", false),
            ("mac", "00:11:22:33:44:55", true),
            ("uuid4", "123e4567-e89b-42d3-a456-426614174000", true),
            ("isbn10", "0321751043", true),
            ("isbn13", "978-0321751041", true),
            ("byte", "YQ==", true),
            ("byte", "a", false),
            ("k8s-short-name", "a.b", false),
            ("email", "a@b.c", true),
            ("email", "a", false),
            ("uri", "https://a.b/c", true),
            ("uri", "a b", false),
            ("creditcard", "4111111111111111", true),
        ];
        for (format, text, expected) in cases {
            assert_eq!(is_valid(format, text), expected, "{format} {text}");
        }
    }
}
