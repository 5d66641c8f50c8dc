//! A service's records, out of what the view shows of it. Pure.
//!
//! Slices are read as CoreDNS reads them: ready endpoints, under their hostname or else their
//! dashed address. Two things are different: a pod that is about to end has no name, even where
//! its Service publishes what is not ready; and a pod without a hostname behind a service with an
//! address of its own has none, as the Kubernetes DNS specification has it.

use crate::records::{Host, Port, ServiceRecords, Target};
use edgegrid_api::names::{ALIAS_MANAGER, label};
use edgegrid_wrapper::ServiceView;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

const HEADLESS: &str = "None";
const EXTERNAL_NAME: &str = "ExternalName";

#[derive(Deserialize)]
struct Service {
    spec: ServiceSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServiceSpec {
    #[serde(rename = "type")]
    kind: Option<String>,
    external_name: Option<String>,
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<String>,
    #[serde(default, rename = "clusterIPs")]
    cluster_ips: Vec<String>,
    #[serde(default)]
    ports: Vec<SomePort>,
}

#[derive(Deserialize)]
struct SomePort {
    name: Option<String>,
    protocol: Option<String>,
    port: Option<u16>,
}

#[derive(Deserialize)]
struct Slice<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    endpoints: Option<Vec<Endpoint<'a>>>,
    #[serde(default)]
    ports: Option<Vec<SomePort>>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow, default)]
    labels: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Endpoint<'a> {
    #[serde(borrow)]
    hostname: Option<Cow<'a, str>>,
    #[serde(default)]
    addresses: Vec<Box<str>>,
    #[serde(default)]
    conditions: Option<Conditions>,
}

#[derive(Deserialize, Default)]
struct Conditions {
    ready: Option<bool>,
    terminating: Option<bool>,
}

/// Why a service has no records.
#[derive(Debug, thiserror::Error)]
#[error("read {what} of a service in the view")]
pub struct Unreadable {
    what: &'static str,
    #[source]
    source: serde_json::Error,
}

/// What the names of a service stand for.
pub fn from_view(view: &ServiceView) -> Result<ServiceRecords, Unreadable> {
    let unreadable = |what| move |source| Unreadable { what, source };
    let service: Service =
        serde_json::from_slice(&view.service).map_err(unreadable("the Service"))?;
    let target = target(&service.spec);
    let mut hosts = BTreeMap::new();
    for text in &view.slices {
        let slice: Slice<'_> = serde_json::from_slice(text).map_err(unreadable("a slice"))?;
        add(&mut hosts, slice, target == Target::Headless);
    }
    Ok(ServiceRecords {
        ports: ports(&service.spec.ports),
        target,
        hosts,
    })
}

fn target(spec: &ServiceSpec) -> Target {
    if spec.kind.as_deref() == Some(EXTERNAL_NAME) {
        let name = spec.external_name.clone().unwrap_or_default();
        return Target::External(name.into());
    }
    if spec.cluster_ip.as_deref() == Some(HEADLESS) {
        return Target::Headless;
    }
    let one = spec
        .cluster_ip
        .iter()
        .filter(|_| spec.cluster_ips.is_empty());
    let all = spec.cluster_ips.iter().chain(one);
    Target::Addresses(all.filter_map(|address| address.parse().ok()).collect())
}

fn add(hosts: &mut BTreeMap<Box<str>, Host>, slice: Slice<'_>, dashed: bool) {
    let manager = slice.metadata.labels.get(label::SLICE_MANAGED_BY);
    let alias = manager.is_some_and(|manager| manager == ALIAS_MANAGER);
    let ports: Arc<[Port]> = ports(slice.ports.as_deref().unwrap_or_default()).into();
    for endpoint in slice.endpoints.into_iter().flatten() {
        let conditions = endpoint.conditions.unwrap_or_default();
        if !conditions.ready.unwrap_or(true) || conditions.terminating.unwrap_or(false) {
            continue;
        }
        let addresses = endpoint.addresses.iter();
        for address in addresses.filter_map(|address| address.parse().ok()) {
            let name = match &endpoint.hostname {
                Some(hostname) if !hostname.is_empty() => hostname.to_ascii_lowercase(),
                _ if dashed => dashed_name(address),
                _ => continue,
            };
            let host = hosts.entry(name.into()).or_insert_with(|| Host {
                addresses: Vec::with_capacity(1),
                ports: Arc::clone(&ports),
                alias,
            });
            // A pod of that name is no second name of another, whatever another slice has.
            host.alias &= alias;
            if let Err(at) = host.addresses.binary_search(&address) {
                host.addresses.insert(at, address);
            }
            if host.ports != ports {
                let both: BTreeSet<&Port> = host.ports.iter().chain(&*ports).collect();
                host.ports = both.into_iter().cloned().collect();
            }
        }
    }
}

fn ports(ports: &[SomePort]) -> Vec<Port> {
    let number = |port: &SomePort| port.port;
    let known = ports.iter().filter_map(|port| Some((port, number(port)?)));
    let port = |(port, number): (&SomePort, u16)| Port {
        name: port.name.as_deref().unwrap_or_default().into(),
        protocol: protocol(port.protocol.as_deref().unwrap_or("TCP")),
        number,
    };
    let ports: BTreeSet<Port> = known.map(port).collect();
    ports.into_iter().collect()
}

fn protocol(name: &str) -> Box<str> {
    name.to_ascii_lowercase().into()
}

/// The name of a pod that has no hostname.
fn dashed_name(address: IpAddr) -> String {
    address.to_string().replace(['.', ':'], "-")
}

#[cfg(test)]
mod tests;
