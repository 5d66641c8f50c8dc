//! Discovery and the version: upstream's answers while it can be asked, the last good ones when not.

use crate::asking::{ready, two_units};
use crate::cloud::Cloud;
use crate::{Running, eventually};
use edgegrid_wrapper::ServedKind;
use futures::FutureExt;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tower::BoxError;

const JSON: &str = "application/json";
const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// What client-go says since 1.30.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
/// What kube-proxy and CoreDNS ask for, and in which words.
const AT_START: [(&str, &str); 10] = [
    ("/version", "application/json, */*"),
    ("/version?timeout=32s", ""),
    ("/api", AGGREGATED),
    ("/apis", AGGREGATED),
    ("/api", JSON),
    (
        "/apis",
        "application/vnd.kubernetes.protobuf,application/json",
    ),
    ("/api/v1", "*/*"),
    ("/apis/discovery.k8s.io/v1", JSON),
    ("/apis/networking.k8s.io/v1", JSON),
    ("/apis/events.k8s.io/v1", JSON),
];

/// What becomes of questions about anything but the kinds of a [`Cloud`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Answers,
    Refuses(StatusCode),
    Hangs,
    BreaksOff,
}

/// A cloud that has discovery, and everything else that is no list.
#[derive(Clone)]
struct Server {
    cloud: Cloud,
    version: Arc<Mutex<&'static str>>,
    mood: Arc<Mutex<Mood>>,
    /// Paths of what was asked besides lists and watches.
    asked: Arc<Mutex<Vec<String>>>,
}

struct Seen {
    code: StatusCode,
    content_type: String,
    age: Option<u64>,
    body: Value,
}

impl Server {
    fn new() -> Self {
        Self {
            cloud: two_units(),
            version: Arc::new(Mutex::new("1.36")),
            mood: Arc::new(Mutex::new(Mood::Answers)),
            asked: Arc::default(),
        }
    }

    fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let is_list = |kind: ServedKind| kind.path() == request.uri().path();
                if ServedKind::ALL.into_iter().any(is_list) {
                    let answer = server.cloud.client().send(request).await?;
                    return Ok(answer.map(|body| body.map_err(BoxError::from).boxed_unsync()));
                }
                server.answer(request.into_parts().0).await
            }
            .boxed()
        });
        kube::Client::new(service, "default")
    }

    async fn answer(
        &self,
        request: http::request::Parts,
    ) -> Result<Response<UnsyncBoxBody<bytes::Bytes, BoxError>>, BoxError> {
        self.asked.lock().push(request.uri.to_string());
        if self.cloud.is_cut() {
            if *self.mood.lock() == Mood::Hangs {
                std::future::pending::<()>().await;
            }
            return Err("the link is cut".into());
        }
        let (mood, version) = (*self.mood.lock(), *self.version.lock());
        let header = |name: &str| {
            let value = request.headers.get(name);
            value.map_or("", |value| value.to_str().unwrap()).to_owned()
        };
        let is_aggregated = header("accept").starts_with(V2);
        let (content_type, etag) = (
            if is_aggregated { V2 } else { JSON },
            format!("\"{version}\""),
        );
        let text = json!({ "path": request.uri.path(), "version": version, "as": content_type });
        let whole = http_body_util::Full::new(text.to_string().into());
        let mut answer = Response::new(whole.map_err(|never| match never {}).boxed_unsync());
        answer
            .headers_mut()
            .insert("content-type", content_type.parse()?);
        if is_aggregated {
            answer.headers_mut().insert("etag", etag.parse()?);
        }
        match mood {
            Mood::Answers if is_aggregated && header("if-none-match") == etag => {
                *answer.status_mut() = StatusCode::NOT_MODIFIED;
            }
            Mood::Answers => {}
            Mood::Refuses(code) => *answer.status_mut() = code,
            Mood::Hangs => std::future::pending().await,
            Mood::BreaksOff => {
                let end = futures::stream::once(async { Err(BoxError::from("cut")) });
                *answer.body_mut() = http_body_util::StreamBody::new(end).boxed_unsync();
            }
        }
        Ok(answer)
    }

    async fn start(&self, state: Option<&Path>) -> (Running, kube::Client) {
        let running = Running::start("a-0", self.client(), state);
        let client = ready(&running).await;
        (running, client)
    }

    fn questions(&self) -> usize {
        self.asked.lock().len()
    }
}

