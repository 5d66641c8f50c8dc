//! Requests that kube-apiserver has answered to a StatefulSet controller, from its own metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use edgegrid_benches::answered::{self, Answered};
use kube::Client;
use tokio::time::sleep;

/// So long without a call, and nothing more is to come.
const REST: Duration = Duration::from_secs(2);

/// What such a controller calls, by resource. The simulated kubelet and the rest of
/// kube-controller-manager call none of these but `DELETE pods`, once for every pod that goes.
const CALLS: [(&str, &str, &[&str]); 6] = [
    ("pods", "", &["POST", "PUT", "PATCH", "DELETE"]),
    ("persistentvolumeclaims", "", &["POST", "PUT", "PATCH"]),
    (
        "controllerrevisions",
        "",
        &["GET", "POST", "PUT", "PATCH", "DELETE"],
    ),
    ("statefulsets", "status", &["PUT", "PATCH"]),
    ("events", "", &["POST", "PATCH"]),
    ("statefulsets", "", &["GET"]),
];

/// Requests by verb and resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(BTreeMap<String, u64>);

impl Calls {
    /// What was answered until now.
    pub(crate) async fn until_now(client: &Client) -> Result<Self> {
        let mut calls = Self::default();
        let answered = answered::until_now(client).await?;
        for answered in answered.iter().filter(|answered| is_counted(answered)) {
            *calls.0.entry(answered.kind()).or_default() += answered.count;
        }
        Ok(calls)
    }

    /// What was answered until nobody asks any more: a controller may write its Events late.
    pub(crate) async fn at_rest(client: &Client) -> Result<Self> {
        let mut calls = Self::until_now(client).await?;
        loop {
            sleep(REST).await;
            let now = Self::until_now(client).await?;
            if now.total() == calls.total() {
                return Ok(now);
            }
            calls = now;
        }
    }

    /// What was answered after `earlier`, without what the kubelet deleted.
    pub(crate) fn since(&self, earlier: &Self, gone: u64) -> Self {
        let new = self.0.iter().map(|(kind, count)| {
            let before = earlier.0.get(kind).copied().unwrap_or(0);
            let others = if kind == "DELETE pods" { gone } else { 0 };
            (kind.clone(), (count - before).saturating_sub(others))
        });
        Self(new.filter(|(_, count)| *count > 0).collect())
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Each verb and kind with its count, for the report.
    pub(crate) fn words(&self) -> String {
        let kinds: Vec<String> = self
            .0
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        kinds.join(", ")
    }
}

fn is_counted(answered: &Answered) -> bool {
    let is_known = |(resource, subresource, verbs): &(&str, &str, &[&str])| {
        *resource == answered.resource
            && *subresource == answered.subresource
            && verbs.contains(&answered.verb.as_str())
    };
    // The garbage collector asks again for pods of earlier work, which are gone.
    let is_late = answered.verb == "DELETE" && !answered.code.starts_with('2');
    CALLS.iter().any(is_known) && !is_late
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(verb: &str, resource: &str, subresource: &str, code: &str) -> Answered {
        Answered {
            verb: verb.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            code: code.into(),
            count: 7,
        }
    }

    #[test]
    fn only_what_the_controller_calls_is_counted() {
        assert!(is_counted(&answered("POST", "pods", "", "201")));
        assert!(is_counted(&answered("DELETE", "pods", "", "200")));
        assert!(!is_counted(&answered("DELETE", "pods", "", "404")));
        assert!(!is_counted(&answered("PATCH", "pods", "status", "200")));
        assert!(!is_counted(&answered("WATCH", "pods", "", "200")));
    }
}
