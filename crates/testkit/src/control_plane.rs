//! Unmodified etcd, kube-apiserver and, on request, kube-controller-manager and
//! kube-scheduler, on addresses of our own.
//!
//! ```text
//! etcd ◄── kube-apiserver ◄── kube-controller-manager, kube-scheduler, clients
//! ```
//!
//! Everything is disposable: no fsync, and killed rather than asked when dropped.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use edgegrid_upstream::{Program, locate};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;

use crate::eventually::{Patience, eventually_within};
use crate::pki::{KeyFiles, Pki};
use crate::process::Process;
use crate::run::{PortLease, Run, RunFolder};

const API_SERVER: &str = "kube-apiserver";
const ETCD: &str = "etcd";
/// Never dialled: kube-apiserver wants an address to advertise that is not loopback.
const ADVERTISED: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// Addresses of Services; the first is that of `kubernetes` itself.
const SERVICE_RANGE: &str = "10.96.0.0/16";
const FIRST_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
const CONTROLLER_MANAGER: &str = "kube-controller-manager";
/// Group whose members may do everything.
const ADMINS: &str = "system:masters";

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) version: String,
    pub(crate) listen: Ipv4Addr,
    pub(crate) controllers: bool,
    pub(crate) without_controllers: Vec<String>,
    pub(crate) without_admission: Vec<String>,
    pub(crate) eviction: Option<Eviction>,
}

/// How soon Kubernetes gives up a silent node and its pods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eviction {
    /// A node that is silent for this long is unreachable.
    pub(crate) unreachable_after: Duration,
    /// Pods that say nothing of it are evicted this much later.
    pub(crate) evicted_after: Duration,
}

/// A running control plane.
pub(crate) struct ControlPlane {
    // In the order in which they are ended; behind a lock, as one can be replaced by its successor.
    programs: Mutex<Vec<Process>>,
    api_server: (PathBuf, Vec<String>),
    etcd: (PathBuf, Vec<String>),
    pki: Pki,
    server: String,
    eviction: Option<Eviction>,
    folder: RunFolder,
    _ports: Vec<PortLease>,
}

impl ControlPlane {
    /// Starts the programs and waits until the API answers.
    pub(crate) async fn start(options: &Options) -> Result<ControlPlane> {
        let run = Run::current()?;
        let folder = run.folder("cluster")?;
        let ports = [run.lease_port()?, run.lease_port()?, run.lease_port()?];
        let [api, etcd_clients, etcd_peers] =
            [&ports[0], &ports[1], &ports[2]].map(PortLease::port);
        let pki = Pki::create(&folder)?;
        let mut plane = ControlPlane {
            programs: Mutex::default(),
            api_server: Default::default(),
            etcd: Default::default(),
            pki,
            server: format!("https://{}:{api}", options.listen),
            eviction: options.eviction,
            folder,
            _ports: ports.into(),
        };
        let flags = etcd_flags(&plane.folder, etcd_clients, etcd_peers);
        plane.run(ETCD, ETCD, &flags)?;
        plane.etcd = (locate(&Program::parse(ETCD)?)?, flags);
        let flags = plane.api_server_flags(options, api, etcd_clients)?;
        let program = format!("{API_SERVER}@{}", options.version);
        plane.run(API_SERVER, &program, &flags)?;
        plane.api_server = (locate(&Program::parse(&program)?)?, flags);
        plane.wait_until_ready().await?;
        if options.controllers {
            plane.start_controller_manager(&options.version, &options.without_controllers)?;
            plane.start_scheduler(&options.version)?;
            plane.wait_for_service_account().await?;
        }
        Ok(plane)
    }

    /// A kubeconfig by which a program is `user`, in `group` if given.
    pub(crate) fn kubeconfig(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        let KeyFiles { certificate, key } = self.pki.client(user, group)?;
        self.write_kubeconfig(
            user,
            &json!({ "client-certificate": certificate, "client-key": key }),
        )
    }

    /// Replaces the certificate of `user` by one that has expired.
    pub(crate) fn expire(&self, user: &str) -> Result<()> {
        self.pki.expired_client(user).map(drop)
    }

    /// Replaces the certificate of `user` by another good one.
    pub(crate) fn renew(&self, user: &str) -> Result<()> {
        self.pki.client(user, None).map(drop)
    }

    /// A kubeconfig with a bearer token.
    pub(crate) fn kubeconfig_with_token(&self, name: &str, token: &str) -> Result<PathBuf> {
        self.write_kubeconfig(name, &json!({ "token": token }))
    }

    /// The kubeconfig of an administrator.
    pub(crate) fn admin(&self) -> Result<PathBuf> {
        self.kubeconfig("admin", Some(ADMINS))
    }

    pub(crate) fn stop_api_server(&self) {
        self.stop(API_SERVER);
    }

