use super::*;
use serde_json::{Value, json};

fn records_of(spec: &Value, slices: &[Value]) -> ServiceRecords {
    let service = json!({ "metadata": { "name": "s" }, "spec": spec });
    from_view(&ServiceView {
        service: service.to_string().into(),
        slices: slices
            .iter()
            .map(|slice| slice.to_string().into())
            .collect(),
    })
    .unwrap()
}

fn slice(manager: &str, endpoints: &Value) -> Value {
    json!({
        "metadata": { "labels": { "endpointslice.kubernetes.io/managed-by": manager } },
        "endpoints": endpoints, "ports": [{ "name": "http", "port": 80 }],
    })
}

fn addresses(records: &ServiceRecords) -> Vec<(&str, Vec<String>)> {
    let hosts = records.hosts.iter();
    let text = |host: &Host| host.addresses.iter().map(IpAddr::to_string).collect();
    hosts.map(|(name, host)| (&**name, text(host))).collect()
}

// SuperEdge publishes pods that are not ready, about to end or dead.
#[test]
fn only_what_is_ready_and_stays_has_a_name() {
    let endpoints = json!([
        { "addresses": ["10.0.0.1"], "hostname": "a" },
        { "addresses": ["10.0.0.2"], "hostname": "b", "conditions": { "ready": false } },
        { "addresses": ["10.0.0.3"], "hostname": "c", "conditions": { "ready": true, "terminating": true } },
        { "addresses": ["10.0.0.4"], "hostname": "d", "conditions": {} },
    ]);
    let found = records_of(&json!({ "clusterIP": "None" }), &[slice("", &endpoints)]);
    let wanted = [
        ("a", vec!["10.0.0.1".to_owned()]),
        ("d", vec!["10.0.0.4".to_owned()]),
    ];
    assert_eq!(addresses(&found), wanted);
}

#[test]
fn a_pod_without_hostname_goes_by_its_address_behind_a_headless_service_only() {
    let endpoints =
        json!([{ "addresses": ["10.0.0.1"] }, { "addresses": ["fd00::1"], "hostname": "" }]);
    let slices = [slice("", &endpoints)];
    let headless = records_of(&json!({ "clusterIP": "None" }), &slices);
    let names: Vec<&str> = headless.hosts.keys().map(|name| &**name).collect();
    assert_eq!(names, ["10-0-0-1", "fd00--1"]);
    let spec = json!({ "clusterIP": "10.9.0.1", "clusterIPs": ["10.9.0.1", "fd09::1"], "ports": [{ "port": 80 }] });
    let plain = records_of(&spec, &slices);
    assert!(plain.hosts.is_empty());
    let own = ["10.9.0.1", "fd09::1"].map(|address| address.parse().unwrap());
    assert_eq!(plain.target, Target::Addresses(own.to_vec()));
    assert_eq!(&*plain.ports[0].protocol, "tcp");
}

// SuperEdge tells one address of one family per name.
#[test]
fn a_name_has_the_addresses_of_both_families_once_each() {
    let one = |address: &str| json!([{ "addresses": [address], "hostname": "a" }]);
    let slices = ["10.0.0.2", "fd00::1", "10.0.0.1", "10.0.0.2"].map(|at| slice("", &one(at)));
    let found = records_of(&json!({ "clusterIP": "None" }), &slices);
    let wanted = ["10.0.0.1", "10.0.0.2", "fd00::1"].map(str::to_owned);
    assert_eq!(addresses(&found), [("a", wanted.to_vec())]);
    assert_eq!(found.hosts["a"].ports.len(), 1);
}

#[test]
fn a_name_of_our_own_slices_is_a_second_one_unless_a_pod_is_called_so() {
    let one = |name: &str| json!([{ "addresses": ["10.0.0.1"], "hostname": name }]);
    let slices = [
        slice("", &one("db-x-0")),
        slice(ALIAS_MANAGER, &one("db-0")),
        slice(ALIAS_MANAGER, &one("db-x-0")),
    ];
    let found = records_of(&json!({ "clusterIP": "None" }), &slices);
    let aliases: Vec<_> = found
        .hosts
        .iter()
        .map(|(name, host)| (&**name, host.alias))
        .collect();
    assert_eq!(aliases, [("db-0", true), ("db-x-0", false)]);
}

#[test]
fn an_external_name_is_another_name() {
    let found = records_of(
        &json!({ "type": "ExternalName", "externalName": "a.example" }),
        &[],
    );
    assert_eq!(found.target, Target::External("a.example".into()));
}
