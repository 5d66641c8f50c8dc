//! Canary by unit: which template a unit gets, and which templates nobody gets any more.

use std::collections::BTreeSet;

use edgegrid_api::names::{DEFAULT_TEMPLATE, reason};
use serde_json::{Value, json};

use crate::failure::Problem;
use crate::federation;
use crate::grid::{Grid, Template, Templates, template_name};
use crate::json_pointer;
use crate::step::Step;

impl Templates {
    /// The template of a unit: the one `templates` names for it, else the default one. One that
    /// is not there is this unit's problem alone.
    pub fn chosen(&self, unit: &str) -> Result<&Template, Problem> {
        let name = match self.by_unit.get(unit) {
            Some(name) => template_name(Some(name)),
            None => self.default_name.clone(),
        };
        let found = match &name {
            Some(name) => self.pool.get(name),
            None => self.default.as_ref(),
        };
        found.ok_or_else(|| match name {
            Some(name) => Problem::new(
                reason::TEMPLATE_MISSING,
                format!(
                    "template {name} is not in spec.templatePool: add it there, or name another one in \
                     spec.templates or spec.defaultTemplateName"
                ),
            ),
            None => Problem::new(
                reason::TEMPLATE_MISSING,
                format!(
                    "the unit is to get {DEFAULT_TEMPLATE}, but spec.template is not there: write it, or name \
                     a template of spec.templatePool"
                ),
            ),
        })
    }

    /// Names in the pool that neither `templates` nor `defaultTemplateName` names. An entry called
    /// `default` can be named by nobody, since that name means `spec.template`.
    pub fn unused(&self) -> Vec<&str> {
        let used: BTreeSet<String> = self
            .by_unit
            .values()
            .filter_map(|name| template_name(Some(name)))
            .chain(self.default_name.clone())
            .collect();
        self.pool
            .keys()
            .filter(|name| !used.contains(*name))
            .map(String::as_str)
            .collect()
    }
}

/// Drops unused templates if the grid asks for it. Apply cannot remove what another manager owns, so
/// it is a patch, and one that a change by the user in the meantime makes void.
pub fn drop_unused(grid: &Grid) -> Option<Step> {
    let unused = grid.templates.unused();
    // One that comes from a control cluster is to be as it is there, where this is done.
    let is_others = federation::is_from_control(&grid.metadata);
    if !grid.drops_unused || unused.is_empty() || is_others {
        return None;
    }
    let operations: Vec<Value> = unused
        .iter()
        .map(|name| json!({ "op": "remove", "path": format!("/spec/templatePool/{}", json_pointer::escape(name)) }))
        .collect();
    Some(Step::Patch {
        id: grid.id(),
        resource_version: grid.metadata.resource_version.clone()?,
        operations,
    })
}

#[cfg(test)]
mod tests {
    use edgegrid_api::DeploymentGrid;

    use super::*;

    fn grid(spec: &Value) -> Grid {
        let grid: DeploymentGrid = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "default", "uid": "g", "resourceVersion": "7" },
            "spec": spec,
        }))
        .unwrap();
        Grid::from(&grid)
    }

    fn canary() -> Grid {
        grid(&json!({
            "template": { "replicas": 1 },
            "templatePool": { "test1": { "replicas": 2 }, "test2": { "replicas": 3 }, "a/b": {}, "default": {} },
            "templates": { "zone1": "test1", "zone2": "test2", "zone3": "default", "zone4": "", "zone5": "gone" },
            "defaultTemplateName": "test1",
            "autoDeleteUnusedTemplate": true,
        }))
    }

    #[test]
    fn a_unit_gets_the_template_named_for_it_else_the_default() {
        let grid = canary();
        let replicas = |unit| grid.templates.chosen(unit).map(Template::replicas);
        assert_eq!(replicas("zone1"), Ok(Some(2)));
        assert_eq!(replicas("zone2"), Ok(Some(3)));
        assert_eq!(replicas("elsewhere"), Ok(Some(2)));
        // `default` and empty mean `spec.template`, though the pool has an entry of that name.
        assert_eq!(replicas("zone3"), Ok(Some(1)));
        assert_eq!(replicas("zone4"), Ok(Some(1)));
    }

    #[test]
    fn a_template_that_is_not_there_is_the_problem_of_its_unit() {
        let problem = canary().templates.chosen("zone5").unwrap_err();
        assert_eq!(problem.reason, reason::TEMPLATE_MISSING);
        assert!(problem.message.contains("gone"), "{}", problem.message);
    }

    #[test]
    fn only_templates_that_nothing_names_are_dropped() {
        let Some(Step::Patch {
            operations,
            resource_version,
            ..
        }) = drop_unused(&canary())
        else {
            panic!("nothing to drop");
        };
        assert_eq!(resource_version, "7");
        let paths: Vec<_> = operations
            .iter()
            .map(|operation| &operation["path"])
            .collect();
        assert_eq!(
            paths,
            ["/spec/templatePool/a~1b", "/spec/templatePool/default"]
        );
    }

    #[test]
    fn nothing_is_dropped_unless_asked_for() {
        let mut grid = canary();
        grid.drops_unused = false;
        assert_eq!(drop_unused(&grid), None);
    }
}
