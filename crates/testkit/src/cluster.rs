//! A cluster to run a scenario on.
//!
//! Scenarios take a [`Cluster`] and do not ask what is behind it, so that they can be
//! written once and run on every kind of cluster there is.

use std::fmt::Debug;
use std::future::{IntoFuture, Ready, ready};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use edgegrid_apiserver::ApiServer;
use edgegrid_upstream::{Program, locate};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::builders::NodeBuilder;
use crate::command::output_async;
use crate::control_plane::{ControlPlane, Eviction, Options, client};
use crate::faults::{Faults, Faulty};
use crate::kubelet::Kubelet;
use crate::process::Process;
use crate::runtime::{PodRuntime, SimulatedPods};

/// Environment variable that chooses the Kubernetes minor of [`Cluster::upstream`].
pub const VERSION_VARIABLE: &str = "EDGEGRID_KUBERNETES";
/// Kubernetes minor unless chosen otherwise.
pub const DEFAULT_VERSION: &str = "1.37";
/// When embedded clusters start: 2026-01-01, midnight UTC.
const EPOCH: Timestamp = Timestamp::constant(1_767_225_600, 0);
/// Field manager of what tests apply.
const FIELD_MANAGER: &str = "testkit";

/// A running cluster; dropping it ends everything it started.
pub struct Cluster {
    client: Client,
    // Before what it talks to, so that it stops first.
    kubelet: Kubelet,
    backend: Backend,
}

/// What is behind a cluster.
enum Backend {
    Upstream(Box<Real>),
    Embedded { server: ApiServer, faults: Faults },
}

/// A real kube-apiserver and etcd, as processes.
struct Real {
    kubeconfig: PathBuf,
    version: String,
    plane: ControlPlane,
}

/// What a cluster of upstream's programs shall be; await it to start it.
pub struct Upstream {
    options: Options,
    pods: Arc<dyn PodRuntime>,
}

/// What an embedded cluster shall be; await it to start it.
#[derive(Debug, Clone)]
pub struct Embedded {
    seed: u64,
}

impl Cluster {
    /// A cluster of unmodified etcd and kube-apiserver, with RBAC.
    ///
    /// ```no_run
    /// # async fn example() -> anyhow::Result<()> {
    /// use edgegrid_testkit::{Cluster, node};
    /// let cluster = Cluster::upstream().with_controllers().await?;
    /// cluster.add_nodes([node("bj-1").label("location", "beijing")]).await?;
    /// println!("{}", cluster.kubectl(["get", "nodes"]).await?);
    /// # Ok(()) }
    /// ```
    pub fn upstream() -> Upstream {
        let version = std::env::var(VERSION_VARIABLE).unwrap_or_else(|_| DEFAULT_VERSION.into());
        Upstream {
            options: Options {
                version,
                listen: Ipv4Addr::LOCALHOST,
                controllers: false,
                without_controllers: Vec::new(),
                without_admission: Vec::new(),
                eviction: None,
            },
            pods: Arc::new(SimulatedPods::default()),
        }
    }

    /// A cluster in this process: our own API server, no socket, and in time that tests can pause.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> anyhow::Result<()> {
    /// use edgegrid_testkit::{Cluster, node};
    /// let cluster = Cluster::embedded().await?;
    /// cluster.add_nodes([node("bj-1").label("location", "beijing")]).await?;
    /// # Ok(()) }
    /// ```
    pub fn embedded() -> Embedded {
        Embedded { seed: 0 }
    }

    /// A client that may do everything.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client with the rights of `user`, in `group` if given.
    pub async fn client_as(&self, user: &str, group: Option<&str>) -> Result<Client> {
        client(&self.kubeconfig_as(user, group)?).await
    }

    /// A client with the rights of a service account, which must exist.
    pub async fn client_as_service_account(&self, namespace: &str, name: &str) -> Result<Client> {
        client(&self.kubeconfig_as_service_account(namespace, name).await?).await
    }

