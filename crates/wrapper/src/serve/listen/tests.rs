use super::*;
use crate::serve::tls::tests::{Authority, Files};
use crate::upstream::Link;
use crate::wrapper::{Config, Wrapper};
use edgegrid_runtime::shutdown::{self, Trigger};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Longer than it takes to look at the files and to let connections end.
const RENEWED: Duration = Duration::from_secs(40);
/// Answered only by the API server, which here never does.
const UNANSWERED: &str = "/version";

impl Accept for mpsc::Receiver<DuplexStream> {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<DuplexStream> {
        self.recv().await.ok_or_else(|| io::Error::other("no more"))
    }
}

/// A wrapper that listens in memory.
struct Scene {
    server: Server,
    connect: mpsc::Sender<DuplexStream>,
    trigger: Trigger,
    task: JoinSet<io::Result<()>>,
}

impl Scene {
    fn new(files: &Files) -> Self {
        let silent = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, Infallible>>()
        });
        let link = Link::from_client(kube::Client::new(silent, "default"));
        let clock = Arc::new(jiff::Timestamp::now);
        let server = Wrapper::new(&Config::new("a-0"), link, clock).server();
        let listening = Listening {
            server: server.clone(),
            limit: Arc::new(Semaphore::new(2)),
            tls: Some(Acceptor::new(files.tls()).unwrap()),
            open: Generation::default(),
            ending: JoinSet::new(),
        };
        let (connect, incoming) = mpsc::channel(1);
        let (trigger, stop) = shutdown::channel();
        let mut task = JoinSet::new();
        task.spawn(listening.run(incoming, stop));
        Self {
            server,
            connect,
            trigger,
            task,
        }
    }

    /// A client of an authority, connected.
    async fn client(&self, authority: &Authority) -> io::Result<Client> {
        let (near, far) = duplex(1 << 16);
        self.connect.send(far).await.unwrap();
        Ok(Client(authority.connect(near).await?))
    }

    fn connections(&self) -> i64 {
        self.server.metrics.connections.get()
    }
}

struct Client(tokio_rustls::client::TlsStream<DuplexStream>);

impl Client {
    async fn ask(&mut self, path: &str) -> io::Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\n\r\n");
        self.0.write_all(request.as_bytes()).await?;
        self.0.flush().await
    }

    /// Whether a request is answered, on a connection that then stays.
    async fn is_answered(&mut self) -> bool {
        let mut answer = [0; 512];
        self.ask("/healthz").await.is_ok()
            && self.0.read(&mut answer).await.is_ok_and(|size| size > 0)
            && answer.starts_with(b"HTTP/1.1 200")
    }

    /// How long the connection lives on.
    async fn ends_after(&mut self) -> Duration {
        let started = Instant::now();
        let _ = timeout(Duration::from_hours(1), self.0.read_to_end(&mut Vec::new())).await;
        started.elapsed()
    }
}

#[tokio::test(start_paused = true)]
async fn connections_made_with_replaced_files_end_and_new_ones_use_the_new_files() {
    let (old, new) = (Authority::new(), Authority::new());
    let files = Files::new(&old);
    let scene = Scene::new(&files);
    let just_before = Duration::from_secs(1);
    sleep(CHECK_PERIOD.saturating_sub(just_before)).await;
    let mut before = scene.client(&old).await.unwrap();
    assert!(before.is_answered().await);
    files.replace(&new);
    let lived = before.ends_after().await;
    assert!(lived <= just_before, "an idle connection lived {lived:?}");
    let mut after = scene.client(&new).await.unwrap();
    after.ask(UNANSWERED).await.unwrap();
    let lived = after.ends_after().await;
    assert!(lived > RENEWED, "files that stay ended it after {lived:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_end_is_cut_while_new_connections_are_made() {
    let (old, new) = (Authority::new(), Authority::new());
    let files = Files::new(&old);
    let scene = Scene::new(&files);
    let mut before = scene.client(&old).await.unwrap();
    before.ask(UNANSWERED).await.unwrap();
    files.replace(&new);
    sleep(CHECK_PERIOD + Duration::from_millis(10)).await;
    let mut after = scene.client(&new).await.unwrap();
    assert!(after.is_answered().await);
    assert_eq!(scene.connections(), 2, "the old one has its time");
    let lived = before.ends_after().await;
    assert!(lived <= DRAIN_TIMEOUT, "it lived {lived:?}");
    assert_eq!(scene.connections(), 1);
    let mut another = scene.client(&new).await.unwrap();
    assert!(another.is_answered().await, "its place is given back");
}

// client-go speaks HTTP/2 over TLS, where each answer is a task of its own on the server.
#[tokio::test(start_paused = true)]
async fn streams_of_an_http_2_connection_end_too() {
    let (old, new) = (Authority::new(), Authority::new());
    let files = Files::new(&old);
    let scene = Scene::new(&files);
    let stream = TokioIo::new(scene.client(&old).await.unwrap().0);
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
    let (mut requests, connection) = handshake.await.unwrap();
    let mut task = JoinSet::new();
    task.spawn(connection);
    let request = hyper::Request::get(format!("http://node{UNANSWERED}"));
    let answer = requests.send_request(request.body(String::new()).unwrap());
    files.replace(&new);
    let ended = timeout(RENEWED, answer).await;
    assert!(ended.unwrap().is_err(), "nobody could have answered");
    let _ = timeout(RENEWED, task.join_next()).await.unwrap();
    assert_eq!(scene.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn files_are_looked_at_while_no_further_connection_may_come() {
    let (old, new) = (Authority::new(), Authority::new());
    let files = Files::new(&old);
    let scene = Scene::new(&files);
    let mut all = [
        scene.client(&old).await.unwrap(),
        scene.client(&old).await.unwrap(),
    ];
    files.replace(&new);
    for client in &mut all {
        let lived = client.ends_after().await;
        assert!(lived <= RENEWED, "it lived {lived:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn files_that_cannot_be_used_end_no_connection() {
    let authority = Authority::new();
    let files = Files::new(&authority);
    let scene = Scene::new(&files);
    let mut client = scene.client(&authority).await.unwrap();
    // The answer keeps the connection: idle ones end by themselves.
    client.ask(UNANSWERED).await.unwrap();
    files.write("server.key", "half");
    let lived = timeout(RENEWED, client.ends_after()).await;
    assert!(lived.is_err(), "it lived {lived:?}");
    assert_eq!(scene.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_all_connections() {
    let authority = Authority::new();
    let files = Files::new(&authority);
    let mut scene = Scene::new(&files);
    let mut client = scene.client(&authority).await.unwrap();
    client.ask(UNANSWERED).await.unwrap();
    scene.trigger.pull();
    scene.task.join_next().await.unwrap().unwrap().unwrap();
    assert!(client.ends_after().await <= DRAIN_TIMEOUT);
    assert_eq!(scene.connections(), 0);
}
