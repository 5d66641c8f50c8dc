//! The objects every cluster has from its first moment.

use edgegrid_machinery::metadata::{self, CreateStamp, stamp};
use edgegrid_store::Expect;
use serde_json::{Value, json};

use crate::services::FIRST;
use crate::state::ServerState;

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Stores what is missing: namespaces, and the Service of the API itself.
pub(crate) fn bootstrap(state: &ServerState) {
    for name in NAMESPACES {
        let namespace = json!({
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": { "name": name, "labels": { "kubernetes.io/metadata.name": name } },
            "spec": { "finalizers": ["kubernetes"] },
            "status": { "phase": "Active" },
        });
        put(state, "namespaces", None, namespace);
    }
    let service = json!({
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": { "component": "apiserver", "provider": "kubernetes" },
        },
        "spec": {
            "ports": [{ "name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443 }],
            "clusterIP": FIRST,
            "clusterIPs": [FIRST],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": { "loadBalancer": {} },
    });
    put(state, "services", Some("default"), service);
}

fn put(state: &ServerState, plural: &str, namespace: Option<&str>, mut object: Value) {
    let served = state.registry.resource("", "v1", plural);
    let served = served.expect("invariant: the table has the core resources");
    let (uid, now) = (state.ids.uid(), state.clock.stamp());
    let create = CreateStamp {
        uid: &uid,
        now: &now,
        suffix: "",
    };
    stamp(&mut object, create, served.strategy.generation());
    let name = metadata::name(&object).to_owned();
    // A conflict means that it is there already, from before a restart.
    let _ = state.reader.store().put(
        served.read.key(namespace, &name),
        served.storable(&object),
        Expect::Absent,
    );
}
