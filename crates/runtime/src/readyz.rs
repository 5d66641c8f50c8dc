//! What `/readyz?verbose` says: a line for each thing that was looked at, in the form of Kubernetes' own
//! programs, with one more sign for what does not make the process unready.
//!
//! ```text
//! [+]view ok
//! [!]upstream: last heard of 47 s ago
//! readyz check passed
//! ```

use std::fmt::Write;

use http::StatusCode;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    name: &'static str,
    health: Health,
}

/// How it is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Health {
    Ok,
    Degraded(String),
    Failed(String),
}

impl Check {
    /// All is well.
    pub fn ok(name: &'static str) -> Self {
        let health = Health::Ok;
        Self { name, health }
    }

    /// Somebody should look, but the process does its work: a site that is cut off is ready.
    pub fn degraded(name: &'static str, why: impl Into<String>) -> Self {
        let health = Health::Degraded(why.into());
        Self { name, health }
    }

    /// The process is not ready because of this.
    pub fn failed(name: &'static str, why: impl Into<String>) -> Self {
        let health = Health::Failed(why.into());
        Self { name, health }
    }

    /// Whether the API server knows us and lets us do what we ask, by its last answer.
    pub fn credentials(refusal: Option<StatusCode>) -> Self {
        let name = "credentials";
        let Some(code) = refusal else {
            return Self::ok(name);
        };
        let way_out = if code == StatusCode::UNAUTHORIZED {
            "renew the kubeconfig's certificate or token"
        } else {
            "the account lacks a right, apply the shipped RBAC manifests again"
        };
        Self::degraded(name, format!("the API server answers {code}: {way_out}"))
    }
}

/// Whether a request asks for the lines: `?verbose`, with any value or none.
pub fn is_verbose(query: Option<&str>) -> bool {
    let mut pairs = query.unwrap_or_default().split('&');
    pairs.any(|pair| pair == "verbose" || pair.starts_with("verbose="))
}

/// The answer to `/readyz?verbose`.
pub fn verbose(checks: &[Check]) -> (StatusCode, String) {
    let mut text = String::new();
    let mut line = |line: String| {
        let _ = writeln!(text, "{line}"); // a String takes everything
    };
    for Check { name, health } in checks {
        line(match health {
            Health::Ok => format!("[+]{name} ok"),
            Health::Degraded(why) => format!("[!]{name}: {why}"),
            Health::Failed(why) => format!("[-]{name} failed: {why}"),
        });
    }
    let is_failed = |check: &Check| matches!(check.health, Health::Failed(_));
    if checks.iter().any(is_failed) {
        line("readyz check failed".to_owned());
        return (StatusCode::SERVICE_UNAVAILABLE, text);
    }
    line("readyz check passed".to_owned());
    (StatusCode::OK, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_failed_makes_it_unready() {
        let (fine, poor) = (Check::ok("a"), Check::degraded("b", "why"));
        let broken = Check::failed("c", "because");
        let passed = "[+]a ok\n[!]b: why\nreadyz check passed\n".to_owned();
        assert_eq!(
            verbose(&[fine.clone(), poor.clone()]),
            (StatusCode::OK, passed)
        );
        let failed = "[+]a ok\n[!]b: why\n[-]c failed: because\nreadyz check failed\n".to_owned();
        assert_eq!(
            verbose(&[fine, poor, broken]),
            (StatusCode::SERVICE_UNAVAILABLE, failed)
        );
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let unknown = "[!]credentials: the API server answers 401 Unauthorized: renew the kubeconfig's certificate or token\n";
        let forbidden = "[!]credentials: the API server answers 403 Forbidden: the account lacks a right, apply the shipped RBAC manifests again\n";
        for (refusal, line) in [
            (None, "[+]credentials ok\n"),
            (Some(StatusCode::UNAUTHORIZED), unknown),
            (Some(StatusCode::FORBIDDEN), forbidden),
        ] {
            let text = format!("{line}readyz check passed\n");
            assert_eq!(
                verbose(&[Check::credentials(refusal)]),
                (StatusCode::OK, text)
            );
        }
    }

    #[test]
    fn verbose_is_asked_for_with_or_without_a_value() {
        for (query, wanted) in [
            (None, false),
            (Some(""), false),
            (Some("verbose"), true),
            (Some("verbose="), true),
            (Some("timeout=1s&verbose=true"), true),
            (Some("verbosely"), false),
            (Some("a=verbose"), false),
        ] {
            assert_eq!(is_verbose(query), wanted, "{query:?}");
        }
    }
}
