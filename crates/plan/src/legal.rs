//! What Kubernetes takes as a label, an annotation, a taint or a name.
//!
//! One illegal label among a Node's would have the whole write refused, and with it the labels of
//! every other NodeUnit of that node. So plans leave out what is illegal, and report it.

/// Longest label value, and longest name part of a label key.
pub const LABEL_MAX: usize = 63;
/// Longest DNS name: of an object, and of a label key's prefix.
const DNS_NAME_MAX: usize = 253;
/// What a taint can do.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Whether a text is the value of a label; the empty one is.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_label_name(value)
}

/// Whether a text is the key of a label, an annotation or a taint.
pub fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_name(prefix) && is_label_name(name),
        None => is_label_name(key),
    }
}

/// Whether a text can name a NodeUnit or NodeGroup, which stand as key and value of labels.
pub fn is_node_unit_name(name: &str) -> bool {
    name.len() <= LABEL_MAX && is_dns_name(name)
}

/// Whether Kubernetes knows the effect of a taint.
pub fn is_taint_effect(effect: &str) -> bool {
    EFFECTS.contains(&effect)
}

fn is_label_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= LABEL_MAX
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn is_dns_name(name: &str) -> bool {
    let is_end = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    name.len() <= DNS_NAME_MAX
        && name.split('.').all(|label| {
            let bytes = label.as_bytes();
            is_end(bytes.first())
                && is_end(bytes.last())
                && bytes.iter().all(|byte| is_end(Some(byte)) || *byte == b'-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_are_a_name_after_an_optional_dns_prefix() {
        let long = "a".repeat(63);
        for fine in ["zone", "a.b_c-D", "kubernetes.io/os", &long, "x/A"] {
            assert!(is_label_key(fine), "{fine}");
        }
        let too_long = "a".repeat(64);
        for bad in [
            "", "-a", "a-", "a b", "/a", "a/", "A.io/x", "a/b/c", &too_long,
        ] {
            assert!(!is_label_key(bad), "{bad}");
        }
    }

    #[test]
    fn label_values_may_be_empty_but_not_illegal() {
        assert!(is_label_value("") && is_label_value("Beijing_1"));
        for bad in ["a/b", "-", "ä", "a b"] {
            assert!(!is_label_value(bad), "{bad}");
        }
    }

    #[test]
    fn names_of_sites_are_short_dns_names() {
        assert!(is_node_unit_name("beijing") && is_node_unit_name("a.b-1"));
        for bad in ["", "A", "a_b", "a..b", ".a", &"a".repeat(64)] {
            assert!(!is_node_unit_name(bad), "{bad}");
        }
    }
}
