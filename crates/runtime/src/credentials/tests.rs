use std::fs;

use http_body_util::BodyExt;
use tempfile::TempDir;
use tokio::time::{Instant, advance};

use super::*;

/// An API server that knows one token, and a kubeconfig that names a file with one.
struct Scene {
    folder: TempDir,
    valid: Arc<Mutex<String>>,
    refusals: Refusals,
    client: Client,
}

impl Scene {
    async fn new(token: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let text = "{clusters: [{name: a, cluster: {server: 'http://a'}}], users: [{name: a, user: {tokenFile: token}}],
            contexts: [{name: a, context: {cluster: a, user: a}}], current-context: a}";
        fs::write(&kubeconfig, text).unwrap();
        fs::write(folder.path().join("token"), token).unwrap();
        let (valid, refusals) = (Arc::new(Mutex::new(token.to_owned())), Refusals::default());
        let server = Arc::clone(&valid);
        let make = move |config: Config| connect(&config, Arc::clone(&server));
        let source = Source::File(kubeconfig);
        let client = client(source, refusals.clone(), Box::new(make)).await;
        Self {
            folder,
            valid,
            refusals,
            client: client.unwrap(),
        }
    }

    fn write_token(&self, token: &str) {
        fs::write(self.folder.path().join("token"), token).unwrap();
    }

    async fn ask(&self) -> Response<Body> {
        let request = Request::get("/").body(Body::empty()).unwrap();
        self.client.send(request).await.unwrap()
    }
}

/// A client that shows the token of its configuration; half a file makes none.
fn connect(config: &Config, valid: Arc<Mutex<String>>) -> Result<Client, ConnectError> {
    let file = config.auth_info.token_file.as_ref().unwrap();
    let token = fs::read_to_string(file).unwrap();
    if token == "half" {
        return Err(ConnectError::NoUrl { url: token });
    }
    let answer = move |_: Request<Body>| {
        let mut response = Response::new(Endless);
        if *valid.lock() != token {
            *response.status_mut() = StatusCode::UNAUTHORIZED;
        }
        async { Ok::<_, std::convert::Infallible>(response) }
    };
    Ok(Client::new(tower::service_fn(answer), "default"))
}

/// The body of a watch on which nothing happens.
struct Endless;

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changes_is_used_and_answers_of_before_end() {
    let scene = Scene::new("old").await;
    let mut watch = scene.ask().await.into_body();
    scene.write_token("new");
    let started = Instant::now();
    let end = watch.frame().await.unwrap().unwrap_err();
    assert!(started.elapsed() <= CHECK_PERIOD + MIN_PERIOD);
    assert!(chain(&end).contains("replaced"), "{}", chain(&end));
    *scene.valid.lock() = "new".to_owned();
    assert_eq!(scene.ask().await.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_stays_the_same_ends_nothing() {
    let scene = Scene::new("old").await;
    let mut watch = scene.ask().await.into_body();
    let hours = timeout(Duration::from_hours(5), watch.frame()).await;
    assert!(hours.is_err(), "the watch has ended");
}

#[tokio::test(start_paused = true)]
async fn after_a_401_the_files_are_read_at_once() {
    let scene = Scene::new("old").await;
    *scene.valid.lock() = "new".to_owned();
    scene.write_token("new");
    assert_eq!(scene.ask().await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(scene.refusals.last(), Some(StatusCode::UNAUTHORIZED));
    advance(Duration::from_secs(1)).await;
    tokio::task::yield_now().await;
    assert_eq!(scene.ask().await.status(), StatusCode::OK);
    assert_eq!(scene.refusals.last(), None);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_used_changes_nothing_and_is_tried_again() {
    let scene = Scene::new("old").await;
    let mut watch = scene.ask().await.into_body();
    scene.write_token("half");
    let minutes = timeout(Duration::from_mins(5), watch.frame()).await;
    assert!(minutes.is_err(), "the watch has ended");
    assert_eq!(scene.ask().await.status(), StatusCode::OK);
    scene.write_token("new");
    watch.frame().await.unwrap().unwrap_err();
    *scene.valid.lock() = "new".to_owned();
    assert_eq!(scene.ask().await.status(), StatusCode::OK);
}
