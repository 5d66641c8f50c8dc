//! A DeploymentGrid or a StatefulSetGrid, read once for all the decisions about it.
//!
//! The two kinds differ in what they stamp, not in how: canary, rollout, claims and status follow
//! the same rules. What does differ is said by [`WorkloadKind`].

use std::collections::BTreeMap;

use edgegrid_api::names::DEFAULT_TEMPLATE;
use edgegrid_api::{DeploymentGrid, Rollout, StatefulSetGrid, WhenUnreachable};
use kube::core::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

use crate::digest::digest;
use crate::step::ObjectId;
use crate::toleration;
use crate::unit_names::label_value;
use crate::workload_kind::WorkloadKind;

/// A grid of workloads.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Kind of workload that it stamps.
    pub workload: WorkloadKind,
    /// Metadata of the grid itself.
    pub metadata: ObjectMeta,
    /// Node label key that names the units; `None` if it is missing or empty.
    pub key: Option<String>,
    /// Which unit gets which template.
    pub templates: Templates,
    /// Whether templates that nothing names are dropped from the pool.
    pub drops_unused: bool,
    /// How a changed template reaches the units.
    pub rollout: Rollout,
    /// What becomes of pods on a node that the cluster no longer reaches; part of the templates already.
    pub when_unreachable: Option<WhenUnreachable>,
    /// Changes whenever what is stamped does.
    pub digest: String,
}

/// The templates of a grid and who gets which.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Templates {
    /// `spec.template`, which units get by default.
    pub default: Option<Template>,
    /// `spec.templatePool`: further templates by name.
    pub pool: BTreeMap<String, Template>,
    /// `spec.templates`: names of templates by unit.
    pub by_unit: BTreeMap<String, String>,
    /// `spec.defaultTemplateName`; `None` means `spec.template`.
    pub default_name: Option<String>,
}

/// One template, read once for all units that get it.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// The workload's spec as written, with what `whenUnreachable` asks for, and without nulls, which mean
    /// "not there" in Kubernetes.
    pub spec: Value,
    /// Hash of it without `replicas`, which no rollout is about.
    pub digest: String,
}

impl Grid {
    /// Name of the grid, empty if it has none.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Namespace of the grid, empty if it has none.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Uid of the grid, empty if it has none.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The value of [`edgegrid_api::names::label::GRID_SELECTOR`] on the grid's children.
    pub fn selector_value(&self) -> String {
        label_value(self.name())
    }

    /// Kind, namespace and name of the grid itself.
    pub fn id(&self) -> ObjectId {
        ObjectId::namespaced(self.workload.grid_kind(), self.namespace(), self.name())
    }

    /// Kind, namespace and name of the grid's child of this name.
    pub fn child(&self, name: &str) -> ObjectId {
        ObjectId::namespaced(self.workload.kind(), self.namespace(), name)
    }

    fn finish(mut self) -> Self {
        if let Some(when_unreachable) = &self.when_unreachable {
            self.templates.tolerate(when_unreachable);
        }
        let templates = &self.templates;
        let specs = |template: &Template| template.spec.clone();
        let stamped = json!([
            self.metadata.uid,
            self.metadata.labels,
            self.key,
            templates.default.as_ref().map(specs),
            templates.pool.values().map(specs).collect::<Vec<_>>(),
            templates.pool.keys().collect::<Vec<_>>(),
            templates.by_unit,
            templates.default_name,
        ]);
        self.digest = digest(&stamped.to_string());
        self
    }
}

impl Templates {
    fn tolerate(&mut self, when_unreachable: &WhenUnreachable) {
        for template in self.default.iter_mut().chain(self.pool.values_mut()) {
            let mut spec = std::mem::take(&mut template.spec);
            toleration::stamp(&mut spec, when_unreachable);
            *template = Template::from_spec(spec);
        }
    }
}

impl Template {
    /// A template as the user wrote it.
    pub fn new(written: &impl Serialize) -> Self {
        let spec = without_nulls(serde_json::to_value(written).unwrap_or_default());
        Self::from_spec(spec)
    }

    fn from_spec(spec: Value) -> Self {
        let mut counted = spec.clone();
        if let Some(fields) = counted.as_object_mut() {
            fields.remove("replicas");
        }
        Self {
            digest: digest(&counted.to_string()),
            spec,
        }
    }

    /// The number of pods it asks for, if it does.
    pub fn replicas(&self) -> Option<i64> {
        self.spec.get("replicas").and_then(Value::as_i64)
    }
}

impl From<&DeploymentGrid> for Grid {
    fn from(grid: &DeploymentGrid) -> Self {
        let spec = &grid.spec;
        Self {
            workload: WorkloadKind::Deployment,
            metadata: grid.metadata.clone(),
            key: non_empty(spec.grid_uniq_key.as_deref()),
            templates: Templates {
                default: spec.template.as_ref().map(Template::new),
                pool: pool(&spec.template_pool),
                by_unit: spec.templates.clone(),
                default_name: template_name(spec.default_template_name.as_deref()),
            },
            drops_unused: spec.auto_delete_unused_template,
            rollout: spec.rollout.clone().unwrap_or_default(),
            when_unreachable: spec.when_unreachable.clone(),
            digest: String::new(),
        }
        .finish()
    }
}

impl From<&StatefulSetGrid> for Grid {
    fn from(grid: &StatefulSetGrid) -> Self {
        let spec = &grid.spec;
        Self {
            workload: WorkloadKind::StatefulSet,
            metadata: grid.metadata.clone(),
            key: non_empty(spec.grid_uniq_key.as_deref()),
            templates: Templates {
                default: spec.template.as_ref().map(Template::new),
                pool: pool(&spec.template_pool),
                by_unit: spec.templates.clone(),
                default_name: template_name(spec.default_template_name.as_deref()),
            },
            drops_unused: spec.auto_delete_unused_template,
            rollout: spec.rollout.clone().unwrap_or_default(),
            when_unreachable: spec.when_unreachable.clone(),
            digest: String::new(),
        }
        .finish()
    }
}

/// A template's name; `None` for `default` and empty, which mean `spec.template`.
pub(crate) fn template_name(name: Option<&str>) -> Option<String> {
    non_empty(name).filter(|name| name != DEFAULT_TEMPLATE)
}

/// A value without the members of objects that are null, at any depth.
pub(crate) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, member)| !member.is_null())
            .map(|(name, member)| (name, without_nulls(member)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

fn pool<T: Serialize>(templates: &BTreeMap<String, T>) -> BTreeMap<String, Template> {
    templates
        .iter()
        .map(|(name, template)| (name.clone(), Template::new(template)))
        .collect()
}

fn non_empty(text: Option<&str>) -> Option<String> {
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}
