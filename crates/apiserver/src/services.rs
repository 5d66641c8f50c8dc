//! Addresses of Services: given out on create, kept on update, free again when the Service is gone.
//!
//! What is taken is read off the stored Services, so nothing can leak and nothing must be repaired.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use edgegrid_machinery::status::{FieldError, GroupResource, Status};
use serde_json::{Map, Value, json};

use crate::admission::{Admission, Attributes, Operation};
use crate::request::live;

/// The range is this address's /16; the first is that of `kubernetes` itself.
const BASE: [u8; 2] = [10, 96];
const NODE_PORTS: std::ops::RangeInclusive<u64> = 30_000..=32_767;

pub(crate) const FIRST: Ipv4Addr = Ipv4Addr::new(BASE[0], BASE[1], 0, 1);

/// Gives Services their addresses and node ports.
pub(crate) struct ServiceAddresses;

impl Admission for ServiceAddresses {
    fn admit(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let of_services = attributes.group.is_empty() && attributes.resource == "services";
        if !of_services
            || attributes.operation == Operation::Delete
            || attributes.subresource.is_some()
        {
            return Ok(());
        }
        let old = attributes.old;
        match object["spec"]["type"].as_str() {
            Some("ExternalName") => release(object),
            kind => {
                let with_ports = matches!(kind, Some("NodePort" | "LoadBalancer"));
                let taken = taken(attributes);
                give_address(object, old, &taken.addresses)?;
                if with_ports {
                    give_ports(object, old, &taken.ports);
                }
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct Taken {
    addresses: BTreeSet<String>,
    ports: BTreeSet<u64>,
}

fn taken(attributes: &Attributes<'_>) -> Taken {
    let mut taken = Taken::default();
    let Some(services) = attributes.server.registry.resource("", "v1", "services") else {
        return taken;
    };
    let own = attributes.old.map(|old| old["metadata"]["uid"].clone());
    for entry in attributes
        .server
        .reader
        .store()
        .snapshot()
        .under(&services.read.key_prefix)
        .iter()
    {
        let Ok(service) = live(&services, entry.clone()) else {
            continue;
        };
        let service = service.object;
        if Some(&service["metadata"]["uid"]) == own.as_ref() {
            continue;
        }
        let addresses = service["spec"]["clusterIPs"]
            .as_array()
            .into_iter()
            .flatten();
        taken
            .addresses
            .extend(addresses.filter_map(|a| a.as_str().map(str::to_owned)));
        let ports = service["spec"]["ports"].as_array().into_iter().flatten();
        taken
            .ports
            .extend(ports.filter_map(|port| port["nodePort"].as_u64()));
    }
    taken
}

fn give_address(
    object: &mut Value,
    old: Option<&Value>,
    taken: &BTreeSet<String>,
) -> Result<(), Status> {
    let asked = object["spec"]["clusterIP"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let first = object["spec"]["clusterIPs"][0].as_str();
    if first.is_some_and(|first| first != asked) {
        // Refused for that, as it is.
        return Ok(());
    }
    let kept = old
        .and_then(|old| old["spec"]["clusterIP"].as_str())
        .unwrap_or_default();
    let address = match asked.as_str() {
        "" if !kept.is_empty() => kept.to_owned(),
        "" => free(taken)
            .ok_or_else(|| Status::internal("failed to allocate a serviceIP: range is full"))?,
        "None" => "None".to_owned(),
        asked => {
            check_address(object, asked, taken)?;
            asked.to_owned()
        }
    };
    let spec = &mut object["spec"];
    spec["clusterIP"] = address.as_str().into();
    spec["clusterIPs"] = json!([address]);
    give_families(spec);
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

fn check_address(object: &Value, asked: &str, taken: &BTreeSet<String>) -> Result<(), Status> {
    let why = match asked.parse::<Ipv4Addr>() {
        Ok(address) if address.octets()[..2] != BASE => {
            format!(
                "failed to allocate IP {asked}: the provided network does not match the current range"
            )
        }
        Ok(_) if taken.contains(asked) => {
            format!("failed to allocate IP {asked}: provided IP is already allocated")
        }
        Ok(_) => return Ok(()),
        Err(_) => "must be empty, 'None', or a valid IP address".to_owned(),
    };
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let error = FieldError::invalid("spec.clusterIPs", json!([asked]), why);
    Err(Status::invalid(
        &GroupResource::new("", "Service"),
        name,
        &[error],
    ))
}

fn free(taken: &BTreeSet<String>) -> Option<String> {
    // From the second /24 on: low addresses are for those who ask for one.
    let all = (1..=255u8).flat_map(|third| (1..=254u8).map(move |last| (third, last)));
    all.map(|(third, last)| Ipv4Addr::new(BASE[0], BASE[1], third, last).to_string())
        .find(|address| !taken.contains(address))
}

fn give_ports(object: &mut Value, old: Option<&Value>, taken: &BTreeSet<u64>) {
    let mut taken = taken.clone();
    let kept = old
        .and_then(|old| old["spec"]["ports"].as_array())
        .cloned()
        .unwrap_or_default();
    for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
        let is_same =
            |old: &&Value| old["port"] == port["port"] && old["protocol"] == port["protocol"];
        let before = kept
            .iter()
            .find(is_same)
            .and_then(|old| old["nodePort"].as_u64());
        let asked = port["nodePort"].as_u64().filter(|number| *number > 0);
        let number = asked
            .or(before)
            .or_else(|| NODE_PORTS.clone().find(|number| !taken.contains(number)));
        if let Some(number) = number {
            taken.insert(number);
            port["nodePort"] = number.into();
        }
    }
}

fn release(object: &mut Value) {
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        crate::served::remove(&mut object["spec"], field);
    }
}
