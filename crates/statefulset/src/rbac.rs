//! What the controller may do in a cluster: the one list from which `deploy/rbac/statefulset.yaml` is made.

use edgegrid_runtime::rbac::{Objects, Rule};

/// All that the controller may do.
pub const RULES: &[Rule] = &[
    Rule {
        group: "apps",
        resources: &["statefulsets"],
        objects: Objects::All,
        verbs: &["get", "list", "watch", "patch"],
        why: "what is wanted; a read before adopting; dry runs that ask for defaults, which need patch",
    },
    Rule {
        group: "apps",
        resources: &["statefulsets/status"],
        objects: Objects::All,
        verbs: &["patch"],
        why: "what became of a set",
    },
    Rule {
        group: "apps",
        resources: &["controllerrevisions"],
        objects: Objects::All,
        verbs: &["get", "list", "watch", "create", "patch", "delete"],
        why: "the templates that a set had",
    },
    Rule {
        group: "",
        resources: &["pods"],
        objects: Objects::All,
        verbs: &["list", "watch", "create", "patch", "delete"],
        why: "the pods of a set",
    },
    Rule {
        group: "",
        resources: &["persistentvolumeclaims"],
        objects: Objects::All,
        verbs: &["list", "watch", "create", "patch"],
        why: "claims of pods and who owns them; deleting is left to the garbage collector",
    },
    Rule {
        group: "apps",
        resources: &["statefulsets/finalizers"],
        objects: Objects::All,
        verbs: &["update"],
        why: "owning objects that block the set's deletion, where the cluster asks for that right",
    },
    Rule {
        group: "",
        resources: &["pods/finalizers"],
        objects: Objects::All,
        verbs: &["update"],
        why: "the same for claims that a pod owns",
    },
    Rule {
        group: "",
        resources: &["events"],
        objects: Objects::All,
        verbs: &["create", "patch"],
        why: "events for people; one that repeats is counted up",
    },
    Rule {
        group: "coordination.k8s.io",
        resources: &["leases"],
        objects: Objects::OurLease,
        verbs: &["get", "update"],
        why: "only one of several processes writes",
    },
    Rule {
        group: "coordination.k8s.io",
        resources: &["leases"],
        objects: Objects::InLeaseNamespace,
        verbs: &["create"],
        why: "the lease, once; creation cannot be limited by name",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_allowed_by_a_star_and_claims_are_never_deleted() {
        for rule in RULES {
            assert!(!rule.verbs.contains(&"*") && !rule.resources.contains(&"*"));
            let is_about_claims = rule.resources.contains(&"persistentvolumeclaims");
            assert!(!is_about_claims || !rule.verbs.contains(&"delete"));
            assert!(!rule.why.is_empty());
        }
    }
}
