//! `edgegrid get clusters`: the members of a control cluster, and what is out of step in them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result};
use edgegrid_api::names::{MEMBER_LEASE, annotation, label};
use edgegrid_api::{DeploymentGrid, ServiceGrid, StatefulSetGrid};
use edgegrid_plan::ObjectKind;
use edgegrid_plan::federation::copies::clusters;
use edgegrid_plan::federation::status::{is_in_step, read};
use edgegrid_plan::federation::{GridObject, target};
use jiff::{SignedDuration, SignedDurationRound, Timestamp, Unit};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::federation::Cluster;
use crate::{output, service};

/// Most grids that a line names.
const NAMES_SHOWN: usize = 3;

/// Show the members of a control cluster.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// List the member clusters: last contact, number of units and grids, and which grids are out of step.
    Clusters {
        /// Path to a kubeconfig file of the control cluster. Default: $KUBECONFIG, ~/.kube/config, then the pod's service account.
        #[arg(long, value_name = "FILE")]
        kubeconfig: Option<PathBuf>,
    },
}

/// A member as a line shows it.
#[derive(Default)]
struct Line {
    last_contact: Option<Timestamp>,
    units: BTreeSet<String>,
    grids: usize,
    out_of_step: Vec<String>,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let What::Clusters { kubeconfig } = args.what;
    service::block_on(async move {
        let cluster = Cluster::reach(kubeconfig.as_deref()).await?;
        let text = listing(&cluster, Timestamp::now()).await?;
        output::print(&text).context("print the members")
    })
}

async fn listing(cluster: &Cluster, now: Timestamp) -> Result<String> {
    let namespaces = cluster.members().await?;
    let members = clusters(namespaces.iter().map(|namespace| &namespace.metadata));
    let mut lines: BTreeMap<String, Line> = BTreeMap::new();
    for lease in leases(cluster).await? {
        let namespace = lease.metadata.namespace.clone().unwrap_or_default();
        lines.entry(namespace).or_default().add_lease(&lease);
    }
    let mut copies = copies::<DeploymentGrid>(cluster, ObjectKind::DeploymentGrid).await?;
    copies.extend(copies_of_sets(cluster).await?);
    copies.extend(self::copies::<ServiceGrid>(cluster, ObjectKind::ServiceGrid).await?);
    for copy in copies {
        let namespace = copy.metadata.namespace.clone().unwrap_or_default();
        lines.entry(namespace).or_default().add(&copy);
    }
    let mut table = vec![
        [
            "NAME",
            "NAMESPACE",
            "LAST CONTACT",
            "UNITS",
            "GRIDS",
            "OUT OF STEP",
        ]
        .map(str::to_owned),
    ];
    for (namespace, member) in members {
        let line = lines.remove(&namespace).unwrap_or_default();
        let leaving = if member.is_leaving { " (leaving)" } else { "" };
        table.push([
            format!("{}{leaving}", member.cluster),
            namespace,
            line.last_contact
                .map_or("never".into(), |time| ago(time, now)),
            line.units.len().to_string(),
            line.grids.to_string(),
            listed(&line.out_of_step),
        ]);
    }
    Ok(aligned(&table))
}

async fn copies_of_sets(cluster: &Cluster) -> Result<Vec<GridObject>> {
    copies::<StatefulSetGrid>(cluster, ObjectKind::StatefulSetGrid).await
}

async fn copies<K>(cluster: &Cluster, kind: ObjectKind) -> Result<Vec<GridObject>>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    let found = cluster.labelled::<K>(label::DISTRIBUTED).await?;
    Ok(found
        .iter()
        .map(|grid| GridObject::new(kind, grid.meta(), grid))
        .collect())
}

async fn leases(cluster: &Cluster) -> Result<Vec<Lease>> {
    let leases: Api<Lease> = Api::all(cluster.client.clone());
    let ours = ListParams::default().fields(&format!("metadata.name={MEMBER_LEASE}"));
    let found = leases
        .list(&ours)
        .await
        .context("list the leases of members")?;
    Ok(found.items)
}

impl Line {
    /// Takes the last contact from the member's lease, and what it misses.
    fn add_lease(&mut self, lease: &Lease) {
        let spec = lease.spec.as_ref();
        let renewed = spec.and_then(|spec| spec.renew_time.as_ref());
        self.last_contact = renewed.map(|time| time.0);
        if let Some(missing) = lease.annotations().get(annotation::MISSING) {
            self.out_of_step.push(format!("missing there: {missing}"));
        }
    }

    fn add(&mut self, copy: &GridObject) {
        let status = read(&copy.status);
        self.grids += 1;
        if !is_in_step(copy.metadata.generation, &status)
            || copy.metadata.deletion_timestamp.is_some()
        {
            let (namespace, name) = target(&copy.metadata).unwrap_or_default();
            self.out_of_step
                .push(format!("{} {namespace}/{name}", copy.kind.name()));
        }
        self.units.extend(status.states.into_keys());
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "-".into();
    }
    let shown = names[..names.len().min(NAMES_SHOWN)].join(", ");
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn ago(moment: Timestamp, now: Timestamp) -> String {
    let past = moment.duration_until(now).max(SignedDuration::ZERO);
    let whole = past
        .round(SignedDurationRound::new().smallest(Unit::Second))
        .unwrap_or(past);
    format!("{whole:#} ago")
}

/// Columns side by side.
fn aligned<const N: usize>(table: &[[String; N]]) -> String {
    let width = |column: usize| table.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in table {
        let cells: Vec<String> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text.push_str(cells.join("   ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn copy(generation: i64, status: &serde_json::Value) -> GridObject {
        GridObject {
            kind: ObjectKind::DeploymentGrid,
            metadata: serde_json::from_value(json!({
                "name": "web", "namespace": "edgegrid-a", "generation": generation,
                "labels": { label::TARGET_NAMESPACE: "shop" },
            }))
            .unwrap(),
            spec: json!({}),
            status: status.clone(),
        }
    }

    #[test]
    fn a_line_counts_units_and_grids_and_names_what_is_out_of_step() {
        let mut line = Line::default();
        line.add(&copy(
            2,
            &json!({ "observedGeneration": 2, "states": { "zone1": {}, "zone2": {} } }),
        ));
        line.add(&copy(
            3,
            &json!({ "observedGeneration": 2, "states": { "zone1": {} } }),
        ));
        assert_eq!((line.units.len(), line.grids), (2, 2));
        assert_eq!(listed(&line.out_of_step), "DeploymentGrid shop/web");
        assert_eq!(listed(&[]), "-");
    }

    #[test]
    fn what_a_member_misses_is_in_its_line() {
        let lease: Lease = serde_json::from_value(json!({
            "metadata": { "annotations": { annotation::MISSING: "DeploymentGrid shop/web" } },
            "spec": { "renewTime": "2026-01-01T00:00:00.000000Z" },
        }))
        .unwrap();
        let mut line = Line::default();
        line.add_lease(&lease);
        assert!(line.last_contact.is_some());
        assert_eq!(
            listed(&line.out_of_step),
            "missing there: DeploymentGrid shop/web"
        );
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let table = [["NAME", "GRIDS"], ["a-long-one", "7"]].map(|row| row.map(str::to_owned));
        assert_eq!(aligned(&table), "NAME         GRIDS\na-long-one   7\n");
    }
}
