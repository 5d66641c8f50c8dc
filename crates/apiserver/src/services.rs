//! Addresses of Services: given out on create, kept on update, free again when the Service is gone.
//!
//! What is allocated is read off the stored Services, so nothing can leak and nothing must be repaired;
//! writers of Services take turns, so that nothing is given twice.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use edgegrid_machinery::metadata;
use edgegrid_machinery::status::{FieldError, GroupResource, Status};
use parking_lot::MutexGuard;
use serde_json::{Map, Value, json};

use crate::admission::{Admission, Attributes, Operation};
use crate::request::{Request, live};

/// The range is this address's /16; the first is that of `kubernetes` itself.
const BASE: [u8; 2] = [10, 96];
const NODE_PORTS: RangeInclusive<u64> = 30_000..=32_767;
/// Ports below are for those who ask for one.
const FIRST_FREE_PORT: u64 = 30_086;

pub(crate) const FIRST: Ipv4Addr = Ipv4Addr::new(BASE[0], BASE[1], 0, 1);

/// Gives Services their addresses and node ports.
pub(crate) struct ServiceAddresses;

/// Locked by a writer of a Service from reading which addresses are allocated until it has written.
pub(crate) fn allocator_lock<'a>(request: &Request<'a>) -> Option<MutexGuard<'a, ()>> {
    let read = &request.served.read;
    let is_service = read.group.is_empty() && read.plural == "services";
    is_service.then(|| request.server.allocator_lock.lock())
}

impl Admission for ServiceAddresses {
    fn admit(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let of_services = attributes.group.is_empty() && attributes.resource == "services";
        if !of_services
            || attributes.operation == Operation::Delete
            || attributes.subresource.is_some()
            || object["spec"]["type"] == "ExternalName"
        {
            return Ok(());
        }
        let allocated = read_allocated(attributes);
        give_address(object, attributes.old, &allocated.addresses)?;
        give_ports(object, attributes.old, allocated.ports)
    }
}

/// Addresses and node ports of all Services but one.
#[derive(Default)]
struct Allocated {
    addresses: BTreeSet<String>,
    ports: BTreeSet<u64>,
}

fn read_allocated(attributes: &Attributes<'_>) -> Allocated {
    let mut allocated = Allocated::default();
    let Some(services) = attributes.registry.resource("", "v1", "services") else {
        return allocated;
    };
    let own = attributes.old.map(|old| &old["metadata"]["uid"]);
    let snapshot = attributes.store.snapshot();
    for entry in snapshot.under(&services.read.key_prefix).iter() {
        let Ok(service) = live(&services, entry.clone()) else {
            continue;
        };
        let service = service.object;
        if Some(&service["metadata"]["uid"]) != own {
            let addresses = service["spec"]["clusterIPs"].as_array();
            let addresses = addresses.into_iter().flatten().filter_map(Value::as_str);
            allocated.addresses.extend(addresses.map(str::to_owned));
            allocated.ports.extend(node_ports(&service));
        }
    }
    allocated
}

fn node_ports(service: &Value) -> Vec<u64> {
    let spec = &service["spec"];
    let ports = spec["ports"].as_array().into_iter().flatten();
    let ports = ports.map(|port| &port["nodePort"]);
    let ports = ports.chain([&spec["healthCheckNodePort"]]);
    ports.filter_map(Value::as_u64).collect()
}

fn give_address(
    object: &mut Value,
    old: Option<&Value>,
    allocated: &BTreeSet<String>,
) -> Result<(), Status> {
    let asked = object["spec"]["clusterIP"].as_str().unwrap_or_default();
    let first = object["spec"]["clusterIPs"][0].as_str();
    if first.is_some_and(|first| first != asked) {
        return Ok(()); // for the validation to say
    }
    let is_kept = old.is_some_and(|old| old["spec"]["clusterIP"] == asked);
    if asked.is_empty() && object["spec"]["clusterIPs"].is_null() {
        let full = || Status::internal("failed to allocate a serviceIP: range is full");
        let address = free_address(allocated).ok_or_else(full)?;
        object["spec"]["clusterIP"] = address.as_str().into();
        object["spec"]["clusterIPs"] = json!([address]);
    } else if !matches!(asked, "" | "None") && !is_kept {
        check_address(object, asked, allocated)?;
    }
    give_families(&mut object["spec"]);
    Ok(())
}

