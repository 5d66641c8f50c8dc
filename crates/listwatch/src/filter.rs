//! Which objects a client wants: the path's namespace, the label and the field selector.

use crate::resource::Resource;
use crate::served_object::{Memo, served_object};
use crate::view::Malformed;
use edgegrid_machinery::selector::{FieldSelector, LabelSelector};
use edgegrid_machinery::status::Status;
use edgegrid_store::Entry;
use std::sync::Arc;

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

/// A selection of a resource's objects.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) resource: Arc<Resource>,
    /// What all keys that can match start with.
    pub(crate) prefix: String,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Filter {
    pub(crate) fn parse(
        resource: &Arc<Resource>,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
    ) -> Result<Self, Status> {
        let unable =
            |error: edgegrid_machinery::selector::Error| Status::bad_request(error.to_string());
        let labels = LabelSelector::parse(labels).map_err(unable)?;
        let fields = FieldSelector::parse(fields).map_err(unable)?;
        if let Some(unknown) = fields.paths().find(|path| !is_known(resource, path)) {
            return Err(Status::bad_request(format!(
                "field label not supported: {unknown}"
            )));
        }
        let resource = Arc::clone(resource);
        let prefix = narrowest(&resource, namespace, &fields);
        Ok(Self {
            resource,
            prefix,
            labels,
            fields,
        })
    }

    /// Whether nothing but the path selects; only then is it known how many items remain.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object under the prefix is selected.
    pub(crate) fn matches(&self, entry: &Entry<Memo>) -> Result<bool, Malformed> {
        if self.is_empty() {
            return Ok(true);
        }
        let object = served_object(entry, &self.resource)?;
        if !self.labels.is_empty() && !self.labels.matches(object.labels()) {
            return Ok(false);
        }
        let (namespace, name) = self.resource.names(entry.key());
        Ok(self.fields.matches(|path| match path {
            NAME => Some(name.to_owned()),
            NAMESPACE => Some(namespace.to_owned()),
            _ => {
                let index = self
                    .resource
                    .fields
                    .iter()
                    .position(|field| field.name == path)?;
                object.fields(&self.resource.fields).get(index).cloned()
            }
        }))
    }
}

fn is_known(resource: &Resource, path: &str) -> bool {
    path == NAME
        || (path == NAMESPACE && resource.namespaced)
        || resource.fields.iter().any(|field| field.name == path)
}

/// A watch of one object must not wake for all others, so a selector that names it counts.
fn narrowest(resource: &Resource, namespace: Option<&str>, fields: &FieldSelector) -> String {
    let namespace = namespace
        .or(fields.exact(NAMESPACE))
        .filter(|_| resource.namespaced);
    match fields.exact(NAME) {
        Some(name) if namespace.is_some() || !resource.namespaced => resource.key(namespace, name),
        _ => resource.collection(namespace),
    }
}
