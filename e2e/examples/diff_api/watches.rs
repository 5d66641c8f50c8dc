//! Watches opened before the first write; at the end both servers must have seen the same events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::AsyncBufReadExt;
use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::kinds::TestedKind;
use crate::normal::{LastSeen, normal};

type Events = Arc<Mutex<Vec<Value>>>;

/// A watch of one collection on one server.
pub(crate) struct Watch {
    events: Events,
    _reader: JoinSet<()>,
}

/// What happened to one object, in order.
type History = Vec<Value>;

impl Watch {
    /// Starts to listen; what is there already comes first.
    pub(crate) async fn open(client: &Client, kind: &TestedKind) -> Result<Self> {
        let path = format!("{}?watch=true&timeoutSeconds=7200", kind.path());
        let stream = client
            .request_stream(http::Request::get(path).body(Vec::new())?)
            .await?;
        let events = Events::default();
        let sink = events.clone();
        let mut reader = JoinSet::new();
        reader.spawn(async move {
            let mut lines = Box::pin(stream);
            let mut line = String::new();
            while lines
                .read_line(&mut line)
                .await
                .is_ok_and(|length| length > 0)
            {
                let event = serde_json::from_str(&line).unwrap_or_default();
                sink.lock().push(event);
                line.clear();
            }
        });
        Ok(Self {
            events,
            _reader: reader,
        })
    }

    /// Waits for an object with this name, the last of the run.
    async fn until(&self, name: &str) -> Result<()> {
        let seen = async {
            loop {
                let found = self
                    .snapshot()
                    .iter()
                    .any(|event| event["object"]["metadata"]["name"] == name);
                if found {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), seen)
            .await
            .with_context(|| format!("no watch event about {name}"))
    }

    fn snapshot(&self) -> Vec<Value> {
        self.events.lock().clone()
    }

    fn histories(&self) -> BTreeMap<String, History> {
        let mut histories: BTreeMap<String, History> = BTreeMap::new();
        let mut seen = LastSeen::new();
        for mut event in self.snapshot() {
            let name = event["object"]["metadata"]["name"]
                .as_str()
                .unwrap_or_default();
            let key = name.split('-').next().unwrap_or_default().to_owned();
            event["object"] = normal(&event["object"], &mut seen);
            // Only a time is new.
            if event["type"] == "MODIFIED"
                && event["object"]["metadata"]["resourceVersion"] == "<same>"
            {
                continue;
            }
            histories.entry(key).or_default().push(event);
        }
        histories
    }
}

/// Objects about which the two watches, upstream's first, saw different events; `spoiled` ones are not asked for.
pub(crate) async fn differences(
    watches: &[Watch; 2],
    last: &str,
    spoiled: &BTreeSet<String>,
    keys: &BTreeSet<String>,
) -> Result<Vec<(String, History, History)>> {
    for watch in watches {
        watch.until(last).await?;
    }
    let [mut upstream, mut embedded] = [watches[0].histories(), watches[1].histories()];
    let mut found = Vec::new();
    for key in keys.iter().filter(|key| !spoiled.contains(*key)) {
        let (left, right) = (
            upstream.remove(key).unwrap_or_default(),
            embedded.remove(key).unwrap_or_default(),
        );
        if left != right {
            found.push((key.clone(), left, right));
        }
    }
    Ok(found)
}
