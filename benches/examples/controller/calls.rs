//! Requests that kube-apiserver has answered, from its own metrics.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use http::Request;
use kube::Client;

/// Resources that the controller reads or writes.
const RESOURCES: [&str; 10] = [
    "nodes",
    "deployments",
    "statefulsets",
    "services",
    "deploymentgrids",
    "statefulsetgrids",
    "servicegrids",
    "nodeunits",
    "nodegroups",
    "events",
];

/// Requests by verb and resource, and how many ended in a conflict. Watches are counted when they end,
/// so they are left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    by_kind: BTreeMap<String, u64>,
    conflicts: u64,
}

impl Calls {
    /// What was answered until now.
    pub(crate) async fn until_now(client: &Client) -> Result<Self> {
        let request = Request::get("/metrics").body(Vec::new())?;
        let text = client.request_text(request).await.context("read metrics")?;
        let mut calls = Self::default();
        for line in text.lines() {
            calls.read(line);
        }
        Ok(calls)
    }

    fn read(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("apiserver_request_total{") else {
            return;
        };
        let Some((labels, count)) = rest.rsplit_once("} ") else {
            return;
        };
        let label = |name: &str| {
            let (_, from) = labels.split_once(&format!("{name}=\""))?;
            from.split_once('"').map(|(value, _)| value)
        };
        let (Some(verb), Some(resource)) = (label("verb"), label("resource")) else {
            return;
        };
        let count: f64 = count.parse().unwrap_or(0.0);
        if verb == "WATCH" || !RESOURCES.contains(&resource) {
            return;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a counter"
        )]
        let count = count as u64;
        let subresource = label("subresource").filter(|sub| !sub.is_empty());
        let subresource = subresource.map(|sub| format!("/{sub}")).unwrap_or_default();
        *self
            .by_kind
            .entry(format!("{verb} {resource}{subresource}"))
            .or_default() += count;
        if label("code") == Some("409") {
            self.conflicts += count;
        }
    }

    /// What was answered after `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let by_kind = self.by_kind.iter().filter_map(|(kind, count)| {
            let new = count - earlier.by_kind.get(kind).unwrap_or(&0);
            (new > 0).then(|| (kind.clone(), new))
        });
        Self {
            by_kind: by_kind.collect(),
            conflicts: self.conflicts - earlier.conflicts,
        }
    }

    /// All but `known` of one kind, which are the load's own.
    pub(crate) fn without(mut self, kind: &str, known: u64) -> Self {
        if let Some(count) = self.by_kind.get_mut(kind) {
            *count = count.saturating_sub(known);
        }
        self.by_kind.retain(|_, count| *count > 0);
        self
    }

    /// How many.
    pub(crate) fn total(&self) -> u64 {
        self.by_kind.values().sum()
    }

    /// How many ended in a conflict.
    pub(crate) fn conflicts(&self) -> u64 {
        self.conflicts
    }

    /// Which, in words.
    pub(crate) fn words(&self) -> String {
        let kinds: Vec<String> = self
            .by_kind
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        if kinds.is_empty() {
            "none".into()
        } else {
            kinds.join(", ")
        }
    }
}
