//! What a site's names stand for, asked with real queries.

use std::time::Duration;

use anyhow::{Context, ensure};
use edgegrid_testkit::lab::{ECHO_PORT, ProxyMode, RecordType};
use edgegrid_testkit::{Patience, eventually, eventually_within};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use super::unit::{BARE, DOMAIN, UNITS, Unit, full, short};
use super::world::{World, program};

/// In this time a change upstream must be in a site's names; CoreDNS keeps no answer here.
const FOLLOWED: Patience = Patience {
    limit: Duration::from_secs(2),
    pause: Duration::from_millis(50),
};
/// Grid `db` with a Service that has an address, and Deployments behind a headless one.
const MORE: &str = r"
apiVersion: superedge.io/v1
kind: ServiceGrid
metadata: { name: db, namespace: default }
spec:
  gridUniqKey: location
  template: { selector: { app: db }, ports: [{ port: 80, targetPort: 8080 }] }
---
apiVersion: superedge.io/v1
kind: StatefulSetGrid
metadata: { name: db, namespace: default }
spec:
  gridUniqKey: location
  template:
    serviceName: db-svc
    replicas: 1
    selector: { matchLabels: { app: db } }
    template:
      metadata: { labels: { app: db } }
      spec: { containers: [{ name: echo, image: echo, ports: [{ containerPort: 8080 }] }] }
---
apiVersion: superedge.io/v1
kind: ServiceGrid
metadata: { name: web, namespace: default }
spec:
  gridUniqKey: location
  template: { clusterIP: None, selector: { app: web }, ports: [{ port: 8080 }] }
---
apiVersion: superedge.io/v1
kind: DeploymentGrid
metadata: { name: web, namespace: default }
spec:
  gridUniqKey: location
  template:
    replicas: 2
    selector: { matchLabels: { app: web } }
    template:
      metadata: { labels: { app: web } }
      spec: { containers: [{ name: echo, image: echo, ports: [{ containerPort: 8080 }] }] }
";

impl World {
    /// The short name has the address of the full one, which is that of the unit's own pod.
    pub(crate) async fn short_names_are_local(&self) {
        for unit in UNITS {
            for at in self.servers(unit) {
                for (ordinal, (_, address)) in self.pods_of(unit).into_iter().enumerate() {
                    let wanted = [address];
                    self.has(at, &short(ordinal), RecordType::A, &wanted).await;
                    self.has(at, &full(unit, ordinal), RecordType::A, &wanted)
                        .await;
                }
                self.has(at, &short(3), RecordType::A, &[]).await;
            }
            // PTR has both names of a pod, the full one too.
            let (from, server) = self.servers(unit)[0];
            let address: std::net::Ipv4Addr = self.pods_of(unit)[0].1.parse().unwrap();
            let [a, b, c, d] = address.octets();
            let names = [full(unit, 0), short(0)].map(|name| format!("{name}."));
            let reverse = format!("{d}.{c}.{b}.{a}.in-addr.arpa");
            self.has((from, server), &reverse, RecordType::Ptr, &names)
                .await;
        }
    }

    pub(crate) async fn curl_of_the_short_name_answers_with_the_local_pod(&self) {
        for unit in UNITS {
            for (_, server) in self.servers(unit) {
                let (from, _) = &self.pods_of(unit)[1];
                let search = ["default.svc.cluster.local"];
                self.lab.set_dns(from, *server.ip(), &search).unwrap();
                let url =
                    format!("http://statefulsetgrid-demo-0.servicegrid-demo-svc:{ECHO_PORT}/");
                let answer = self.lab.curl(from, &url).await.unwrap();
                let wanted = format!("statefulsetgrid-demo-{}-0\n", unit.name);
                assert!(answer.contains(&wanted), "{answer}");
            }
        }
    }