/// One family is served, but a Service without addresses and without pods of its own may speak of both.
fn give_families(spec: &mut Value) {
    let is_free =
        spec["clusterIP"] == "None" && spec["selector"].as_object().is_none_or(Map::is_empty);
    if spec["ipFamilyPolicy"].is_null() {
        let policy = if is_free {
            "RequireDualStack"
        } else {
            "SingleStack"
        };
        spec["ipFamilyPolicy"] = policy.into();
    }
    let mut families = spec["ipFamilies"].as_array().cloned().unwrap_or_default();
    if families.is_empty() {
        families.push("IPv4".into());
    }
    if is_free && families.len() == 1 && spec["ipFamilyPolicy"] != "SingleStack" {
        let other = if families[0] == "IPv4" {
            "IPv6"
        } else {
            "IPv4"
        };
        families.push(other.into());
    }
    spec["ipFamilies"] = families.into();
}

fn check_address(object: &Value, asked: &str, allocated: &BTreeSet<String>) -> Result<(), Status> {
    let Ok(address) = asked.parse::<Ipv4Addr>() else {
        return Ok(()); // for the validation to say
    };
    let why = if address.octets()[..2] != BASE {
        "the provided network does not match the current range"
    } else if allocated.contains(asked) {
        "provided IP is already allocated"
    } else {
        return Ok(());
    };
    let why = format!("failed to allocate IP {asked}: {why}");
    let error = FieldError::invalid("spec.clusterIPs", json!([asked]), why);
    Err(invalid(object, error))
}

fn free_address(allocated: &BTreeSet<String>) -> Option<String> {
    // From the second /24 on: low addresses are for those who ask for one.
    let all = (1..=255u8).flat_map(|third| (1..=254u8).map(move |last| (third, last)));
    all.map(|(third, last)| Ipv4Addr::new(BASE[0], BASE[1], third, last).to_string())
        .find(|address| !allocated.contains(address))
}

/// Gives every port of a Service that is reached through nodes one of theirs.
fn give_ports(
    object: &mut Value,
    old: Option<&Value>,
    allocated: BTreeSet<u64>,
) -> Result<(), Status> {
    let spec = &object["spec"];
    let on_nodes = match spec["type"].as_str() {
        Some("NodePort") => true,
        Some("LoadBalancer") => spec["allocateLoadBalancerNodePorts"] != false,
        _ => return Ok(()),
    };
    let is_checked = spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local";
    let mut allotment = Allotment {
        allocated,
        own: old.map(node_ports).into_iter().flatten().collect(),
    };
    let mut ports = spec["ports"].as_array().cloned().unwrap_or_default();
    // Ports of a new Service that differ in nothing but their protocol share a node port.
    let mut shared = BTreeMap::new();
    for port in ports.iter().filter(|_| old.is_none()) {
        if let Some(asked) = number(&port["nodePort"]) {
            shared.entry(number(&port["port"])).or_insert(asked);
        }
    }
    for (index, port) in ports.iter_mut().enumerate() {
        let service_port = number(&port["port"]);
        let asked = number(&port["nodePort"]).or_else(|| shared.get(&service_port).copied());
        if asked.is_none() && !on_nodes {
            continue;
        }
        let given = allotment.give(asked).map_err(|why| {
            let at = format!("spec.ports[{index}].nodePort");
            invalid(object, FieldError::invalid(at, asked.unwrap_or(0), why))
        })?;
        if old.is_none() {
            shared.insert(service_port, given);
        }
        port["nodePort"] = given.into();
    }
    if is_checked {
        let asked = number(&object["spec"]["healthCheckNodePort"]);
        let given = allotment.give(asked).map_err(Status::internal)?;
        object["spec"]["healthCheckNodePort"] = given.into();
    }
    if !ports.is_empty() {
        object["spec"]["ports"] = ports.into();
    }
    Ok(())
}

/// Node ports while they are given out.
struct Allotment {
    /// Those of other Services.
    allocated: BTreeSet<u64>,
    /// Those the Service has, or is given now.
    own: BTreeSet<u64>,
}

impl Allotment {
    fn give(&mut self, asked: Option<u64>) -> Result<u64, &'static str> {
        let is_free = |port: &u64| !self.allocated.contains(port) && !self.own.contains(port);
        let port = match asked {
            Some(port) if self.own.contains(&port) => port,
            Some(port) if !NODE_PORTS.contains(&port) => {
                return Err(
                    "provided port is not in the valid range. The range of valid ports is 30000-32767",
                );
            }
            Some(port) if self.allocated.contains(&port) => {
                return Err("provided port is already allocated");
            }
            Some(port) => port,
            None => (FIRST_FREE_PORT..=*NODE_PORTS.end())
                .chain(*NODE_PORTS.start()..FIRST_FREE_PORT)
                .find(is_free)
                .ok_or("range is full")?,
        };
        self.own.insert(port);
        Ok(port)
    }
}

/// A port that is named; nought names none.
fn number(port: &Value) -> Option<u64> {
    port.as_u64().filter(|port| *port > 0)
}

fn invalid(object: &Value, error: FieldError) -> Status {
    let name = metadata::name(object);
    Status::invalid(&GroupResource::new("", "Service"), name, &[error])
}
