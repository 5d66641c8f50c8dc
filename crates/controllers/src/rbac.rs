//! What the controller may do in a cluster: the one list from which `deploy/rbac` is generated.
//!
//! Pods and the like are not in it and never read; of Secrets the one that makes a cluster a member.

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
        verbs: &["get", "list", "watch", "create", "patch", "delete"],
        why: "what is wanted; unused templates are removed on request; copies for members, a member's own",
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
        group: "",
        resources: &["namespaces"],
        objects: Objects::All,
        verbs: &["get", "list", "watch", "create"],
        why: "which clusters are members; in a member, the namespaces that federated grids are for",
    },
    Rule {
        group: "",
        resources: &["secrets"],
        objects: Objects::Named(registration),
        verbs: &["get", "list", "watch"],
        why: "whether this cluster is a member, and of which control cluster",
    },
    Rule {
        group: "coordination.k8s.io",
        resources: &["leases"],
        objects: Objects::Named(member_lease),
        verbs: &["get", "list", "watch"],
        why: "when members were last heard of",
    },
    Rule {
        group: "coordination.k8s.io",
        resources: &["leases"],
        objects: Objects::All,
        verbs: &["create"],
        why: "the Lease of a new member, and our own; creation cannot be limited by name",
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
];

/// What a member may do in its namespace of the control cluster, and nothing else anywhere.
pub const MEMBER_RULES: &[Rule] = &[
    Rule {
        group: names::GRID_GROUP,
        resources: &["deploymentgrids", "statefulsetgrids", "servicegrids"],
        objects: Objects::All,
        verbs: &["get", "list", "watch"],
        why: "the grids that it is to have",
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
        why: "how they stand there",
    },
    Rule {
        group: "coordination.k8s.io",
        resources: &["leases"],
        objects: Objects::Named(member_lease),
        verbs: &["get", "patch"],
        why: "that it is there",
    },
];

fn registration() -> Vec<String> {
    vec![names::parent_secret::NAME.into()]
}

fn member_lease() -> Vec<String> {
    vec![names::MEMBER_LEASE.into()]
}

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

    /// SuperEdge's controller may do everything with secrets and nodes.
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
    fn secrets_but_one_and_rights_are_out_of_reach() {
        let groups = ["rbac.authorization.k8s.io", "authentication.k8s.io"];
        for rule in RULES.iter().chain(MEMBER_RULES) {
            if rule.resources.contains(&"secrets") {
                let names = rule.policy("lease").resource_names;
                assert_eq!(names, Some(vec![names::parent_secret::NAME.to_owned()]));
                assert_eq!(rule.verbs, ["get", "list", "watch"]);
            }
            assert!(!groups.contains(&rule.group));
            let dangerous = ["escalate", "bind", "impersonate"];
            assert!(rule.verbs.iter().all(|verb| !dangerous.contains(verb)));
        }
    }
}