    /// Kills a program: that is what dropping it does.
    fn stop(&self, name: &str) {
        self.programs().retain(|program| program.name() != name);
    }

    /// Starts kube-apiserver anew on what etcd has kept; waits until it answers.
    pub(crate) async fn start_api_server(&self) -> Result<()> {
        let (path, flags) = &self.api_server;
        let process = Process::start(API_SERVER, Command::new(path).args(flags), &self.folder)?;
        self.programs().insert(0, process);
        self.wait_until_ready().await
    }

    /// Stops kube-apiserver in the middle of what it does, or lets it go on.
    pub(crate) fn pause_api_server(&self, pause: bool) {
        let programs = self.programs();
        let found = programs.iter().find(|one| one.name() == API_SERVER);
        match found {
            Some(program) if pause => program.pause(),
            Some(program) => program.resume(),
            None => {}
        }
    }

    /// Copies etcd's data while it and kube-apiserver are down: a cold backup.
    pub(crate) async fn back_up(&self, to: &Path) -> Result<()> {
        let data = self.folder.join(ETCD);
        self.without_etcd(|| copy_folder(&data, to)).await
    }

    /// Puts a cold backup in the place of etcd's data, and starts both again.
    pub(crate) async fn restore(&self, from: &Path) -> Result<()> {
        let data = self.folder.join(ETCD);
        let replace = || {
            fs::remove_dir_all(&data).context("remove etcd's data")?;
            copy_folder(from, &data)
        };
        self.without_etcd(replace).await
    }

    async fn without_etcd(&self, act: impl FnOnce() -> Result<()>) -> Result<()> {
        self.stop(API_SERVER);
        self.stop(ETCD);
        act()?;
        let (path, flags) = &self.etcd;
        let etcd = Process::start(ETCD, Command::new(path).args(flags), &self.folder)?;
        self.programs().push(etcd);
        self.start_api_server().await
    }

    /// Folder with the logs of the programs.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Names and process ids of the programs.
    pub(crate) fn names(&self) -> Vec<(String, u32)> {
        let named = |program: &Process| (program.name().to_owned(), program.pid());
        self.programs().iter().map(named).collect()
    }

