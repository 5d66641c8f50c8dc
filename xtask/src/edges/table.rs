//! Who may use whom, as data. ARCHITECTURE.md shows the same table: change both, with a reason.

/// One of our crates as its manifest shows it.
pub(super) struct Crate {
    pub(super) folder: String,
    pub(super) edges: Vec<Edge>,
}

/// A dependency of one of our crates on another.
pub(super) struct Edge {
    pub(super) to: String,
    pub(super) kind: EdgeKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EdgeKind {
    /// Reaches users: normal and build dependencies.
    Normal,
    Dev,
}

/// Crates that decide and never act: no runtime, client, clock, environment or randomness.
pub(super) const PURE: &[&str] = &["api", "machinery", "plan"];

/// Only for tests: never part of what users run.
const TEST_ONLY: &str = "testkit";

/// Crates that may look at everything, in tests, examples and measurements alone.
const LOOKS_AT_ALL: &[&str] = &["benches", "e2e"];

/// Crate → the crates that it may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("api", &[]),
    ("machinery", &[]),
    ("store", &[]),
    ("runtime", &[]),
    ("upstream", &[]),
    ("plan", &["api"]),
    ("controllers", &["api", "plan", "runtime"]),
    ("statefulset", &["runtime"]),
    ("listwatch", &["machinery", "store"]),
    ("apiserver", &["listwatch", "machinery", "store"]),
    (
        "cluster",
        &[
            "apiserver",
            "listwatch",
            "machinery",
            "runtime",
            "statefulset",
            "store",
        ],
    ),
    (
        "wrapper",
        &["api", "listwatch", "machinery", "runtime", "store"],
    ),
    ("dns", &["api", "runtime", "wrapper"]),
    ("dashboard", &["api", "plan", "runtime"]),
    (
        "cli",
        &[
            "api",
            "apiserver",
            "cluster",
            "controllers",
            "dashboard",
            "dns",
            "listwatch",
            "machinery",
            "plan",
            "runtime",
            "statefulset",
            "store",
            "wrapper",
        ],
    ),
    (
        TEST_ONLY,
        &[
            "api",
            "apiserver",
            "cluster",
            "listwatch",
            "machinery",
            "runtime",
            "statefulset",
            "store",
            "upstream",
        ],
    ),
    ("benches", &[]),
    ("e2e", &[]),
    ("xtask", &["upstream"]),
];

/// A package's name in the table: its folder, whatever cargo calls it.
pub(super) fn folder_of(package: &str) -> String {
    match package.strip_prefix("edgegrid-") {
        Some(folder) => folder.to_owned(),
        None if package == "edgegrid" => "cli".to_owned(),
        None => package.to_owned(),
    }
}

/// Every dependency that the table does not allow, and every crate that it does not know.
pub(super) fn violations(crates: &[Crate]) -> Vec<String> {
    crates.iter().flat_map(violations_of).collect()
}

fn violations_of(of: &Crate) -> Vec<String> {
    let folder = &of.folder;
    let Some((_, may_use)) = MAY_USE.iter().find(|(row, _)| row == folder) else {
        return vec![format!(
            "`{folder}` is not in the table: add it to xtask/src/edges/table.rs and ARCHITECTURE.md"
        )];
    };
    of.edges
        .iter()
        .filter_map(|edge| refusal(folder, may_use, edge))
        .collect()
}

fn refusal(folder: &str, may_use: &[&str], edge: &Edge) -> Option<String> {
    let to = edge.to.as_str();
    match edge.kind {
        _ if may_use.contains(&to) => None,
        EdgeKind::Dev if to == TEST_ONLY || LOOKS_AT_ALL.contains(&folder) => None,
        EdgeKind::Normal if to == TEST_ONLY => Some(format!(
            "`{folder}` uses `{to}`, which is only ever a dev-dependency"
        )),
        EdgeKind::Normal if LOOKS_AT_ALL.contains(&folder) => Some(format!(
            "`{folder}` uses `{to}`: nothing of it reaches users, so make it a dev-dependency"
        )),
        EdgeKind::Normal => Some(format!(
            "`{folder}` uses `{to}`; it may use {}",
            list(may_use)
        )),
        EdgeKind::Dev => Some(format!(
            "`{folder}` uses `{to}` in its tests; they may use `{TEST_ONLY}` and {}",
            list(may_use)
        )),
    }
}

