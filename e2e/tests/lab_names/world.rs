//! Six nodes in two units with the walk-through's grids. In each unit one node has an agent and a
//! CoreDNS that reads the API through it, another an agent and a CoreDNS that reads its hosts file, the
//! third an agent that answers itself.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, ensure};
use edgegrid_testkit::edgegrid::{AGENT_ACCOUNT, Controller, binary};
use edgegrid_testkit::lab::{CoreDns, Lab, RecordType};
use edgegrid_testkit::process::Process;
use edgegrid_testkit::{Cluster, eventually, node};
use edgegrid_upstream::{Program, locate};

use super::unit::{DOMAIN, UNITS, Unit, short};

const NODES: [&str; 6] = ["bj-1", "bj-2", "bj-3", "gz-1", "gz-2", "gz-3"];

pub(crate) struct World {
    agents: BTreeMap<&'static str, Process>,
    dns: BTreeMap<&'static str, CoreDns>,
    own: BTreeMap<&'static str, SocketAddrV4>,
    _controller: Controller,
    pub(crate) cluster: Cluster,
    pub(crate) lab: Arc<Lab>,
}

pub(crate) fn program(name: &str) -> PathBuf {
    locate(&Program::parse(name).unwrap()).unwrap()
}

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    path.to_str().unwrap().to_owned()
}

impl World {
    pub(crate) async fn start() -> Self {
        let lab = Arc::new(Lab::start().await.unwrap());
        let cluster = Cluster::upstream()
            .listen_on(lab.gateway())
            .with_controllers()
            .pods(lab.clone())
            .await
            .unwrap();
        for name in NODES {
            let made = lab.add_node(name).await.unwrap();
            let node = node(name).address(made.address).pod_cidr(&made.pod_cidr);
            cluster.add_nodes([node]).await.unwrap();
        }
        let controller = Controller::start(&cluster, "controller", &[])
            .await
            .unwrap();
        let mut world = Self {
            agents: BTreeMap::new(),
            dns: BTreeMap::new(),
            own: BTreeMap::new(),
            _controller: controller,
            cluster,
            lab,
        };
        let fixtures = "crates/api/fixtures";
        for path in [
            "walkthrough/sites",
            "seeds/001-servicegrid-headless",
            "seeds/001-statefulsetgrid",
        ] {
            world.apply(&format!("{fixtures}/{path}.yaml")).await;
        }
        world.apply("deploy/agent/rbac.yaml").await;
        eventually("three pods run in each unit", async || {
            for unit in UNITS {
                let pods = world.pods_of(unit);
                ensure!(pods.len() == 3, "{}: {pods:?}", unit.name);
            }
            Ok(())
        })
        .await
        .unwrap();
        for unit in UNITS {
            for node in unit.nodes() {
                world.start_agent(unit, node).await;
            }
            world.start_dns(unit, true).await;
        }
        world
    }

    pub(crate) async fn apply(&self, path: &str) {
        let path = file(path);
        self.cluster.kubectl(["apply", "-f", &path]).await.unwrap();
    }

    pub(crate) async fn apply_text(&self, text: &str) {
        let applied = self.cluster.kubectl_with_input(["apply", "-f", "-"], text);
        applied.await.unwrap();
    }

    async fn start_agent(&mut self, unit: Unit, node: &'static str) {
        let (namespace, account) = AGENT_ACCOUNT;
        let kubeconfig = self
            .cluster
            .kubeconfig_as_service_account(namespace, account);
        let kubeconfig = kubeconfig.await.unwrap();
        let program = binary().unwrap();
        let agent = if node == unit.own {
            let agent = self.lab.agent_with_dns(node, &program, &kubeconfig);
            let (agent, address) = agent.await.unwrap();
            self.own.insert(node, address);
            agent
        } else {
            let agent = self.lab.agent(node, &program, &kubeconfig);
            agent.await.unwrap()
        };
        self.agents.insert(node, agent);
    }

    /// Starts both; the one with the hosts file knows the rest from the API server, if that is there.
    async fn start_dns(&mut self, unit: Unit, with_cloud: bool) {
        let coredns = program("coredns");
        let through = self.lab.wrapper_kubeconfig().unwrap();
        let dns = self.lab.coredns(unit.view, &coredns, &through, DOMAIN);
        let dns = dns.await.unwrap();
        self.dns.insert(unit.view, dns);
        let kubeconfig = self.cluster.kubeconfig().unwrap();
        let cloud = with_cloud.then_some((kubeconfig, DOMAIN));
        let hosts = self.lab.hosts_file(unit.hosts);
        eventually("there is a hosts file", async || {
            ensure!(hosts.exists(), "no {}", hosts.display());
            Ok(())
        })
        .await
        .unwrap();
        let probe = short(0);
        let at = (unit.hosts, &*probe);
        let dns = self.lab.coredns_with_hosts(at, &coredns, &hosts, cloud);
        let dns = dns.await.unwrap();
        self.dns.insert(unit.hosts, dns);
    }

    /// As a reboot does it to a unit that is cut off.
    pub(crate) async fn restart_all_but_the_cloud(&mut self, unit: Unit) {
        for node in unit.nodes() {
            drop(self.dns.remove(node));
            drop(self.agents.remove(node));
            self.start_agent(unit, node).await;
        }
        self.start_dns(unit, false).await;
    }

    pub(crate) async fn wait_until_on_disk(&self, unit: Unit) {
        eventually("the agents' views are on disk", async || {
            for node in unit.nodes() {
                let snapshot = self.lab.wrapper_state(node).join("view.snapshot");
                ensure!(snapshot.exists(), "no {}", snapshot.display());
            }
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Who answers in a unit: the node to ask from, and where.
    pub(crate) fn servers(&self, unit: Unit) -> [(&'static str, SocketAddrV4); 3] {
        let [view, hosts] = [unit.view, unit.hosts].map(|node| (node, self.dns[node].address));
        [view, hosts, (unit.own, self.own[unit.own])]
    }

    pub(crate) async fn resolve(
        &self,
        at: &str,
        server: SocketAddrV4,
        name: &str,
    ) -> Result<Vec<String>> {
        self.lab.resolve(at, server, name, RecordType::A).await
    }

    /// Names and addresses of the walk-through's pods in a unit, by ordinal.
    pub(crate) fn pods_of(&self, unit: Unit) -> Vec<(String, String)> {
        let prefix = format!("default/statefulsetgrid-demo-{}-", unit.name);
        let pods = self.lab.pods().into_iter();
        let pods = pods.filter(|pod| pod.name.starts_with(&prefix));
        pods.map(|pod| (pod.name, pod.address.to_string()))
            .collect()
    }

    /// Addresses of pods by the start of their name.
    pub(crate) fn addresses(&self, prefix: &str) -> Vec<String> {
        let pods = self.lab.pods().into_iter();
        let pods = pods.filter(|pod| pod.name.starts_with(prefix));
        let mut addresses: Vec<String> = pods.map(|pod| pod.address.to_string()).collect();
        addresses.sort();
        addresses
    }

    /// Waits until a name has exactly these records.
    pub(crate) async fn has(
        &self,
        (at, server): (&str, SocketAddrV4),
        name: &str,
        kind: RecordType,
        wanted: &[String],
    ) {
        let mut wanted = wanted.to_vec();
        wanted.sort();
        eventually(
            &format!("at {at} {kind:?} of {name} is {wanted:?}"),
            async || {
                let found = self.lab.resolve(at, server, name, kind).await?;
                ensure!(found == wanted, "{found:?}");
                Ok(())
            },
        )
        .await
        .unwrap();
    }
}
