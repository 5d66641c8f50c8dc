//! kube's client and runtime cannot tell the router from Kubernetes, in process and in virtual time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use edgegrid_apiserver::ApiServer;
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, ObjectMeta, PartialObjectMetaExt, Patch,
    PatchParams, PostParams, Preconditions,
};
use kube::core::GroupVersionKind;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{Event as Finalizer, finalizer};
use kube::runtime::reflector;
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

fn client() -> Client {
    Client::new(ApiServer::builder().seed(7).build().router(), "default")
}

fn map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.into()),
            ..ObjectMeta::default()
        },
        data: Some(
            data.iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        ),
        ..ConfigMap::default()
    }
}

fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    }))
    .unwrap()
}

#[tokio::test]
async fn an_object_lives_from_create_to_delete() {
    let maps: Api<ConfigMap> = Api::default_namespaced(client());
    let made = maps
        .create(&PostParams::default(), &map("a", &[("k", "1")]))
        .await
        .unwrap();
    assert!(
        made.uid().is_some()
            && made.resource_version().is_some()
            && made.creation_timestamp().is_some()
    );
    let again = maps
        .create(&PostParams::default(), &map("a", &[]))
        .await
        .unwrap_err();
    assert!(matches!(again, kube::Error::Api(status) if status.is_already_exists()));

    let mut changed = made.clone();
    changed
        .data
        .as_mut()
        .unwrap()
        .insert("k".into(), "2".into());
    let changed = maps
        .replace("a", &PostParams::default(), &changed)
        .await
        .unwrap();
    assert_ne!(changed.resource_version(), made.resource_version());
    let stale = maps
        .replace("a", &PostParams::default(), &made)
        .await
        .unwrap_err();
    assert!(matches!(stale, kube::Error::Api(status) if status.is_conflict()));
    let same = maps
        .replace("a", &PostParams::default(), &changed)
        .await
        .unwrap();
    assert_eq!(
        same.resource_version(),
        changed.resource_version(),
        "a write of the same is no write"
    );

    let wrong = DeleteParams::default().preconditions(Preconditions {
        uid: Some("other".into()),
        resource_version: None,
    });
    assert!(
        matches!(maps.delete("a", &wrong).await, Err(kube::Error::Api(status)) if status.is_conflict())
    );
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn generated_names_differ_and_dry_runs_leave_nothing() {
    let maps: Api<ConfigMap> = Api::default_namespaced(client());
    let mut generated = map("", &[]);
    generated.metadata = ObjectMeta {
        generate_name: Some("x-".into()),
        ..ObjectMeta::default()
    };
    let first = maps
        .create(&PostParams::default(), &generated)
        .await
        .unwrap()
        .name_any();
    let second = maps
        .create(&PostParams::default(), &generated)
        .await
        .unwrap()
        .name_any();
    assert!(first.starts_with("x-") && first.len() == 7 && first != second);
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    maps.create(&dry, &map("dry", &[])).await.unwrap();
    assert!(maps.get_opt("dry").await.unwrap().is_none());
}

#[tokio::test]
async fn all_four_kinds_of_patch_change_an_object() {
    let deployments: Api<Deployment> = Api::default_namespaced(client());
    let web: Deployment = serde_json::from_value(json!({
        "metadata": { "name": "web" },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "a", "image": "a:1" }, { "name": "b", "image": "b:1" }] },
            },
        },
    }))
    .unwrap();
    let made = deployments
        .create(&PostParams::default(), &web)
        .await
        .unwrap();
    assert_eq!(made.spec.replicas, Some(1), "defaults are filled in");
    let images = |it: &Deployment| -> BTreeMap<String, String> {
        let containers = it.spec.template.spec.as_ref().unwrap().containers.clone();
        containers
            .into_iter()
            .map(|c| (c.name, c.image.unwrap()))
            .collect()
    };
    let write = PatchParams::default();
    let strategic = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "b", "image": "b:2" }] } } } });
    let patched = deployments
        .patch("web", &write, &Patch::Strategic(strategic))
        .await
        .unwrap();
    assert_eq!(
        images(&patched),
        [("a".into(), "a:1".into()), ("b".into(), "b:2".into())].into()
    );
    assert_eq!(patched.metadata.generation, Some(2));
    let merge = json!({ "spec": { "replicas": 3 } });
    let patched = deployments
        .patch("web", &write, &Patch::Merge(merge))
        .await
        .unwrap();
    assert_eq!(patched.spec.replicas, Some(3));
    let applied = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "labels": { "by": "apply" } }, "spec": { "replicas": 5 },
    });
    let conflict = deployments
        .patch("web", &PatchParams::apply("me"), &Patch::Apply(&applied))
        .await
        .unwrap_err();
    assert!(matches!(conflict, kube::Error::Api(status) if status.is_conflict()));
    let forced = deployments
        .patch(
            "web",
            &PatchParams::apply("me").force(),
            &Patch::Apply(&applied),
        )
        .await
        .unwrap();
    assert_eq!(forced.spec.replicas, Some(5));
    assert!(
        forced
            .managed_fields()
            .iter()
            .any(|entry| entry.manager.as_deref() == Some("me"))
    );
    subresources_change_what_they_are_for(&deployments).await;
}

