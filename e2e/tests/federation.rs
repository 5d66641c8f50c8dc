//! Many clusters on real Kubernetes: three control planes on loopback, `edgegrid controller` in each with the shipped
//! rights and nothing more, kubectl.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_api::names::parent_secret;
use edgegrid_runtime::client::{Access, connect_with_token};
use edgegrid_testkit::edgegrid::{Controller, binary};
use edgegrid_testkit::{Cluster, Patience, eventually_within, node};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use kube::{Client, discovery};
use serde_json::{Value, json};

const DEMO: &str = "seeds/001-deploymentgrid-federated.yaml";
/// Three control planes share the machine with whoever else is on it.
const TIMEOUT: Patience = Patience {
    limit: Duration::from_mins(3),
    pause: Duration::from_millis(500),
};

/// A control cluster, two members, and the controllers in them.
struct Clusters {
    control: Cluster,
    a: Cluster,
    b: Cluster,
    _controllers: Vec<Controller>,
}

async fn clusters() -> Clusters {
    let start = async || Cluster::upstream().with_controllers().await.unwrap();
    let (control, a, b) = (start().await, start().await, start().await);
    a.add_nodes([node("a-1").label("zone", "zone1")])
        .await
        .unwrap();
    b.add_nodes([node("b-1")]).await.unwrap();
    let mut controllers = Vec::new();
    for cluster in [&control, &a, &b] {
        controllers.push(Controller::start(cluster, "controller", &[]).await.unwrap());
    }
    Clusters {
        control,
        a,
        b,
        _controllers: controllers,
    }
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crates/api/fixtures")
        .join(name);
    path.to_string_lossy().into_owned()
}

async fn shows(cluster: &Cluster, what: &[&str], wanted: &[&str]) {
    let expectation = format!("`kubectl {}` shows {wanted:#?}", what.join(" "));
    eventually_within(TIMEOUT, &expectation, async || {
        let output = cluster.kubectl(what).await?;
        let lines: Vec<String> = output
            .lines()
            .skip(1)
            .map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words[..words.len().saturating_sub(1)].join(" ")
            })
            .collect();
        ensure!(lines == wanted, "{lines:#?}");
        Ok(())
    })
    .await
    .unwrap();
}

async fn read(cluster: &Cluster, what: &[&str]) -> Result<Value> {
    let output = cluster
        .kubectl(what.iter().copied().chain(["-o", "json"]))
        .await?;
    serde_json::from_str(&output).context("read JSON of kubectl")
}

async fn apply(cluster: &Cluster, manifests: &Value) {
    let file = cluster.folder().unwrap().join("manifests.json");
    std::fs::write(&file, manifests.to_string()).unwrap();
    cluster
        .kubectl(["apply", "-f", file.to_str().unwrap()])
        .await
        .unwrap();
}

/// Makes by hand what clusternet leaves of a registration: a namespace with a service account that may do everything in
/// it, and the Secret in the member.
async fn register_as_clusternet(control: &Cluster, member: &Cluster, name: &str) {
    let namespace = format!("clusternet-{name}");
    let token = "cluster-token";
    let group = "rbac.authorization.k8s.io";
    let here = json!({ "name": token, "namespace": namespace });
    apply(control, &json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace, "labels": {
            "clusters.clusternet.io/cluster-id": format!("0000-{name}"), "clusters.clusternet.io/cluster-name": name,
            "clusters.clusternet.io/created-by": "clusternet-hub",
        } } },
        { "apiVersion": "v1", "kind": "ServiceAccount", "metadata": here },
        { "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": here,
          "rules": [{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }] },
        { "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": here,
          "roleRef": { "apiGroup": group, "kind": "Role", "name": token },
          "subjects": [{ "kind": "ServiceAccount", "name": token, "namespace": namespace }] },
        { "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
          "metadata": { "name": token, "namespace": namespace, "annotations": { "kubernetes.io/service-account.name": token } } },
    ] }))
    .await;
    let made = eventually_within(TIMEOUT, "the token is there", async || {
        let secret = read(control, &["get", "secret", token, "-n", &namespace]).await?;
        ensure!(secret["data"]["token"].is_string(), "no token yet");
        Ok(secret)
    })
    .await
    .unwrap();
    let url = read(control, &["config", "view", "--raw"]).await.unwrap();
    let url = url["clusters"][0]["cluster"]["server"]
        .as_str()
        .unwrap()
        .to_owned();
    let place = json!({ "name": "parent-cluster", "namespace": "clusternet-system" });
    apply(
        member,
        &json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "clusternet-system" } },
        { "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": place,
          "data": { "token": made["data"]["token"], "ca.crt": made["data"]["ca.crt"] },
          "stringData": { "parent-url": url, "namespace": namespace } },
    ] }),
    )
    .await;
}

