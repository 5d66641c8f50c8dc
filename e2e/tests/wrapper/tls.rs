//! Beyond loopback: who shows no certificate or token is nobody, and a token counts while the
//! cluster cannot be asked too.

use std::path::Path;

use edgegrid_testkit::Cluster;
use edgegrid_testkit::edgegrid::{Settings, Wrapper};
use edgegrid_testkit::eventually;
use http::{Request, StatusCode};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::DeleteParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;

const SERVICES: &str = "/api/v1/services";

/// A client of the wrapper with the identity of one of the cluster's kubeconfigs.
async fn through(wrapper: &Wrapper, kubeconfig: &Path) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(file, &options)
        .await
        .unwrap();
    config.cluster_url = format!("https://{}", wrapper.address()).parse().unwrap();
    Client::try_from(config).unwrap()
}

async fn code(client: &Client, path: &str) -> StatusCode {
    let request = Request::get(path).body(kube::client::Body::empty());
    client.send(request.unwrap()).await.unwrap().status()
}

async fn account(cluster: &Cluster, namespace: &str, name: &str) -> std::path::PathBuf {
    let space = json!({ "metadata": { "name": namespace } });
    cluster
        .apply::<Namespace>(crate::object::<Namespace>(&space))
        .await
        .unwrap();
    let account = json!({ "metadata": { "name": name, "namespace": namespace } });
    cluster
        .apply::<ServiceAccount>(crate::object::<ServiceAccount>(&account))
        .await
        .unwrap();
    let kubeconfig = cluster.kubeconfig_as_service_account(namespace, name);
    kubeconfig.await.unwrap()
}

async fn with_tls(cluster: &Cluster) -> Wrapper {
    let settings = Settings::for_node(cluster, "a-0").await.unwrap();
    let pki = cluster.folder().unwrap().join("pki");
    let file = |name: &str| pki.join(name).to_string_lossy().into_owned();
    let (certificate, key, authority) = (file("server.crt"), file("server.key"), file("ca.crt"));
    let settings = settings.with([
        "--insecure=false",
        "--bearer-tokens",
        "--cert-file",
        &certificate,
        "--key-file",
        &key,
        "--ca-file",
        &authority,
    ]);
    Wrapper::start(settings).await.unwrap()
}

async fn answers(client: &Client, wanted: StatusCode) {
    eventually("the right answer comes", async || {
        let code = code(client, SERVICES).await;
        anyhow::ensure!(code == wanted, "{code}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn over_tls_only_who_is_known_and_allowed_may_read_online_and_cut_off() {
    let cluster = Cluster::upstream().await.unwrap();
    crate::two_units(&cluster).await;
    let wrapper = with_tls(&cluster).await;
    let proxy = cluster.kubeconfig_as("system:kube-proxy", None).unwrap();
    let mallory = cluster.kubeconfig_as("mallory", None).unwrap();
    let coredns = account(&cluster, "kube-system", "coredns").await;
    let other = account(&cluster, "default", "other").await;
    answers(&through(&wrapper, &proxy).await, StatusCode::OK).await;
    answers(&through(&wrapper, &coredns).await, StatusCode::OK).await;
    for kubeconfig in [&mallory, &other] {
        let client = through(&wrapper, kubeconfig).await;
        assert_eq!(code(&client, SERVICES).await, StatusCode::FORBIDDEN);
        assert_eq!(code(&client, "/metrics").await, StatusCode::FORBIDDEN);
        assert_eq!(code(&client, "/readyz").await, StatusCode::OK);
    }
    assert!(
        wrapper.get("/readyz").await.is_err(),
        "plain HTTP is refused"
    );

    // An account that is gone has a token that is still signed and timely.
    let gone = account(&cluster, "kube-system", "kube-proxy").await;
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), "kube-system");
    let params = DeleteParams::default();
    accounts.delete("kube-proxy", &params).await.unwrap();
    let client = through(&wrapper, &gone).await;
    answers(&client, StatusCode::UNAUTHORIZED).await;

    cluster.stop_api_server().unwrap();
    let wrapper = wrapper.restart().await.unwrap();
    for (kubeconfig, wanted) in [
        (&coredns, StatusCode::OK),
        (&proxy, StatusCode::OK),
        (&other, StatusCode::FORBIDDEN),
        (&mallory, StatusCode::FORBIDDEN),
    ] {
        let client = through(&wrapper, kubeconfig).await;
        assert_eq!(code(&client, SERVICES).await, wanted, "{kubeconfig:?}");
    }
}