/// Takes a Deployment `web` with five replicas.
async fn subresources_change_what_they_are_for(deployments: &Api<Deployment>) {
    let write = PatchParams::default();
    let status = json!({ "status": { "replicas": 5 }, "spec": { "replicas": 9 } });
    let written = deployments
        .patch_status("web", &write, &Patch::Merge(status))
        .await
        .unwrap();
    assert_eq!(
        written.spec.replicas,
        Some(5),
        "the status endpoint changes the status only"
    );
    assert_eq!(written.status.unwrap().replicas, Some(5));
    let scale = deployments.get_scale("web").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(5));
    let scale = json!({ "spec": { "replicas": 7 } });
    deployments
        .patch_scale("web", &write, &Patch::Merge(scale))
        .await
        .unwrap();
    assert_eq!(deployments.get("web").await.unwrap().spec.replicas, Some(7));
}

#[tokio::test]
async fn errors_are_what_clients_switch_on() {
    let client = client();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let invalid: Pod = serde_json::from_value(
        json!({ "metadata": { "name": "Upper" }, "spec": { "containers": [] } }),
    )
    .unwrap();
    let refusal = pods
        .create(&PostParams::default(), &invalid)
        .await
        .unwrap_err();
    let kube::Error::Api(status) = refusal else {
        panic!("{refusal}")
    };
    assert!(status.is_invalid());
    let causes: Vec<String> = status
        .details
        .as_ref()
        .unwrap()
        .causes
        .iter()
        .map(|c| c.field.clone())
        .collect();
    assert!(
        causes.contains(&"metadata.name".to_owned())
            && causes.contains(&"spec.containers".to_owned()),
        "{causes:?}"
    );
    let nowhere: Api<Pod> = Api::namespaced(client, "nowhere");
    assert!(
        matches!(nowhere.create(&PostParams::default(), &pod("a")).await, Err(kube::Error::Api(s)) if s.is_not_found())
    );
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_is_left_its_grace_and_a_finalizer_keeps_it() {
    let client = client();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &pod("free"))
        .await
        .unwrap();
    pods.delete("free", &DeleteParams::default()).await.unwrap();
    assert!(
        pods.get_opt("free").await.unwrap().is_none(),
        "an unbound pod goes at once"
    );

    pods.create(&PostParams::default(), &pod("bound"))
        .await
        .unwrap();
    let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "bound" }, "target": { "kind": "Node", "name": "n" } });
    let request = http::Request::post("/api/v1/namespaces/default/pods/bound/binding")
        .header("content-type", "application/json");
    let request = request.body(binding.to_string().into_bytes()).unwrap();
    client.request::<serde_json::Value>(request).await.unwrap();
    let going = pods
        .delete("bound", &DeleteParams::default())
        .await
        .unwrap()
        .left()
        .unwrap();
    assert_eq!(going.metadata.deletion_grace_period_seconds, Some(30));
    pods.delete("bound", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    assert!(pods.get_opt("bound").await.unwrap().is_none());

    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let mut held = map("held", &[]);
    held.finalizers_mut().push("example.com/hold".into());
    maps.create(&PostParams::default(), &held).await.unwrap();
    maps.delete("held", &DeleteParams::default()).await.unwrap();
    assert!(
        maps.get("held")
            .await
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_some()
    );
    let release = json!({ "metadata": { "finalizers": null } });
    maps.patch("held", &PatchParams::default(), &Patch::Merge(release))
        .await
        .unwrap();
    assert!(maps.get_opt("held").await.unwrap().is_none());
}

