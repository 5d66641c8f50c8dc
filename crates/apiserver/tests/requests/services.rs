//! Addresses and node ports of Services.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::caller::{Caller, Reply};

const SERVICES: &str = "/api/v1/namespaces/default/services";

async fn make(caller: &Caller, name: &str, spec: Value) -> Reply {
    let service = json!({"metadata": {"name": name}, "spec": spec});
    caller.send("POST", SERVICES, &service).await
}

async fn change(caller: &Caller, name: &str, spec: Value) -> Reply {
    let patch = json!({"spec": spec});
    caller
        .send("PATCH", &format!("{SERVICES}/{name}"), &patch)
        .await
}

fn address(reply: &Reply) -> String {
    assert!(reply.code < 300, "{reply:?}");
    let spec = &reply.body["spec"];
    assert_eq!(spec["clusterIPs"][0], spec["clusterIP"]);
    spec["clusterIP"].as_str().unwrap().to_owned()
}

fn node_ports(reply: &Reply) -> Vec<u64> {
    assert!(reply.code < 300, "{reply:?}");
    let ports = reply.body["spec"]["ports"].as_array().unwrap().iter();
    ports.filter_map(|port| port["nodePort"].as_u64()).collect()
}

fn port(name: &str, number: u64) -> Value {
    json!({"name": name, "port": number})
}

#[tokio::test]
async fn an_address_is_kept_through_updates_and_given_again_after_a_delete() {
    let caller = Caller::new();
    let ports = json!([port("a", 80)]);
    let made = make(&caller, "a", json!({"ports": ports})).await;
    assert!(address(&made).starts_with("10.96."));
    assert_eq!(made.body["spec"]["ipFamilies"], json!(["IPv4"]));
    let mut bare = made.body.clone();
    for field in ["clusterIP", "clusterIPs"] {
        bare["spec"].as_object_mut().unwrap().remove(field);
    }
    let put = caller.send("PUT", &format!("{SERVICES}/a"), &bare).await;
    assert_eq!(address(&put), address(&made), "who leaves it out keeps it");
    let moved = change(&caller, "a", json!({"clusterIP": "10.96.9.9"})).await;
    assert_eq!(moved.code, 422, "it cannot be changed");

    caller
        .must("DELETE", &format!("{SERVICES}/a"), &Value::Null)
        .await;
    let asked = json!({"ports": ports, "clusterIP": address(&made)});
    assert_eq!(address(&make(&caller, "b", asked).await), address(&made));
}

#[tokio::test]
async fn an_address_that_is_asked_for_must_be_free_and_in_range() {
    let caller = Caller::new();
    let asked = |ip: &str| json!({"ports": [port("a", 80)], "clusterIP": ip});
    assert_eq!(
        address(&make(&caller, "a", asked("10.96.0.77")).await),
        "10.96.0.77"
    );
    for ip in ["10.96.0.77", "10.96.0.1", "192.168.0.1", "nonsense"] {
        let refused = make(&caller, "b", asked(ip)).await;
        assert_eq!(refused.code, 422, "{ip}");
        assert!(
            refused.fields()[0].starts_with("spec.clusterIPs"),
            "{refused:?}"
        );
    }
    assert_eq!(address(&make(&caller, "c", asked("None")).await), "None");
    assert_eq!(address(&make(&caller, "d", asked("None")).await), "None");
}

