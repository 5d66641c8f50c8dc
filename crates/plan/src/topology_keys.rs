//! Where a ServiceGrid's traffic stays: the annotation `topologyKeys` of its Service.

use edgegrid_api::names::{annotation, reason};
use kube::core::ObjectMeta;
use serde_json::json;

use crate::failure::Problem;
use crate::legal::is_label_key;

/// Stands for any node anywhere; allowed as the last key only.
const ANYWHERE: &str = "*";

/// The annotation's value: the grid's own list if it has one, else its key alone, which is strict. A list
/// that cannot be read is a problem, and the strict value is used.
pub fn topology_keys(grid: &ObjectMeta, key: &str) -> (String, Option<Problem>) {
    let strict = json!([key]).to_string();
    let written = grid
        .annotations
        .as_ref()
        .and_then(|all| all.get(annotation::TOPOLOGY_KEYS));
    let Some(written) = written else {
        return (strict, None);
    };
    match check(written) {
        Ok(()) => (written.clone(), None),
        Err(why) => {
            let message = format!(
                "the annotation {} is {written}, {why}: write a JSON list of node label keys, with \"*\" at most \
                 as the last; until then traffic stays where {key} agrees",
                annotation::TOPOLOGY_KEYS
            );
            (
                strict,
                Some(Problem::new(reason::TOPOLOGY_KEYS_MALFORMED, message)),
            )
        }
    }
}

fn check(written: &str) -> Result<(), String> {
    let keys: Vec<String> =
        serde_json::from_str(written).map_err(|_| "which is no JSON list of texts".to_owned())?;
    let Some((last, others)) = keys.split_last() else {
        return Err("which names no key".into());
    };
    let wrong = others
        .iter()
        .find(|key| !is_label_key(key))
        .or_else(|| Some(last).filter(|key| *key != ANYWHERE && !is_label_key(key)));
    match wrong {
        None => Ok(()),
        Some(key) => Err(format!("in which {key} is no label key")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn grid(written: Option<&str>) -> ObjectMeta {
        ObjectMeta {
            annotations: written.map(|written| {
                BTreeMap::from([(annotation::TOPOLOGY_KEYS.to_owned(), written.to_owned())])
            }),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn a_grid_without_a_list_is_strict_about_its_own_key() {
        assert_eq!(
            topology_keys(&grid(None), "zone"),
            (r#"["zone"]"#.to_owned(), None)
        );
    }

    #[test]
    fn a_list_of_label_keys_wins() {
        for list in [
            r#"["zone"]"#,
            r#"["kubernetes.io/hostname","zone","*"]"#,
            r#"["*"]"#,
        ] {
            assert_eq!(
                topology_keys(&grid(Some(list)), "key"),
                (list.to_owned(), None)
            );
        }
    }

    #[test]
    fn a_malformed_list_is_reported_and_the_strict_one_is_used() {
        for list in [
            "zone",
            "[]",
            r#"["*","zone"]"#,
            r#"["a b"]"#,
            "[1]",
            r#"["A/b"]"#,
            r#"["/b"]"#,
            r#"["a/"]"#,
        ] {
            let (keys, problem) = topology_keys(&grid(Some(list)), "key");
            assert_eq!(keys, r#"["key"]"#, "{list}");
            assert!(
                problem.is_some_and(|problem| problem.message.contains(list)),
                "{list}"
            );
        }
    }
}