/// Runs the program and gives what it printed.
fn edgegrid(args: &[&str]) -> Result<String> {
    let output = Command::new(binary()?).args(args).output()?;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.success(),
        "edgegrid {}: {error}",
        args.join(" ")
    );
    Ok(String::from_utf8(output.stdout)?)
}

fn join(control: &Cluster, member: &Cluster, name: &str) -> Result<String> {
    let (parent, own) = (
        control.kubeconfig()?.to_str().unwrap(),
        member.kubeconfig()?.to_str().unwrap(),
    );
    edgegrid(&[
        "join",
        "--parent-kubeconfig",
        parent,
        "--kubeconfig",
        own,
        "--name",
        name,
    ])
}

/// The seed's example, from creating the grid to the status that it prints.
async fn the_seeds_example(clusters: &Clusters) {
    let Clusters { control, a, b, .. } = clusters;
    control
        .kubectl(["apply", "-f", &fixture(DEMO)])
        .await
        .unwrap();
    shows(
        a,
        &["get", "deploy"],
        &["deploymentgrid-demo-zone1 2/2 2 2"],
    )
    .await;
    assert_eq!(
        b.kubectl(["get", "deploy", "-A", "-o", "name"])
            .await
            .unwrap(),
        ""
    );

    edits_are_put_back(a).await;

    b.kubectl(["label", "node", "b-1", "zone=zone2"])
        .await
        .unwrap();
    shows(
        b,
        &["get", "deploy"],
        &["deploymentgrid-demo-zone2 3/3 3 3"],
    )
    .await;
    all_states_are_in_one_status(control).await;
}

async fn edits_are_put_back(a: &Cluster) {
    a.kubectl([
        "scale",
        "deployment",
        "deploymentgrid-demo-zone1",
        "--replicas=5",
    ])
    .await
    .unwrap();
    let edit = r#"{"spec":{"templatePool":{"test1":{"replicas":4,"paused":true}}}}"#;
    a.kubectl([
        "patch",
        "dg",
        "deploymentgrid-demo",
        "--type=merge",
        "-p",
        edit,
    ])
    .await
    .unwrap();
    eventually_within(TIMEOUT, "the edits are put back", async || {
        let grid = read(a, &["get", "dg", "deploymentgrid-demo"]).await?;
        let pool = &grid["spec"]["templatePool"]["test1"];
        ensure!(
            pool["replicas"] == 2 && pool.get("paused").is_none(),
            "{pool}"
        );
        Ok(())
    })
    .await
    .unwrap();
    shows(
        a,
        &["get", "deploy"],
        &["deploymentgrid-demo-zone1 2/2 2 2"],
    )
    .await;
}

async fn all_states_are_in_one_status(control: &Cluster) {
    eventually_within(
        TIMEOUT,
        "the states are as the seed prints them",
        async || {
            let grid = read(control, &["get", "dg", "deploymentgrid-demo"]).await?;
            let states = grid["status"]["states"].as_object().context("no states")?;
            ensure!(states.len() == 2, "{states:#?}");
            for (unit, replicas) in [("zone1", 2), ("zone2", 3)] {
                let state = &states[unit];
                let condition = &state["conditions"][0];
                ensure!(
                    state["replicas"] == replicas && state["readyReplicas"] == replicas,
                    "{state:#}"
                );
                ensure!(
                    condition["type"] == "Available" && condition["status"] == "True",
                    "{state:#}"
                );
                ensure!(
                    condition["reason"] == "MinimumReplicasAvailable",
                    "{state:#}"
                );
                ensure!(
                    condition["message"] == "Deployment has minimum availability.",
                    "{state:#}"
                );
            }
            Ok(())
        },
    )
    .await
    .unwrap();
}

/// Deletes a grid in the control cluster and waits until it is gone everywhere.
async fn deleted_everywhere(clusters: &Clusters, kind: &str, name: &str) {
    clusters
        .control
        .kubectl(["delete", kind, name, "--timeout=180s"])
        .await
        .unwrap();
    for cluster in [&clusters.control, &clusters.a, &clusters.b] {
        assert_eq!(
            cluster
                .kubectl(["get", kind, "-A", "-o", "name"])
                .await
                .unwrap(),
            ""
        );
    }
}

#[tokio::test]
async fn the_seeds_example_with_a_registration_as_clusternet_leaves_it() {
    let clusters = clusters().await;
    register_as_clusternet(&clusters.control, &clusters.a, "a").await;
    register_as_clusternet(&clusters.control, &clusters.b, "b").await;
    the_seeds_example(&clusters).await;
    deleted_everywhere(&clusters, "dg", "deploymentgrid-demo").await;
}

