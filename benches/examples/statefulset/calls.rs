//! Requests that kube-apiserver has answered to a StatefulSet controller, from its own metrics.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use http::Request;
use kube::Client;

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
        let request = Request::get("/metrics").body(Vec::new())?;
        let text = client.request_text(request).await.context("read metrics")?;
        let mut calls = Self::default();
        for (kind, count) in text.lines().filter_map(read) {
            *calls.0.entry(kind).or_default() += count;
        }
        Ok(calls)
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

    /// Which, in words.
    pub(crate) fn words(&self) -> String {
        let kinds: Vec<String> = self
            .0
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        kinds.join(", ")
    }
}

fn read(line: &str) -> Option<(String, u64)> {
    let rest = line.strip_prefix("apiserver_request_total{")?;
    let (labels, count) = rest.rsplit_once("} ")?;
    let label = |name: &str| {
        let (_, from) = labels.split_once(&format!(",{name}=\""))?;
        from.split_once('"').map(|(value, _)| value)
    };
    let (verb, resource) = (label("verb")?, label("resource")?);
    let subresource = label("subresource").unwrap_or_default();
    let is_known = |(known, sub, verbs): &(&str, &str, &[&str])| {
        *known == resource && *sub == subresource && verbs.contains(&verb)
    };
    CALLS.iter().find(|call| is_known(call))?;
    let slash = if subresource.is_empty() { "" } else { "/" };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a counter"
    )]
    let count = count.parse::<f64>().ok()? as u64;
    Some((format!("{verb} {resource}{slash}{subresource}"), count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_controller_calls_is_counted() {
        let line = |verb: &str, resource: &str, sub: &str| {
            format!(
                "apiserver_request_total{{code=\"201\",component=\"apiserver\",resource=\"{resource}\",subresource=\"{sub}\",verb=\"{verb}\"}} 7"
            )
        };
        assert_eq!(
            read(&line("POST", "pods", "")),
            Some(("POST pods".into(), 7))
        );
        assert_eq!(read(&line("PATCH", "pods", "status")), None);
        assert_eq!(read(&line("WATCH", "pods", "")), None);
    }
}