    /// With a CoreDNS that reads the view: a short name adds no server of its own.
    pub(crate) async fn the_bare_name_and_its_servers_are_local(&self) {
        for unit in UNITS {
            let at = self.servers(unit)[0];
            let pods = self.pods_of(unit);
            let addresses: Vec<String> = pods.iter().map(|(_, address)| address.clone()).collect();
            self.has(at, BARE, RecordType::A, &addresses).await;
            // CoreDNS shares 100 out among all six names and then tells of three: the weights are
            // a half of what they were, and still the same for all.
            let target = |ordinal| format!("0 16 8080 {}.", full(unit, ordinal));
            let targets = [0, 1, 2].map(target);
            self.has(at, BARE, RecordType::Srv, &targets).await;
            // Our own server leaves short names out of both, so they weigh as much as without.
            let own = self.servers(unit)[2];
            self.has(own, BARE, RecordType::A, &addresses).await;
            let targets = targets.map(|target| target.replace("0 16 ", "0 33 "));
            self.has(own, BARE, RecordType::Srv, &targets).await;
            // Somebody else's pod is unknown here, as if it did not exist.
            for other in UNITS.into_iter().filter(|other| other.name != unit.name) {
                for at in [at, own] {
                    self.has(at, &full(other, 0), RecordType::A, &[]).await;
                }
            }
        }
    }

