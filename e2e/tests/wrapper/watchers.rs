//! A thousand watches over real sockets, and one client that never reads.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_testkit::edgegrid::{Settings, Wrapper};
use edgegrid_testkit::{Cluster, Patience, eventually, eventually_within};
use futures::future::try_join_all;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const WATCHES: usize = 1000;
const UPDATES: usize = 20;
/// What memory may grow by while as many events pass as before.
const SLACK: u64 = 4 << 20;

async fn watch(address: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    let path = "/apis/discovery.k8s.io/v1/endpointslices?watch=true&timeoutSeconds=600";
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}

/// Memory of its own that a process has.
fn anonymous(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let text = line.context("no RssAnon")?.trim().trim_end_matches(" kB");
    Ok(text.parse::<u64>()? * 1024)
}

/// Changes the slice many times; returns when the view has the last change.
async fn churn(cluster: &Cluster, wrapper: &Wrapper, round: usize) -> Result<()> {
    for n in 0..UPDATES {
        let slice = crate::slice("web-x", round * UPDATES + n);
        cluster.apply::<EndpointSlice>(slice).await?;
    }
    let last = crate::slice("web-x", (round + 1) * UPDATES - 1);
    let address = last.endpoints.unwrap_or_default()[0].addresses[0].clone();
    eventually("the view has the last change", async || {
        let path = "/apis/discovery.k8s.io/v1/endpointslices";
        let shown = wrapper.get(path).await?;
        ensure!(shown.contains(&address), "{shown}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_thousand_watches_and_one_that_never_reads_do_not_grow_memory() {
    let cluster = Cluster::upstream().await.unwrap();
    crate::two_units(&cluster).await;
    let settings = Settings::for_node(&cluster, "a-0").await.unwrap();
    let wrapper = Wrapper::start(settings).await.unwrap();
    wrapper.wait_until_ready().await.unwrap();
    let silent = watch(wrapper.address()).await.unwrap();
    let watches = (1..WATCHES).map(|_| watch(wrapper.address()));
    let mut readers = JoinSet::new();
    for mut stream in try_join_all(watches).await.unwrap() {
        readers.spawn(async move {
            let mut buffer = vec![0; 16 << 10];
            while stream.read(&mut buffer).await.is_ok_and(|size| size > 0) {}
        });
    }
    eventually("all watches are open", async || {
        let metrics = wrapper.get("/metrics").await?;
        let count = format!("edgegrid_wrapper_watches {WATCHES}");
        ensure!(metrics.contains(&count), "not {count}");
        Ok(())
    })
    .await
    .unwrap();
    let pid = wrapper.process().pid();
    churn(&cluster, &wrapper, 0).await.unwrap();
    let before = anonymous(pid).unwrap();
    for round in 1..4 {
        churn(&cluster, &wrapper, round).await.unwrap();
    }
    let after = anonymous(pid).unwrap();
    println!("{before} B before, {after} B after");
    assert!(after < before + SLACK, "{before} B became {after} B");

    drop((silent, readers));
    let patience = Patience {
        limit: Duration::from_secs(20),
        ..Patience::default()
    };
    eventually_within(patience, "the watches are gone", async || {
        let slice = crate::slice("web-x", 9999);
        cluster.apply::<EndpointSlice>(slice).await?;
        let metrics = wrapper.get("/metrics").await?;
        ensure!(
            metrics.contains("edgegrid_wrapper_watches 0"),
            "some are left"
        );
        Ok(())
    })
    .await
    .unwrap();
}
