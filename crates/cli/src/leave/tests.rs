//! What `edgegrid leave` takes away, on two embedded clusters.

use edgegrid_api::names::{YES, annotation, label};
use edgegrid_testkit as testkit;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, PostParams};
use serde::Serialize;
use serde_json::{Value, json};

use super::*;

/// A control cluster with a member `shop` that has what federation made of each kind, and one grid of its own.
struct Land {
    control: testkit::Cluster,
    member: testkit::Cluster,
}

async fn create<K>(cluster: &testkit::Cluster, object: Value)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let object: K = serde_json::from_value(object).unwrap();
    let path = K::url_path(&(), object.meta().namespace.as_deref());
    let request = kube::core::Request::new(path);
    let body = serde_json::to_vec(&object).unwrap();
    let request = request.create(&PostParams::default(), body).unwrap();
    cluster.client().request::<K>(request).await.unwrap();
}

fn grid<K: Resource<DynamicType = ()>>(namespace: &str, name: &str, labels: &Value) -> Value {
    let mut template = json!({
        "serviceName": "web", "selector": { "matchLabels": { "app": "web" } },
        "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "web", "image": "web" }] } },
    });
    if K::kind(&()) == "ServiceGrid" {
        template = json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] });
    }
    let metadata = json!({ "namespace": namespace, "name": name, "labels": labels });
    json!({ "metadata": metadata, "spec": { "gridUniqKey": "zone", "template": template } })
}

async fn grids_of_federation<K>(member: &testkit::Cluster)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let mirror =
        json!({ label::DISTRIBUTED: YES, label::ORIGIN: "u", label::TARGET_NAMESPACE: "default" });
    create::<K>(member, grid::<K>(parent_secret::NAMESPACE, "web", &mirror)).await;
    let made = json!({ label::FEDERATE: YES, label::ORIGIN: "u" });
    create::<K>(member, grid::<K>("default", "web", &made)).await;
    create::<K>(member, grid::<K>("default", "own", &json!({}))).await;
}

async fn land() -> Land {
    let start = async || {
        let cluster = testkit::Cluster::embedded().await.unwrap();
        cluster.install(edgegrid_api::crds()).await.unwrap();
        cluster
    };
    let (control, member) = (start().await, start().await);
    let labels = json!({ label::CLUSTER_ID: "1", label::CLUSTER_NAME: "shop" });
    let metadata = json!({ "name": "edgegrid-shop", "labels": labels, "annotations": { annotation::JOINED: YES } });
    create::<Namespace>(&control, json!({ "metadata": metadata })).await;
    let here = json!({ "name": parent_secret::NAMESPACE });
    create::<Namespace>(&member, json!({ "metadata": here })).await;
    let secret = json!({
        "metadata": { "namespace": parent_secret::NAMESPACE, "name": parent_secret::NAME },
        "stringData": { parent_secret::MEMBER_NAMESPACE: "edgegrid-shop" },
    });
    create::<Secret>(&member, secret).await;
    grids_of_federation::<DeploymentGrid>(&member).await;
    grids_of_federation::<StatefulSetGrid>(&member).await;
    grids_of_federation::<ServiceGrid>(&member).await;
    Land { control, member }
}

impl Land {
    async fn leave(&self, with_member: bool, purge: bool) -> Result<String> {
        let args = Args {
            control: Control {
                parent_kubeconfig: PathBuf::new(),
            },
            name: "shop".into(),
            kubeconfig: None,
            purge,
            force: !with_member,
        };
        let control = Cluster::over(self.control.client());
        let member = Cluster::over(self.member.client());
        end(&control, with_member.then_some(&member), &args).await
    }

    /// Grids of all kinds in the member, as `namespace/name`, of which all kinds have the same.
    async fn grids(&self) -> Vec<String> {
        let found = names::<DeploymentGrid>(&self.member).await;
        assert_eq!(found, names::<StatefulSetGrid>(&self.member).await);
        assert_eq!(found, names::<ServiceGrid>(&self.member).await);
        found
    }

    async fn registrations(&self) -> (bool, bool) {
        let namespaces: Api<Namespace> = Api::all(self.control.client());
        let above = namespaces.get_opt("edgegrid-shop").await.unwrap();
        let above = above.is_some_and(|found| found.metadata.deletion_timestamp.is_none());
        let secrets: Api<Secret> = Api::namespaced(self.member.client(), parent_secret::NAMESPACE);
        let here = secrets.get_opt(parent_secret::NAME).await.unwrap();
        (above, here.is_some())
    }
}

async fn names<K>(cluster: &testkit::Cluster) -> Vec<String>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let all: Api<K> = Api::all(cluster.client());
    let list = all.list(&ListParams::default()).await.unwrap();
    let name = |grid: &K| {
        format!(
            "{}/{}",
            grid.namespace().unwrap_or_default(),
            grid.name_any()
        )
    };
    list.items.iter().map(name).collect()
}

#[tokio::test(start_paused = true)]
async fn a_member_that_leaves_keeps_its_grids_and_forgets_the_control_cluster() {
    let land = land().await;
    let said = land.leave(true, false).await.unwrap();
    assert_eq!(said, "shop is no longer a member\n");
    assert_eq!(land.grids().await, ["default/own", "default/web"]);
    assert_eq!(land.registrations().await, (false, false));
}

#[tokio::test(start_paused = true)]
async fn purge_deletes_the_grids_that_came_from_the_control_cluster_and_no_others() {
    let land = land().await;
    let said = land.leave(true, true).await.unwrap();
    assert_eq!(
        said,
        "3 grids deleted in shop\nshop is no longer a member\n"
    );
    assert_eq!(land.grids().await, ["default/own"]);
    assert_eq!(land.registrations().await, (false, false));
}

#[tokio::test(start_paused = true)]
async fn force_lets_the_control_cluster_forget_a_member_that_is_lost_and_touches_nothing_in_it() {
    let land = land().await;
    let said = land.leave(false, false).await.unwrap();
    assert_eq!(said, "shop is no longer a member\n");
    let all = ["clusternet-system/web", "default/own", "default/web"];
    assert_eq!(land.grids().await, all);
    assert_eq!(land.registrations().await, (false, true));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_a_member_by_another_name_is_left_as_it_is() {
    let land = land().await;
    let secrets: Api<Secret> = Api::namespaced(land.member.client(), parent_secret::NAMESPACE);
    let other = json!({ "stringData": { parent_secret::MEMBER_NAMESPACE: "edgegrid-other" } });
    let patch = kube::api::Patch::Merge(other);
    let params = kube::api::PatchParams::default();
    secrets
        .patch(parent_secret::NAME, &params, &patch)
        .await
        .unwrap();
    let error = land.leave(true, true).await.unwrap_err();
    assert!(format!("{error:#}").contains("edgegrid-other"), "{error:#}");
    assert_eq!(land.grids().await.len(), 3);
    assert_eq!(land.registrations().await, (true, true));
}
