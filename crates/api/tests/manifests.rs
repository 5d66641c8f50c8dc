//! Manifests that SuperEdge's users have, read and written by our types without loss.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use edgegrid_api::{DeploymentGrid, NodeUnit, ServiceGrid, StatefulSetGrid};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What our type makes of `object`.
fn through<K: DeserializeOwned + Serialize>(object: &Value) -> Value {
    let typed: K = serde_json::from_value(object.clone()).unwrap();
    serde_json::to_value(typed).unwrap()
}

/// Every part of `written` is in `read`, unchanged; defaults may have been added to the spec.
fn assert_kept(written: &Value, read: &Value, file: &str) {
    for pointer in ["/apiVersion", "/kind", "/metadata"] {
        assert_eq!(
            read.pointer(pointer),
            written.pointer(pointer),
            "{file} {pointer}"
        );
    }
    for (field, value) in written["spec"].as_object().unwrap() {
        assert_eq!(read["spec"].get(field), Some(value), "{file} spec.{field}");
    }
}

#[test]
fn the_grids_of_the_seeds_pass_through_our_types_unchanged() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/seeds");
    let mut grids = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let file = path.display().to_string();
        let written: Value = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let read = match written["kind"].as_str().unwrap() {
            "DeploymentGrid" => through::<DeploymentGrid>(&written),
            "StatefulSetGrid" => through::<StatefulSetGrid>(&written),
            "ServiceGrid" => through::<ServiceGrid>(&written),
            _ => continue,
        };
        assert_kept(&written, &read, &file);
        grids += 1;
    }
    assert_eq!(grids, 8);
}

#[test]
fn an_unknown_type_of_unit_is_kept() {
    let strange = json!({ "metadata": { "name": "u" }, "spec": { "type": "submarine" } });
    let read = through::<NodeUnit>(&strange);
    assert_eq!(read["spec"]["type"], "submarine");
}

/// One that is written by a newer controller's definition must hide neither this grid nor any other.
#[test]
fn a_value_of_when_unreachable_that_we_do_not_know_is_kept() {
    for value in ["Keep", "Evict", "Freeze"] {
        let grid = json!({ "metadata": { "name": "x" }, "spec": { "whenUnreachable": value } });
        for read in [
            through::<DeploymentGrid>(&grid),
            through::<StatefulSetGrid>(&grid),
        ] {
            assert_eq!(read["spec"]["whenUnreachable"], value);
        }
    }
}

#[test]
fn a_field_may_be_missing_anywhere() {
    let bare = json!({ "metadata": { "name": "x" }, "spec": {}, "status": {} });
    through::<DeploymentGrid>(&bare);
    through::<StatefulSetGrid>(&bare);
    through::<ServiceGrid>(&bare);
    through::<edgegrid_api::NodeGroup>(&bare);
    let unit = through::<NodeUnit>(&bare);
    assert_eq!(unit["spec"]["type"], "edge");
    assert_eq!(unit["spec"]["autonomyLevel"], "L3");
}