async fn ask(client: &kube::Client, path: &str, headers: &[(&str, &str)]) -> Seen {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = client.send(request.body(Body::empty()).unwrap()).await;
    let answer = answer.unwrap();
    let header = |name: &str| {
        let value = answer.headers().get(name)?;
        Some(value.to_str().unwrap().to_owned())
    };
    let (content_type, age) = (
        header("content-type"),
        header("x-edgegrid-view-age-seconds"),
    );
    let code = answer.status();
    let body = answer.into_body().collect_bytes().await.unwrap();
    Seen {
        code,
        content_type: content_type.unwrap_or_default(),
        age: age.map(|age| age.parse().unwrap()),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    }
}

async fn version(client: &kube::Client) -> Seen {
    ask(client, "/version", &[("accept", JSON)]).await
}

#[tokio::test(start_paused = true)]
async fn restarted_while_cut_off_it_answers_what_programs_ask_at_their_start() {
    let (server, disk) = (Server::new(), tempfile::tempdir().unwrap());
    let (running, _) = server.start(Some(disk.path())).await;
    crate::cut_off::on_disk(disk.path()).await;
    server.cloud.cut(true);
    *server.mood.lock() = Mood::Hangs;
    running.crash().await;
    let (_running, client) = server.start(Some(disk.path())).await;
    sleep(Duration::from_secs(100)).await;
    let start = Instant::now();
    for (path, accept) in AT_START {
        let seen = ask(&client, path, &[("accept", accept)]).await;
        assert_eq!(seen.code, StatusCode::OK, "{path} {accept}");
        assert_eq!(seen.body["path"], path.split('?').next().unwrap());
        let wanted = if accept == AGGREGATED { V2 } else { JSON };
        assert_eq!(
            (&*seen.content_type, &seen.body["as"]),
            (wanted, &json!(wanted))
        );
        assert!(seen.age.unwrap() >= 100, "{path}");
    }
    // A CoreDNS in a pod shows its token, which nobody can look at now.
    let token = ("authorization", "Bearer its-own");
    assert_eq!(
        ask(&client, "/version", &[token]).await.code,
        StatusCode::OK
    );
    assert_eq!(start.elapsed(), Duration::ZERO, "nobody was waited for");
}

