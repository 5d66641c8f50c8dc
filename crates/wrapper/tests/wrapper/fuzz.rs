//! Requests nobody would send: no panic, no answer that is no answer, and nothing of another site.
//!
//! `EDGEGRID_FUZZ_REQUESTS` chooses how many, `EDGEGRID_FUZZ_SEED` which.

use crate::cloud::{Cloud, node, service, slice};
use crate::{Running, eventually};
use edgegrid_wrapper::ServedKind;
use http::Request;
use kube::client::Body;
use serde_json::json;
use std::fmt::Write;

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        usize::try_from((self.0 >> 33) % end as u64).unwrap()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

const SEGMENTS: [&str; 30] = [
    "api",
    "apis",
    "v1",
    "v1beta1",
    "discovery.k8s.io",
    "networking.k8s.io",
    "endpointslices",
    "endpoints",
    "services",
    "namespaces",
    "nodes",
    "servicecidrs",
    "default",
    "web",
    "web-x",
    "a-0",
    "b-0",
    "watch",
    "status",
    "proxy",
    "..",
    ".",
    "%2e%2e",
    "%2f",
    "%00",
    "",
    "superedge-ingress",
    "beijing",
    "events",
    "debug",
];
const PATHS: [&str; 8] = [
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web-x",
    "/api/v1/endpoints",
    "/api/v1/namespaces/default/endpoints/web",
    "/superedge-ingress/beijing/apis/discovery.k8s.io/v1/endpointslices",
    "/superedge-ingress/beijing/api/v1/endpoints",
    "/api/v1/nodes",
];
const NAMES: [&str; 11] = [
    "watch",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "labelSelector",
    "fieldSelector",
    "timeoutSeconds",
    "x",
];
const VALUES: [&str; 22] = [
    "true",
    "false",
    "0",
    "1",
    "-1",
    "18446744073709551616",
    "NotOlderThan",
    "Exact",
    "",
    "a%3Db",
    "a+in+(b",
    "!a",
    "a,,b",
    "metadata.name%3Dweb-x",
    "metadata.name%3Da-0",
    "kubernetes.io/service-name%3Dweb",
    "%ff%fe",
    "%00",
    "eyJ2IjoibWV0YSJ9",
    "a%21%3D",
    "a+notin+(x,y)",
    "metadata.namespace!%3Ddefault",
];
const ACCEPTS: [&str; 8] = [
    "",
    "*/*",
    "application/json",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf, */*",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    ";;,=q=;0",
];

fn uri(random: &mut Random) -> String {
    let mut uri = if random.below(3) > 0 {
        PATHS[random.below(PATHS.len())].to_owned()
    } else {
        let count = random.below(8);
        (0..count).fold(String::new(), |path, _| {
            format!("{path}/{}", random.pick(&SEGMENTS))
        })
    };
    if uri.is_empty() {
        uri.push('/');
    }
    // The first of two counts: no watch may last.
    uri += "?timeoutSeconds=1";
    for _ in 0..random.below(4) {
        let (name, value) = (random.pick(&NAMES), random.pick(&VALUES));
        write!(uri, "&{name}={value}").unwrap();
    }
    uri
}

fn setting(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A service whose endpoints are in both units, as slices and as Endpoints.
fn two_sites() -> Cloud {
    let cloud = Cloud::default();
    for (name, unit, marker) in [("a-0", "a", "nodeunits.superedge.io"), ("b-0", "b", "")] {
        let labels = [("unit", unit), ("beijing", marker)];
        cloud.put(ServedKind::Nodes, &node(name, &labels));
    }
    cloud.put(ServedKind::Services, &service("web", Some("[\"unit\"]")));
    cloud.put(
        ServedKind::Slices,
        &slice("web-x", "web", &["b-0", "a-0", "b-0"]),
    );
    let addresses =
        json!([{ "ip": "10.0.0.0", "nodeName": "b-0" }, { "ip": "10.0.0.1", "nodeName": "a-0" }]);
    let metadata = json!({ "name": "web", "namespace": "default" });
    let endpoints = json!({ "metadata": metadata, "subsets": [{ "addresses": addresses }] });
    cloud.put(ServedKind::Endpoints, &endpoints);
    cloud
}

async fn everything_is_ready(client: &kube::Client) {
    for path in PATHS.iter().filter(|path| !path.ends_with("nodes")) {
        eventually("everything is ready", async || {
            let request = Request::get(*path).body(Body::empty()).unwrap();
            let code = client.send(request).await.unwrap().status();
            if code.is_success() {
                Ok(())
            } else {
                Err(format!("{path} {code}"))
            }
        })
        .await;
    }
}

/// Sends one request; says whether it was a good one.
async fn does_no_harm(client: &kube::Client, random: &mut Random) -> bool {
    let uri = uri(random);
    let method = random.pick(&[
        "GET",
        "GET",
        "GET",
        "GET",
        "POST",
        "PUT",
        "HEAD_TIMEOUT",
        "OPTIONS",
    ]);
    let request = Request::builder().method(method).uri(&uri);
    let request = request.header("accept", random.pick(&ACCEPTS));
    let Ok(request) = request.body(Body::empty()) else {
        return false;
    };
    let response = client.send(request).await.unwrap();
    let code = response.status();
    let body = response.into_body().collect_bytes().await.unwrap();
    let text = String::from_utf8_lossy(&body);
    // Other nodes' objects are passed on as they are; they hold no endpoints.
    let leaks = text.contains("\"nodeName\":\"b-0\"") || text.contains("10.0.0.2");
    assert!(!leaks, "{method} {uri}: {text}");
    assert!(code.as_u16() != 500, "{method} {uri}: {code} {text}");
    code.is_success()
}

#[tokio::test(start_paused = true)]
async fn no_request_makes_it_panic_or_show_another_site() {
    let count = setting("EDGEGRID_FUZZ_REQUESTS", 6_000);
    let seed = setting("EDGEGRID_FUZZ_SEED", 1);
    println!("seed {seed}, {count} requests");
    let running = Running::start("a-0", two_sites().client(), None);
    let client = running.client();
    everything_is_ready(&client).await;
    let (mut random, mut good) = (Random(seed), 0);
    for _ in 0..count {
        good += u64::from(does_no_harm(&client, &mut random).await);
    }
    assert!(good > count / 20, "only {good} of {count} were good ones");
}