    /// The kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> Result<&Path> {
        Ok(&self.real()?.kubeconfig)
    }

    /// A kubeconfig with the rights of `user`, in `group` if given.
    pub fn kubeconfig_as(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        self.real()?.plane.kubeconfig(user, group)
    }

    /// Replaces the certificate that the kubeconfig of `user` names by one that has expired.
    pub fn expire_certificate(&self, user: &str) -> Result<()> {
        self.real()?.plane.expire(user)
    }

    /// Replaces the certificate that the kubeconfig of `user`, who is in no group, names by a new one.
    pub fn renew_certificate(&self, user: &str) -> Result<()> {
        self.real()?.plane.renew(user)
    }

    /// A kubeconfig with the rights of a service account, which must exist.
    pub async fn kubeconfig_as_service_account(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec::default()),
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("token of service account {namespace}/{name}"))?;
        let token = answer
            .status
            .and_then(|status| status.token)
            .context("the token request has no answer")?;
        self.real()?
            .plane
            .kubeconfig_with_token(&format!("{namespace}-{name}"), &token)
    }

    /// Folder with the logs of everything that runs for this cluster.
    pub fn folder(&self) -> Result<&Path> {
        Ok(self.real()?.plane.folder())
    }

    /// Whether the server is ours, in this process.
    pub fn is_embedded(&self) -> bool {
        matches!(self.backend, Backend::Embedded { .. })
    }

    /// Faults to come between clients and an embedded server.
    pub fn faults(&self) -> Result<&Faults> {
        match &self.backend {
            Backend::Embedded { faults, .. } => Ok(faults),
            Backend::Upstream(_) => bail!("only an embedded cluster has faults on demand"),
        }
    }

    /// A client of an embedded server over a link of its own, so that faults and records concern
    /// the part under test and not the test's own requests.
    pub fn link(&self) -> Result<(Client, Faults)> {
        match &self.backend {
            Backend::Embedded { server, .. } => {
                let faults = Faults::default();
                Ok((linked(server, &faults), faults))
            }
            Backend::Upstream(_) => bail!("only an embedded cluster has faults on demand"),
        }
    }

    /// The time of day in this cluster: an embedded one's moves with tokio's clock.
    pub fn now(&self) -> jiff::Timestamp {
        self.clock()()
    }

    /// The clock behind [`Cluster::now`], for a part under test.
    pub fn clock(&self) -> Arc<dyn Fn() -> jiff::Timestamp + Send + Sync> {
        match &self.backend {
            Backend::Embedded { server, .. } => {
                let clock = server.clock();
                Arc::new(move || clock.now())
            }
            Backend::Upstream(_) => Arc::new(jiff::Timestamp::now),
        }
    }

    fn real(&self) -> Result<&Real> {
        match &self.backend {
            Backend::Upstream(real) => Ok(real),
            Backend::Embedded { .. } => {
                bail!(
                    "an embedded cluster has no socket, so no kubeconfig, kubectl, users or logs: use its client"
                )
            }
        }
    }

    /// Names and process ids of the programs behind the API, to measure what they use.
    pub fn programs(&self) -> Vec<(String, u32)> {
        match &self.backend {
            Backend::Upstream(real) => real.plane.names(),
            Backend::Embedded { .. } => Vec::new(),
        }
    }

    /// Ends kube-controller-manager, and starts it again without these of its controllers.
    pub fn restart_controller_manager<'a>(
        &mut self,
        without: impl IntoIterator<Item = &'a str>,
    ) -> Result<()> {
        let without: Vec<String> = without.into_iter().map(str::to_owned).collect();
        match &mut self.backend {
            Backend::Upstream(real) => real
                .plane
                .restart_controller_manager(&real.version, &without),
            Backend::Embedded { .. } => bail!("an embedded cluster has no kube-controller-manager"),
        }
    }

    /// Ends the API server.
    pub fn stop_api_server(&self) -> Result<()> {
        self.real()?.plane.stop_api_server();
        Ok(())
    }

    /// Starts the API server again; returns when it answers.
    pub async fn start_api_server(&self) -> Result<()> {
        self.real()?.plane.start_api_server().await
    }

    /// Stops the API server in the middle of what it does (SIGSTOP): it hangs with its connections alive.
    pub fn pause_api_server(&self) -> Result<()> {
        self.real()?.plane.pause_api_server(true);
        Ok(())
    }

    /// Lets a paused API server go on.
    pub fn resume_api_server(&self) -> Result<()> {
        self.real()?.plane.pause_api_server(false);
        Ok(())
    }

    /// Stops API server and etcd, copies etcd's data into a new folder, and starts both again.
    pub async fn back_up(&self, to: &Path) -> Result<()> {
        self.real()?.plane.back_up(to).await
    }

    /// Stops API server and etcd, puts a backup in the place of etcd's data, and starts both again.
    pub async fn restore(&self, from: &Path) -> Result<()> {
        self.real()?.plane.restore(from).await
    }

    /// Runs kubectl of the cluster's own version as an administrator and gives what it printed.
    pub async fn kubectl<A: AsRef<str>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> Result<String> {
        self.kubectl_with_input(args, "").await
    }

    /// [`Cluster::kubectl`] with a manifest as its standard input, for `-f -`.
    pub async fn kubectl_with_input<A: AsRef<str>>(
        &self,
        args: impl IntoIterator<Item = A>,
        input: &str,
    ) -> Result<String> {
        output_async(self.kubectl_command(args)?, input.to_owned()).await
    }

    /// kubectl in the background, for `--watch`: what it prints is in its log.
    pub fn kubectl_in_background<A: AsRef<str>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Process> {
        Process::start("kubectl", &mut self.kubectl_command(args)?, self.folder()?)
    }

    fn kubectl_command<A: AsRef<str>>(&self, args: impl IntoIterator<Item = A>) -> Result<Command> {
        let real = self.real()?;
        let program = Program::parse(&format!("kubectl@{}", real.version))?;
        let mut command = Command::new(locate(&program)?);
        command.arg("--kubeconfig").arg(&real.kubeconfig);
        for arg in args {
            command.arg(arg.as_ref());
        }
        Ok(command)
    }

    /// Applies an object (server-side, under the tests' own manager) and gives what is stored.
    pub async fn apply<K>(&self, object: impl Into<K>) -> Result<K>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug,
    {
        let object = object.into();
        let (kind, name) = (K::kind(&()), object.name_any());
        let resource = ApiResource::erase::<K>(&());
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(self.client(), &namespace, &resource),
            None => Api::all_with(self.client(), &resource),
        };
        let stored = api
            .patch(
                &name,
                &PatchParams::apply(FIELD_MANAGER).force(),
                &Patch::Apply(&object),
            )
            .await
            .with_context(|| format!("apply {kind} {name}"))?;
        stored
            .try_parse()
            .with_context(|| format!("read back {kind} {name}"))
    }

    /// Installs definitions and waits until they are served.
    pub async fn install(
        &self,
        crds: impl IntoIterator<Item = CustomResourceDefinition>,
    ) -> Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client());
        for crd in crds {
            let name = crd.name_any();
            self.apply::<CustomResourceDefinition>(crd).await?;
            await_condition(api.clone(), &name, is_crd_established())
                .await
                .with_context(|| format!("wait until {name} is established"))?;
        }
        Ok(())
    }

    /// Adds simulated nodes: they send heartbeats, and run the pods scheduled to them.
    pub async fn add_nodes(&self, nodes: impl IntoIterator<Item = NodeBuilder>) -> Result<()> {
        for node in nodes {
            self.kubelet.add(node).await?;
        }
        Ok(())
    }

    /// Makes a pod ready or not. The choice belongs to the name: it holds for a pod that does not
    /// exist yet, and for one that comes back.
    pub async fn set_ready(&self, namespace: &str, pod: &str, ready: bool) -> Result<()> {
        self.kubelet.set_ready(namespace, pod, ready).await
    }

    /// Cuts a simulated node off: its kubelet neither reports nor hears anything, and its pods run on.
    pub fn cut_off(&self, node: &str) {
        self.kubelet.cut_off(node);
    }

    /// Brings a node back that was cut off: it reports again, and ends the pods that were deleted meanwhile.
    pub async fn reconnect(&self, node: &str) -> Result<()> {
        self.kubelet.reconnect(node).await
    }
}

