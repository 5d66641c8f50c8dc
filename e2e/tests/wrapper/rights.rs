//! The wrapper and the agent can do what they need, and nothing else.

use std::collections::BTreeSet;

use edgegrid_testkit::edgegrid::{AGENT_ACCOUNT, Settings, WRAPPER_ACCOUNT, Wrapper};
use edgegrid_testkit::{Cluster, eventually};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::discovery::Discovery;
use kube::{Api, Client};
use serde_json::json;

const VERBS: [&str; 9] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "impersonate",
];
/// What `deploy/wrapper` grants, beyond what every account may do.
const GRANTED: [&str; 17] = [
    "authentication.k8s.io/tokenreviews create",
    "core/endpoints list",
    "core/endpoints watch",
    "core/events create",
    "core/events patch",
    "core/namespaces list",
    "core/namespaces watch",
    "core/nodes list",
    "core/nodes watch",
    "core/services list",
    "core/services watch",
    "discovery.k8s.io/endpointslices list",
    "discovery.k8s.io/endpointslices watch",
    "events.k8s.io/events create",
    "events.k8s.io/events patch",
    "networking.k8s.io/servicecidrs list",
    "networking.k8s.io/servicecidrs watch",
];

/// What `deploy/agent` grants besides.
const GRANTED_TO_AGENT: [&str; 2] = ["apps/statefulsets list", "apps/statefulsets watch"];

#[tokio::test]
async fn every_verb_that_it_does_not_need_is_refused() {
    let cluster = Cluster::upstream().await.unwrap();
    crate::two_units(&cluster).await;
    let settings = Settings::for_node(&cluster, "a-0").await.unwrap();
    expect_exactly(&cluster, settings, WRAPPER_ACCOUNT, &GRANTED).await;
}

// SuperEdge leaves a token with every right on pods, nodes and sets on every edge machine.
#[tokio::test]
async fn the_agent_may_read_stateful_sets_besides_and_nothing_else() {
    let cluster = Cluster::upstream().await.unwrap();
    crate::two_units(&cluster).await;
    let settings = Settings::of_agent(&cluster, "a-0").await.unwrap();
    let mut granted = [&GRANTED[..], &GRANTED_TO_AGENT].concat();
    granted.sort_unstable();
    expect_exactly(&cluster, settings, AGENT_ACCOUNT, &granted).await;
}

async fn expect_exactly(
    cluster: &Cluster,
    settings: Settings,
    (namespace, name): (&str, &str),
    granted: &[&str],
) {
    let wrapper = Wrapper::start(settings).await.unwrap();
    wrapper.wait_until_ready().await.unwrap();
    eventually("Endpoints can be read too", async || {
        wrapper.get("/api/v1/endpoints").await.map(drop)
    })
    .await
    .unwrap();
    let client = cluster.client_as_service_account(namespace, name);
    let mine = allowed(client.await.unwrap()).await;
    let nobody = json!({ "metadata": { "name": "nobody", "namespace": namespace } });
    let nobody = crate::object::<ServiceAccount>(&nobody);
    cluster.apply::<ServiceAccount>(nobody).await.unwrap();
    let client = cluster.client_as_service_account(namespace, "nobody");
    let everybodys = allowed(client.await.unwrap()).await;
    let mine: Vec<&String> = mine.difference(&everybodys).collect();
    assert_eq!(mine, granted);
    let log = std::fs::read_to_string(wrapper.process().log()).unwrap();
    assert!(!log.contains("403"), "it lacks a right: {log}");
}

/// Everything that exists, asked for with every verb.
async fn allowed(client: Client) -> BTreeSet<String> {
    let found = Discovery::new(client.clone()).run().await.unwrap();
    let mut questions = Vec::new();
    for group in found.groups() {
        for (resource, _) in group.recommended_resources() {
            questions.extend(VERBS.map(|verb| (resource.clone(), verb)));
        }
    }
    assert!(questions.len() > 300, "{}", questions.len());
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client);
    stream::iter(questions)
        .map(async |(resource, verb)| {
            let mut review = SelfSubjectAccessReview::default();
            review.spec.resource_attributes = Some(ResourceAttributes {
                group: Some(resource.group.clone()),
                resource: Some(resource.plural.clone()),
                verb: Some(verb.to_owned()),
                ..ResourceAttributes::default()
            });
            let answer = reviews.create(&PostParams::default(), &review).await?;
            let group = Some(&*resource.group).filter(|group| !group.is_empty());
            let name = format!("{}/{} {verb}", group.unwrap_or("core"), resource.plural);
            let allowed = answer.status.is_some_and(|status| status.allowed);
            Ok::<_, kube::Error>(allowed.then_some(name))
        })
        .buffer_unordered(16)
        .try_filter_map(async |name| Ok(name))
        .try_collect()
        .await
        .unwrap()
}