    fn programs(&self) -> MutexGuard<'_, Vec<Process>> {
        self.programs.lock()
    }

    fn run(&mut self, name: &str, program: &str, flags: &[String]) -> Result<()> {
        let path = locate(&Program::parse(program)?)?;
        let process = Process::start(name, Command::new(path).args(flags), &self.folder)?;
        self.programs().insert(0, process);
        Ok(())
    }

    fn api_server_flags(&self, options: &Options, port: u16, etcd: u16) -> Result<Vec<String>> {
        let listen = IpAddr::from(options.listen);
        let advertised = if listen.is_loopback() {
            ADVERTISED.into()
        } else {
            listen
        };
        let server = self.pki.server(
            &[listen, Ipv4Addr::LOCALHOST.into(), FIRST_SERVICE.into()],
            &["localhost", "kubernetes.default.svc"],
        )?;
        let (key, public) = (
            self.pki.service_account_key(),
            self.pki.service_account_public_key(),
        );
        let mut flags = vec![
            format!("--etcd-servers=http://127.0.0.1:{etcd}"),
            format!("--bind-address={listen}"),
            format!("--advertise-address={advertised}"),
            format!("--secure-port={port}"),
            format!("--service-cluster-ip-range={SERVICE_RANGE}"),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-account-key-file={}", public.display()),
            format!("--service-account-signing-key-file={}", key.display()),
            format!("--tls-cert-file={}", server.certificate.display()),
            format!("--tls-private-key-file={}", server.key.display()),
            format!("--client-ca-file={}", self.pki.ca().display()),
            "--authorization-mode=Node,RBAC".into(),
            "--allow-privileged=true".into(),
            format!(
                "--disable-admission-plugins={}",
                options.without_admission.join(",")
            ),
        ];
        if let Some(eviction) = &self.eviction {
            let seconds = eviction.evicted_after.as_secs();
            flags.push(format!(
                "--default-unreachable-toleration-seconds={seconds}"
            ));
        }
        Ok(flags)
    }

    fn start_controller_manager(&mut self, version: &str, without: &[String]) -> Result<()> {
        let manager = self.kubeconfig("system:kube-controller-manager", None)?;
        let mut flags = vec![
            format!("--kubeconfig={}", manager.display()),
            "--leader-elect=false".into(),
            "--secure-port=0".into(),
            controllers_flag(without),
            format!("--root-ca-file={}", self.pki.ca().display()),
            format!(
                "--service-account-private-key-file={}",
                self.pki.service_account_key().display()
            ),
            "--use-service-account-credentials=true".into(),
            format!("--cluster-signing-cert-file={}", self.pki.ca().display()),
            format!("--cluster-signing-key-file={}", self.pki.ca_key().display()),
            // At the default rate the start alone takes five seconds.
            "--kube-api-qps=500".into(),
            "--kube-api-burst=1000".into(),
        ];
        if let Some(eviction) = &self.eviction {
            let seconds = eviction.unreachable_after.as_secs();
            flags.push(format!("--node-monitor-grace-period={seconds}s"));
        }
        self.run(
            CONTROLLER_MANAGER,
            &format!("{CONTROLLER_MANAGER}@{version}"),
            &flags,
        )
    }

    /// Ends kube-controller-manager and starts another one.
    pub(crate) fn restart_controller_manager(
        &mut self,
        version: &str,
        without: &[String],
    ) -> Result<()> {
        self.stop(CONTROLLER_MANAGER);
        self.start_controller_manager(version, without)
    }

    fn start_scheduler(&mut self, version: &str) -> Result<()> {
        let config = self.scheduler_configuration()?;
        let flags = [
            format!("--config={}", config.display()),
            "--secure-port=0".into(),
        ];
        self.run(
            "kube-scheduler",
            &format!("kube-scheduler@{version}"),
            &flags,
        )
    }

    fn scheduler_configuration(&self) -> Result<PathBuf> {
        let kubeconfig = self.kubeconfig("system:kube-scheduler", None)?;
        let path = self.folder.join("kube-scheduler.json");
        let config = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": { "leaderElect": false },
            "clientConnection": { "kubeconfig": kubeconfig, "qps": 500, "burst": 1000 },
        });
        fs::write(&path, config.to_string()).context("write the scheduler's configuration")?;
        Ok(path)
    }

    async fn wait_until_ready(&self) -> Result<()> {
        let client = client(&self.admin()?).await?;
        self.wait("the API server is ready", async || {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            client.request_text(request).await?;
            Ok(())
        })
        .await
    }

    /// Until this one exists, every pod is refused.
    async fn wait_for_service_account(&self) -> Result<()> {
        let accounts: Api<ServiceAccount> =
            Api::namespaced(client(&self.admin()?).await?, "default");
        self.wait("the default service account exists", async || {
            accounts.get("default").await?;
            Ok(())
        })
        .await
    }

    /// Waits for `check`, and gives up early when a program has ended: on a port taken by
    /// somebody else's etcd, kube-apiserver would happily use that one.
    async fn wait(&self, what: &str, check: impl AsyncFn() -> Result<()>) -> Result<()> {
        let patience = Patience {
            limit: Duration::from_mins(1),
            pause: Duration::from_millis(100),
        };
        let ended = async || {
            loop {
                let ended = self.programs().iter().find_map(|p| p.expect_alive().err());
                if let Some(error) = ended {
                    return error;
                }
                tokio::time::sleep(patience.pause).await;
            }
        };
        tokio::select! {
            error = ended() => Err(error),
            result = eventually_within(patience, what, check) => {
                result.with_context(|| format!("logs in {}", self.folder.display()))
            }
        }
    }

    fn write_kubeconfig(&self, name: &str, user: &serde_json::Value) -> Result<PathBuf> {
        let path = self
            .folder
            .join(format!("{}.kubeconfig", name.replace([':', '/'], "-")));
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "edgegrid", "cluster": {
                "server": self.server, "certificate-authority": self.pki.ca(),
            }}],
            "users": [{ "name": name, "user": user }],
            "contexts": [{ "name": name, "context": { "cluster": "edgegrid", "user": name } }],
            "current-context": name,
        });
        fs::write(&path, serde_json::to_vec_pretty(&config)?)
            .with_context(|| format!("write kubeconfig of {name}"))?;
        Ok(path)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        for program in self.programs().iter() {
            program.kill();
        }
    }
}

/// A client with the identity of a kubeconfig.
pub(crate) async fn client(kubeconfig: &Path) -> Result<Client> {
    let config = Kubeconfig::read_from(kubeconfig)
        .with_context(|| format!("read {}", kubeconfig.display()))?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// All controllers but these.
fn controllers_flag(without: &[String]) -> String {
    let all = "--controllers=*".to_owned();
    without.iter().fold(all, |flag, name| flag + ",-" + name)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)
                .with_context(|| format!("write {}", target.display()))?;
        }
    }
    Ok(())
}

fn etcd_flags(folder: &Path, clients: u16, peers: u16) -> Vec<String> {
    let (clients, peers) = (
        format!("http://127.0.0.1:{clients}"),
        format!("http://127.0.0.1:{peers}"),
    );
    vec![
        format!("--data-dir={}", folder.join("etcd").display()),
        "--unsafe-no-fsync".into(),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=default={peers}"),
    ]
}
