//! Identity and rights of a controller, from the one list next to its code.

use anyhow::Result;
use edgegrid_api::names;
use edgegrid_runtime::rbac::Rule;
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

use super::{labels, manifest};

const GROUP: &str = "rbac.authorization.k8s.io";
const VERSION: &str = "rbac.authorization.k8s.io/v1";

/// Who a controller is, and what it may do.
pub(super) struct Account {
    name: &'static str,
    everywhere: Vec<PolicyRule>,
    /// In the namespace of its lease.
    at_home: Vec<PolicyRule>,
}

impl Account {
    /// That of `edgegrid controller`.
    pub(super) fn of_grids() -> Self {
        Self::new(names::CONTROLLER, edgegrid_controllers::rbac::RULES)
    }

    /// That of `edgegrid statefulset`.
    pub(super) fn of_sets() -> Self {
        Self::new(
            names::STATEFULSET_CONTROLLER,
            edgegrid_statefulset::rbac::RULES,
        )
    }

    /// Account and lease have one name.
    fn new(name: &'static str, rules: &[Rule]) -> Self {
        let (here, there): (Vec<_>, Vec<_>) = rules.iter().partition(|rule| rule.is_namespaced());
        let policies = |rules: Vec<&Rule>| rules.iter().map(|rule| rule.policy(name)).collect();
        Self {
            name,
            everywhere: policies(there),
            at_home: policies(here),
        }
    }

    /// Namespace, service account, roles and what binds them.
    pub(super) fn manifests(&self, namespace: &str) -> Result<Vec<Value>> {
        let everywhere = json!({ "name": self.name, "labels": labels(self.name) });
        let mut here = everywhere.clone();
        here["namespace"] = json!(namespace);
        // The same in the manifests of all: whichever is applied last changes nothing.
        let space = json!({ "name": namespace, "labels": labels(names::CONTROLLER) });
        let rules = |rules: &[PolicyRule]| json!({ "rules": rules });
        Ok(vec![
            manifest(("v1", "Namespace"), space, json!({}))?,
            manifest(("v1", "ServiceAccount"), here.clone(), json!({}))?,
            manifest(
                (VERSION, "ClusterRole"),
                everywhere.clone(),
                rules(&self.everywhere),
            )?,
            manifest(
                (VERSION, "ClusterRoleBinding"),
                everywhere,
                self.bound("ClusterRole", namespace),
            )?,
            manifest((VERSION, "Role"), here.clone(), rules(&self.at_home))?,
            manifest(
                (VERSION, "RoleBinding"),
                here,
                self.bound("Role", namespace),
            )?,
        ])
    }

    fn bound(&self, role: &str, namespace: &str) -> Value {
        let role = json!({ "apiGroup": GROUP, "kind": role, "name": self.name });
        let account =
            json!([{ "kind": "ServiceAccount", "name": self.name, "namespace": namespace }]);
        json!({ "roleRef": role, "subjects": account })
    }
}
