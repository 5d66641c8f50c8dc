use serde_json::json;

use super::*;

#[test]
fn every_resource_has_a_shape() {
    assert!(table().version().starts_with("1.37"));
    for resource in table().resources() {
        // Some paths take objects of another group, listed as subresources.
        let shape = table().shape(&resource.group, &resource.version, &resource.kind);
        assert!(shape.is_some(), "{resource:?}");
    }
    assert!(table().resources().len() > 80);
}

#[test]
fn subresources_know_their_kind() {
    let deployments = table().resource("apps", "v1", "deployments").unwrap();
    let scale = &deployments.subresources[0];
    assert_eq!((&*scale.name, &*scale.kind), ("scale", "Scale"));
    assert_eq!(scale.group, "autoscaling");
    assert_eq!(deployments.short_names, ["deploy"]);
}

#[test]
fn list_keys_of_apply_and_of_patches_may_differ() {
    let container = table().named("io.k8s.api.core.v1.Container").unwrap();
    let ports = container.field("ports").unwrap();
    assert_eq!(ports.patch.key.as_deref(), Some("containerPort"));
    let keys = ["containerPort", "protocol"].map(str::to_owned).to_vec();
    assert_eq!(
        container.field_shape(ports).list(),
        Some(&ListKind::Map(keys))
    );
    let protocol = container
        .field_shape(ports)
        .items()
        .field("protocol")
        .unwrap();
    assert_eq!(protocol.default, Some(json!("TCP")));
}

#[test]
fn an_extension_beside_a_reference_overrides_the_type() {
    let volume = table()
        .named("io.k8s.api.core.v1.PersistentVolumeSpec")
        .unwrap();
    let claim = volume.field("claimRef").unwrap();
    assert!(!volume.field_shape(claim).is_atomic_map());
    let reference = table().named("io.k8s.api.core.v1.ObjectReference").unwrap();
    assert!(reference.is_atomic_map());
}

#[test]
fn the_zero_object_has_structs_but_no_optional_values() {
    let shape = table().shape("apps", "v1", "Deployment").unwrap();
    let zero = zero(shape);
    assert_eq!(zero["spec"]["selector"], json!(null));
    assert_eq!(zero["spec"]["strategy"], json!({}));
    assert_eq!(
        zero["spec"]["template"]["spec"],
        json!({"containers": null})
    );
    assert_eq!(zero["metadata"], json!({}));
    assert_eq!(zero["status"], json!({}));
    let role = table().shape("rbac.authorization.k8s.io", "v1", "Role");
    assert_eq!(super::zero(role.unwrap())["rules"], json!(null));
}

#[test]
fn the_normal_form_drops_what_go_drops() {
    let shape = table()
        .shape("v1".split_at(0).0, "v1", "ConfigMap")
        .unwrap();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "x": 1,
        "metadata": {"name": "a", "labels": {}, "y": 2, "managedFields": []},
        "data": {"a": null}, "immutable": null, "binaryData": {}});
    let normal = normal(&object, shape).unwrap();
    assert_eq!(
        normal.object,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": ""},
            "metadata": {"name": "a", "managedFields": []}})
    );
    assert_eq!(normal.unknown, ["metadata.y", "x"]);
}

#[test]
fn the_normal_form_refuses_wrong_types() {
    let shape = table().shape("apps", "v1", "Deployment").unwrap();
    let error = normal(&json!({"spec": {"replicas": 3.5}}), shape).unwrap_err();
    assert_eq!(error.path, "spec.replicas");
    let kept = normal(&json!({"spec": {"replicas": 3.0}}), shape).unwrap();
    assert_eq!(kept.object["spec"]["replicas"], json!(3));
}

#[test]
fn quantities_have_one_form() {
    let shape = table()
        .named("io.k8s.api.core.v1.ResourceRequirements")
        .unwrap();
    let limits = |given: &str| {
        let object = json!({"limits": {"x": given}});
        normal(&object, shape).map(|normal| normal.object["limits"]["x"].clone())
    };
    for (given, wanted) in [
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("100Mi", "100Mi"),
        ("-2.50", "-2500m"),
        ("0.5Ki", "512"),
    ] {
        assert_eq!(limits(given), Ok(json!(wanted)), "{given}");
    }
    assert!(limits("x").is_err());
}

#[test]
fn times_and_bytes_have_one_form() {
    let metadata = table().object_meta();
    let time = |given: &str| {
        let object = json!({"creationTimestamp": given});
        normal(&object, metadata).map(|normal| normal.object["creationTimestamp"].clone())
    };
    assert_eq!(
        time("2026-01-02T05:04:05.9+02:00"),
        Ok(json!("2026-01-02T03:04:05Z"))
    );
    assert!(time("2026-01-02 03:04:05Z").is_err());
    let secret = table().shape("", "v1", "Secret").unwrap();
    let data = |given: serde_json::Value| {
        let object = json!({"data": {"a": given}});
        normal(&object, secret).map(|normal| normal.object["data"]["a"].clone())
    };
    assert_eq!(data(json!([1, 2])), Ok(json!("AQI=")));
    assert!(data(json!("Not Valid!")).is_err());
}

#[test]
fn custom_resources_get_metadata() {
    let shapes = Shapes::structural(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}));
    let root = shapes.root();
    let metadata = root.child("metadata").unwrap();
    assert!(metadata.field("labels").is_some());
    assert!(root.child("nope").is_none());
    assert!(root.child("spec").unwrap().child("b").is_none());
}
