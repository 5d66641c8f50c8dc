//! What requests aim at: all fields of a kind, those reached least first.

use std::collections::{BTreeMap, BTreeSet};

use crate::fields::{self, Path, Step};
use crate::kinds::Subject;
use crate::rng::Rng;

/// Among which fields to choose.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Choice {
    Any,
    Changeable,
    Status,
}

/// Fields that stay changeable, for kinds of which most is fixed once they exist.
const CHANGEABLE: &[(&str, &[&str])] = &[
    (
        "pods",
        &["metadata", "spec.tolerations", "spec.containers[].image"],
    ),
    ("persistentvolumeclaims", &["metadata"]),
    ("controllerrevisions", &["metadata", "revision"]),
    (
        "statefulsets",
        &[
            "metadata",
            "spec.replicas",
            "spec.template",
            "spec.updateStrategy",
            "spec.minReadySeconds",
        ],
    ),
    ("events", &["metadata", "series", "count", "message"]),
];

/// Fields that identify an object: requests set them on purpose only.
const OWN: [&str; 2] = ["metadata", "metadata.generateName"];

/// The fields of one kind.
pub(crate) struct Targets {
    /// Every field there is, as it is counted.
    pub(crate) fields: BTreeSet<String>,
    pub(crate) status: Vec<Path>,
    any: Vec<Path>,
    changeable: Vec<Path>,
    /// Whether most of an object can no longer be changed once it exists.
    pub(crate) is_fixed: bool,
    /// How often each was aimed at.
    uses: BTreeMap<String, usize>,
}

impl Targets {
    pub(crate) fn new(subject: &Subject) -> Self {
        let all = fields::all(subject.shape());
        let fields = all.iter().map(|path| fields::text(path)).collect();
        let is_free = |path: &Path| !OWN.contains(&&*fields::text(path));
        let is_status = |path: &Path| path[0] == Step::Field("status".into());
        let (status, any): (Vec<Path>, Vec<Path>) =
            all.into_iter().filter(is_free).partition(is_status);
        let limits = CHANGEABLE
            .iter()
            .find(|(plural, _)| *plural == subject.kind.plural);
        let is_changeable = |path: &&Path| {
            let name = fields::text(path);
            limits
                .is_none_or(|(_, prefixes)| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        };
        let changeable = any.iter().filter(is_changeable).cloned().collect();
        Self {
            fields,
            status,
            changeable,
            any,
            is_fixed: limits.is_some(),
            uses: BTreeMap::new(),
        }
    }

    /// Requests in the life of one object: few where most fields can only be set at its beginning.
    pub(crate) fn span(&self) -> usize {
        if self.is_fixed { 9 } else { 25 }
    }

    /// One of the fields aimed at least, among a few.
    pub(crate) fn aim(&mut self, choice: Choice, rng: &mut Rng) -> Option<Path> {
        let pool = match choice {
            Choice::Status => &self.status,
            Choice::Changeable => &self.changeable,
            Choice::Any => &self.any,
        };
        if pool.is_empty() {
            return None;
        }
        let drawn: Vec<&Path> = (0..4).map(|_| rng.pick(pool)).collect();
        let path = drawn
            .into_iter()
            .min_by_key(|path| self.uses.get(&fields::text(path)).copied().unwrap_or(0))?;
        let path = path.clone();
        *self.uses.entry(fields::text(&path)).or_default() += 1;
        Some(path)
    }
}