fn list(may_use: &[&str]) -> String {
    if may_use.is_empty() {
        return "nothing of ours".to_owned();
    }
    may_use
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(folder: &str, to: &str, kind: EdgeKind) -> Vec<String> {
        let edges = vec![Edge {
            to: to.to_owned(),
            kind,
        }];
        violations(&[Crate {
            folder: folder.to_owned(),
            edges,
        }])
    }

    #[test]
    fn every_edge_of_the_table_is_allowed_and_names_a_row() {
        for (folder, may_use) in MAY_USE {
            for to in *may_use {
                assert!(
                    uses(folder, to, EdgeKind::Normal).is_empty(),
                    "{folder} -> {to}"
                );
                assert!(MAY_USE.iter().any(|(row, _)| row == to), "{folder} -> {to}");
            }
        }
    }

    #[test]
    fn an_edge_outside_the_table_is_refused_with_the_allowed_ones() {
        assert_eq!(
            uses("plan", "runtime", EdgeKind::Normal),
            ["`plan` uses `runtime`; it may use `api`"]
        );
        assert_eq!(
            uses("api", "plan", EdgeKind::Normal),
            ["`api` uses `plan`; it may use nothing of ours"]
        );
        assert_eq!(
            uses("cluster", "api", EdgeKind::Normal).len(),
            1,
            "the Kubernetes half knows no grids"
        );
    }

    #[test]
    fn testkit_is_only_ever_a_dev_dependency() {
        for (folder, _) in MAY_USE {
            assert_eq!(
                uses(folder, "testkit", EdgeKind::Normal).len(),
                1,
                "{folder}"
            );
            assert!(
                uses(folder, "testkit", EdgeKind::Dev).is_empty(),
                "{folder}"
            );
        }
    }

    #[test]
    fn tests_of_a_crate_reach_no_further_than_the_crate_and_testkit() {
        let [refused] = &uses("api", "cluster", EdgeKind::Dev)[..] else {
            panic!("allowed");
        };
        assert!(refused.contains("in its tests"), "{refused}");
    }

    #[test]
    fn what_looks_at_everything_does_so_only_where_no_user_sees_it() {
        for folder in LOOKS_AT_ALL {
            assert!(
                uses(folder, "upstream", EdgeKind::Dev).is_empty(),
                "{folder}"
            );
            assert_eq!(
                uses(folder, "upstream", EdgeKind::Normal).len(),
                1,
                "{folder}"
            );
        }
    }

    #[test]
    fn only_developer_crates_use_upstream() {
        assert!(uses("xtask", "upstream", EdgeKind::Normal).is_empty());
        assert!(uses("testkit", "upstream", EdgeKind::Normal).is_empty());
        assert_eq!(uses("cli", "upstream", EdgeKind::Normal).len(), 1);
    }

    #[test]
    fn an_unknown_crate_is_refused() {
        let unknown = Crate {
            folder: "helpers".to_owned(),
            edges: Vec::new(),
        };
        let [refused] = &violations(&[unknown])[..] else {
            panic!("allowed");
        };
        assert!(
            refused.contains("`helpers`") && refused.contains("ARCHITECTURE.md"),
            "{refused}"
        );
    }

    #[test]
    fn packages_are_called_by_their_folder() {
        assert_eq!(folder_of("edgegrid-api"), "api");
        assert_eq!(folder_of("edgegrid"), "cli");
        assert_eq!(folder_of("xtask"), "xtask");
    }

    #[test]
    fn what_testkit_uses_is_closed_under_use() {
        let row = |folder: &str| MAY_USE.iter().find(|(row, _)| *row == folder).unwrap().1;
        let testkit = row("testkit");
        for used in testkit {
            assert!(
                row(used).iter().all(|further| testkit.contains(further)),
                "{used}"
            );
        }
    }
}
