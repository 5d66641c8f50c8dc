//! `spec.whenUnreachable`, written as a toleration into the pod template of every unit's workload.
//!
//! Of several tolerations that match a taint, Kubernetes goes by the first, so ours stands in front:
//!
//! | the field | the template evicts pods | the template keeps pods |
//! |---|---|---|
//! | left out | as written | as written |
//! | `Keep` | tolerated without an end | as written |
//! | `Evict` | as written | tolerated for five minutes |
//!
//! So a template that says by itself what the field asks for renders the same pods, and nothing restarts.

use edgegrid_api::WhenUnreachable;
use edgegrid_api::names::taint;
use serde_json::{Value, json};

/// How long Kubernetes itself tolerates the taint for pods that say nothing of it.
const EVICTED_AFTER_SECONDS: u64 = 300;

/// Makes the pods of a workload stay on an unreachable node, or go from it. Not about `not-ready`,
/// which a node reports of itself while it is in contact.
pub(crate) fn stamp(workload: &mut Value, when_unreachable: &WhenUnreachable) {
    let is_kept = match when_unreachable {
        WhenUnreachable::Keep => true,
        WhenUnreachable::Evict => false,
        WhenUnreachable::Unknown(_) => return,
    };
    let Some(written) = tolerations(workload) else {
        return; // no pod template: the server says so better than we could
    };
    if keeps_pods(written) == is_kept {
        return;
    }
    let mut first =
        json!({ "key": taint::UNREACHABLE, "operator": "Exists", "effect": taint::NO_EXECUTE });
    if !is_kept {
        first["tolerationSeconds"] = json!(EVICTED_AFTER_SECONDS);
    }
    // What names the taint and its effect is said anew; what says more than that stays.
    let others = written
        .iter()
        .filter(|one| one["key"] != taint::UNREACHABLE || one["effect"] != taint::NO_EXECUTE);
    let tolerations: Vec<Value> = std::iter::once(first).chain(others.cloned()).collect();
    workload["template"]["spec"]["tolerations"] = json!(tolerations);
}

/// The tolerations of a workload's pods; `None` if something else stands in their place.
fn tolerations(workload: &Value) -> Option<&[Value]> {
    for path in ["", "/template", "/template/spec"] {
        match workload.pointer(path) {
            None => return Some(&[]),
            Some(found) if !found.is_object() => return None,
            Some(_) => {}
        }
    }
    match workload.pointer("/template/spec/tolerations") {
        None => Some(&[]),
        Some(list) => list.as_array().map(Vec::as_slice),
    }
}

/// Whether pods with these tolerations are never evicted from an unreachable node.
fn keeps_pods(tolerations: &[Value]) -> bool {
    let first = tolerations.iter().find(|one| tolerates_unreachable(one));
    first.is_some_and(|first| first["tolerationSeconds"].is_null())
}

/// By the rules of Kubernetes' `Toleration.ToleratesTaint`; the taint has no value.
fn tolerates_unreachable(toleration: &Value) -> bool {
    let field = |name: &str| toleration[name].as_str().unwrap_or_default();
    let is_about_it = matches!(field("key"), "" | taint::UNREACHABLE)
        && matches!(field("effect"), "" | taint::NO_EXECUTE);
    match field("operator") {
        "Exists" => is_about_it,
        "" | "Equal" => is_about_it && field("value").is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamped(tolerations: &Value, when: &WhenUnreachable) -> Value {
        let mut workload = json!({ "template": { "spec": { "tolerations": tolerations } } });
        stamp(&mut workload, when);
        workload["template"]["spec"]["tolerations"].clone()
    }

    fn kept() -> Value {
        json!({ "key": taint::UNREACHABLE, "operator": "Exists", "effect": "NoExecute" })
    }

    fn kept_for(seconds: u64) -> Value {
        let mut toleration = kept();
        toleration["tolerationSeconds"] = json!(seconds);
        toleration
    }

    #[test]
    fn keep_tolerates_unreachable_without_an_end_and_nothing_else() {
        let mut bare = json!({ "selector": {} });
        stamp(&mut bare, &WhenUnreachable::Keep);
        let wanted = json!({ "selector": {}, "template": { "spec": { "tolerations": [kept()] } } });
        assert_eq!(bare, wanted);
        let not_ready = json!({ "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30 });
        assert_eq!(
            stamped(&json!([not_ready]), &WhenUnreachable::Keep),
            json!([kept(), not_ready])
        );
    }

    #[test]
    fn keep_wins_over_the_seconds_of_a_template_and_stands_before_what_tolerates_everything() {
        let everything =
            json!({ "operator": "Exists", "tolerationSeconds": 60, "effect": "NoExecute" });
        let scheduled =
            json!({ "key": taint::UNREACHABLE, "operator": "Exists", "effect": "NoSchedule" });
        assert_eq!(
            stamped(
                &json!([everything, scheduled, kept_for(60)]),
                &WhenUnreachable::Keep
            ),
            json!([kept(), everything, scheduled])
        );
    }

    #[test]
    fn evict_ends_a_toleration_without_an_end_and_leaves_seconds_as_written() {
        assert_eq!(
            stamped(&json!([kept()]), &WhenUnreachable::Evict),
            json!([kept_for(300)])
        );
        let everything = json!({ "operator": "Exists" });
        assert_eq!(
            stamped(&json!([everything]), &WhenUnreachable::Evict),
            json!([kept_for(300), everything])
        );
        for as_written in [json!([]), json!([kept_for(60)])] {
            assert_eq!(stamped(&as_written, &WhenUnreachable::Evict), as_written);
        }
    }

    #[test]
    fn a_template_that_says_it_by_itself_is_as_written() {
        let equal = json!({ "key": taint::UNREACHABLE, "effect": "NoExecute" });
        let any_effect = json!({ "key": taint::UNREACHABLE, "operator": "Exists" });
        for own in [kept(), equal, any_effect, json!({ "operator": "Exists" })] {
            let own = json!([own]);
            assert_eq!(stamped(&own, &WhenUnreachable::Keep), own);
        }
    }

    #[test]
    fn what_does_not_match_the_taint_keeps_nobody() {
        for other in [
            json!({ "key": taint::UNREACHABLE, "operator": "Equal", "value": "x", "effect": "NoExecute" }),
            json!({ "key": taint::UNREACHABLE, "operator": "Exists", "effect": "NoSchedule" }),
            json!({ "key": taint::UNREACHABLE, "operator": "Gt", "value": "1" }),
            json!({ "key": "node.kubernetes.io/not-ready", "operator": "Exists" }),
        ] {
            let stamped = stamped(&json!([other]), &WhenUnreachable::Keep);
            assert_eq!(stamped[0], kept(), "{other}");
        }
    }

    #[test]
    fn a_value_of_a_newer_definition_and_what_is_no_list_are_left_alone() {
        let unknown = WhenUnreachable::Unknown("Freeze".into());
        assert_eq!(
            stamped(&json!([kept_for(1)]), &unknown),
            json!([kept_for(1)])
        );
        for broken in [
            json!({ "template": "pod" }),
            json!({ "template": { "spec": [] } }),
            json!({ "template": { "spec": { "tolerations": "all" } } }),
        ] {
            let mut workload = broken.clone();
            stamp(&mut workload, &WhenUnreachable::Keep);
            assert_eq!(workload, broken);
        }
    }
}
