//! What the controller may do in a cluster: the one list from which `deploy/rbac` is generated.
//!
//! Secrets, pods and the like are not in it and never read.

use edgegrid_api::names;
use edgegrid_runtime::rbac::{Objects, Rule};
use kube::ResourceExt;

/// All that the controller may do. An apply that makes an object needs `create` besides `patch`.
pub const RULES: &[Rule] = &[
    Rule {
        group: "",
        resources: &["nodes"],
        objects: Objects::All,
        verbs: &["get", "list", "watch", "patch"],
        why: "units are made of node labels; labels, annotations, taints and cordons of units",
    },
    Rule {
        group: "",
        resources: &["services"],
        objects: Objects::All,
        verbs: &["list", "watch", "create", "patch", "delete"],
        why: "the Service of a ServiceGrid",
    },
    Rule {
        group: "apps",
        resources: &["deployments", "statefulsets"],
        objects: Objects::All,
        verbs: &["list", "watch", "create", "patch", "delete"],
        why: "the workloads of a grid, one per unit",
    },
    Rule {
        group: names::GRID_GROUP,
        resources: &["deploymentgrids", "statefulsetgrids", "servicegrids"],
        objects: Objects::All,
        verbs: &["get", "list", "watch", "patch"],
        why: "what is wanted; unused templates are removed on request",
    },
    Rule {
        group: names::GRID_GROUP,
        resources: &[
            "deploymentgrids/status",
            "statefulsetgrids/status",
            "servicegrids/status",
        ],
        objects: Objects::All,
        verbs: &["patch"],
        why: "what became of it",
    },
    Rule {
        group: names::GRID_GROUP,
        resources: &[
            "deploymentgrids/finalizers",
            "statefulsetgrids/finalizers",
            "servicegrids/finalizers",
        ],
        objects: Objects::All,
        verbs: &["update"],
        why: "owning objects that block the grid's deletion, where the cluster asks for that right",
    },
    Rule {
        group: names::SITE_GROUP,
        resources: &["nodeunits"],
        objects: Objects::All,
        verbs: &["get", "list", "watch", "create", "patch", "delete"],
        why: "what is wanted; labels of groups; units that groups find, and unit-node-all",
    },
    Rule {
        group: names::SITE_GROUP,
        resources: &["nodegroups"],
        objects: Objects::All,
        verbs: &["get", "list", "watch", "patch"],
        why: "what is wanted; the finalizer",
    },
    Rule {
        group: names::SITE_GROUP,
        resources: &["nodeunits/status", "nodegroups/status"],
        objects: Objects::All,
        verbs: &["patch"],
        why: "what became of it",
    },
    Rule {
        group: "apiextensions.k8s.io",
        resources: &["customresourcedefinitions"],
        objects: Objects::Named(definitions),
        verbs: &["get", "list", "watch", "patch"],
        why: "upgrades; that unit-node-all was made is noted there",
    },
    Rule {
        group: "apiextensions.k8s.io",
        resources: &["customresourcedefinitions"],
        objects: Objects::All,
        verbs: &["create"],
        why: "missing definitions; creation cannot be limited by name",
    },
    Rule {
        group: "events.k8s.io",
        resources: &["events"],
        objects: Objects::All,
        verbs: &["create", "patch"],
        why: "tells people; an event that repeats is counted up",
    },
    Rule {
        group: "coordination.k8s.io",
        resources: &["leases"],
        objects: Objects::OurLease,
        verbs: &["get", "update"],
        why: "only one of several controllers writes",
    },
    Rule {
        group: "coordination.k8s.io",
        resources: &["leases"],
        objects: Objects::InLeaseNamespace,
        verbs: &["create"],
        why: "the lease, once; creation cannot be limited by name",
    },
];

fn definitions() -> Vec<String> {
    let mut names: Vec<String> = edgegrid_api::crds()
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_allowed_by_a_star_and_nothing_twice() {
        let mut seen = std::collections::BTreeSet::new();
        for rule in RULES {
            for resource in rule.resources {
                for verb in rule.verbs {
                    assert!(*verb != "*" && *resource != "*" && rule.group != "*");
                    let objects = rule.policy("lease").resource_names;
                    let line = format!("{verb} {}/{resource} {objects:?}", rule.group);
                    assert!(seen.insert(line.clone()), "{line} twice");
                }
            }
            assert!(!rule.why.is_empty());
        }
    }

    #[test]
    fn secrets_and_rights_are_out_of_reach() {
        let groups = ["rbac.authorization.k8s.io", "authentication.k8s.io"];
        for rule in RULES {
            assert!(!rule.resources.contains(&"secrets"));
            assert!(!groups.contains(&rule.group));
            let dangerous = ["escalate", "bind", "impersonate"];
            assert!(rule.verbs.iter().all(|verb| !dangerous.contains(verb)));
        }
    }
}
