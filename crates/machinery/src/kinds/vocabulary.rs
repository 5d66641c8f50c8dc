//! Words the rules of all kinds are made of: formats, ranges, quantities.

use crate::names;
use crate::quantity::Quantity;
use serde_json::Value;
use std::net::IpAddr;

/// What an immutable field says.
pub(super) const IMMUTABLE: &str = "field is immutable";
/// The message about a negative number.
pub(super) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
/// The transport protocols of ports.
pub(super) const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// Complaints about a port number.
pub(super) fn port(number: i64) -> Vec<String> {
    between(number, 1, 65535)
}

/// Complaints about a number outside of a range.
pub(super) fn between(number: i64, low: i64, high: i64) -> Vec<String> {
    let fits = (low..=high).contains(&number);
    complaint(
        !fits,
        &format!("must be between {low} and {high}, inclusive"),
    )
}

/// Complaints about the name of a container port (an IANA service name).
pub(super) fn port_name(name: &str) -> Vec<String> {
    let mut complaints = complaint(name.len() > 15, "must be no more than 15 characters");
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let odd = name.is_empty() || !name.chars().all(allowed);
    complaints.extend(complaint(
        odd,
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    ));
    let letter = name.chars().any(|c| c.is_ascii_lowercase());
    complaints.extend(complaint(!letter, "must contain at least one letter (a-z)"));
    complaints.extend(complaint(
        name.contains("--"),
        "must not contain consecutive hyphens",
    ));
    let edge = name.starts_with('-') || name.ends_with('-');
    complaints.extend(complaint(edge, "must not begin or end with a hyphen"));
    complaints
}

/// Complaints about a key of a `ConfigMap` or `Secret`.
pub(super) fn config_key(key: &str) -> Vec<String> {
    let mut complaints = complaint(
        key.len() > names::SUBDOMAIN_MAX,
        "must be no more than 253 characters",
    );
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if key.is_empty() || !key.chars().all(allowed) {
        complaints.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match key {
        "." | ".." => complaints.push(format!("must not be '{key}'")),
        key => complaints.extend(complaint(key.starts_with(".."), "must not start with '..'")),
    }
    complaints
}

/// Complaints about the name of an environment variable.
pub(super) fn env_name(name: &str) -> Vec<String> {
    let printable = !name.is_empty() && name.chars().all(|c| (' '..='~').contains(&c) && c != '=');
    complaint(
        !printable,
        "a valid environment variable name must consist only of printable ASCII characters other than '='",
    )
}

/// Complaints about an IP address.
pub(super) fn ip(text: &str) -> Vec<String> {
    complaint(
        text.parse::<IpAddr>().is_err(),
        "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
    )
}

/// Complaints about an address that no endpoint can have.
pub(super) fn endpoint_ip(text: &str) -> Vec<String> {
    let Ok(ip) = text.parse::<IpAddr>() else {
        return complaint(true, "must be a valid IP address");
    };
    let mut complaints = complaint(
        ip.is_unspecified(),
        &format!("may not be unspecified ({text})"),
    );
    complaints.extend(complaint(
        ip.is_loopback(),
        "may not be in the loopback range (127.0.0.0/8, ::1/128)",
    ));
    let (local, multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (
            ip.is_unicast_link_local(),
            ip.segments()[0] & 0xff0f == 0xff02,
        ),
    };
    complaints.extend(complaint(
        local,
        "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
    ));
    let why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
    complaints.extend(complaint(multicast, why));
    complaints
}

/// Complaints about an address range.
pub(super) fn cidr(text: &str) -> Vec<String> {
    let valid = text.split_once('/').is_some_and(|(ip, bits)| {
        let most = match ip.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        bits.parse::<u8>().is_ok_and(|bits| bits <= most)
    });
    complaint(
        !valid,
        "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
    )
}

/// Complaints about a path that must stay below where it starts.
pub(super) fn descending_path(path: &str) -> Vec<String> {
    let mut complaints = complaint(path.starts_with('/'), "must be a relative path");
    complaints.extend(complaint(
        path.split('/').any(|part| part == ".."),
        "must not contain '..'",
    ));
    complaints
}

/// Complaints about a number of pods, given as such or as a share.
pub(super) fn count_or_share(value: &Value) -> Vec<String> {
    match value {
        Value::Number(number) => complaint(
            number.as_i64().is_some_and(|number| number < 0),
            NOT_NEGATIVE,
        ),
        Value::String(text) if share(text).is_none() => {
            let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
            complaint(true, why)
        }
        _ => Vec::new(),
    }
}

/// The number before a percent sign.
pub(super) fn share(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(i64::MAX))
}

/// A quantity in nanos, so that any two can be compared; zero if it is none.
pub(super) fn nanos(value: &Value) -> i128 {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    text.parse::<Quantity>()
        .map_or(0, |quantity| quantity.nanos())
}

/// One complaint, if there is reason for it.
pub(super) fn complaint(wrong: bool, why: &str) -> Vec<String> {
    if wrong {
        vec![why.to_owned()]
    } else {
        Vec::new()
    }
}
