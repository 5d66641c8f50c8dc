//! The proxy that a kubeconfig names: used, or refused with a sentence.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use edgegrid_testkit::Cluster;
use edgegrid_testkit::edgegrid::{Settings, Wrapper, binary};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// An HTTP proxy that does nothing but CONNECT.
struct Proxy {
    address: String,
    tunnels: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl Proxy {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let tunnels = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&tunnels);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let count = Arc::clone(&count);
                open.spawn(async move {
                    // A tunnel that breaks concerns its two ends only.
                    let _ = tunnel(client, &count).await;
                });
            }
        });
        Ok(Self {
            address,
            tunnels,
            _task: task,
        })
    }
}

async fn tunnel(mut client: TcpStream, count: &AtomicUsize) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let asked = head.strip_prefix("CONNECT ").context("no CONNECT")?;
    let target = asked.split(' ').next().context("no target")?;
    let mut server = TcpStream::connect(target).await?;
    count.fetch_add(1, Ordering::Relaxed);
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

/// The same kubeconfig, through a proxy.
fn through(kubeconfig: &Path, proxy: &str) -> Result<PathBuf> {
    let mut config: Value = serde_json::from_slice(&std::fs::read(kubeconfig)?)?;
    config["clusters"][0]["cluster"]["proxy-url"] = json!(proxy);
    let path = kubeconfig.with_extension("proxied");
    std::fs::write(&path, config.to_string())?;
    Ok(path)
}

#[tokio::test]
async fn the_wrapper_reads_through_the_proxy_of_its_kubeconfig() {
    let cluster = Cluster::upstream().await.unwrap();
    crate::two_units(&cluster).await;
    let proxy = Proxy::start().await.unwrap();
    let mut settings = Settings::for_node(&cluster, "a-0").await.unwrap();
    let url = format!("http://{}", proxy.address);
    settings.kubeconfig = through(&settings.kubeconfig, &url).unwrap();
    let wrapper = Wrapper::start(settings).await.unwrap();
    wrapper.wait_until_ready().await.unwrap();
    let tunnels = proxy.tunnels.load(Ordering::Relaxed);
    assert!(tunnels > 0, "nobody asked the proxy");
    drop(proxy);
    edgegrid_testkit::eventually("the wrapper is cut off without it", async || {
        let text = wrapper.get("/readyz?verbose").await?;
        anyhow::ensure!(text.contains("[!]upstream: last heard of"), "{text}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_proxy_that_cannot_be_used_ends_every_program_with_a_sentence() {
    let folder = edgegrid_testkit::run::Run::current()
        .unwrap()
        .folder("proxy")
        .unwrap();
    let kubeconfig = folder.join("kubeconfig");
    let config = json!({
        "clusters": [{ "name": "a", "cluster": { "server": "https://127.0.0.1:1" } }],
        "contexts": [{ "name": "a", "context": { "cluster": "a" } }], "current-context": "a",
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let kubeconfig = through(&kubeconfig, "ftp://somebody:secret@127.0.0.1:2").unwrap();
    for words in [
        &["wrapper", "--hostname=a-0", "--state-folder="][..],
        &["agent", "--hostname=a-0", "--state-folder=", "--hostpath="],
        &["controller"],
        &["statefulset", "--take-over"],
    ] {
        let mut command = Command::new(binary().unwrap());
        command.args(words).arg("--kubeconfig").arg(&kubeconfig);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{words:?}: {said}");
        let sentence = "proxy-url or HTTPS_PROXY has scheme ftp: only http://, https:// and socks5:// proxies can be used";
        assert!(said.contains(sentence), "{words:?}: {said}");
        assert!(!said.contains("secret"), "{words:?}: {said}");
    }
}
