//! What of the table is run: first by what was asked for, then by what the machine can do.

use super::steps::{LAB, Need, Run, STEPS, Step, When};
use crate::tools::Tool;

/// A step that will run.
pub(super) struct Planned {
    pub(super) step: &'static Step,
    lab: Lab,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lab {
    Included,
    Excluded,
}

/// Something that was asked for and will not run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) what: String,
    pub(super) why: String,
}

/// The steps that were asked for.
pub(super) fn select(fast: bool, all_versions: bool, only: Option<&str>) -> Vec<&'static Step> {
    let up_to = match (fast, all_versions) {
        (true, _) => When::Fast,
        (false, false) => When::Full,
        (false, true) => When::AllVersions,
    };
    let is_selected = |step: &&Step| match only {
        Some(name) => step.name == name,
        None => step.when <= up_to,
    };
    STEPS.iter().filter(is_selected).collect()
}

/// Divides steps into what runs and what is left out, where `unmet` says why a need cannot be met.
pub(super) fn plan(
    steps: &[&'static Step],
    unmet: impl Fn(&Need) -> Option<String>,
) -> (Vec<Planned>, Vec<LeftOut>) {
    let (mut planned, mut left_out) = (Vec::new(), Vec::new());
    for step in steps {
        let (partial, whole): (Vec<&Need>, Vec<&Need>) = step
            .needs
            .iter()
            .partition(|need| matches!(need, Need::LabForSome));
        if let Some(why) = whole.into_iter().find_map(&unmet) {
            left_out.push(LeftOut {
                what: step.name.to_owned(),
                why,
            });
            continue;
        }
        let lab = partial.into_iter().find_map(&unmet);
        planned.push(Planned {
            step,
            lab: if lab.is_some() {
                Lab::Excluded
            } else {
                Lab::Included
            },
        });
        left_out.extend(lab.map(|why| LeftOut {
            what: format!("{}, its part in the lab", step.name),
            why,
        }));
    }
    (planned, left_out)
}

/// The tools that the run installs: those that planned steps need, or all if the installation runs alone.
pub(super) fn tools_of(planned: &[Planned]) -> Vec<&'static Tool> {
    let mut tools = tools_in(planned.iter().map(|planned| planned.step));
    if tools.is_empty() {
        tools = tools_in(STEPS.iter());
    }
    tools
}

fn tools_in(steps: impl Iterator<Item = &'static Step>) -> Vec<&'static Tool> {
    let mut tools = Vec::new();
    for need in steps.flat_map(|step| step.needs) {
        if let Need::Tool(tool) = need
            && !tools.contains(tool)
        {
            tools.push(*tool);
        }
    }
    tools
}

impl Planned {
    /// The filter of a step of tests, narrowed to what the machine can do.
    pub(super) fn filter(&self) -> Option<String> {
        let Run::Tests { filter, .. } = self.step.run else {
            return None;
        };
        Some(match self.lab {
            Lab::Included => filter.to_owned(),
            Lab::Excluded => format!("({filter}) & not {LAB}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(planned: &[Planned]) -> Vec<&str> {
        planned.iter().map(|planned| planned.step.name).collect()
    }

    fn without(lacks: fn(&Need) -> bool) -> (Vec<Planned>, Vec<LeftOut>) {
        plan(&select(false, false, None), |need| {
            lacks(need).then(|| "reason".to_owned())
        })
    }

    #[test]
    fn fast_leaves_out_all_that_needs_go_root_or_a_slow_tool() {
        let (planned, left_out) = plan(&select(true, false, None), |_| None);
        assert_eq!(
            names(&planned),
            [
                "fmt", "edges", "words", "tools", "clippy", "crds", "rbac", "unit", "doctests"
            ]
        );
        assert!(left_out.is_empty());
        assert_eq!(tools_of(&planned).len(), 1);
    }

    #[test]
    fn all_versions_adds_to_the_full_run() {
        let full: Vec<&str> = select(false, false, None).iter().map(|s| s.name).collect();
        let all: Vec<&str> = select(false, true, None).iter().map(|s| s.name).collect();
        assert!(full.iter().all(|name| all.contains(name)));
        assert!(all.contains(&"e2e-1.33") && !full.contains(&"e2e-1.33"));
    }

    #[test]
    fn one_step_can_be_run_alone_whatever_run_it_belongs_to() {
        for step in STEPS {
            let alone: Vec<&str> = select(false, false, Some(step.name))
                .iter()
                .map(|s| s.name)
                .collect();
            assert_eq!(alone, [step.name]);
        }
    }

    #[test]
    fn installing_tools_alone_means_all_of_them() {
        let (alone, _) = plan(&select(false, false, Some("tools")), |_| None);
        assert_eq!(tools_of(&alone).len(), 4);
    }

    #[test]
    fn without_go_the_upstream_steps_are_left_out_with_the_reason() {
        let (planned, left_out) = without(|need| matches!(need, Need::Programs(_) | Need::Go));
        assert!(!names(&planned).contains(&"e2e") && names(&planned).contains(&"unit"));
        let what: Vec<&str> = left_out.iter().map(|left| left.what.as_str()).collect();
        let of_go = [
            "upstream",
            "tables",
            "diff-api",
            "e2e",
            "demo",
            "diff-statefulset",
            "bench",
        ];
        assert_eq!(what, of_go);
        assert!(left_out.iter().all(|left| left.why == "reason"));
    }

    #[test]
    fn without_root_the_lab_is_left_out_and_the_rest_of_its_step_runs() {
        let (planned, left_out) = without(|need| matches!(need, Need::Lab | Need::LabForSome));
        let e2e = planned
            .iter()
            .find(|planned| planned.step.name == "e2e")
            .unwrap();
        assert!(e2e.filter().unwrap().ends_with("& not binary(/^lab/)"));
        let what: Vec<&str> = left_out.iter().map(|left| left.what.as_str()).collect();
        assert_eq!(
            what,
            [
                "lab",
                "e2e, its part in the lab",
                "demo, its part in the lab"
            ]
        );
    }
}