fn crd() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com",
            "names": { "kind": "Widget", "plural": "widgets" },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "spec": { "type": "object", "properties": {
                        "size": { "type": "integer", "minimum": 1, "default": 3 },
                    } },
                    "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                } } },
            }],
        },
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_served_live_and_goes_with_its_objects() {
    let client = client();
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    crds.create(&PostParams::default(), &crd()).await.unwrap();
    await_condition(
        crds.clone(),
        "widgets.example.com",
        conditions::is_crd_established(),
    )
    .await
    .unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let widgets: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    let widget =
        |spec: serde_json::Value| DynamicObject::new("w", &resource).data(json!({ "spec": spec }));
    let bad = widgets
        .create(&PostParams::default(), &widget(json!({ "size": 0 })))
        .await
        .unwrap_err();
    assert!(matches!(bad, kube::Error::Api(status) if status.is_invalid()));
    let made = widgets
        .create(&PostParams::default(), &widget(json!({ "unknown": true })))
        .await
        .unwrap();
    assert_eq!(
        made.data["spec"],
        json!({ "size": 3 }),
        "pruned and defaulted"
    );
    crds.delete("widgets.example.com", &DeleteParams::default())
        .await
        .unwrap();
    assert!(crds.get_opt("widgets.example.com").await.unwrap().is_none());
    assert!(
        matches!(widgets.get("w").await, Err(kube::Error::Api(status)) if status.is_not_found())
    );
}

