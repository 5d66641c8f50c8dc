//! What a unit and its objects are called, whatever characters its label value has.
//!
//! A name that is legal stays as SuperEdge writes it, `<grid>-<unit>`. Any other is made legal and
//! readable, and ends in a hash of what it stands for: stable, and never the same for two units.

use edgegrid_api::names::{self, annotation, label};
use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::digest::digest;
use crate::legal::{LABEL_MAX, is_label_value};
use crate::workload_kind::WorkloadKind;

/// Hexadecimal digits that tell two names apart.
const HASH_DIGITS: usize = 10;

/// The annotation [`annotation::GRID`]: which grid and unit a workload belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Belongs {
    /// Name of the grid.
    pub grid: String,
    /// The unit's true value.
    pub unit: String,
}

/// Name of a grid's workload in a unit.
///
/// ```
/// use edgegrid_plan::{unit_names::object_name, workload_kind::WorkloadKind};
/// assert_eq!(object_name(WorkloadKind::Deployment, "web", "beijing"), "web-beijing");
/// assert!(object_name(WorkloadKind::Deployment, "web", "Bei_jing").starts_with("web-bei-jing-"));
/// ```
pub fn object_name(workload: WorkloadKind, grid: &str, unit: &str) -> String {
    let plain = names::workload(grid, unit);
    if is_object_name(workload, &plain) {
        return plain;
    }
    // Dots as well: the parts between them have rules of their own.
    let readable: String = plain
        .to_lowercase()
        .chars()
        .map(|c| match c {
            'a'..='z' | '0'..='9' | '-' => c,
            _ => '-',
        })
        .collect();
    hashed(&readable, &format!("{grid}\n{unit}"), workload.name_max())
}

/// A text as a label value: itself if it is legal, else something readable that ends in its hash.
///
/// ```
/// use edgegrid_plan::unit_names::label_value;
/// assert_eq!(label_value("location"), "location");
/// assert!(label_value("topology.kubernetes.io/zone").starts_with("topology.kubernetes.io-zone-"));
/// ```
pub fn label_value(text: &str) -> String {
    if is_label_value(text) {
        return text.to_owned();
    }
    let readable: String = text
        .chars()
        .map(|c| if is_label_character(c) { c } else { '-' })
        .collect();
    hashed(&readable, text, LABEL_MAX)
}

/// The unit that a grid's workload is for, as we noted it or, for one that SuperEdge made, as its
/// name says.
pub fn unit_of(grid: &str, metadata: &ObjectMeta) -> Option<String> {
    let annotations = metadata.annotations.as_ref();
    let noted = annotations
        .and_then(|all| all.get(annotation::GRID))
        .and_then(|note| serde_json::from_str::<Belongs>(note).ok());
    if let Some(noted) = noted.filter(|noted| noted.grid == grid) {
        return Some(noted.unit);
    }
    let labelled = metadata
        .labels
        .as_ref()
        .and_then(|all| all.get(label::UNIT));
    let name = metadata.name.as_deref()?;
    let named = || {
        name.strip_prefix(grid)?
            .strip_prefix('-')
            .map(str::to_owned)
    };
    labelled.cloned().or_else(named)
}

fn is_object_name(workload: WorkloadKind, name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && has_alphanumeric_ends(part)
            && part
                .bytes()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
    };
    name.len() <= workload.name_max()
        && name.split('.').all(is_part)
        && (workload.may_have_dots() || !name.contains('.'))
}

fn is_label_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn has_alphanumeric_ends(text: &str) -> bool {
    let is_end = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    is_end(text.chars().next()) && is_end(text.chars().next_back())
}

/// `readable`, cut so that a hash of `text` still fits behind it. Only ASCII comes in.
fn hashed(readable: &str, text: &str, max: usize) -> String {
    let room = max - HASH_DIGITS - 1;
    let head = readable.get(..room.min(readable.len())).unwrap_or_default();
    let head = head.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let hash = &digest(text)[..HASH_DIGITS];
    if head.is_empty() {
        return format!("x{hash}");
    }
    format!("{head}-{hash}")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    const BOTH: [WorkloadKind; 2] = [WorkloadKind::Deployment, WorkloadKind::StatefulSet];

    #[test]
    fn a_legal_name_stays_as_superedge_writes_it() {
        for (workload, grid, unit, name) in [
            (WorkloadKind::Deployment, "web", "beijing", "web-beijing"),
            (WorkloadKind::Deployment, "web", "zone.1", "web-zone.1"),
            (WorkloadKind::StatefulSet, "db", "zone-0", "db-zone-0"),
        ] {
            assert_eq!(object_name(workload, grid, unit), name);
        }
    }

    /// Names that are not legal make a unit's workload uncreatable for ever.
    #[test]
    fn a_unit_of_any_label_value_gets_a_legal_readable_and_distinct_name() {
        let long = "a".repeat(63);
        for unit in [
            "Beijing", "bei_jing", "a.", "zone..1", "a.-b", "_", "zone.1", &long,
        ] {
            for workload in BOTH {
                let name = object_name(workload, "web", unit);
                assert!(is_object_name(workload, &name), "{unit}: {name}");
            }
        }
        let alike = ["a_b", "a.b", "A-b", "a-b", "A_B"]
            .map(|unit| object_name(WorkloadKind::StatefulSet, "web", unit));
        assert_eq!(
            BTreeSet::from(alike.clone()).len(),
            alike.len(),
            "{alike:?}"
        );
        assert!(alike[0].starts_with("web-a-b-"), "{alike:?}");
    }

    /// Keys such as `topology.kubernetes.io/zone` are no label values.
    #[test]
    fn any_text_becomes_a_label_value() {
        for text in [
            "topology.kubernetes.io/zone",
            "",
            "-",
            &"x".repeat(100),
            "a/",
        ] {
            let value = label_value(text);
            assert!(is_label_value(&value), "{text}: {value}");
        }
        assert_ne!(label_value("a/b"), label_value("a-b"));
    }

    #[test]
    fn a_unit_is_read_from_the_note_before_the_name() {
        let noted = ObjectMeta {
            name: Some("web-bei-jing-0123456789".into()),
            annotations: Some(BTreeMap::from([(
                annotation::GRID.into(),
                r#"{"grid":"web","unit":"Bei_jing"}"#.into(),
            )])),
            ..ObjectMeta::default()
        };
        assert_eq!(unit_of("web", &noted).as_deref(), Some("Bei_jing"));
        let superedges = ObjectMeta {
            name: Some("web-zone-0".into()),
            ..ObjectMeta::default()
        };
        assert_eq!(unit_of("web", &superedges).as_deref(), Some("zone-0"));
        assert_eq!(unit_of("other", &superedges), None);
    }

    proptest! {
        #[test]
        fn names_are_legal_and_distinct(
            grid in "[a-z][a-z0-9.-]{0,70}[a-z0-9]",
            one in "[A-Za-z0-9]([A-Za-z0-9_.-]{0,20}[A-Za-z0-9])?",
            other in "[A-Za-z0-9]([A-Za-z0-9_.-]{0,20}[A-Za-z0-9])?",
        ) {
            for workload in BOTH {
                let name = object_name(workload, &grid, &one);
                prop_assert!(is_object_name(workload, &name), "{name}");
                prop_assert_eq!(one == other, name == object_name(workload, &grid, &other));
            }
        }
    }
}