impl Upstream {
    /// Another minor of Kubernetes, for example `1.33`.
    #[must_use]
    pub fn version(mut self, minor: &str) -> Self {
        minor.clone_into(&mut self.options.version);
        self
    }

    /// With kube-controller-manager and kube-scheduler.
    #[must_use]
    pub fn with_controllers(mut self) -> Self {
        self.options.controllers = true;
        self
    }

    /// With kube-controller-manager but for these of its controllers, and kube-scheduler.
    #[must_use]
    pub fn with_controllers_but<'a>(mut self, without: impl IntoIterator<Item = &'a str>) -> Self {
        self.options.controllers = true;
        self.options.without_controllers = without.into_iter().map(str::to_owned).collect();
        self
    }

    /// Without these admission plugins, which are on by default.
    #[must_use]
    pub fn without_admission<'a>(mut self, plugins: impl IntoIterator<Item = &'a str>) -> Self {
        self.options.without_admission = plugins.into_iter().map(str::to_owned).collect();
        self
    }

    /// With a Kubernetes that counts a node as unreachable after so long a silence, and evicts pods so much later
    /// that say nothing of it; by default that takes six minutes.
    #[must_use]
    pub fn evicting(mut self, unreachable_after: Duration, evicted_after: Duration) -> Self {
        self.options.eviction = Some(Eviction {
            unreachable_after,
            evicted_after,
        });
        self
    }

    /// The API on this address instead of loopback, so that other network namespaces reach it.
    #[must_use]
    pub fn listen_on(mut self, address: Ipv4Addr) -> Self {
        self.options.listen = address;
        self
    }

    /// Pods that are more than an entry in the API.
    #[must_use]
    pub fn pods(mut self, pods: Arc<dyn PodRuntime>) -> Self {
        self.pods = pods;
        self
    }

    async fn start(self) -> Result<Cluster> {
        let plane = ControlPlane::start(&self.options).await?;
        let kubeconfig = plane.admin()?;
        let client = client(&kubeconfig).await?;
        let real = Real {
            kubeconfig,
            version: self.options.version,
            plane,
        };
        Ok(Cluster {
            kubelet: Kubelet::start(client.clone(), self.pods),
            client,
            backend: Backend::Upstream(Box::new(real)),
        })
    }
}

impl Embedded {
    /// Uids and generated names follow from this number.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    fn start(&self) -> Cluster {
        let server = ApiServer::builder().seed(self.seed).time(EPOCH).build();
        let faults = Faults::default();
        let client = linked(&server, &faults);
        Cluster {
            kubelet: Kubelet::start(client.clone(), Arc::new(SimulatedPods::default())),
            client,
            backend: Backend::Embedded { server, faults },
        }
    }
}

/// A client of the embedded server, over a link with faults.
fn linked(server: &ApiServer, faults: &Faults) -> Client {
    let link = Faulty {
        router: server.router(),
        faults: faults.clone(),
    };
    Client::new(link, "default")
}

impl IntoFuture for Embedded {
    type Output = Result<Cluster>;
    type IntoFuture = Ready<Result<Cluster>>;

    fn into_future(self) -> Self::IntoFuture {
        ready(Ok(self.start()))
    }
}

impl IntoFuture for Upstream {
    type Output = Result<Cluster>;
    type IntoFuture = LocalBoxFuture<'static, Result<Cluster>>;

    fn into_future(self) -> Self::IntoFuture {
        self.start().boxed_local()
    }
}