#[tokio::test]
async fn services_get_addresses_of_their_own() {
    let services: Api<Service> = Api::default_namespaced(client());
    let service = |name: &str, spec: serde_json::Value| -> Service {
        serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
    };
    let ports = json!([{ "port": 80 }]);
    let create = PostParams::default();
    let address = |it: &Service| it.spec.as_ref().unwrap().cluster_ip.clone().unwrap();
    let first = services
        .create(&create, &service("a", json!({ "ports": ports })))
        .await
        .unwrap();
    let second = services
        .create(&create, &service("b", json!({ "ports": ports })))
        .await
        .unwrap();
    assert_ne!(address(&first), address(&second));
    let none = services
        .create(
            &create,
            &service("c", json!({ "ports": ports, "clusterIP": "None" })),
        )
        .await
        .unwrap();
    assert_eq!(address(&none), "None");
    let taken = json!({ "ports": ports, "clusterIP": address(&first) });
    assert!(
        services
            .create(&create, &service("d", taken.clone()))
            .await
            .is_err()
    );
    services
        .delete("a", &DeleteParams::default())
        .await
        .unwrap();
    services
        .create(&create, &service("d", taken))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn watchers_see_every_change_in_both_ways_of_listing() {
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let maps: Api<ConfigMap> = Api::default_namespaced(client());
        maps.create(&PostParams::default(), &map("a", &[]))
            .await
            .unwrap();
        let (reader, writer) = reflector::store();
        let stream = reflector::reflector(writer, watcher(maps.clone(), config)).applied_objects();
        let mut stream = std::pin::pin!(stream);
        stream.next().await.unwrap().unwrap();
        maps.create(&PostParams::default(), &map("b", &[]))
            .await
            .unwrap();
        stream.next().await.unwrap().unwrap();
        assert_eq!(reader.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_can_be_read_and_watched() {
    let client = client();
    let nodes: Api<Node> = Api::all(client.clone());
    let node: Node =
        serde_json::from_value(json!({ "metadata": { "name": "n", "labels": { "zone": "a" } } }))
            .unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let names: Api<kube::core::PartialObjectMeta<Node>> = Api::all(client);
    let list = names
        .list(&ListParams::default().labels("zone=a"))
        .await
        .unwrap();
    assert_eq!(list.items.len(), 1);
    let label = ObjectMeta {
        labels: Some([("zone".to_owned(), "b".to_owned())].into()),
        ..ObjectMeta::default()
    };
    let patch = Patch::Apply(label.into_request_partial::<Node>());
    names
        .patch("n", &PatchParams::apply("me").force(), &patch)
        .await
        .unwrap();
    assert!(
        names
            .list(&ListParams::default().labels("zone=a"))
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

/// Copies every `ConfigMap` `x` without the label into `x-copy`; a finalizer removes the copy.
async fn run_copier(client: Client, passes: Arc<AtomicUsize>) {
    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Failed(String);
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let config = watcher::Config::default().labels("!copy");
    let reconcile = move |source: Arc<ConfigMap>, passes: Arc<AtomicUsize>| {
        let maps = maps.clone();
        async move {
            passes.fetch_add(1, Ordering::Relaxed);
            let copy = format!("{}-copy", source.name_any());
            finalizer(&maps, "example.com/copy", source, |event| async {
                match event {
                    Finalizer::Apply(source) => {
                        let mut object = map(&copy, &[]);
                        object.data.clone_from(&source.data);
                        object.labels_mut().insert("copy".into(), "yes".into());
                        maps.patch(
                            &copy,
                            &PatchParams::apply("copier").force(),
                            &Patch::Apply(object),
                        )
                        .await?;
                    }
                    Finalizer::Cleanup(_) => {
                        maps.delete(&copy, &DeleteParams::default()).await?;
                    }
                }
                Ok::<_, kube::Error>(Action::requeue(Duration::from_mins(10)))
            })
            .await
            .map_err(|error| Failed(error.to_string()))
        }
    };
    Controller::new(Api::<ConfigMap>::default_namespaced(client), config)
        .run(reconcile, |_, error, _| panic!("{error}"), passes)
        .for_each(async |_| {})
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_with_a_finalizer_runs_for_hours_of_virtual_time() {
    let client = client();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let passes = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(run_copier(client.clone(), passes.clone()));
    maps.create(&PostParams::default(), &map("a", &[("k", "v")]))
        .await
        .unwrap();
    let copied = |it: Option<&ConfigMap>| {
        it.is_some_and(|it| it.data.as_ref().is_some_and(|data| data["k"] == "v"))
    };
    await_condition(maps.clone(), "a-copy", copied)
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_hours(3)).await;
    assert!(
        passes.load(Ordering::Relaxed) >= 18,
        "requeued every ten minutes: {passes:?}"
    );
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    await_condition(maps.clone(), "a-copy", |it: Option<&ConfigMap>| {
        it.is_none()
    })
    .await
    .unwrap();
    await_condition(maps, "a", |it: Option<&ConfigMap>| it.is_none())
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn events_are_recorded() {
    let client = client();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = namespaces.get("default").await.unwrap();
    let recorder = Recorder::new(client.clone(), Reporter::from("me"));
    let event = Event {
        type_: EventType::Normal,
        reason: "Because".into(),
        note: Some("so it is".into()),
        action: "Looking".into(),
        secondary: None,
    };
    recorder
        .publish(&event, &namespace.object_ref(&()))
        .await
        .unwrap();
    let events: Api<k8s_openapi::api::events::v1::Event> = Api::namespaced(client, "default");
    let listed = events.list(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items[0].reason.as_deref(), Some("Because"));
}
