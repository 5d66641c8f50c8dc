//! SuperEdge's wrapper writes a line for every request and every heartbeat, onto the flash of small
//! machines. Here a quiet day is a quiet log.

use crate::asking::{SLICES, get, sees, two_units, view_of};
use crate::cloud::{node, slice};
use edgegrid_wrapper::ServedKind;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;

/// Counts the lines that a log at its usual level would get.
#[derive(Clone, Default)]
struct Lines(Arc<AtomicUsize>);

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() <= Level::INFO {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn requests_heartbeats_and_changes_write_no_line() {
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(registry().with(lines.clone()));
    let cloud = two_units();
    let (_running, client) = view_of(&cloud).await;
    let at_start = lines.0.load(Ordering::Relaxed);
    assert!(at_start > 0, "that the view is complete is worth a line");
    for beat in 0..50 {
        get(&client, SLICES).await;
        let mut beating = node("a-0", &[("unit", "a"), ("kubernetes.io/hostname", "a-0")]);
        beating["status"] = json!({ "heartbeat": beat });
        cloud.put(ServedKind::Nodes, &beating);
        let at = ["a-0", "a-1"][beat % 2];
        cloud.put(ServedKind::Slices, &slice("web-x", "web", &[at, "b-0"]));
        sees(&client, SLICES, &[at]).await;
    }
    assert_eq!(lines.0.load(Ordering::Relaxed), at_start);
}