#[tokio::test]
async fn members_join_get_grids_of_all_kinds_have_no_other_rights_and_leave() {
    let clusters = clusters().await;
    let Clusters { control, a, b, .. } = &clusters;
    join(control, a, "a").unwrap();
    join(control, b, "b").unwrap();
    all_kinds(&clusters).await;
    rights(control, a).await;
    rotation(&clusters).await;
    leaving(&clusters).await;
}

async fn all_kinds(clusters: &Clusters) {
    let Clusters { control, a, b, .. } = clusters;
    for grid in [
        "seeds/001-statefulsetgrid.yaml",
        "seeds/001-servicegrid.yaml",
    ] {
        control
            .kubectl(["apply", "-f", &fixture(grid)])
            .await
            .unwrap();
    }
    for (kind, name) in [("ssg", "statefulsetgrid-demo"), ("sg", "servicegrid-demo")] {
        control
            .kubectl(["label", kind, name, "superedge.io/fed=yes"])
            .await
            .unwrap();
        let key = r#"{"spec":{"gridUniqKey":"zone"}}"#;
        control
            .kubectl(["patch", kind, name, "--type=merge", "-p", key])
            .await
            .unwrap();
    }
    the_seeds_example(clusters).await;
    for (cluster, unit) in [(a, "zone1"), (b, "zone2")] {
        shows(
            cluster,
            &["get", "statefulset"],
            &[&format!("statefulsetgrid-demo-{unit} 3/3")],
        )
        .await;
        eventually_within(TIMEOUT, "the Service is there", async || {
            read(cluster, &["get", "service", "servicegrid-demo-svc"])
                .await
                .map(drop)
        })
        .await
        .unwrap();
    }
    let kubeconfig = control.kubeconfig().unwrap().to_str().unwrap();
    eventually_within(TIMEOUT, "both members are listed as in step", async || {
        let listed = edgegrid(&["get", "clusters", "--kubeconfig", kubeconfig])?;
        let lines: Vec<Vec<&str>> = listed
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        ensure!(lines.len() == 3, "{listed}");
        for (line, name) in lines[1..].iter().zip(["a", "b"]) {
            let namespace = format!("edgegrid-{name}");
            ensure!(
                line[..2] == [name, namespace.as_str()] && line.contains(&"ago"),
                "{listed}"
            );
            ensure!(line[line.len() - 3..] == ["1", "3", "-"], "{listed}");
        }
        Ok(())
    })
    .await
    .unwrap();
}

async fn registration(member: &Cluster) -> (Access, String) {
    let secrets: Api<Secret> = Api::namespaced(member.client(), parent_secret::NAMESPACE);
    let data = secrets
        .get(parent_secret::NAME)
        .await
        .unwrap()
        .data
        .unwrap();
    let text = |key: &str| String::from_utf8(data[key].0.clone()).unwrap();
    let access = Access {
        url: text(parent_secret::URL),
        token: text(parent_secret::TOKEN),
        certificate_authority: Some(data[parent_secret::CA].0.clone()),
    };
    (access, text(parent_secret::MEMBER_NAMESPACE))
}

const VERBS: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];

/// All that a member may do, found by asking for every kind, verb and namespace.
async fn rights(control: &Cluster, member: &Cluster) {
    let (access, own) = registration(member).await;
    let client = connect_with_token(&access, "test").await.unwrap();
    let mut granted = BTreeSet::new();
    let found = discovery::Discovery::new(control.client());
    let found = found.run().await.unwrap();
    let kinds = found
        .groups()
        .flat_map(discovery::ApiGroup::recommended_resources);
    for asked in kinds.flat_map(|(kind, able)| questions(&kind, &able, &own)) {
        if is_allowed(&client, asked.clone()).await {
            granted.insert(in_words(&asked));
        }
    }
    // What Kubernetes lets every service account do: ask who it is and what it may, and whom to trust.
    granted.retain(|line| !line.contains("selfsubject") && !line.contains("clustertrustbundles"));
    let mut expected = BTreeSet::new();
    for name in ["any", "edgegrid-member"] {
        for kind in ["deploymentgrids", "statefulsetgrids", "servicegrids"] {
            for verb in ["get", "list", "watch"] {
                expected.insert(format!("{verb} {kind} {name} in {own}"));
            }
            expected.insert(format!("patch {kind}/status {name} in {own}"));
        }
    }
    for verb in ["get", "patch"] {
        expected.insert(format!("{verb} leases edgegrid-member in {own}"));
    }
    assert_eq!(granted, expected);
}

