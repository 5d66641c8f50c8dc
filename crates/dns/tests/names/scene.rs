//! Random sites: what there is, and how the cluster's controllers would write it down.

use crate::site::{delete, put, service, set, superedge_set};
use anyhow::Result;
use edgegrid_testkit::Cluster;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The unit of the node that is looked at.
pub(crate) const OWN: &str = "a";
/// Units and grids whose names are parts of each other; the set of `db-b` in `a` and that of `db` in `b-a` even have
/// the same name, so that there can only be one of them.
const UNITS: [&str; 3] = [OWN, "b-a", "db"];
pub(crate) const GRIDS: [&str; 3] = ["db", "db-b", "a"];
/// Beyond one digit, and not from zero on, as with `ordinals.start`.
pub(crate) const ORDINALS: [u32; 3] = [0, 10, 107];
/// Nodes, and the unit that each is of.
const NODES: [(&str, Option<&str>); 5] = [
    ("node-a", Some(OWN)),
    ("node-a-2", Some(OWN)),
    ("node-b-a", Some("b-a")),
    ("node-db", Some("db")),
    ("node-of-none", None),
];
pub(crate) const SERVICES: [&str; 2] = ["db-svc", "db"];
/// Slices of each service and family, so that what belongs together is spread over several.
const SLICES: usize = 2;

#[derive(Debug, Clone)]
pub(crate) struct Scene {
    /// In the order of [`SERVICES`].
    pub(crate) services: [Front; 2],
    /// Sets by name.
    pub(crate) sets: BTreeMap<String, Stamped>,
    pub(crate) pods: Vec<Pod>,
}

/// A service.
#[derive(Debug, Clone)]
pub(crate) struct Front {
    /// Its address; none if it is headless.
    pub(crate) address: Option<IpAddr>,
    pub(crate) reach: Reach,
    /// Whether it wants pods published that are not ready.
    pub(crate) publishes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// By `topologyKeys`.
    Closed,
    /// The same with `edgegrid.io/headless: open`.
    Opened,
    /// As plain Kubernetes has it.
    Plain,
}

/// The owner of a set.
#[derive(Debug, Clone)]
pub(crate) struct Stamped {
    pub(crate) grid: &'static str,
    pub(crate) unit: &'static str,
    by_superedge: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) addresses: Vec<IpAddr>,
    /// Its node and that node's unit; none if it is outside of the cluster.
    pub(crate) node: Option<(&'static str, Option<&'static str>)>,
    pub(crate) ready: bool,
    pub(crate) terminating: bool,
    /// The service that its set names, by its index; it has its name there and nowhere else.
    pub(crate) governing: usize,
    /// Whether the other service lists it as well.
    pub(crate) in_both: bool,
    pub(crate) owner: Owner,
}

/// Who has made a pod, or whoever is behind an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    StatefulSet,
    /// Its pods have no hostname.
    Deployment,
    /// It is in a slice of somebody who knows of no pods.
    Foreign,
}

impl Pod {
    pub(crate) fn is_at_home(&self) -> bool {
        self.node.is_some_and(|(_, unit)| unit == Some(OWN))
    }

    pub(crate) fn is_behind(&self, service: usize) -> bool {
        self.in_both || self.governing == service
    }

    /// Its name behind a service.
    pub(crate) fn hostname(&self, service: usize) -> Option<&str> {
        let has_one = self.owner != Owner::Deployment && self.governing == service;
        has_one.then_some(&self.name)
    }

    /// Its endpoint, as the EndpointSlice controller writes it.
    fn conditions(&self, publishes: bool) -> Value {
        let ready = publishes || self.ready && !self.terminating;
        json!({ "ready": ready, "serving": self.ready, "terminating": self.terminating })
    }
}

/// Two moments of the same services.
pub(crate) fn scenes() -> impl Strategy<Value = [Scene; 2]> {
    let moment = || (vec((reach(), any::<bool>()), 2), sets(), pods());
    ([any::<bool>(), any::<bool>()], [moment(), moment()]).prop_map(|(headless, moments)| {
        moments.map(|(fronts, sets, pods)| Scene {
            services: std::array::from_fn(|at| Front {
                address: (!headless[at]).then(|| IpAddr::from([10, 96, 0, 10 + u8::from(at > 0)])),
                reach: fronts[at].0,
                publishes: fronts[at].1,
            }),
            sets,
            pods,
        })
    })
}

fn reach() -> impl Strategy<Value = Reach> {
    select(&[Reach::Closed, Reach::Closed, Reach::Opened, Reach::Plain][..])
}

fn sets() -> impl Strategy<Value = BTreeMap<String, Stamped>> {
    let stamped =
        (select(&GRIDS), select(&UNITS), any::<bool>()).prop_map(|(grid, unit, by_superedge)| {
            let stamped = Stamped {
                grid,
                unit,
                by_superedge,
            };
            (format!("{grid}-{unit}"), stamped)
        });
    vec(stamped, 2..8).prop_map(|sets| sets.into_iter().collect())
}

/// Grid, unit and ordinal.
type Named = (&'static str, &'static str, u32);

