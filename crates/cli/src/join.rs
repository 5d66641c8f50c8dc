//! `edgegrid join`: makes a cluster a member of a control cluster, as clusternet would.
//!
//! ```text
//! control cluster: namespace ─ service account, role, token      member: Secret clusternet-system/parent-cluster
//! ```

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use edgegrid_api::names::{MEMBER_ACCOUNT, YES, annotation, label, parent_secret};
use edgegrid_controllers::rbac::MEMBER_RULES;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::federation::{Cluster, Control, is_joined};
use crate::{output, service};

/// How long Kubernetes may take to make a token.
const TOKEN_WAIT: Duration = Duration::from_secs(30);
/// Type and annotation by which Kubernetes makes a token that does not expire.
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
const TOKEN_ACCOUNT: &str = "kubernetes.io/service-account.name";

/// Register this cluster with a control cluster, which distributes grids labelled superedge.io/fed=yes to it.
///
/// Creates a namespace in the control cluster, with a service account that has no rights outside of it, and the Secret
/// clusternet-system/parent-cluster here. Running it again rotates the token. `edgegrid leave` undoes it.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    control: Control,

    /// Path to a kubeconfig file of this cluster. Default: $KUBECONFIG, ~/.kube/config, then the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Name of the member. Default: one made of the uid of namespace kube-system.
    #[arg(long)]
    name: Option<String>,

    /// URL at which this cluster reaches the API server of the control cluster. Default: that in
    /// --parent-kubeconfig.
    #[arg(long, value_name = "URL")]
    parent_url: Option<String>,
}

pub(crate) fn run(args: Args) -> Result<()> {
    service::block_on(join(args))
}

async fn join(args: Args) -> Result<()> {
    let control = Cluster::reach(Some(&args.control.parent_kubeconfig)).await?;
    let member = Cluster::reach(args.kubeconfig.as_deref()).await?;
    let url = match &args.parent_url {
        Some(url) => url.clone(),
        None => url_of(&args).await?,
    };
    let id = identity(&member).await?;
    let name = args
        .name
        .unwrap_or_else(|| format!("member-{}", id.get(..8).unwrap_or(&id)));
    let namespace = format!("edgegrid-{name}");
    check_namespace(&control, (&id, &namespace)).await?;
    check_registration(&member, &namespace).await?;
    make_account(&control, (&id, &name), &namespace).await?;
    let (token, authority, secret) = make_token(&control, &namespace).await?;
    register(
        &member,
        &json!({
            parent_secret::URL: url,
            parent_secret::TOKEN: token,
            parent_secret::CA: authority,
            parent_secret::MEMBER_NAMESPACE: namespace,
        }),
    )
    .await?;
    drop_older_tokens(&control, &namespace, &secret).await?;
    output::print(&format!(
        "{name} is a member; its namespace in the control cluster is {namespace}\n"
    ))
    .context("print the result")
}

/// Where the control cluster is, as its kubeconfig says.
async fn url_of(args: &Args) -> Result<String> {
    let path = &args.control.parent_kubeconfig;
    let read =
        Kubeconfig::read_from(path).with_context(|| format!("kubeconfig {}", path.display()))?;
    let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("kubeconfig {}", path.display()))?;
    Ok(config
        .cluster_url
        .to_string()
        .trim_end_matches('/')
        .to_owned())
}

/// What stays the same as long as a cluster lives: the uid of a namespace that cannot be deleted.
async fn identity(member: &Cluster) -> Result<String> {
    let namespaces: Api<Namespace> = Api::all(member.client.clone());
    let oldest = namespaces
        .get("kube-system")
        .await
        .context("read namespace kube-system of this cluster")?;
    oldest
        .metadata
        .uid
        .context("namespace kube-system has no uid")
}

/// Refuses a cluster that is a member already, and a namespace that is somebody else's.
async fn check_namespace(control: &Cluster, (id, namespace): (&str, &str)) -> Result<()> {
    for known in control.members().await? {
        let is_same = known
            .labels()
            .get(label::CLUSTER_ID)
            .is_some_and(|own| own == id);
        let other = known.name_any();
        ensure!(
            !is_same || other == namespace,
            "this cluster is already a member, with namespace {other} in the control cluster: run `edgegrid leave` first"
        );
        ensure!(
            is_same || other != namespace,
            "namespace {namespace} of the control cluster belongs to another member: choose another --name"
        );
    }
    let namespaces: Api<Namespace> = Api::all(control.client.clone());
    let found = namespaces
        .get_opt(namespace)
        .await
        .with_context(|| format!("read namespace {namespace}"))?;
    ensure!(
        found.as_ref().is_none_or(is_joined),
        "namespace {namespace} of the control cluster was not created by edgegrid: choose another --name"
    );
    Ok(())
}