#[tokio::test]
async fn a_name_elsewhere_needs_no_address_and_gets_one_when_it_becomes_a_service() {
    let caller = Caller::new();
    let external = json!({"type": "ExternalName", "externalName": "a.example"});
    let made = make(&caller, "a", external.clone()).await;
    assert_eq!(
        (made.code, &made.body["spec"]["clusterIP"]),
        (201, &Value::Null)
    );
    let mut with_address = external;
    with_address["clusterIP"] = json!("10.96.0.9");
    assert_eq!(make(&caller, "b", with_address).await.code, 422);
    let spec = json!({"type": "ClusterIP", "externalName": null, "ports": [port("a", 80)]});
    assert!(address(&change(&caller, "a", spec).await).starts_with("10.96."));
    let back = json!({"type": "ExternalName", "externalName": "a.example"});
    let back = change(&caller, "a", back).await;
    assert_eq!(
        (back.code, &back.body["spec"]["clusterIP"]),
        (200, &Value::Null)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn services_made_at_the_same_time_never_share_an_address_or_a_node_port() {
    let caller = Caller::new();
    let made = (0..60).map(|index| {
        let caller = caller.clone();
        async move {
            let spec = json!({"type": "NodePort", "ports": [port("a", 80)]});
            make(&caller, &format!("s{index}"), spec).await
        }
    });
    let mut made: JoinSet<Reply> = made.collect();
    let mut addresses = BTreeSet::new();
    let mut ports = BTreeSet::new();
    while let Some(made) = made.join_next().await {
        let made = made.unwrap();
        addresses.insert(address(&made));
        ports.extend(node_ports(&made));
    }
    assert_eq!((addresses.len(), ports.len()), (60, 60));
}

#[tokio::test]
async fn node_ports_are_given_kept_and_dropped_with_the_type() {
    let caller = Caller::new();
    let spec = json!({"type": "NodePort", "ports": [port("a", 80), port("b", 81)]});
    let made = make(&caller, "a", spec).await;
    let given = node_ports(&made);
    assert_eq!(BTreeSet::from_iter(&given).len(), 2);
    assert!(given.iter().all(|port| (30_000..=32_767).contains(port)));
    let mut bare = made.body.clone();
    bare["spec"]["ports"] = json!([port("a", 80), port("b", 81), port("c", 82)]);
    let put = caller.send("PUT", &format!("{SERVICES}/a"), &bare).await;
    assert_eq!(
        node_ports(&put)[..2],
        given[..],
        "ports of the same name keep theirs"
    );
    assert_eq!(node_ports(&put).len(), 3);
    let inside = change(&caller, "a", json!({"type": "ClusterIP"})).await;
    assert_eq!(node_ports(&inside), [0_u64; 0]);
    let outside = change(&caller, "a", json!({"type": "NodePort"})).await;
    assert_eq!(node_ports(&outside).len(), 3);
}

#[tokio::test]
async fn a_node_port_that_is_asked_for_must_be_free_and_in_range() {
    let caller = Caller::new();
    let asked = |node_port: u64| {
        let port = json!({"port": 80, "nodePort": node_port});
        json!({"type": "NodePort", "ports": [port]})
    };
    assert_eq!(
        node_ports(&make(&caller, "a", asked(30_500)).await),
        [30_500]
    );
    for taken in [30_500, 80, 40_000] {
        let refused = make(&caller, "b", asked(taken)).await;
        assert_eq!(
            (refused.code, refused.fields()),
            (422, vec!["spec.ports[0].nodePort"])
        );
    }
    let other = make(&caller, "b", asked(30_501)).await;
    assert_eq!(node_ports(&other), [30_501]);
    let stolen = change(&caller, "b", asked(30_500)).await;
    assert_eq!(stolen.code, 422);
    caller
        .must("DELETE", &format!("{SERVICES}/a"), &Value::Null)
        .await;
    assert_eq!(
        node_ports(&change(&caller, "b", asked(30_500)).await),
        [30_500]
    );
}

#[tokio::test]
async fn one_port_in_two_protocols_has_one_node_port() {
    let caller = Caller::new();
    let with =
        |protocol: &str| json!({"name": protocol, "port": 53, "protocol": protocol.to_uppercase()});
    let spec = json!({"type": "NodePort", "ports": [with("udp"), with("tcp"), port("other", 54)]});
    let given = node_ports(&make(&caller, "dns", spec).await);
    assert_eq!(
        (given.len(), given[0] == given[1], given[0] == given[2]),
        (3, true, false)
    );
}

#[tokio::test]
async fn a_load_balancer_may_do_without_node_ports_and_is_checked_through_one() {
    let caller = Caller::new();
    let spec = json!({
        "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [port("a", 80)],
    });
    assert_eq!(node_ports(&make(&caller, "a", spec).await), [0_u64; 0]);
    let spec = json!({
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [port("a", 80)],
    });
    let made = make(&caller, "b", spec).await;
    let checked = made.body["spec"]["healthCheckNodePort"].as_u64();
    assert!(
        checked.is_some_and(|port| !node_ports(&made).contains(&port)),
        "{made:?}"
    );
}
