use super::*;
use serde_json::{Value, json};

fn slice() -> Value {
    json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
        "metadata": {
            "name": "web-abc", "namespace": "default", "resourceVersion": "7", "generation": 3,
            "labels": {"kubernetes.io/service-name": "web"},
            "annotations": {"x\"y": "z", TRIGGER_TIME: "2026-01-01T00:00:00Z"},
            "managedFields": [{"manager": "m"}],
        },
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["10.0.0.1"], "nodeName": "a", "conditions": {"ready": true}, "new": {"n": [1]}},
            {"addresses": ["10.0.0.2"], "nodeName": "b", "conditions": {"ready": false, "serving": true}},
            {"addresses": ["10.0.0.3"]},
        ],
        "ports": [{"port": 80}], "future": {"deep": [1, 2]},
    })
}

fn endpoints() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "default"},
        "subsets": [
            {"addresses": [{"ip": "10.0.0.1", "nodeName": "a"}, {"ip": "fd::1"}],
             "notReadyAddresses": [{"ip": "10.0.0.3", "nodeName": "b"}], "ports": [{"port": 80}]},
            {"notReadyAddresses": [{"ip": "10.0.0.4", "nodeName": "c"}], "ports": [{"port": 81}]},
        ],
    })
}

fn written(source: Source, object: &Value, keep: impl Fn(usize) -> bool) -> Value {
    let text = object.to_string();
    let parts = Parts::parse(source, text.as_bytes()).unwrap();
    serde_json::from_slice(&parts.write(keep).bytes).unwrap()
}

#[test]
fn what_is_kept_is_untouched_and_bookkeeping_of_the_store_goes() {
    let mut expected = slice();
    for gone in ["managedFields", "resourceVersion"] {
        expected["metadata"].as_object_mut().unwrap().remove(gone);
    }
    assert_eq!(written(Source::Slices, &slice(), |_| true), expected);
    expected["endpoints"] = json!([expected["endpoints"][1]]);
    assert_eq!(written(Source::Slices, &slice(), |at| at == 1), expected);
    expected["endpoints"] = json!([]);
    assert_eq!(written(Source::Slices, &slice(), |_| false), expected);
}

#[test]
fn putting_together_what_was_put_together_changes_nothing() {
    for (source, object) in [(Source::Slices, slice()), (Source::Endpoints, endpoints())] {
        let text = object.to_string();
        let once = Parts::parse(source, text.as_bytes())
            .unwrap()
            .write(|_| true);
        let again = Parts::parse(source, &once.bytes).unwrap().write(|_| true);
        assert_eq!((again.bytes, again.stable), (once.bytes, once.stable));
    }
}

#[test]
fn bookkeeping_is_behind_what_a_client_can_act_on() {
    let stable = |object: &Value| {
        let text = object.to_string();
        let parts = Parts::parse(Source::Slices, text.as_bytes()).unwrap();
        let mut written = parts.write(|_| true);
        written.bytes.truncate(written.stable);
        written.bytes
    };
    let mut later = slice();
    later["metadata"]["generation"] = 4.into();
    later["metadata"]["annotations"][TRIGGER_TIME] = "2026-02-02T00:00:00Z".into();
    assert_eq!(stable(&later), stable(&slice()));
    later["metadata"]["annotations"]["x\"y"] = "other".into();
    assert_ne!(stable(&later), stable(&slice()));
    let mut other = slice();
    other["endpoints"][0]["conditions"]["ready"] = false.into();
    assert_ne!(stable(&other), stable(&slice()));
}

#[test]
fn facts_of_a_slice_follow_kubernetes_defaults() {
    let text = slice().to_string();
    let parts = Parts::parse(Source::Slices, text.as_bytes()).unwrap();
    let facts: Vec<_> = parts
        .facts()
        .iter()
        .map(|fact| {
            (
                fact.node.clone().map(Cow::into_owned),
                fact.ready,
                fact.serving,
            )
        })
        .collect();
    let expected = [
        (Some("a".to_owned()), true, true),
        (Some("b".to_owned()), false, true),
        (None, true, true),
    ];
    assert_eq!(facts, expected);
    assert_eq!(parts.service().as_deref(), Some("default/web"));
}

#[test]
fn endpoints_lose_addresses_and_then_their_subsets() {
    let object = endpoints();
    let text = object.to_string();
    let parts = Parts::parse(Source::Endpoints, text.as_bytes()).unwrap();
    let facts: Vec<_> = parts.facts().iter().map(|f| (f.family, f.ready)).collect();
    let (v4, v6) = (Family::V4, Family::V6);
    assert_eq!(facts, [(v4, true), (v6, true), (v4, false), (v4, false)]);
    let kept = written(Source::Endpoints, &object, |at| at == 2);
    let expected = json!([{"notReadyAddresses": [{"ip": "10.0.0.3", "nodeName": "b"}], "ports": [{"port": 80}]}]);
    assert_eq!(kept["subsets"], expected);
    assert_eq!(
        written(Source::Endpoints, &object, |_| false)["subsets"],
        json!([])
    );
    assert_eq!(
        written(Source::Endpoints, &object, |_| true)["subsets"],
        object["subsets"]
    );
}

#[test]
fn the_api_server_is_replaced_by_the_nodes_own_proxy_where_annotations_say_so() {
    let mut object = slice();
    object["metadata"]["labels"]["kubernetes.io/service-name"] = "kubernetes".into();
    let annotations =
        json!({"superedge.io/local-endpoint": "169.254.20.11", "superedge.io/local-port": "51003"});
    object["metadata"]["annotations"] = annotations.clone();
    let kept = written(Source::Slices, &object, |_| true);
    assert_eq!(
        kept["endpoints"],
        json!([{"addresses": ["169.254.20.11"], "conditions": {}}])
    );
    assert_eq!(
        kept["ports"],
        json!([{"name": "https", "port": 51003, "protocol": "TCP"}])
    );

    let mut whole = endpoints();
    whole["metadata"] =
        json!({"name": "kubernetes", "namespace": "default", "annotations": annotations});
    let kept = written(Source::Endpoints, &whole, |_| true);
    assert_eq!(
        kept["subsets"][0]["addresses"],
        json!([{"ip": "169.254.20.11"}])
    );

    for (path, value) in [
        ("superedge.io/local-endpoint", "nonsense"),
        ("superedge.io/local-port", "0"),
        ("superedge.io/local-endpoint", "fd00::1"),
    ] {
        let mut bad = object.clone();
        bad["metadata"]["annotations"][path] = value.into();
        let kept = written(Source::Slices, &bad, |_| true);
        assert_eq!(kept["endpoints"].as_array().unwrap().len(), 3, "{value}");
    }
}

#[test]
fn what_is_no_object_is_refused_and_nothing_panics() {
    for json in [
        "",
        "null",
        "[]",
        "7",
        r#"{"metadata":7}"#,
        r#"{"endpoints":{}}"#,
        "{\"a\":1",
        "\u{0}",
    ] {
        assert!(
            Parts::parse(Source::Slices, json.as_bytes()).is_err(),
            "{json}"
        );
    }
    assert!(Parts::parse(Source::Slices, b"\xff{}").is_err());
    let odd =
        br#"{"metadata":{"labels":7,"annotations":null},"endpoints":[7,null,{"nodeName":3}]}"#;
    let parts = Parts::parse(Source::Slices, odd).unwrap();
    assert_eq!(parts.service(), None);
    assert!(parts.facts().iter().all(|f| f.node.is_none() && !f.ready));
}
