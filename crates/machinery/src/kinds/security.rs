//! Rules of security contexts.

use super::check::{Errors, FieldValue};
use crate::names;
use serde_json::Value;
use std::collections::BTreeSet;

/// Privileges do not contradict each other.
pub(super) fn container(context: &FieldValue<'_>, errors: &mut Errors) {
    if context.at("allowPrivilegeEscalation").value != &Value::Bool(false) {
        return;
    }
    let added = context.at("capabilities").at("add").items();
    let is_admin = |capability: &FieldValue<'_>| capability.text() == "CAP_SYS_ADMIN";
    if context.at("privileged").is_true() || added.iter().any(is_admin) {
        let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        context.invalid(errors, why);
    }
}

/// Kernel parameters are named, and named once.
pub(super) fn sysctls(context: &FieldValue<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for name in context
        .at("sysctls")
        .items()
        .iter()
        .map(|item| item.at("name"))
    {
        if name.is_empty() {
            name.require(errors, "");
        } else if !is_sysctl(name.text()) {
            name.invalid(
                errors,
                "must be words of lower case, separated by '.' or '/'",
            );
        } else if !seen.insert(name.text()) {
            name.duplicate(errors);
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let word = |word: &str| {
        word.starts_with(edge)
            && word.ends_with(edge)
            && word.chars().all(|c| edge(c) || matches!(c, '-' | '_'))
    };
    name.len() <= names::SUBDOMAIN_MAX && name.split(['.', '/']).all(word)
}

/// A profile of the host is named, and only that.
pub(super) fn profile(profile: &FieldValue<'_>, errors: &mut Errors, is_path: bool) {
    const TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
    let (kind, local) = (profile.at("type"), profile.at("localhostProfile"));
    if kind.needed(errors) {
        kind.one_of(errors, TYPES);
    }
    let is_known = TYPES.contains(&kind.text());
    match kind.text() {
        "Localhost"
            if local.is_empty() && !is_path || !local.is_set() && kind.text() == "Localhost" =>
        {
            local.require(errors, "must be set when the type is Localhost");
        }
        "Localhost" if is_path => {
            local.complain(errors, super::vocabulary::descending_path(local.text()));
        }
        "Localhost" => {}
        _ if local.is_set() && (is_path || is_known) => {
            local.invalid(errors, "can only be set when the type is Localhost");
        }
        _ => {}
    }
}

/// Names of Windows' own kind.
pub(super) fn windows(options: &FieldValue<'_>, errors: &mut Errors) {
    let (spec_name, spec) = (
        options.at("gmsaCredentialSpecName"),
        options.at("gmsaCredentialSpec"),
    );
    if spec_name.is_set() {
        spec_name.complain(errors, names::dns_subdomain(spec_name.text()));
    }
    let length = spec.text().len();
    if spec.is_set() && (length == 0 || length > 64 * 1024) {
        spec.invalid(errors, "must have 1 to 65536 characters");
    }
    let user = options.at("runAsUserName");
    let account = user.text().rsplit('\\').next().unwrap_or_default();
    let is_odd = |c: char| c.is_control() || "\"/:;|=,+*?<>@[]".contains(c);
    if user.is_set() && (account.is_empty() || account.len() > 104 || account.contains(is_odd)) {
        user.invalid(errors, "must be a user name, with a domain if need be");
    }
}
