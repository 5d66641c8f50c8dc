//! Tells the cluster that the own Node is gone, and what that means for the node.

use super::Upstream;
use super::stream::JSON;
use edgegrid_api::names::{component, reason};
use edgegrid_runtime::logging::chain;
use http::Request;
use http::header::{CONTENT_TYPE, USER_AGENT};
use kube::client::Body;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

/// How long the API server may take; there is one try, as the log says it too.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Where the events of Nodes are.
const EVENTS: &str = "/api/v1/namespaces/default/events";

impl Upstream {
    /// Writes an Event each time that the own Node is gone, for ever.
    pub(super) async fn report_own_node_gone(self) {
        let mut gone = self.publisher.own_node_gone();
        // The sender is the publisher's, which lives as long as this.
        while gone.changed().await.is_ok() {
            if let Err(error) = self.write_event().await {
                tracing::warn!(node = self.publisher.node(), %error, "cannot write Event NodeGone");
            }
        }
    }

    async fn write_event(&self) -> Result<(), String> {
        let request = Request::post(EVENTS)
            .header(CONTENT_TYPE, JSON)
            .header(USER_AGENT, "edgegrid-agent-events")
            .body(Body::from(self.event().to_string().into_bytes()))
            .map_err(|error| error.to_string())?;
        let answer = timeout(ANSWER_TIMEOUT, self.client.send(request)).await;
        let answer = answer.map_err(|_| "no answer in time".to_owned())?;
        let status = answer.map_err(|error| chain(&error))?.status();
        if status.is_success() {
            return Ok(());
        }
        Err(format!("answered {status}"))
    }

    fn event(&self) -> Value {
        let (node, now) = (self.publisher.node(), self.publisher.now());
        let grace = self.publisher.node_grace().as_secs();
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {
                "name": format!("{node}.{:x}", now.as_nanosecond()),
                "namespace": "default",
            },
            "involvedObject": {
                "apiVersion": "v1", "kind": "Node", "name": node,
                "uid": self.publisher.own_uid().unwrap_or_default(),
            },
            "type": "Warning",
            "reason": reason::NODE_GONE,
            "message": format!(
                "the Node object was deleted; its labels count on this node for {grace} s more, then closed services have no endpoints here: register and label the Node again"
            ),
            "source": { "component": component::AGENT, "host": node },
            "reportingComponent": component::AGENT, "reportingInstance": node,
            "firstTimestamp": seconds(now), "lastTimestamp": seconds(now), "count": 1,
        })
    }
}

/// A time as events have it.
fn seconds(now: jiff::Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
