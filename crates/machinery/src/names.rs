//! Which strings may be names, label keys and label values, and how a refusal is worded.
//!
//! Every function returns the list of complaints, empty when the value is fine. The wording is
//! the one users of Kubernetes already know and that scripts look for, so it is a fact here and
//! not a choice.

/// Longest DNS label, label value and name part of a label key, in bytes.
pub const LABEL_MAX: usize = 63;
/// Longest DNS subdomain, and so the longest name of most objects, in bytes.
pub const SUBDOMAIN_MAX: usize = 253;
/// Longest base of a `generateName` that survives in the generated name.
pub const GENERATED_BASE_MAX: usize = 58;

const LABEL_PATTERN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_PATTERN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS_1035_PATTERN: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const KEY_PATTERN: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const VALUE_PATTERN: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const KEY_CHARSET: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// What one resource demands of the names of its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameRule {
    /// Dots allowed, 253 bytes: most kinds.
    #[default]
    Subdomain,
    /// One DNS label, 63 bytes: namespaces.
    Label,
    /// One DNS label that starts with a letter: services.
    Label1035,
    /// Anything that can be one segment of a URL: RBAC kinds.
    PathSegment,
}

impl NameRule {
    /// Complaints about `name` under this rule.
    pub fn complaints(self, name: &str) -> Vec<String> {
        match self {
            Self::Subdomain => dns_subdomain(name),
            Self::Label => dns_label(name),
            Self::Label1035 => dns_1035_label(name),
            Self::PathSegment => path_segment(name),
        }
    }

    /// Complaints about `base` as a `generateName`: a dash at its end stands before a suffix, so it and
    /// the character before it are not validated (as in Kubernetes).
    pub fn base_complaints(self, base: &str) -> Vec<String> {
        if self == Self::PathSegment {
            return path_segment_content(base);
        }
        match base.strip_suffix('-') {
            Some(front) if !front.is_empty() => {
                let end = front.char_indices().next_back().map_or(0, |(at, _)| at);
                self.complaints(&format!("{}a", &front[..end]))
            }
            _ => self.complaints(base),
        }
    }
}

/// The name a server makes of a `generateName` and a random suffix.
pub fn generated_name(base: &str, suffix: &str) -> String {
    let end = (0..=GENERATED_BASE_MAX.min(base.len()))
        .rev()
        .find(|&end| base.is_char_boundary(end))
        .unwrap_or(0);
    format!("{}{suffix}", &base[..end])
}

/// Complaints about a DNS-1123 label, such as a namespace name.
pub fn dns_label(value: &str) -> Vec<String> {
    let mut complaints = too_long(value, LABEL_MAX);
    if !is_label(value) {
        if is_subdomain(value) {
            complaints.push("must not contain dots".to_owned());
        } else {
            complaints.push(mismatch(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL_PATTERN,
                &["my-name", "123-abc"],
            ));
        }
    }
    complaints
}

/// Complaints about a DNS-1035 label, such as the name of a Service.
pub fn dns_1035_label(value: &str) -> Vec<String> {
    let mut complaints = too_long(value, LABEL_MAX);
    if !is_label(value) || !value.starts_with(|c: char| c.is_ascii_lowercase()) {
        complaints.push(mismatch(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            DNS_1035_PATTERN,
            &["my-name", "abc-123"],
        ));
    }
    complaints
}

/// Complaints about a DNS-1123 subdomain, the name of most objects.
pub fn dns_subdomain(value: &str) -> Vec<String> {
    let mut complaints = too_long(value, SUBDOMAIN_MAX);
    if !is_subdomain(value) {
        complaints.push(mismatch(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN_PATTERN,
            &["example.com"],
        ));
    }
    complaints
}

/// Complaints about a qualified name: label keys, annotation keys, finalizers.
pub fn qualified_name(value: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let parts: Vec<&str> = value.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        ["", name] => {
            complaints.push("prefix part must be non-empty".to_owned());
            name
        }
        [prefix, name] => {
            complaints.extend(
                dns_subdomain(prefix)
                    .into_iter()
                    .map(|why| format!("prefix part {why}")),
            );
            name
        }
        _ => {
            let why = mismatch(KEY_CHARSET, KEY_PATTERN, &["MyName", "my.name", "123-abc"]);
            return vec![format!(
                "a valid label key {why} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        complaints.push("name part must be non-empty".to_owned());
    }
    complaints.extend(
        too_long(name, LABEL_MAX)
            .into_iter()
            .map(|why| format!("name part {why}")),
    );
    if name.is_empty() || !is_label_value(name) {
        let why = mismatch(KEY_CHARSET, KEY_PATTERN, &["MyName", "my.name", "123-abc"]);
        complaints.push(format!("name part {why}"));
    }
    complaints
}

/// Complaints about the value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let mut complaints = too_long(value, LABEL_MAX);
    if !is_label_value(value) {
        complaints.push(mismatch(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            VALUE_PATTERN,
            &["MyValue", "my_value", "12345"],
        ));
    }
    complaints
}

/// Complaints about a name that only has to fit into one segment of a URL.
pub fn path_segment(value: &str) -> Vec<String> {
    if matches!(value, "." | "..") {
        return vec![format!("may not be '{value}'")];
    }
    path_segment_content(value)
}

fn path_segment_content(value: &str) -> Vec<String> {
    ['/', '%']
        .into_iter()
        .filter(|&c| value.contains(c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

fn is_label(value: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    value.starts_with(edge) && value.ends_with(edge) && value.chars().all(|c| edge(c) || c == '-')
}

fn is_subdomain(value: &str) -> bool {
    value.split('.').all(is_label)
}

fn is_label_value(value: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    value.is_empty()
        || (value.starts_with(edge)
            && value.ends_with(edge)
            && value
                .chars()
                .all(|c| edge(c) || matches!(c, '-' | '_' | '.')))
}

fn too_long(value: &str, max: usize) -> Vec<String> {
    if value.len() > max {
        vec![format!("must be no more than {max} bytes")]
    } else {
        Vec::new()
    }
}

fn mismatch(what: &str, pattern: &str, examples: &[&str]) -> String {
    let examples = examples.join("',  or '");
    format!("{what} (e.g. '{examples}', regex used for validation is '{pattern}')")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_have_an_optional_prefix_and_a_short_name() {
        for fine in ["a", "app.kubernetes.io/name", "A_b.c-D", "1"] {
            assert!(qualified_name(fine).is_empty(), "{fine}");
        }
        for bad in [
            "",
            "/a",
            "a/",
            "a/b/c",
            "-a",
            "a-",
            "A.b/c",
            &"x".repeat(64),
        ] {
            assert!(!qualified_name(bad).is_empty(), "{bad}");
        }
    }

    #[test]
    fn a_dotted_name_and_a_malformed_label_have_different_errors() {
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
        assert_eq!(
            dns_label("A"),
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
    }

    #[test]
    fn a_generated_name_cuts_the_base_and_keeps_the_suffix() {
        assert_eq!(generated_name("web-", "abcde"), "web-abcde");
        let long = generated_name(&"x".repeat(80), "abcde");
        assert_eq!(long.len(), LABEL_MAX);
        assert!(NameRule::Subdomain.base_complaints("web-").is_empty());
        assert!(!NameRule::Subdomain.base_complaints("-").is_empty());
    }
}
