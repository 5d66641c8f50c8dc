//! What `/readyz` and `/metrics` say of contact with the API server and of the wrapper's credentials.

use crate::asking::{get, ready, two_units};
use crate::{Running, eventually};
use edgegrid_wrapper::{Config, Link, Wrapper};
use http::StatusCode;
use std::sync::Arc;
use std::time::Duration;

const VERBOSE: &str = "/readyz?verbose";

async fn verbose(client: &kube::Client) -> (StatusCode, String) {
    let (code, text) = get(client, VERBOSE).await;
    (code, text.as_str().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_cut_off_is_ready_and_says_since_when() {
    let cloud = two_units();
    cloud.cut(true);
    let running = Running::start("a-0", cloud.client(), None);
    let client = running.client();
    let (code, text) = verbose(&client).await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
    assert!(text.contains("[-]view failed: not seen yet: "), "{text}");
    assert!(text.contains("[!]upstream: never heard of\n"), "{text}");
    cloud.cut(false);
    ready(&running).await;
    let fine = "[+]view ok\n[+]upstream ok\n[+]nodes ok\n[+]credentials ok\nreadyz check passed\n";
    eventually("all is well", async || match verbose(&client).await {
        (StatusCode::OK, text) if text == fine => Ok(()),
        (_, text) => Err(text),
    })
    .await;
    cloud.cut(true);
    tokio::time::sleep(Duration::from_secs(47)).await;
    let (code, text) = verbose(&client).await;
    assert_eq!(code, StatusCode::OK);
    let lines: Vec<&str> = text.lines().collect();
    let lost = lines[1].strip_prefix("[!]upstream: last heard of ");
    let seconds = lost.and_then(|rest| rest.strip_suffix(" s ago"));
    let seconds: u64 = seconds.unwrap_or_else(|| panic!("{text}")).parse().unwrap();
    assert!((40..=47).contains(&seconds), "{text}");
    assert_eq!(lines[4], "readyz check passed");
    assert_eq!(get(&client, "/readyz").await.1, "ok");
}

#[tokio::test(start_paused = true)]
async fn refusals_of_the_api_server_are_counted_and_told() {
    let link = Link::from_client(two_units().client());
    let refusals = link.refusals.clone();
    let clock = Arc::new(jiff::Timestamp::now);
    let client = Wrapper::new(&Config::new("a-0"), link, clock).client();
    for code in [
        StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN,
        StatusCode::UNAUTHORIZED,
    ] {
        refusals.note(code);
    }
    let (_, metrics) = get(&client, "/metrics").await;
    let metrics = metrics.as_str().unwrap();
    for (code, count) in [(401, 2), (403, 1)] {
        let shown = format!("edgegrid_wrapper_api_refusals_total{{code=\"{code}\"}} {count}\n");
        assert!(metrics.contains(&shown), "{metrics}");
    }
    let (_, text) = verbose(&client).await;
    assert!(
        text.contains("[!]credentials: the API server answers 401"),
        "{text}"
    );
    refusals.note(StatusCode::OK);
    let (_, text) = verbose(&client).await;
    assert!(text.contains("[+]credentials ok\n"), "{text}");
}
