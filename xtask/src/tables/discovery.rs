//! Resources: names, scope, verbs and subresources, from the legacy discovery documents.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{documents, text};

/// Adds a `group` line per group, a `resource` line per resource and a `sub` line per subresource.
pub(super) fn render(folder: &Path, lines: &mut Vec<String>) -> Result<()> {
    let documents = documents(folder)?;
    for (name, document) in &documents {
        if name == "apis.json" {
            groups(document, lines)?;
        }
    }
    for (_, document) in &documents {
        if document["kind"] == "APIResourceList" {
            resources(document, lines)?;
        }
    }
    Ok(())
}

/// Groups in the order the server lists them, each with its versions, the preferred one first.
fn groups(document: &Value, lines: &mut Vec<String>) -> Result<()> {
    lines.push("group - v1".to_owned());
    for group in document["groups"].as_array().context("groups")? {
        let versions: Vec<&str> = group["versions"]
            .as_array()
            .context("versions")?
            .iter()
            .filter_map(|version| version["version"].as_str())
            .collect();
        lines.push(format!(
            "group {} {}",
            text(group, "name")?,
            versions.join(",")
        ));
    }
    Ok(())
}

fn resources(document: &Value, lines: &mut Vec<String>) -> Result<()> {
    let group_version = text(document, "groupVersion")?;
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    let mut subresources: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let all = document["resources"].as_array().context("resources")?;
    for resource in all {
        if let Some((parent, name)) = text(resource, "name")?.split_once('/') {
            subresources.entry(parent).or_default().push(format!(
                "sub {name} {}/{}/{} {}",
                resource["group"].as_str().unwrap_or(group),
                resource["version"].as_str().unwrap_or(version),
                text(resource, "kind")?,
                list(&resource["verbs"])
            ));
        }
    }
    for resource in all {
        let plural = text(resource, "name")?;
        let Some(parent) = (!plural.contains('/')).then_some(plural) else {
            continue;
        };
        lines.push(resource_line(group, version, resource)?);
        lines.extend(subresources.remove(parent).unwrap_or_default());
    }
    for (parent, rest) in subresources {
        anyhow::ensure!(
            rest.is_empty(),
            "subresources of the unknown resource {parent}"
        );
    }
    Ok(())
}

fn resource_line(group: &str, version: &str, resource: &Value) -> Result<String> {
    let scope = if resource["namespaced"] == true {
        "namespaced"
    } else {
        "cluster"
    };
    let mut words = vec![
        "resource",
        if group.is_empty() { "-" } else { group },
        version,
        text(resource, "name")?,
        text(resource, "singularName")?,
        text(resource, "kind")?,
        scope,
    ]
    .into_iter()
    .map(str::to_owned)
    .collect::<Vec<_>>();
    words.push(list(&resource["verbs"]));
    for (key, name) in [("shortNames", "short"), ("categories", "categories")] {
        if !resource[key].is_null() {
            words.push(format!("{name}={}", list(&resource[key])));
        }
    }
    Ok(words.join(" "))
}

fn list(value: &Value) -> String {
    let items: Vec<&str> = value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    items.join(",")
}
