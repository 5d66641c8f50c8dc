//! Shapes: what may stand at one place of an object.
//!
//! A shape allows up to three forms (scalar, list, map); the value at hand chooses. All shapes of a
//! table or of one custom resource lie in one arena, because types refer to themselves.

use std::collections::BTreeMap;

use serde_json::Value;

/// What a scalar is on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// A JSON string without further form.
    Text,
    /// Text that holds base64.
    Bytes,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of up to 64 bits.
    Int64,
    /// A number, with or without a fraction.
    Number,
    /// A JSON `true` or `false`.
    Boolean,
    /// An amount with a suffix, written in a canonical form.
    Quantity,
    /// A point in time with whole seconds.
    Time,
    /// A point in time with microseconds.
    MicroTime,
    /// A number or text.
    IntOrString,
    /// A scalar of any JSON type.
    Any,
}

/// How the items of a list are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    /// They are not: the list is replaced as a whole.
    Atomic,
    /// By their values, as in a set of strings.
    Set,
    /// By these fields of theirs.
    Map(Vec<String>),
}

/// How strategic merge patch treats a field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    /// Lists: merge the items.
    pub merge: bool,
    /// Maps: take the patch as it is.
    pub replace: bool,
    /// Clients name the keys that stay.
    pub retain_keys: bool,
    /// The field by which list items are matched.
    pub key: Option<String>,
}

/// When a field that is not set is left out of the JSON form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Omit {
    /// The field appears even if it is empty or null.
    Never,
    /// When it is empty; structs never are.
    Empty,
    /// When it is zero, structs included.
    Zero,
}

/// A declared field of a map.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Where its shape lies in the arena.
    pub(super) id: usize,
    /// Whether the schema requires the field.
    pub required: bool,
    /// Absent differs from empty.
    pub pointer: bool,
    /// When it is left out of the JSON form.
    pub omit: Omit,
    /// Completes list keys (and, for custom resources, objects).
    pub default: Option<Value>,
    /// Rules of strategic merge patch.
    pub patch: Patch,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct List {
    pub(super) items: usize,
    pub(super) kind: ListKind,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Map {
    pub(super) fields: BTreeMap<String, Field>,
    pub(super) others: Option<usize>,
    pub(super) atomic: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Node {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<List>,
    pub(super) map: Option<Map>,
}

/// An arena of shapes.
#[derive(Debug, Clone)]
pub struct Shapes {
    pub(super) nodes: Vec<Node>,
    pub(super) names: BTreeMap<String, usize>,
    pub(super) root: usize,
}

/// Where the shape of values without a schema lies in every arena.
pub(super) const DEDUCED: usize = 0;
/// Where the shape of opaque values lies in every arena.
pub(super) const RAW: usize = 1;

impl Default for Shapes {
    fn default() -> Self {
        Self {
            nodes: vec![free(DEDUCED, false), free(RAW, true)],
            names: BTreeMap::new(),
            root: DEDUCED,
        }
    }
}

/// A node that allows everything.
fn free(id: usize, atomic: bool) -> Node {
    Node {
        scalar: Some(Scalar::Any),
        list: Some(List {
            items: id,
            kind: ListKind::Atomic,
        }),
        map: Some(Map {
            others: Some(id),
            atomic,
            ..Map::default()
        }),
    }
}

impl Shapes {
    /// The shape of the whole object.
    pub fn root(&self) -> Shape<'_> {
        self.at(self.root)
    }

    /// The shape of values nothing is known about.
    pub fn deduced(&self) -> Shape<'_> {
        self.at(DEDUCED)
    }

    pub(super) fn named(&self, name: &str) -> Option<Shape<'_>> {
        self.names.get(name).map(|id| self.at(*id))
    }

    pub(super) fn at(&self, id: usize) -> Shape<'_> {
        Shape { shapes: self, id }
    }

    pub(super) fn push(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }
}

/// A view of one shape.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'a> {
    pub(super) shapes: &'a Shapes,
    pub(super) id: usize,
}

impl<'a> Shape<'a> {
    pub(super) fn node(self) -> &'a Node {
        &self.shapes.nodes[self.id]
    }

    /// The scalar form, if it is allowed.
    pub fn scalar(self) -> Option<Scalar> {
        self.node().scalar
    }

    /// How list items are told apart, if a list is allowed.
    pub fn list(self) -> Option<&'a ListKind> {
        self.node().list.as_ref().map(|list| &list.kind)
    }

    /// Whether a map is allowed.
    pub fn is_map(self) -> bool {
        self.node().map.is_some()
    }

    /// Whether a map is allowed and is replaced as a whole.
    pub fn is_atomic_map(self) -> bool {
        self.node().map.as_ref().is_some_and(|map| map.atomic)
    }

    /// Whether a list is allowed and is replaced as a whole.
    pub fn is_atomic_list(self) -> bool {
        self.list() == Some(&ListKind::Atomic)
    }

    /// The shape of list items; deduced if no list is allowed.
    #[must_use]
    pub fn items(self) -> Shape<'a> {
        let id = self.node().list.as_ref().map_or(DEDUCED, |list| list.items);
        self.shapes.at(id)
    }

    /// A field that the type declares under this name.
    pub fn field(self, name: &str) -> Option<&'a Field> {
        self.node().map.as_ref()?.fields.get(name)
    }

    /// The fields that the type declares, in order of their names.
    pub fn fields(self) -> impl Iterator<Item = (&'a str, &'a Field)> {
        let map = self.node().map.as_ref();
        map.into_iter()
            .flat_map(|map| map.fields.iter().map(|(name, field)| (&**name, field)))
    }

    /// The shape of a declared field of this map.
    #[must_use]
    pub fn field_shape(self, field: &Field) -> Shape<'a> {
        self.shapes.at(field.id)
    }

    /// The shape of values under keys that are not declared, if such keys are allowed.
    pub fn others(self) -> Option<Shape<'a>> {
        let others = self.node().map.as_ref()?.others?;
        Some(self.shapes.at(others))
    }

    /// The shape of the value under a key, if the key is allowed.
    pub fn child(self, key: &str) -> Option<Shape<'a>> {
        match self.field(key) {
            Some(field) => Some(self.field_shape(field)),
            None => self.others(),
        }
    }

    /// Like [`Shape::child`], but deduced where the key is not allowed.
    #[must_use]
    pub fn child_or_deduced(self, key: &str) -> Shape<'a> {
        self.child(key).unwrap_or(self.shapes.deduced())
    }

    /// Whether nothing is known of values here, at any depth.
    pub fn is_deduced(self) -> bool {
        self.id == DEDUCED
    }
}