fn pods() -> impl Strategy<Value = Vec<Pod>> {
    let named = (
        select(&GRIDS),
        prop_oneof![Just(OWN), select(&UNITS)],
        select(&ORDINALS),
    );
    // Half of all pods at home, or there would be few short names.
    let node = prop_oneof![
        Just(Some(NODES[0])),
        prop::option::weighted(0.9, select(&NODES))
    ];
    let rarely = || prop::bool::weighted(0.2);
    let state = (prop::bool::weighted(0.8), rarely(), 0..2_usize, rarely());
    let one = (named, node, state, (0..6_u8, 0..4_u8));
    let one = one.prop_map(|(named, node, state, (sort, family))| {
        let (ready, terminating, governing, in_both) = state;
        let pod = Pod {
            name: pod_name(named, sort),
            addresses: Vec::new(),
            node,
            ready,
            terminating,
            governing,
            in_both,
            owner: match sort {
                1 => Owner::Deployment,
                2 => Owner::Foreign,
                _ => Owner::StatefulSet,
            },
        };
        (pod, family)
    });
    btree_map(1..99_u8, one, 0..30).prop_map(|drawn| {
        let pods = drawn.into_iter().map(|(at, (pod, family))| Pod {
            addresses: addresses(at, family),
            ..pod
        });
        pods.collect()
    })
}

/// Some pods have no unit in their name: they are called like another's short name.
fn pod_name((grid, unit, ordinal): Named, sort: u8) -> String {
    match sort {
        0 => format!("{grid}-{ordinal}"),
        _ => format!("{grid}-{unit}-{ordinal}"),
    }
}

fn addresses(at: u8, family: u8) -> Vec<IpAddr> {
    let v4 = Ipv4Addr::new(10, 0, 0, at).into();
    let v6 = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, at.into()).into();
    match family {
        0 => vec![v4],
        1 => vec![v6],
        _ => vec![v4, v6],
    }
}

/// Makes a cluster as a scene has it, whatever it was before.
pub(crate) async fn stage(cluster: &Cluster, scene: &Scene, before: Option<&Scene>) -> Result<()> {
    for (name, unit) in NODES.iter().filter(|_| before.is_none()) {
        let labels = unit.map_or_else(|| json!({}), |unit| json!({ "location": unit }));
        let node = json!({ "metadata": { "name": name, "labels": labels } });
        put::<Node>(cluster, node).await?;
    }
    for (name, old) in before.into_iter().flat_map(|before| &before.sets) {
        // A set's selector cannot be changed.
        let stays = scene.sets.get(name).is_some_and(|new| new.grid == old.grid);
        if !stays {
            delete::<StatefulSet>(cluster, name).await?;
        }
    }
    for stamped in scene.sets.values() {
        let of = if stamped.by_superedge {
            superedge_set
        } else {
            set
        };
        put::<StatefulSet>(cluster, of(stamped.grid, stamped.unit)).await?;
    }
    for (at, front) in scene.services.iter().enumerate() {
        put::<Service>(cluster, front.object(SERVICES[at])).await?;
        for slice in slices(scene, at) {
            put::<EndpointSlice>(cluster, slice).await?;
        }
    }
    Ok(())
}

impl Front {
    fn object(&self, name: &str) -> Value {
        let mut notes = json!({});
        if self.reach != Reach::Plain {
            notes["topologyKeys"] = "[\"location\"]".into();
        }
        if self.reach == Reach::Opened {
            notes["edgegrid.io/headless"] = "open".into();
        }
        let address = self
            .address
            .map_or_else(|| "None".to_owned(), |own| own.to_string());
        let mut object = service(name, &address, &notes);
        object["spec"]["publishNotReadyAddresses"] = self.publishes.into();
        object
    }
}

/// The slices of a service: some of the controller, one of somebody else, of each family; maybe empty.
fn slices(scene: &Scene, service: usize) -> Vec<Value> {
    let mut slices = Vec::new();
    for (family, is_v6) in [("IPv4", false), ("IPv6", true)] {
        for number in 0..=SLICES {
            let is_here = |at: usize, pod: &Pod| {
                let place = if pod.owner == Owner::Foreign {
                    SLICES
                } else {
                    at % SLICES
                };
                pod.is_behind(service) && place == number
            };
            let pods = scene.pods.iter().enumerate();
            let pods = pods.filter(|(at, pod)| is_here(*at, pod));
            let endpoints: Vec<Value> = pods
                .filter_map(|(_, pod)| endpoint(pod, is_v6, (service, &scene.services[service])))
                .collect();
            let name = format!("{}-{}-{number}", SERVICES[service], family.to_lowercase());
            slices.push(json!({
                "metadata": {
                    "name": name, "namespace": "default",
                    "labels": { "kubernetes.io/service-name": SERVICES[service], "service.kubernetes.io/headless": "" },
                },
                "addressType": family, "endpoints": endpoints,
                "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
            }));
        }
    }
    slices
}

fn endpoint(pod: &Pod, is_v6: bool, (service, front): (usize, &Front)) -> Option<Value> {
    let address = pod
        .addresses
        .iter()
        .find(|address| address.is_ipv6() == is_v6)?;
    let mut endpoint =
        json!({ "addresses": [address], "conditions": pod.conditions(front.publishes) });
    if let Some((node, _)) = pod.node {
        endpoint["nodeName"] = node.into();
    }
    if pod.owner != Owner::Foreign {
        endpoint["targetRef"] = json!({ "kind": "Pod", "namespace": "default", "name": pod.name });
    }
    if let Some(hostname) = pod.hostname(service) {
        endpoint["hostname"] = hostname.into();
    }
    Some(endpoint)
}
