//! Conflicts between managers, and the words the reference server has for them.

use std::fmt;

use super::managed::{Identity, Operation};
use super::path::{Element, PathSet, path_text};

/// A path that another manager owns and an apply would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager as messages name it, such as `"m1"` or `"u1" using v1`.
    pub manager: String,
    /// The path of the field that somebody else owns.
    pub path: Vec<Element>,
}

impl Conflict {
    /// The message of the conflict's cause in a status.
    pub fn cause(&self) -> String {
        format!("conflict with {}", self.manager)
    }

    /// The field of the conflict's cause in a status.
    pub fn field(&self) -> String {
        path_text(&self.path)
    }
}

/// All conflicts of one apply, sorted by manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflicts {
    pub(super) fn new(mut sets: Vec<(Identity, String, PathSet)>) -> Self {
        sets.sort_by_cached_key(|(identity, ..)| identity.text());
        let conflicts = sets.iter().flat_map(|(identity, version, set)| {
            let manager = name(identity, version);
            set.paths().into_iter().map(move |path| Conflict {
                manager: manager.clone(),
                path,
            })
        });
        Self(conflicts.collect())
    }

    /// The conflicts whose paths are not in the set.
    #[must_use]
    pub(super) fn outside(&self, set: &PathSet) -> Self {
        let outside = self
            .0
            .iter()
            .filter(|conflict| !set.contains(&conflict.path));
        Self(outside.cloned().collect())
    }
}

fn name(identity: &Identity, version: &str) -> String {
    let mut name = serde_json::json!(identity.manager).to_string();
    if !identity.subresource.is_empty() {
        name = format!("{name} with subresource {:?}", identity.subresource);
    }
    if identity.operation == Operation::Update {
        name = format!("{name} using {version}");
    }
    name
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            let cause = one.cause();
            return write!(f, "Apply failed with 1 conflict: {cause}: {}", one.field());
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut manager = None;
        for (index, conflict) in self.0.iter().enumerate() {
            if manager != Some(&conflict.manager) {
                let start = if index == 0 { "" } else { "\n" };
                write!(f, "{start}conflicts with {}:", conflict.manager)?;
                manager = Some(&conflict.manager);
            }
            write!(f, "\n- {}", conflict.field())?;
        }
        Ok(())
    }
}
