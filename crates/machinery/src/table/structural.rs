//! Shapes of custom resources, from the schema of one version of their definition.

use std::collections::BTreeMap;

use serde_json::Value;

use super::parse::list_kind;
use super::shape::{DEDUCED, Field, List, ListKind, Map, Node, Omit, Patch, Scalar, Shape, Shapes};
use super::table;

/// Schemas nested deeper than this are not looked into: what lies below is deduced.
const MAX_DEPTH: usize = 100;

impl Shapes {
    /// The shape of a custom resource: its schema with `apiVersion`, `kind` and `metadata` added.
    pub fn structural(schema: &Value) -> Self {
        let mut builder = Builder {
            shapes: Self::default(),
            imported: BTreeMap::new(),
        };
        let root = builder.node(schema, false, MAX_DEPTH);
        builder.shapes.root = root;
        builder.embed(root);
        builder.shapes
    }
}

struct Builder {
    shapes: Shapes,
    /// Shapes taken over from the table, by their place there.
    imported: BTreeMap<usize, usize>,
}

impl Builder {
    /// `preserving` is inherited: an ancestor keeps unknown fields.
    fn node(&mut self, schema: &Value, preserving: bool, depth: usize) -> usize {
        if depth == 0 {
            return DEDUCED;
        }
        let preserving = preserving || schema["x-kubernetes-preserve-unknown-fields"] == true;
        let mut node = Node {
            scalar: scalar(schema),
            ..Node::default()
        };
        let kind = schema["type"].as_str();
        if matches!(kind, None | Some("array")) {
            node.list = Some(self.list(schema, preserving, depth));
        }
        if matches!(kind, None | Some("object")) {
            node.map = Some(self.map(schema, preserving, depth));
        }
        let id = self.shapes.push(node);
        if schema["x-kubernetes-embedded-resource"] == true {
            self.embed(id);
        }
        id
    }

    fn list(&mut self, schema: &Value, preserving: bool, depth: usize) -> List {
        let items = match &schema["items"] {
            items @ Value::Object(_) => self.node(items, preserving, depth - 1),
            _ => DEDUCED,
        };
        let keys = schema["x-kubernetes-list-map-keys"].as_array();
        let keys = keys.into_iter().flatten().filter_map(Value::as_str);
        let kind = match schema["x-kubernetes-list-type"].as_str() {
            Some("map") => ListKind::Map(keys.map(str::to_owned).collect()),
            declared => list_kind(declared, &Patch::default()),
        };
        List { items, kind }
    }

    fn map(&mut self, schema: &Value, preserving: bool, depth: usize) -> Map {
        let mut fields = BTreeMap::new();
        let required = schema["required"].as_array();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let field = Field {
                id: self.node(property, preserving, depth - 1),
                required: required.is_some_and(|names| names.contains(&Value::from(&**name))),
                pointer: true,
                omit: Omit::Zero,
                default: property.get("default").cloned(),
                patch: Patch::default(),
            };
            fields.insert(name.clone(), field);
        }
        let others = match &schema["additionalProperties"] {
            values @ Value::Object(_) => Some(self.node(values, preserving, depth - 1)),
            Value::Bool(true) => Some(DEDUCED),
            _ => (fields.is_empty() || preserving).then_some(DEDUCED),
        };
        Map {
            fields,
            others,
            atomic: schema["x-kubernetes-map-type"] == "atomic",
        }
    }

    /// Every object has a type and metadata, whether its schema says so or not.
    fn embed(&mut self, id: usize) {
        let text = self.shapes.push(Node {
            scalar: Some(Scalar::Text),
            ..Node::default()
        });
        let metadata = self.import(table().object_meta());
        let Some(map) = &mut self.shapes.nodes[id].map else {
            return;
        };
        for (name, id) in [("apiVersion", text), ("kind", text), ("metadata", metadata)] {
            let field = Field {
                id,
                required: false,
                pointer: false,
                omit: Omit::Zero,
                default: None,
                patch: Patch::default(),
            };
            map.fields.insert(name.to_owned(), field);
        }
    }

    /// Copies a shape of the table with everything it refers to.
    fn import(&mut self, shape: Shape<'_>) -> usize {
        if shape.is_deduced() {
            return DEDUCED;
        }
        if let Some(known) = self.imported.get(&shape.id) {
            return *known;
        }
        let id = self.shapes.push(Node::default());
        self.imported.insert(shape.id, id);
        let mut node = shape.node().clone();
        if let Some(list) = &mut node.list {
            list.items = self.import(shape.items());
        }
        if let Some(map) = &mut node.map {
            map.others = shape.others().map(|others| self.import(others));
            for field in map.fields.values_mut() {
                field.id = self.import(shape.field_shape(field));
            }
        }
        self.shapes.nodes[id] = node;
        id
    }
}

fn scalar(schema: &Value) -> Option<Scalar> {
    Some(match schema["type"].as_str() {
        Some("string") => match schema["format"].as_str() {
            None => Scalar::Text,
            Some("byte") => Scalar::Bytes,
            Some(_) => Scalar::Any,
        },
        Some("integer") => Scalar::Int64,
        Some("number") => Scalar::Number,
        Some("boolean") => Scalar::Boolean,
        Some(_) => return None,
        None => Scalar::Any,
    })
}