/// Refuses a cluster that somebody else registered, or another namespace.
async fn check_registration(member: &Cluster, namespace: &str) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(member.client.clone(), parent_secret::NAMESPACE);
    let found = secrets
        .get_opt(parent_secret::NAME)
        .await
        .context("read the Secret that registers this cluster")?;
    let Some(found) = found else { return Ok(()) };
    let at = format!(
        "Secret {}/{}",
        parent_secret::NAMESPACE,
        parent_secret::NAME
    );
    ensure!(
        is_joined(&found),
        "{at} was not created by edgegrid, but by clusternet or by hand: end that membership first"
    );
    let own = value(&found, parent_secret::MEMBER_NAMESPACE).unwrap_or_default();
    ensure!(
        own == namespace,
        "{at} registers this cluster with namespace {own}: run `edgegrid leave` first"
    );
    Ok(())
}

async fn make_account(control: &Cluster, (id, name): (&str, &str), namespace: &str) -> Result<()> {
    let joined = json!({ annotation::JOINED: YES });
    let labels = json!({ label::CLUSTER_ID: id, label::CLUSTER_NAME: name });
    let metadata = json!({ "metadata": { "labels": labels, "annotations": joined } });
    let at = (namespace, MEMBER_ACCOUNT);
    let rules: Vec<_> = MEMBER_RULES
        .iter()
        .map(|rule| rule.policy(MEMBER_ACCOUNT))
        .collect();
    let role =
        json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": MEMBER_ACCOUNT });
    let account =
        json!([{ "kind": "ServiceAccount", "name": MEMBER_ACCOUNT, "namespace": namespace }]);
    control
        .apply::<Namespace>(("", namespace), &metadata)
        .await?;
    control.apply::<ServiceAccount>(at, &json!({})).await?;
    control
        .apply::<Role>(at, &json!({ "rules": rules }))
        .await?;
    control
        .apply::<RoleBinding>(at, &json!({ "roleRef": role, "subjects": account }))
        .await
}

/// A token that does not expire, the certificate authority that comes with it, and where they are.
async fn make_token(control: &Cluster, namespace: &str) -> Result<(String, String, String)> {
    let secrets: Api<Secret> = Api::namespaced(control.client.clone(), namespace);
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {
            "generateName": format!("{MEMBER_ACCOUNT}-"),
            "annotations": { TOKEN_ACCOUNT: MEMBER_ACCOUNT },
        },
        "type": TOKEN_TYPE,
    }))?;
    let made = secrets.create(&PostParams::default(), &secret).await;
    let name = made
        .with_context(|| format!("create a token in namespace {namespace}"))?
        .name_any();
    let deadline = Instant::now() + TOKEN_WAIT;
    loop {
        let found = secrets
            .get(&name)
            .await
            .with_context(|| format!("read Secret {namespace}/{name}"))?;
        let authority = value(&found, parent_secret::CA).unwrap_or_default();
        if let Some(token) = value(&found, parent_secret::TOKEN) {
            return Ok((token, authority, name));
        }
        if Instant::now() >= deadline {
            bail!(
                "Secret {namespace}/{name} got no token: is the control cluster's kube-controller-manager running?"
            );
        }
        sleep(Duration::from_millis(200)).await;
    }
}

async fn register(member: &Cluster, data: &Value) -> Result<()> {
    let metadata = json!({ "annotations": { annotation::JOINED: YES } });
    let at = (parent_secret::NAMESPACE, parent_secret::NAME);
    member
        .apply::<Namespace>(("", parent_secret::NAMESPACE), &json!({}))
        .await?;
    // Not `stringData`, whose owner apply would never see again.
    let encoded: Value = data
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| {
            let bytes = value.as_str().unwrap_or_default().as_bytes().to_vec();
            (key.clone(), json!(k8s_openapi::ByteString(bytes)))
        })
        .collect::<serde_json::Map<_, _>>()
        .into();
    member
        .apply::<Secret>(
            at,
            &json!({ "metadata": metadata, "type": "Opaque", "data": encoded }),
        )
        .await
}

/// The member uses the new token by now.
async fn drop_older_tokens(control: &Cluster, namespace: &str, newest: &str) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(control.client.clone(), namespace);
    let all = secrets.list(&kube::api::ListParams::default()).await;
    for secret in all.with_context(|| format!("list the tokens in {namespace}"))? {
        let is_of_member = secret
            .annotations()
            .get(TOKEN_ACCOUNT)
            .is_some_and(|own| own == MEMBER_ACCOUNT);
        if is_of_member && secret.name_any() != newest {
            control.delete(&secret).await?;
        }
    }
    Ok(())
}

fn value(secret: &Secret, key: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(key)?;
    String::from_utf8(bytes.0.clone()).ok()
}
