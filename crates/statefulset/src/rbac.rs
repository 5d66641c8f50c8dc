//! What the controller may do in a cluster: the one list from which `deploy/rbac/statefulset.yaml` is made.
//!
//! A request that no rule allows is refused by the API server, so whoever needs more adds it here, next to
//! why.

use k8s_openapi::api::rbac::v1::PolicyRule;

/// One line of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// API group, empty for the core.
    pub group: &'static str,
    /// Kinds, and subresources as `kind/subresource`.
    pub resources: &'static [&'static str],
    /// Which objects of them.
    pub objects: Objects,
    /// What may be done.
    pub verbs: &'static [&'static str],
    /// What for.
    pub why: &'static str,
}

/// Objects that a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objects {
    /// All of the cluster.
    All,
    /// All in the namespace of the lease.
    InLeaseNamespace,
    /// The lease itself.
    OurLease,
}

/// All that the controller may do.
pub const RULES: &[Rule] = &[
    Rule {
        group: "apps",
        resources: &["statefulsets"],
        objects: Objects::All,
        verbs: &["get", "list", "watch", "patch"],
        why: "what is wanted; a last look before adopting; dry runs that ask for defaults, which need patch",
    },
    Rule {
        group: "apps",
        resources: &["statefulsets/status"],
        objects: Objects::All,
        verbs: &["patch"],
        why: "what became of it",
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
        why: "tells people; an event that repeats is counted up",
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

impl Rule {
    /// Whether the rule is about the namespace of the lease alone.
    pub const fn is_namespaced(&self) -> bool {
        matches!(self.objects, Objects::InLeaseNamespace | Objects::OurLease)
    }

    /// The rule as roles hold it, with the name of the lease.
    pub fn policy(&self, lease: &str) -> PolicyRule {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let is_lease = self.objects == Objects::OurLease;
        PolicyRule {
            api_groups: Some(vec![self.group.to_owned()]),
            resources: Some(owned(self.resources)),
            resource_names: is_lease.then(|| vec![lease.to_owned()]),
            verbs: owned(self.verbs),
            non_resource_urls: None,
        }
    }
}

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

    #[test]
    fn only_the_rule_about_the_lease_names_an_object() {
        let named = RULES
            .iter()
            .filter_map(|rule| rule.policy("ours").resource_names);
        assert_eq!(named.collect::<Vec<_>>(), [["ours"]]);
    }
}