    /// The lab has IPv4 only, so a slice is written as a dual-stack cluster has it.
    pub(crate) async fn both_families_are_local(&self) {
        let endpoint = |(at, unit): (usize, Unit)| {
            let pod = format!("statefulsetgrid-demo-{}-0", unit.name);
            json!({
                "addresses": [format!("fd00::1{at}")], "nodeName": unit.view, "hostname": pod,
                "conditions": { "ready": true },
                "targetRef": { "kind": "Pod", "namespace": "default", "name": pod },
            })
        };
        let endpoints: Vec<_> = UNITS.into_iter().enumerate().map(endpoint).collect();
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": "by-hand", "namespace": "default",
                "labels": {
                    "kubernetes.io/service-name": "servicegrid-demo-svc",
                    "service.kubernetes.io/headless": "",
                },
            },
            "addressType": "IPv6", "endpoints": endpoints, "ports": [{ "port": 8080 }],
        });
        self.apply_text(&slice.to_string()).await;
        for (at, unit) in UNITS.into_iter().enumerate() {
            let wanted = [format!("fd00::1{at}")];
            let [view, hosts, own] = self.servers(unit);
            for name in [short(0), full(unit, 0), BARE.to_owned()] {
                self.has(view, &name, RecordType::Aaaa, &wanted).await;
                self.has(own, &name, RecordType::Aaaa, &wanted).await;
            }
            self.has(hosts, &short(0), RecordType::Aaaa, &wanted).await;
        }
        let delete = ["delete", "endpointslice", "by-hand"];
        self.cluster.kubectl(delete).await.unwrap();
    }

    /// Short names never get into kube-proxy's rules.
    pub(crate) async fn a_service_with_an_address_has_short_names_and_unchanged_rules(&self) {
        self.apply_text(MORE).await;
        for unit in UNITS {
            let prefix = format!("default/db-{}-0", unit.name);
            let pod = eventually("the pod runs", async || {
                self.addresses(&prefix).pop().context("it does not")
            });
            let pod = pod.await.unwrap();
            let at = self.servers(unit)[0];
            let name = format!("db-0.db-svc.default.svc.{DOMAIN}");
            self.has(at, &name, RecordType::A, std::slice::from_ref(&pod))
                .await;
            let through = self.lab.wrapper_kubeconfig().unwrap();
            let kube_proxy = program("kube-proxy@1.37");
            let mode = ProxyMode::Iptables;
            let proxy = self.lab.kube_proxy(unit.view, &kube_proxy, &through, mode);
            let _proxy = proxy.await.unwrap();
            eventually("the rules lead to the one local pod", async || {
                let rules = self
                    .lab
                    .endpoints(unit.view, mode, "default/db-svc")
                    .await?;
                let rules: Vec<String> = rules.into_iter().map(|at| at.to_string()).collect();
                ensure!(rules == [format!("{pod}:{ECHO_PORT}")], "{rules:?}");
                Ok(())
            })
            .await
            .unwrap();
        }
    }

    pub(crate) async fn deployments_behind_a_headless_service_are_closed(&self) {
        for unit in UNITS {
            let prefix = format!("default/web-{}-", unit.name);
            eventually("both pods run", async || {
                let found = self.addresses(&prefix);
                ensure!(found.len() == 2, "{found:?}");
                Ok(())
            })
            .await
            .unwrap();
            let wanted = self.addresses(&prefix);
            let name = format!("web-svc.default.svc.{DOMAIN}");
            let [view, _, own] = self.servers(unit);
            for at in [view, own] {
                self.has(at, &name, RecordType::A, &wanted).await;
            }
        }
    }

    /// The tutorial's plain StatefulSet resolves as anywhere, in every unit to the same pods.
    pub(crate) async fn the_tutorials_names_resolve(&self) {
        for path in ["004-service", "004-statefulset"] {
            self.apply(&format!("crates/api/fixtures/seeds/{path}.yaml"))
                .await;
        }
        for ordinal in 0..2 {
            let prefix = format!("default/web-{ordinal}");
            let pod = eventually("the pod runs", async || {
                self.addresses(&prefix).pop().context("it does not")
            });
            let pod = [pod.await.unwrap()];
            for unit in UNITS {
                let name = format!("web-{ordinal}.nginx.default.svc.{DOMAIN}");
                for at in self.servers(unit) {
                    self.has(at, &name, RecordType::A, &pod).await;
                }
            }
        }
    }

    /// Within two seconds of its new address being known.
    pub(crate) async fn a_deleted_pods_name_follows_it(&self) {
        let unit = UNITS[0];
        let before = self.pods_of(unit)[0].1.clone();
        let pod = format!("statefulsetgrid-demo-{}-0", unit.name);
        self.cluster.kubectl(["delete", "pod", &pod]).await.unwrap();
        let slices: Api<EndpointSlice> = Api::namespaced(self.cluster.client(), "default");
        let known = Patience {
            pause: Duration::from_millis(20),
            ..Patience::default()
        };
        let after = eventually_within(known, "the pod is back and ready", async || {
            let all = slices.list(&ListParams::default()).await?;
            let mut endpoints = all
                .into_iter()
                .flat_map(|slice| slice.endpoints.unwrap_or_default());
            let found = endpoints.find(|one| {
                let ready = one.conditions.as_ref().and_then(|all| all.ready);
                one.hostname.as_deref() == Some(&*pod) && ready == Some(true)
            });
            let found = found.context("it is not")?.addresses.remove(0);
            ensure!(found != before, "it is the old one");
            Ok(found)
        });
        let after = after.await.unwrap();
        for (from, server) in self.servers(unit) {
            eventually_within(FOLLOWED, "the short name follows", async || {
                let found = self.resolve(from, server, &short(0)).await?;
                ensure!(found == [after.clone()], "{found:?}, not {after}");
                Ok(())
            })
            .await
            .unwrap();
        }
    }

    pub(crate) async fn an_opened_service_shows_all_sites_under_its_bare_name_only(&self) {
        let open = [
            "annotate",
            "servicegrid",
            "servicegrid-demo",
            "edgegrid.io/headless=open",
        ];
        self.cluster.kubectl(open).await.unwrap();
        let all = UNITS.map(|unit| self.pods_of(unit)).concat();
        let all: Vec<String> = all.into_iter().map(|(_, address)| address).collect();
        for unit in UNITS {
            let [view, _, own] = self.servers(unit);
            for at in [view, own] {
                self.has(at, BARE, RecordType::A, &all).await;
                let servers = self.lab.resolve(at.0, at.1, BARE, RecordType::Srv);
                let servers = servers.await.unwrap();
                assert_eq!(servers.len(), 6, "{servers:?}");
            }
        }
        self.short_names_are_local().await;
    }
}
