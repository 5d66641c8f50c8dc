//! The controller's identity and rights, from the one list in `controllers::rbac`.

use anyhow::Result;
use edgegrid_api::names;
use edgegrid_controllers::rbac::{RULES, Rule};
use serde_json::{Value, json};

use super::{labels, manifest};

const GROUP: &str = "rbac.authorization.k8s.io";
const VERSION: &str = "rbac.authorization.k8s.io/v1";

/// Namespace, service account, roles and what binds them.
pub(super) fn manifests(namespace: &str) -> Result<Vec<Value>> {
    let everywhere = json!({ "name": names::CONTROLLER, "labels": labels() });
    let mut here = everywhere.clone();
    here["namespace"] = json!(namespace);
    let account = json!([{
        "kind": "ServiceAccount",
        "name": names::CONTROLLER,
        "namespace": namespace,
    }]);
    let bound = |role: &str| {
        let role = json!({ "apiGroup": GROUP, "kind": role, "name": names::CONTROLLER });
        json!({ "roleRef": role, "subjects": account })
    };
    let space = json!({ "name": namespace, "labels": labels() });
    Ok(vec![
        manifest(("v1", "Namespace"), space, json!({}))?,
        manifest(("v1", "ServiceAccount"), here.clone(), json!({}))?,
        manifest((VERSION, "ClusterRole"), everywhere.clone(), rules(false))?,
        manifest(
            (VERSION, "ClusterRoleBinding"),
            everywhere,
            bound("ClusterRole"),
        )?,
        manifest((VERSION, "Role"), here.clone(), rules(true))?,
        manifest((VERSION, "RoleBinding"), here, bound("Role"))?,
    ])
}

fn rules(is_namespaced: bool) -> Value {
    let rules = RULES
        .iter()
        .filter(|rule| rule.is_namespaced() == is_namespaced);
    json!({ "rules": rules.map(Rule::policy).collect::<Vec<_>>() })
}