#[tokio::test(start_paused = true)]
async fn nothing_but_discovery_is_answered_from_memory() {
    let (server, disk) = (Server::new(), tempfile::tempdir().unwrap());
    let (running, client) = server.start(Some(disk.path())).await;
    let others = [
        "/api/v1/nodes/b-0",
        "/api/v1/pods",
        "/api/v1/namespaces/kube-system/secrets/x",
        "/apis/apps/v1/deployments",
        "/openapi/v2",
        "/openapi/v3/api/v1",
        "/healthz/etcd",
        "/logs/x",
        "/.well-known/openid-configuration",
        "/openid/v1/jwks",
        "/version/x",
        "/version?pretty=true",
        "/apis/apps/v1/",
    ];
    let token = ("authorization", "Bearer its-own");
    for path in others {
        let codes = [
            ask(&client, path, &[token]).await,
            ask(&client, path, &[]).await,
        ];
        assert_eq!(codes[0].code, StatusCode::OK, "{path}");
    }
    for _ in 0..2 {
        server.cloud.cut(true);
        sleep(Duration::from_mins(1)).await;
        for path in &others[..12] {
            for headers in [&[token][..], &[]] {
                let code = ask(&client, path, headers).await.code;
                let refused = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::FORBIDDEN];
                assert!(refused.contains(&code), "{path} {code}");
            }
        }
        // Asked for under the wrapper's name while it could be, so it is remembered.
        let seen = ask(&client, "/apis/apps/v1", &[]).await;
        assert_eq!((seen.code, seen.age.is_some()), (StatusCode::OK, true));
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_others_may_see_is_not_remembered() {
    let server = Server::new();
    let (_running, client) = server.start(None).await;
    let token = ("authorization", "Bearer its-own");
    let path = "/apis/secret.example/v1";
    assert_eq!(ask(&client, path, &[token]).await.code, StatusCode::OK);
    server.cloud.cut(true);
    sleep(Duration::from_mins(1)).await;
    for headers in [&[token][..], &[]] {
        let code = ask(&client, path, headers).await.code;
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
    }
}

#[tokio::test(start_paused = true)]
async fn while_upstream_is_in_reach_it_answers_itself() {
    let server = Server::new();
    let (_running, client) = server.start(None).await;
    sleep(Duration::from_secs(10)).await;
    *server.version.lock() = "1.37";
    let seen = version(&client).await;
    assert_eq!((&seen.body["version"], seen.age), (&json!("1.37"), None));
    for code in [400, 401, 403, 404, 429, 500] {
        let code = StatusCode::from_u16(code).unwrap();
        *server.mood.lock() = Mood::Refuses(code);
        assert_eq!(version(&client).await.code, code);
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_fails_is_answered_from_memory() {
    let server = Server::new();
    let (_running, client) = server.start(None).await;
    sleep(Duration::from_secs(10)).await;
    let codes = [502, 503, 504].map(|code| Mood::Refuses(StatusCode::from_u16(code).unwrap()));
    for mood in codes.into_iter().chain([Mood::Hangs, Mood::BreaksOff]) {
        *server.mood.lock() = mood;
        let start = Instant::now();
        let seen = version(&client).await;
        assert_eq!((seen.code, seen.age), (StatusCode::OK, Some(0)), "{mood:?}");
        assert_eq!(seen.body["version"], "1.36");
        assert!(start.elapsed() <= Duration::from_secs(3), "{mood:?}");
        if mood != Mood::Hangs {
            let unknown = ask(&client, "/apis/unknown.example", &[]).await;
            assert!(unknown.code.is_server_error(), "{mood:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_groups_of_another_cluster_are_forgotten() {
    for answers in [true, false] {
        let server = Server::new();
        let (_running, client) = server.start(None).await;
        sleep(Duration::from_secs(30)).await;
        *server.version.lock() = "1.37";
        *server.mood.lock() = if answers { Mood::Answers } else { Mood::Hangs };
        let other = two_units();
        let metadata = json!({ "name": "kube-system", "uid": "another" });
        other.put(ServedKind::Namespaces, &json!({ "metadata": metadata }));
        server.cloud.restore(&other.backup());
        sleep(Duration::from_mins(1)).await;
        server.cloud.cut(true);
        sleep(Duration::from_secs(30)).await;
        let seen = version(&client).await;
        if answers {
            assert_eq!(
                (seen.code, &seen.body["version"]),
                (StatusCode::OK, &json!("1.37"))
            );
        } else {
            assert!(seen.code.is_server_error(), "{}", seen.code);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn it_asks_by_itself_every_ten_minutes_and_little_if_nothing_has_changed() {
    let server = Server::new();
    let (_running, client) = server.start(None).await;
    sleep(Duration::from_secs(30)).await;
    let first = server.questions();
    sleep(Duration::from_hours(1)).await;
    let later = server.questions() - first;
    assert!((3 * 5..=3 * 6).contains(&later), "{later} questions");
    *server.version.lock() = "1.37";
    sleep(Duration::from_mins(12)).await;
    server.cloud.cut(true);
    sleep(Duration::from_mins(1)).await;
    for (path, accept) in AT_START {
        let seen = ask(&client, path, &[("accept", accept)]).await;
        assert_eq!(seen.body["version"], "1.37", "{path} {accept}");
    }
}

#[tokio::test(start_paused = true)]
async fn cut_off_it_asks_seldom_and_back_in_reach_it_knows_within_two_minutes() {
    let server = Server::new();
    let (_running, client) = server.start(None).await;
    sleep(Duration::from_mins(5)).await;
    server.cloud.cut(true);
    sleep(Duration::from_mins(30)).await;
    let before = server.questions();
    sleep(Duration::from_hours(1)).await;
    let asked = server.questions() - before;
    assert!((30..=70).contains(&asked), "{asked} questions in an hour");
    *server.version.lock() = "1.37";
    server.cloud.cut(false);
    let start = Instant::now();
    eventually("upstream answers itself", async || {
        let seen = version(&client).await;
        let found = (seen.body["version"].as_str() == Some("1.37"), seen.age);
        if found == (true, None) {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
    assert!(start.elapsed() < Duration::from_mins(2));
}
