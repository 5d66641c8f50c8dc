//! What a process may do in a cluster, as a list next to the code that needs it: `deploy/rbac` is
//! made from such lists.
//!
//! A request that no rule allows is refused by the API server, so whoever needs more adds it to the list,
//! next to why.

use k8s_openapi::api::rbac::v1::PolicyRule;

/// One line of a list.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// API group, empty for the core.
    pub group: &'static str,
    /// Kinds, and subresources as `kind/subresource`.
    pub resources: &'static [&'static str],
    /// Which objects of them.
    pub objects: Objects,
    /// What may be done.
    pub verbs: &'static [&'static str],
    /// Why the code needs it.
    pub why: &'static str,
}

/// Objects that a rule is about.
#[derive(Clone, Copy, Debug)]
pub enum Objects {
    /// All of the cluster.
    All,
    /// Those of these names.
    Named(fn() -> Vec<String>),
    /// All in the namespace of the lease.
    InLeaseNamespace,
    /// The lease of the election alone.
    OurLease,
}

impl Rule {
    /// Whether the rule is about the namespace of the lease alone.
    pub const fn is_namespaced(&self) -> bool {
        matches!(self.objects, Objects::InLeaseNamespace | Objects::OurLease)
    }

    /// The rule as it stands in a Role, with the name of the lease.
    pub fn policy(&self, lease: &str) -> PolicyRule {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let names = match self.objects {
            Objects::All | Objects::InLeaseNamespace => None,
            Objects::Named(names) => Some(names()),
            Objects::OurLease => Some(vec![lease.to_owned()]),
        };
        PolicyRule {
            api_groups: Some(vec![self.group.to_owned()]),
            resources: Some(owned(self.resources)),
            resource_names: names,
            verbs: owned(self.verbs),
            non_resource_urls: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rules_about_some_objects_name_them() {
        let names = |objects| {
            let rule = Rule {
                group: "",
                resources: &["leases"],
                objects,
                verbs: &["get"],
                why: "a test",
            };
            rule.policy("ours").resource_names
        };
        assert_eq!(names(Objects::All), None);
        assert_eq!(names(Objects::InLeaseNamespace), None);
        assert_eq!(names(Objects::OurLease), Some(vec!["ours".to_owned()]));
        assert_eq!(
            names(Objects::Named(|| vec!["a".into()])),
            Some(vec!["a".to_owned()])
        );
    }
}
