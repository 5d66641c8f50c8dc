//! What can be read, as data: names, where its objects are stored, and how they are served.

use crate::view::View;
use std::borrow::Cow;
use std::sync::Arc;

/// One served version of one kind.
#[derive(Debug, Clone)]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: Cow<'static, str>,
    /// The version that objects are shown in.
    pub version: Cow<'static, str>,
    /// Kind of an object.
    pub kind: Cow<'static, str>,
    /// Kind of a list of them.
    pub list_kind: Cow<'static, str>,
    /// Name in the path.
    pub plural: Cow<'static, str>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Where the objects are stored: `<prefix><namespace>/<name>` or `<prefix><name>`. Ends with a
    /// slash, and is no prefix of another kind's.
    pub key_prefix: Cow<'static, str>,
    /// What a field selector may ask for, beside `metadata.name` and `metadata.namespace`. The values
    /// are remembered with the view: resources that share prefix and view must share this table too.
    pub fields: Vec<Field>,
    /// How the stored bytes become the served ones.
    pub view: View,
}

/// A field that a field selector may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The name in the selector.
    pub name: Cow<'static, str>,
    /// Dotted paths into the document, with numbers for items of lists; the first that leads to a non-empty scalar gives the value.
    pub paths: Vec<Cow<'static, str>>,
    /// The value when no path leads anywhere, as in `spec.unschedulable` being `false`.
    pub default: Cow<'static, str>,
}

impl Resource {
    /// A cluster-scoped resource with the customary list kind and key prefix.
    pub fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        let separator = if group.is_empty() { "" } else { "." };
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            list_kind: format!("{kind}List").into(),
            plural: plural.into(),
            namespaced: false,
            key_prefix: format!("{plural}{separator}{group}/").into(),
            fields: Vec::new(),
            view: View::Stored,
        }
    }

    /// The same with its objects in namespaces.
    #[must_use]
    pub fn namespaced(mut self) -> Self {
        self.namespaced = true;
        self
    }

    /// The same with one more selectable field, found at the path of its name.
    #[must_use]
    pub fn selectable(mut self, name: &'static str, default: &'static str) -> Self {
        let paths = vec![name.into()];
        self.fields.push(Field {
            name: name.into(),
            paths,
            default: default.into(),
        });
        self
    }

    /// The form in which readers take it: watches outlive the request that opened them.
    pub fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }

    /// `apiVersion` of the objects and lists.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The key of an object; the namespace counts only where there are namespaces.
    pub fn key(&self, namespace: Option<&str>, name: &str) -> String {
        format!("{}{name}", self.collection(namespace))
    }

    /// What the keys of a collection start with.
    pub fn collection(&self, namespace: Option<&str>) -> String {
        match namespace {
            Some(namespace) if self.namespaced => format!("{}{namespace}/", self.key_prefix),
            _ => self.key_prefix.to_string(),
        }
    }

    /// Namespace (empty where there are none) and name of the object behind a key.
    pub(crate) fn names<'a>(&self, key: &'a str) -> (&'a str, &'a str) {
        let rest = key.strip_prefix(&*self.key_prefix).unwrap_or(key);
        if self.namespaced {
            rest.split_once('/').unwrap_or(("", rest))
        } else {
            ("", rest)
        }
    }
}
