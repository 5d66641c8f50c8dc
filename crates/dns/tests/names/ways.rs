//! What a client is answered, by each of the three ways: an unmodified CoreDNS that reads the view, the hosts file, and
//! our own server, which is asked with messages as they come over the wire.

use crate::agent::Agent;
use crate::scene::SERVICES;
use anyhow::{Context, Result, bail, ensure};
use edgegrid_dns::answer::Zone;
use edgegrid_dns::records::Records;
use edgegrid_dns::server::exchange::{Step, take};
use edgegrid_dns::server::wire::Transport;
use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What the names at and below a service's stand for; a name that is not here does not exist.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    /// Label, empty for the service's own name, to addresses.
    pub(crate) addresses: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The labels that `_http._tcp` leads to.
    pub(crate) targets: BTreeSet<String>,
}

/// The name of an endpoint that has no hostname.
pub(crate) fn dashed(address: IpAddr) -> String {
    address.to_string().replace(['.', ':'], "-")
}

/// What a CoreDNS that reads the view makes of it, service by service.
pub(crate) async fn by_coredns(agent: &Agent) -> Result<Vec<Answers>> {
    let services: Api<Service> = Api::namespaced(agent.client(), "default");
    let slices: Api<EndpointSlice> = Api::namespaced(agent.client(), "default");
    let slices = slices.list(&ListParams::default()).await?.items;
    let mut answers = Vec::new();
    for name in SERVICES {
        let spec = services.get(name).await?.spec.context("a spec")?;
        let own = spec.cluster_ip.unwrap_or_default().parse().ok();
        answers.push(coredns(name, own, &slices));
    }
    Ok(answers)
}

/// Its `kubernetes` plugin: ready endpoints of all slices with the service's label, each under its hostname or else its
/// address; SRV of slices with ports; a service with an address is that, whatever is behind it.
fn coredns(service: &str, own: Option<IpAddr>, slices: &[EndpointSlice]) -> Answers {
    let mut answers = Answers::default();
    let of_service = |slice: &&EndpointSlice| {
        let labels = slice.metadata.labels.as_ref();
        labels.and_then(|all| all.get("kubernetes.io/service-name").map(String::as_str))
            == Some(service)
    };
    for slice in slices.iter().filter(of_service) {
        let has_ports = slice.ports.as_ref().is_some_and(|ports| !ports.is_empty());
        for endpoint in slice.endpoints.iter().flatten() {
            let conditions = endpoint.conditions.as_ref();
            if conditions.and_then(|all| all.ready) == Some(false) {
                continue;
            }
            for address in endpoint.addresses.iter().filter_map(|one| one.parse().ok()) {
                let name = endpoint.hostname.clone();
                let name = name.unwrap_or_else(|| dashed(address));
                if has_ports && own.is_none() {
                    answers.targets.insert(name.clone());
                }
                let names = if own.is_none() {
                    vec![name, String::new()]
                } else {
                    vec![name]
                };
                for name in names {
                    answers.addresses.entry(name).or_default().insert(address);
                }
            }
        }
    }
    if let Some(own) = own {
        answers.addresses.insert(String::new(), [own].into());
        answers.targets.insert(String::new());
    }
    answers
}

/// The hosts file, every line of it; none before it was written.
pub(crate) fn by_hosts_file(agent: &Agent) -> Result<BTreeMap<String, BTreeSet<IpAddr>>> {
    let mut answers: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    let file = agent.hosts_file().context("no hosts file yet")?;
    for line in file.lines().filter(|line| !line.starts_with('#')) {
        let (address, name) = line.split_once(' ').context("a line without a blank")?;
        let addresses = answers.entry(name.to_owned()).or_default();
        addresses.insert(address.parse()?);
    }
    Ok(answers)
}

/// Our own server, which has a cluster's DNS to ask: about a known service it must not.
pub(crate) struct Asking<'a> {
    pub(crate) records: &'a Records,
    zone: Zone,
}

impl<'a> Asking<'a> {
    pub(crate) fn new(records: &'a Records) -> Result<Self> {
        let zone = Zone::new(Name::from_ascii("cluster.local.")?, Vec::new(), true);
        Ok(Self { records, zone })
    }

    /// What it answers for a service, asked for all these labels.
    pub(crate) fn service(&self, service: &str, labels: &BTreeSet<String>) -> Result<Answers> {
        let parent = format!("{service}.default.svc.cluster.local.");
        let mut answers = Answers::default();
        for label in labels {
            let name = below(label, &parent);
            let v4 = self.heard(&name, RecordType::A)?;
            let v6 = self.heard(&name, RecordType::AAAA)?;
            ensure!(
                v4.is_some() == v6.is_some(),
                "{name} exists for one family only"
            );
            if let (Some(v4), Some(v6)) = (v4, v6) {
                let records = v4.answers.iter().chain(&v6.answers);
                let data = records.map(|record| &record.data);
                let addresses = data.map(address).collect::<Result<_>>()?;
                answers.addresses.insert(label.clone(), addresses);
            }
        }
        let ports = self.heard(&format!("_http._tcp.{parent}"), RecordType::SRV)?;
        for record in ports.iter().flat_map(|message| &message.answers) {
            let RData::SRV(port) = &record.data else {
                bail!("{record} among SRV records");
            };
            let target = port.target.to_string();
            let label = target.strip_suffix(&parent).context("a target elsewhere")?;
            answers
                .targets
                .insert(label.trim_end_matches('.').to_owned());
        }
        Ok(answers)
    }

    /// The names of an address.
    pub(crate) fn backwards(&self, address: IpAddr) -> Result<BTreeSet<String>> {
        let Step::Answered(_) = self.step(Name::from(address), RecordType::PTR)?.0 else {
            return Ok(BTreeSet::new());
        };
        let heard = self.heard(&Name::from(address).to_string(), RecordType::PTR)?;
        let answers = heard.into_iter().flat_map(|message| message.answers);
        Ok(answers.map(|record| record.data.to_string()).collect())
    }

    /// The answer to a question about a service; none if there is no such name.
    fn heard(&self, name: &str, kind: RecordType) -> Result<Option<Message>> {
        let (step, answer) = self.step(Name::from_ascii(name)?, kind)?;
        match step {
            Step::Answered(ResponseCode::NoError) => Ok(Some(Message::from_vec(&answer)?)),
            Step::Answered(ResponseCode::NXDomain) => Ok(None),
            other => bail!("{kind} of {name}: {other:?}"),
        }
    }

    fn step(&self, name: Name, kind: RecordType) -> Result<(Step, Vec<u8>)> {
        let mut message = Message::query();
        message.add_query(Query::query(name, kind));
        let (packet, mut answer) = (message.to_vec()?, Vec::new());
        let known = (&self.zone, self.records);
        let step = take(known, &packet, Transport::Tcp, &mut answer);
        Ok((step, answer))
    }
}

/// A label below a name; the name itself if it is empty.
pub(crate) fn below(label: &str, parent: &str) -> String {
    let dot = if label.is_empty() { "" } else { "." };
    format!("{label}{dot}{parent}")
}

fn address(data: &RData) -> Result<IpAddr> {
    match data {
        RData::A(address) => Ok(address.0.into()),
        RData::AAAA(address) => Ok(address.0.into()),
        other => bail!("{other} among addresses"),
    }
}
