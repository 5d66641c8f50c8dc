//! The two servers behind one way to call them.

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::IntoResponse;
use edgegrid_apiserver::ApiServer;
use edgegrid_benches::usage::{Usage, usage};
use edgegrid_testkit::Cluster;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::Client;
use tower::ServiceExt;

/// A server under load.
pub(crate) struct Server {
    transport: Transport,
    pids: Vec<u32>,
    /// Kept so that its programs run as long as this.
    _cluster: Option<Cluster>,
}

enum Transport {
    InProcess(Router),
    Network(Client),
}

impl Server {
    /// The embedded server, in this process.
    pub(crate) fn embedded() -> Self {
        let server = ApiServer::builder().time(Timestamp::now()).build();
        Self::in_process(server.router())
    }

    /// A service that answers at once, to learn what the load itself costs.
    pub(crate) fn idle() -> Self {
        Self::in_process(Router::new().fallback(async || "{}".into_response()))
    }

    /// kube-apiserver and etcd, as tests use them.
    pub(crate) async fn upstream() -> Result<Self> {
        let cluster = Cluster::upstream().await?;
        Ok(Self {
            transport: Transport::Network(cluster.client()),
            pids: cluster.programs().iter().map(|(_, pid)| *pid).collect(),
            _cluster: Some(cluster),
        })
    }

    fn in_process(router: Router) -> Self {
        Self {
            transport: Transport::InProcess(router),
            pids: vec![std::process::id()],
            _cluster: None,
        }
    }

    /// What the server has used so far.
    pub(crate) fn usage(&self) -> Result<Usage> {
        usage(&self.pids)
    }

    /// The whole answer to a request; anything but a success is an error.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Bytes> {
        let mut frames = self.open(method, path, body).await?;
        let first = frames.try_next().await?.unwrap_or_default();
        let mut all = Vec::new();
        while let Some(frame) = frames.try_next().await? {
            if all.is_empty() {
                all.extend_from_slice(&first);
            }
            all.extend_from_slice(&frame);
        }
        // Most answers are one frame, which needs no copy.
        Ok(if all.is_empty() { first } else { all.into() })
    }

    /// The answer to a request as it comes in.
    pub(crate) async fn open(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        let what = format!("{method} {path}");
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, "application/json");
        let (status, mut frames) = match &self.transport {
            Transport::InProcess(router) => {
                let response = router
                    .clone()
                    .oneshot(request.body(Body::from(body))?)
                    .await?;
                let status = response.status();
                let frames = response.into_body().into_data_stream();
                (
                    status,
                    TryStreamExt::map_err(frames, anyhow::Error::from).boxed(),
                )
            }
            Transport::Network(client) => {
                let response = client.send(request.body(body.into())?).await?;
                let status = response.status();
                let frames = response.into_body().into_data_stream();
                (
                    status,
                    TryStreamExt::map_err(frames, anyhow::Error::from).boxed(),
                )
            }
        };
        if !status.is_success() {
            let said = frames.try_next().await.with_context(|| what.clone())?;
            let said = said.unwrap_or_default();
            bail!("{what}: {status}: {}", String::from_utf8_lossy(&said));
        }
        Ok(frames)
    }
}
