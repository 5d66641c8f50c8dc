//! The executor on the embedded server: what it writes, and what it makes of refusals.

mod refusals;
mod writes;

use edgegrid_runtime::executor::Metrics;
use edgegrid_runtime::{Executor, Fence, Limits, Target};
use edgegrid_testkit::Cluster;
use kube::Resource;
use kube::api::ApiResource;
use serde_json::{Value, json};

/// Field manager of these tests.
const MANAGER: &str = "runtime-test";

fn executor(cluster: &Cluster) -> Executor {
    let (limits, metrics) = (Limits::default(), Metrics::default());
    Executor::new(cluster.client(), Fence::always(), limits, metrics)
}

fn target<K: Resource<DynamicType = ()>>(name: &str) -> Target {
    Target {
        api: ApiResource::erase::<K>(&()),
        namespace: Some("default".into()),
        name: name.into(),
    }
}

/// A Deployment that every server takes.
fn deployment() -> Value {
    let labels = json!({ "app": "a" });
    let container = json!({ "name": "a", "image": "a" });
    json!({ "spec": {
        "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
    } })
}