/// Every verb on a kind and its subresources, in each namespace, with and without the Lease's name.
fn questions(
    kind: &kube::core::ApiResource,
    able: &discovery::ApiCapabilities,
    own: &str,
) -> Vec<ResourceAttributes> {
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let below = able
        .subresources
        .iter()
        .map(|(below, _)| Some(last(&below.plural)));
    let below: Vec<Option<String>> = below.chain([None]).collect();
    let mut questions = Vec::new();
    for namespace in [own, "edgegrid-b", "default", "kube-system", ""] {
        let named = [None, Some("edgegrid-member")].into_iter();
        let pairs = named.flat_map(|name| VERBS.map(|verb| (name, verb)));
        let all = pairs.flat_map(|pair| below.iter().map(move |below| (pair, below)));
        questions.extend(all.map(|((name, verb), below)| ResourceAttributes {
            group: Some(kind.group.clone()),
            resource: Some(kind.plural.clone()),
            subresource: below.clone(),
            namespace: Some(namespace.to_owned()),
            verb: Some(verb.to_owned()),
            name: name.map(str::to_owned),
            ..ResourceAttributes::default()
        }));
    }
    questions
}

fn in_words(asked: &ResourceAttributes) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let below = asked.subresource.iter().map(|below| format!("/{below}"));
    let path: String = [text(&asked.resource)].into_iter().chain(below).collect();
    let name = asked.name.as_deref().unwrap_or("any");
    format!(
        "{} {path} {name} in {}",
        text(&asked.verb),
        text(&asked.namespace)
    )
}

async fn is_allowed(client: &Client, asked: ResourceAttributes) -> bool {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(asked),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let answer = reviews
        .create(&PostParams::default(), &review)
        .await
        .unwrap();
    answer.status.is_some_and(|status| status.allowed)
}

/// Joining again gives another token, the old one is worth nothing, and nothing is restarted.
async fn rotation(clusters: &Clusters) {
    let Clusters { control, a, .. } = clusters;
    let (before, namespace) = registration(a).await;
    join(control, a, "a").unwrap();
    let (after, _) = registration(a).await;
    assert_ne!(before.token, after.token);
    let old = connect_with_token(&before, "test").await.unwrap();
    eventually_within(TIMEOUT, "the old token is refused", async || {
        let copies: Api<edgegrid_api::DeploymentGrid> = Api::namespaced(old.clone(), &namespace);
        let answer = copies.list(&kube::api::ListParams::default()).await;
        ensure!(answer.is_err(), "it is still accepted");
        Ok(())
    })
    .await
    .unwrap();
    let change = r#"{"spec":{"template":{"replicas":1}}}"#;
    control
        .kubectl([
            "patch",
            "ssg",
            "statefulsetgrid-demo",
            "--type=merge",
            "-p",
            change,
        ])
        .await
        .unwrap();
    shows(
        a,
        &["get", "statefulset"],
        &["statefulsetgrid-demo-zone1 1/1"],
    )
    .await;
}

/// One member goes with all that came from the control cluster, the other is lost and keeps what it has.
async fn leaving(clusters: &Clusters) {
    let Clusters { control, a, b, .. } = clusters;
    let (parent, own) = (
        control.kubeconfig().unwrap().to_str().unwrap(),
        a.kubeconfig().unwrap().to_str().unwrap(),
    );
    edgegrid(&[
        "leave",
        "--parent-kubeconfig",
        parent,
        "--kubeconfig",
        own,
        "--name",
        "a",
        "--purge",
    ])
    .unwrap();
    edgegrid(&[
        "leave",
        "--parent-kubeconfig",
        parent,
        "--name",
        "b",
        "--force",
    ])
    .unwrap();
    for kind in ["dg", "ssg", "sg"] {
        eventually_within(
            TIMEOUT,
            "nothing is left in the purged member",
            async || {
                let left = a.kubectl(["get", kind, "-A", "-o", "name"]).await?;
                ensure!(left.is_empty(), "{left}");
                Ok(())
            },
        )
        .await
        .unwrap();
    }
    for (kind, name) in [
        ("dg", "deploymentgrid-demo"),
        ("ssg", "statefulsetgrid-demo"),
        ("sg", "servicegrid-demo"),
    ] {
        control
            .kubectl(["delete", kind, name, "--timeout=180s"])
            .await
            .unwrap();
        b.kubectl(["get", kind, name]).await.unwrap();
    }
    for name in ["edgegrid-a", "edgegrid-b"] {
        control
            .kubectl([
                "wait",
                "--for=delete",
                &format!("namespace/{name}"),
                "--timeout=180s",
            ])
            .await
            .unwrap();
    }
}
