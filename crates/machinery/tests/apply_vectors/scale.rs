//! Writes to the Scale of an object.

use edgegrid_machinery::apply::{
    self, PathSet, Writer, parent_managers, scale_managers, track_update,
};
use edgegrid_machinery::patch::merge_patch;
use serde_json::json;

use super::answers::{Reply, apply_refusal, refuse};
use super::kinds::KindUnderTest;
use super::server::{Request, Server, put};

impl Server {
    /// A write to the Scale of the object.
    pub(crate) fn scale(&mut self, request: &mut Request<'_>) -> Result<Reply, Reply> {
        let body = self.body(request)?;
        let live = self.live(request)?;
        let path = [
            apply::Element::field("spec"),
            apply::Element::field("replicas"),
        ];
        let paths = [(request.api_version.clone(), path.to_vec())].into();
        let list = &live["metadata"]["managedFields"];
        let mut scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "obj", "namespace": "ns", "uid": live["metadata"]["uid"],
                "resourceVersion": live["metadata"]["resourceVersion"]},
            "spec": {"replicas": live["spec"]["replicas"]},
            "status": {"replicas": live["status"]["replicas"].as_u64().unwrap_or(0),
                "selector": "app=x"}});
        put(
            &mut scale["metadata"],
            "managedFields",
            scale_managers(list, &paths).unwrap(),
        );
        let versions = KindUnderTest::new("autoscaling/v1", "Scale");
        let reset = PathSet::default();
        let writer = Writer {
            versions: &versions,
            api_version: "autoscaling/v1",
            ..self.writer(request, &reset)
        };
        let new = if request.verb == "apply" {
            let force = request.step.get("force").is_some();
            let outcome = apply::apply(&writer, Some(&scale), &body, force);
            outcome.map_err(apply_refusal)?.object
        } else {
            let patched =
                merge_patch(&scale, &body).map_err(|e| refuse(e.code(), e.to_string()))?;
            track_update(&writer, Some(&scale), &patched)
        };
        let mut parent = live.clone();
        parent["spec"]["replicas"] = new["spec"]["replicas"].clone();
        let after = &new["metadata"]["managedFields"];
        let back = parent_managers(list, after, &paths, &request.api_version).unwrap();
        put(&mut parent["metadata"], "managedFields", back);
        let reply = self.finish(request, &live, parent)?;
        let mut object = new;
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        Ok(Reply { object, ..reply })
    }
}
