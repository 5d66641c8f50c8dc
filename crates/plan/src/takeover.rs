//! Objects that SuperEdge made become ours without a pod noticing.
//!
//! ```text
//! SuperEdge's PUTs own fields ─► our apply owns what we want, too ─► SuperEdge's entries are dropped
//!                                                                    from managedFields
//! ```
//!
//! From then on a field that we stop applying is removed, because nobody else owns it. If an entry of
//! SuperEdge's is younger than our own, its controllers still run: a condition says so, and nothing
//! is written until they have been quiet for a while. Two controllers must not fight.

use std::time::Duration;

use edgegrid_api::names::{manager, reason};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use crate::failure::Problem;
use crate::step::{ObjectId, Step};

/// How long SuperEdge must not have written before we go on.
const QUIET_PERIOD: Duration = Duration::from_mins(10);

/// How far an object's passing from SuperEdge to us has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// Nothing of SuperEdge's is there.
    Done,
    /// SuperEdge's entries in `managedFields` are still there, at these indexes.
    Due(Vec<usize>),
    /// SuperEdge wrote after us.
    Contested {
        /// When we may go on if it stays quiet.
        until: Timestamp,
    },
}

impl Takeover {
    /// How far an object has come, by its `managedFields`.
    pub fn from_metadata(metadata: &ObjectMeta, now: Timestamp) -> Self {
        let entries = metadata.managed_fields.as_deref().unwrap_or_default();
        let theirs: Vec<usize> = (0..entries.len())
            .filter(|index| is_superedges(&entries[*index]))
            .collect();
        if theirs.is_empty() {
            return Self::Done;
        }
        let ours = entries.iter().find(|entry| is_ours(entry)).and_then(time);
        let last = theirs
            .iter()
            .filter_map(|index| time(&entries[*index]))
            .max();
        if let (Some(ours), Some(last)) = (ours, last)
            && last > ours
            && let Ok(until) = last.checked_add(QUIET_PERIOD)
            && until > now
        {
            return Self::Contested { until };
        }
        Self::Due(theirs)
    }

    /// The problem of an object that SuperEdge still writes to.
    pub(crate) fn contested_problem(id: &ObjectId) -> Problem {
        Problem::new(
            reason::SUPEREDGE_RUNNING,
            format!(
                "SuperEdge's application-grid-controller still writes to {id}: stop it (and site-manager), or stop \
                 edgegrid; nothing is written there until it has been quiet for ten minutes"
            ),
        )
    }
}

/// Drops SuperEdge's entries from `managedFields`. Our own is there by then, so the list never
/// becomes empty, which Kubernetes would take for "forget all".
pub(crate) fn drop_entries(id: ObjectId, metadata: &ObjectMeta, indexes: &[usize]) -> Option<Step> {
    let operations: Vec<Value> = indexes
        .iter()
        .rev()
        .map(|index| json!({ "op": "remove", "path": format!("/metadata/managedFields/{index}") }))
        .collect();
    Some(Step::Patch {
        id,
        resource_version: metadata.resource_version.clone()?,
        operations,
    })
}

fn is_superedges(entry: &ManagedFieldsEntry) -> bool {
    is_of_main_object(entry)
        && entry
            .manager
            .as_deref()
            .is_some_and(|name| manager::SUPEREDGE.contains(&name))
}

fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    is_of_main_object(entry)
        && entry.manager.as_deref() == Some(manager::EDGEGRID)
        && entry.operation.as_deref() == Some("Apply")
}

fn is_of_main_object(entry: &ManagedFieldsEntry) -> bool {
    entry.subresource.as_deref().unwrap_or_default().is_empty()
}

fn time(entry: &ManagedFieldsEntry) -> Option<Timestamp> {
    entry.time.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

    fn at(seconds: i64) -> Timestamp {
        START + jiff::Span::new().seconds(seconds)
    }

    fn object(entries: &[(&str, &str, i64)]) -> ObjectMeta {
        let entries: Vec<Value> = entries
            .iter()
            .map(|(manager, operation, seconds)| {
                json!({ "manager": manager, "operation": operation, "time": at(*seconds).to_string(), "fieldsV1": {} })
            })
            .collect();
        serde_json::from_value(json!({ "resourceVersion": "5", "managedFields": entries })).unwrap()
    }

    #[test]
    fn what_superedge_wrote_before_us_is_dropped_last_entry_first() {
        let object = object(&[
            ("application-grid-controller", "Update", 0),
            ("edgegrid", "Apply", 10),
            ("application-grid-controller", "Update", 5),
        ]);
        let takeover = Takeover::from_metadata(&object, at(11));
        assert_eq!(takeover, Takeover::Due(vec![0, 2]));
        let id = ObjectId::cluster(crate::step::ObjectKind::Node, "x");
        let Some(Step::Patch { operations, .. }) = drop_entries(id, &object, &[0, 2]) else {
            panic!("no patch");
        };
        assert_eq!(operations[0]["path"], "/metadata/managedFields/2");
        assert_eq!(operations[1]["path"], "/metadata/managedFields/0");
    }

    #[test]
    fn a_write_of_superedges_after_ours_makes_us_wait_until_it_is_quiet() {
        let object = object(&[
            ("edgegrid", "Apply", 10),
            ("application-grid-controller", "Update", 20),
        ]);
        let until = at(20 + 600);
        assert_eq!(
            Takeover::from_metadata(&object, at(21)),
            Takeover::Contested { until }
        );
        assert_eq!(
            Takeover::from_metadata(&object, at(620)),
            Takeover::Due(vec![1])
        );
    }

    #[test]
    fn an_object_that_we_never_wrote_is_not_contested() {
        let object = object(&[("application-grid-controller", "Update", 20)]);
        assert_eq!(
            Takeover::from_metadata(&object, at(21)),
            Takeover::Due(vec![0])
        );
    }

    #[test]
    fn nothing_of_superedges_means_done() {
        let object = object(&[("edgegrid", "Apply", 10), ("kubectl", "Update", 20)]);
        assert_eq!(Takeover::from_metadata(&object, at(21)), Takeover::Done);
    }
}
