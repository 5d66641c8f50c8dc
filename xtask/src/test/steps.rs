//! The steps of `cargo xtask test`, as a table: cheap before dear, ours before what needs Go or root.

use anyhow::Result;
use edgegrid_upstream::{Program, all, defaults};

use crate::program::Build;
use crate::tools::{DENY, NEXTEST, SHEAR, TYPOS, Tool};
use crate::{
    bench, crds, demo, diff_api, diff_statefulset, edges, fuzz, rbac, tables, upstream, words,
};

pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) when: When,
    pub(super) needs: &'static [Need],
    pub(super) run: Run,
    pub(super) environment: &'static [(&'static str, &'static str)],
}

/// Which runs a step belongs to; each has all steps of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum When {
    Fast,
    Full,
    AllVersions,
}

/// What a step wants from the machine.
pub(super) enum Need {
    /// A tool; installed if missing.
    Tool(&'static Tool),
    /// Upstream programs: built already, or a Go to build them with.
    Programs(fn() -> Vec<Program>),
    /// A Go to read pinned modules with.
    Go,
    /// Root and Debian's network tools.
    Lab,
    /// The same for some tests of the step, those of [`LAB`]; without it the others still run.
    LabForSome,
}

pub(super) enum Run {
    Cargo(&'static [&'static str]),
    Tool(&'static Tool, &'static [&'static str]),
    /// Tests by nextest: a profile of `.config/nextest.toml` and a filter.
    Tests {
        profile: &'static str,
        filter: &'static str,
    },
    /// All tools of the run at once, so that they share compiled crates.
    InstallTools,
    Own(fn() -> Result<()>),
}

/// Tests of real packets, by the name of their file, wherever they are.
pub(super) const LAB: &str = "binary(/^lab/)";

pub(super) fn names() -> Vec<&'static str> {
    STEPS.iter().map(|step| step.name).collect()
}

pub(super) const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        when: When::Fast,
        needs: &[],
        run: Run::Cargo(&["fmt", "--all", "--check"]),
        environment: &[],
    },
    Step {
        name: "edges",
        when: When::Fast,
        needs: &[],
        run: Run::Own(edges::check),
        environment: &[],
    },
    Step {
        name: "words",
        when: When::Fast,
        needs: &[],
        run: Run::Own(words::check),
        environment: &[],
    },
    Step {
        name: "tools",
        when: When::Fast,
        needs: &[],
        run: Run::InstallTools,
        environment: &[],
    },
    Step {
        name: "typos",
        when: When::Full,
        needs: &[Need::Tool(&TYPOS)],
        run: Run::Tool(&TYPOS, &[]),
        environment: &[],
    },
    Step {
        name: "clippy",
        when: When::Fast,
        needs: &[],
        run: Run::Cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]),
        environment: &[],
    },
    Step {
        name: "deny",
        when: When::Full,
        needs: &[Need::Tool(&DENY)],
        // Advisories need a database from the network: a command of their own.
        run: Run::Tool(&DENY, &["check", "bans", "licenses", "sources"]),
        environment: &[],
    },
    Step {
        name: "shear",
        when: When::Full,
        needs: &[Need::Tool(&SHEAR)],
        run: Run::Tool(&SHEAR, &[]),
        environment: &[],
    },
    Step {
        name: "crds",
        when: When::Fast,
        needs: &[],
        run: Run::Own(|| crds::CRDS.check(Build::WithTests)),
        environment: &[],
    },
    Step {
        name: "rbac",
        when: When::Fast,
        needs: &[],
        run: Run::Own(|| rbac::RBAC.check(Build::WithTests)),
        environment: &[],
    },
    Step {
        name: "unit",
        when: When::Fast,
        needs: &[Need::Tool(&NEXTEST)],
        run: Run::Tests {
            profile: "default",
            filter: "not package(edgegrid-e2e) & not binary(/^lab/)",
        },
        environment: &[],
    },
    Step {
        name: "doctests",
        when: When::Fast,
        needs: &[],
        run: Run::Cargo(&["test", "--doc", "--workspace", "--no-fail-fast", "--quiet"]),
        environment: &[],
    },
    Step {
        name: "rustdoc",
        when: When::Full,
        needs: &[],
        run: Run::Cargo(&["doc", "--no-deps", "--workspace"]),
        environment: &[("RUSTDOCFLAGS", "-Dwarnings")],
    },
    Step {
        name: "lab",
        when: When::Full,
        needs: &[Need::Tool(&NEXTEST), Need::Lab],
        run: Run::Tests {
            profile: "lab",
            filter: "not package(edgegrid-e2e) & binary(/^lab/)",
        },
        environment: &[],
    },
    Step {
        name: "upstream",
        when: When::Full,
        needs: &[Need::Programs(default_programs)],
        run: Run::Own(|| upstream::ensure(&default_programs())),
        environment: &[],
    },
    Step {
        name: "tables",
        when: When::Full,
        needs: &[Need::Go],
        run: Run::Own(tables::check),
        environment: &[],
    },
    Step {
        name: "diff-api",
        when: When::Full,
        needs: &[Need::Programs(diff_api::programs)],
        run: Run::Own(diff_api::check),
        environment: &[],
    },
    Step {
        name: "e2e",
        when: When::Full,
        needs: &[
            Need::Tool(&NEXTEST),
            Need::Programs(default_programs),
            Need::LabForSome,
        ],
        run: Run::Tests {
            profile: "lab",
            filter: "package(edgegrid-e2e) & not test(/older|informer/)",
        },
        environment: &[],
    },
    Step {
        // The README's first command; what it leaves out without the lab, it says itself.
        name: "demo",
        when: When::Full,
        needs: &[Need::Programs(demo::programs), Need::LabForSome],
        run: Run::Own(demo::once),
        environment: &[],
    },
    Step {
        name: "diff-statefulset",
        when: When::Full,
        needs: &[Need::Programs(demo::programs)],
        run: Run::Own(diff_statefulset::smoke),
        environment: &[],
    },
    Step {
        name: "upstream-1.33",
        when: When::AllVersions,
        needs: &[Need::Programs(oldest_server)],
        run: Run::Own(|| upstream::ensure(&oldest_server())),
        environment: &[],
    },
    Step {
        name: "e2e-1.33",
        when: When::AllVersions,
        needs: &[
            Need::Tool(&NEXTEST),
            Need::Programs(default_programs),
            Need::Programs(oldest_server),
        ],
        run: Run::Tests {
            profile: "lab",
            filter: "package(edgegrid-e2e) & (binary(crds) | binary(validation))",
        },
        environment: &[("EDGEGRID_KUBERNETES", "1.33")],
    },
    Step {
        // Older kube-proxies and client-go's informers; Go builds the latter in minutes.
        name: "e2e-clients",
        when: When::AllVersions,
        needs: &[
            Need::Tool(&NEXTEST),
            Need::Programs(default_programs),
            Need::Go,
            Need::Lab,
        ],
        run: Run::Tests {
            profile: "lab",
            filter: "package(edgegrid-e2e) & test(/older|informer/)",
        },
        environment: &[],
    },
    Step {
        name: "fuzz",
        when: When::Full,
        needs: &[],
        run: Run::Own(fuzz::smoke),
        environment: &[],
    },
    Step {
        name: "bench",
        when: When::Full,
        needs: &[Need::Programs(demo::programs)],
        run: Run::Own(bench::smoke),
        environment: &[],
    },
];

fn default_programs() -> Vec<Program> {
    defaults().collect()
}

fn oldest_server() -> Vec<Program> {
    all()
        .filter(|program| program.to_string() == "kube-apiserver@1.33")
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn steps_have_names_of_their_own() {
        let unique: BTreeSet<&str> = names().into_iter().collect();
        assert_eq!(unique.len(), STEPS.len());
    }

    #[test]
    fn the_oldest_server_is_pinned() {
        assert_eq!(oldest_server().len(), 1);
    }

    #[test]
    fn a_step_that_runs_a_tool_says_that_it_needs_it() {
        for step in STEPS {
            let runs = match step.run {
                Run::Tool(tool, _) => tool,
                Run::Tests { .. } => &NEXTEST,
                _ => continue,
            };
            let needs = |need: &Need| matches!(need, Need::Tool(tool) if *tool == runs);
            assert!(step.needs.iter().any(needs), "{}", step.name);
        }
    }
}
