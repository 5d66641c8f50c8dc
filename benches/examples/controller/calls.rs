//! Requests that kube-apiserver has answered, from its own metrics.

use std::collections::BTreeMap;

use anyhow::Result;
use edgegrid_benches::answered;
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

/// Not the controller's: the test cluster's kubelet looks for new nodes every ten seconds.
const KUBELETS: &str = "LIST nodes";

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
        let mut calls = Self::default();
        for answered in answered::until_now(client).await? {
            if answered.verb == "WATCH" || !RESOURCES.contains(&answered.resource.as_str()) {
                continue;
            }
            if answered.kind() == KUBELETS {
                continue;
            }
            *calls.by_kind.entry(answered.kind()).or_default() += answered.count;
            if answered.code == "409" {
                calls.conflicts += answered.count;
            }
        }
        Ok(calls)
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

    pub(crate) fn total(&self) -> u64 {
        self.by_kind.values().sum()
    }

    /// How many ended in a conflict.
    pub(crate) fn conflicts(&self) -> u64 {
        self.conflicts
    }

    /// Each verb and kind with its count, for the report.
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
