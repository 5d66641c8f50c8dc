//! What `edgegrid agent` is made of, in this process; and what a CoreDNS would make of its view.

use anyhow::{Result, ensure};
use edgegrid_dns::hosts::{Hosts, Metrics, WriteMode};
use edgegrid_dns::names::Names;
use edgegrid_dns::records::ServiceName;
use edgegrid_runtime::shutdown::{self, Trigger};
use edgegrid_testkit::faults::{Faults, Recorded};
use edgegrid_testkit::{Cluster, eventually};
use edgegrid_wrapper::{Config, Link, Wrapper};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tokio::task::JoinSet;

/// Name below a service → addresses.
pub(crate) type Found = BTreeMap<String, BTreeSet<String>>;

pub(crate) struct Agent {
    pub(crate) names: Names,
    pub(crate) faults: Faults,
    pub(crate) asked: Recorded,
    wrapper: Wrapper,
    hosts: PathBuf,
    trigger: Trigger,
    tasks: JoinSet<()>,
}

impl Agent {
    /// Starts it on a node; what it keeps, and its hosts file, are in a folder.
    pub(crate) fn start(cluster: &Cluster, node: &str, folder: &Path) -> Result<Self> {
        Self::start_over(cluster, node, folder, |_| {})
    }

    /// The same over a link that has its faults from the start.
    pub(crate) fn start_over(
        cluster: &Cluster,
        node: &str,
        folder: &Path,
        break_link: impl FnOnce(&Faults),
    ) -> Result<Self> {
        let (client, faults) = cluster.link()?;
        break_link(&faults);
        let asked = faults.record(|_, _| true);
        let config = Config {
            state: Some(folder.join("state")),
            names: true,
            ..Config::new(node)
        };
        let wrapper = Wrapper::new(&config, Link::from_client(client), cluster.clock());
        let (trigger, stop) = shutdown::channel();
        let (names, hosts) = (Names::default(), folder.join("hosts"));
        let file = Hosts {
            path: hosts.clone(),
            mode: WriteMode::Rename,
            domain: "cluster.local".to_owned(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(names.clone().follow(wrapper.follow(), stop.clone()));
        tasks.spawn(file.keep(names.clone(), Metrics::default(), stop.clone()));
        let running = wrapper.clone();
        tasks.spawn(async move { running.run(Vec::new(), stop).await.unwrap() });
        Ok(Self {
            names,
            faults,
            asked,
            wrapper,
            hosts,
            trigger,
            tasks,
        })
    }

    pub(crate) fn client(&self) -> Client {
        self.wrapper.client()
    }

    /// Ends it as SIGTERM does.
    pub(crate) async fn stop(mut self) {
        self.trigger.pull();
        while self.tasks.join_next().await.is_some() {}
    }

    /// What its own paths answer.
    pub(crate) async fn get(&self, path: &str) -> Result<String> {
        let request = http::Request::get(path).body(Vec::new())?;
        Ok(self.client().request_text(request).await?)
    }

    /// The names below a service as a CoreDNS that reads the view has them.
    pub(crate) async fn in_view(&self, service: &str) -> Result<Found> {
        let slices: Api<EndpointSlice> = Api::all(self.client());
        let selector = format!("kubernetes.io/service-name={service}");
        let params = ListParams::default().labels(&selector);
        let mut found = Found::new();
        for slice in slices.list(&params).await? {
            for endpoint in slice.endpoints.unwrap_or_default() {
                let ready = endpoint.conditions.and_then(|all| all.ready);
                let Some(name) = endpoint.hostname.filter(|_| ready != Some(false)) else {
                    continue;
                };
                found.entry(name).or_default().extend(endpoint.addresses);
            }
        }
        Ok(found)
    }

    /// The names below a service as a DNS server of our own has them.
    pub(crate) fn in_records(&self, service: &str) -> Found {
        let name = ServiceName {
            namespace: "default".into(),
            name: service.into(),
        };
        let records = self.names.read();
        let hosts = records.service(&name).map(|service| &service.hosts);
        let hosts = hosts.into_iter().flatten();
        let text = |address: &std::net::IpAddr| address.to_string();
        hosts
            .map(|(name, host)| (name.to_string(), host.addresses.iter().map(text).collect()))
            .collect()
    }

    /// The hosts file, if there is one.
    pub(crate) fn hosts_file(&self) -> Option<String> {
        std::fs::read_to_string(&self.hosts).ok()
    }

    /// The short names of a service in the hosts file.
    pub(crate) fn in_hosts_file(&self, service: &str) -> Found {
        let mut found = Found::new();
        let rest = format!(".{service}.default.svc.cluster.local");
        for line in self.hosts_file().unwrap_or_default().lines() {
            if let Some((address, name)) = line.split_once(' ')
                && let Some(name) = name.strip_suffix(&rest)
            {
                let addresses = found.entry(name.to_owned()).or_default();
                addresses.insert(address.to_owned());
            }
        }
        found
    }

    /// Waits until all ways give the short names that a test wants, and no other.
    pub(crate) async fn short_names_are(
        &self,
        service: &str,
        wanted: &[(&str, &str)],
    ) -> Result<()> {
        let wanted = found(wanted);
        eventually(
            &format!("{service} has the short names {wanted:?}"),
            async || {
                let file = self.in_hosts_file(service);
                ensure!(file == wanted, "in the hosts file: {file:?}");
                let (view, records) = (self.in_view(service).await?, self.in_records(service));
                let is_short = |name: &String| is_short(name);
                let short = |all: &Found| -> Found {
                    let all = all.iter().filter(|(name, _)| is_short(name));
                    all.map(|(name, at)| (name.clone(), at.clone())).collect()
                };
                ensure!(short(&view) == wanted, "in the view: {view:?}");
                ensure!(short(&records) == wanted, "in the records: {records:?}");
                Ok(())
            },
        )
        .await
    }
}

/// Whether a name is one of grid `db` without a unit in it.
fn is_short(name: &str) -> bool {
    let ordinal = name.strip_prefix("db-");
    ordinal.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

pub(crate) fn found(names: &[(&str, &str)]) -> Found {
    let mut found = Found::new();
    for (name, address) in names {
        let addresses = found.entry((*name).to_owned()).or_default();
        addresses.insert((*address).to_owned());
    }
    found
}
