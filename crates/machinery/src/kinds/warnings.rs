//! Warnings about objects that are accepted.

use super::walk;
use crate::table::Shape;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::LazyLock;

const CONTAINERS: &[(&str, ())] = &[
    ("api.core.v1.Container", ()),
    ("api.core.v1.EphemeralContainer", ()),
];

/// Variables of a container that are set twice: apply keeps one of them.
pub(super) fn doubled_variables(object: &Value, shape: Shape<'_>) -> Vec<String> {
    static INDEX: LazyLock<walk::Index<()>> = LazyLock::new(|| walk::Index::new(CONTAINERS));
    let mut warnings = Vec::new();
    walk::visit(object, shape, &mut |value, path, shape| {
        let variables = value["env"]
            .as_array()
            .filter(|_| INDEX.get(shape).is_some());
        let mut seen = BTreeSet::new();
        for (index, variable) in variables.into_iter().flatten().enumerate() {
            let name = variable["name"].as_str().unwrap_or_default();
            if !seen.insert(name) {
                warnings.push(format!(
                    "{path}.env[{index}]: hides previous definition of {name:?}, \
                     which may be dropped when using apply"
                ));
            }
        }
    });
    warnings
}
