//! Reads the generated data file.
//!
//! ```text
//! kubernetes 1.37.1
//! group apps v1
//! resource apps v1 deployments deployment Deployment namespaced create,delete,… short=deploy
//! sub scale autoscaling/v1/Scale get,patch,update
//! type io.k8s.api.core.v1.Container
//!  ports []io.k8s.api.core.v1.ContainerPort ? list=map:containerPort,protocol patch=merge key=containerPort
//! ```
//!
//! The file is ours and a test reads all of it, so a line that makes no sense is skipped.

use std::collections::BTreeMap;

use super::shape::{DEDUCED, Field, List, ListKind, Map, Node, Omit, Patch, RAW, Scalar, Shapes};
use super::{ApiResource, Subresource, Table};

pub(super) fn table(text: &str) -> Table {
    let mut reader = Reader::new(text);
    for line in text.lines() {
        reader.line(line);
    }
    reader.finish()
}

struct Reader {
    table: Table,
    /// The type whose fields are being read.
    current: usize,
    /// Fields that refer to a type but override whether it is atomic: (node, type, atomic).
    overrides: Vec<(usize, usize, bool)>,
}

impl Reader {
    /// All type names are known before the first field is read.
    fn new(text: &str) -> Self {
        let mut shapes = Shapes::default();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("type ") {
                let name = rest.split(' ').next().unwrap_or(rest);
                let id = shapes.push(Node::default());
                shapes.names.insert(name.to_owned(), id);
            }
        }
        Self {
            table: Table {
                version: String::new(),
                groups: Vec::new(),
                resources: Vec::new(),
                shapes,
                kinds: BTreeMap::new(),
            },
            current: DEDUCED,
            overrides: Vec::new(),
        }
    }

    fn line(&mut self, line: &str) {
        if let Some(field) = line.strip_prefix(' ') {
            // A default is JSON and may hold spaces: it is always last.
            let (field, default) = match field.split_once(" default=") {
                Some((field, json)) => (field, Some(json)),
                None => (field, None),
            };
            return self.field(field, default);
        }
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["kubernetes", version] => (*version).clone_into(&mut self.table.version),
            ["group", name, versions] => self.table.groups.push((group(name), split(versions))),
            ["resource", rest @ ..] => self.table.resources.extend(resource(rest)),
            ["sub", name, kind, verbs] => self.subresource(name, kind, verbs),
            ["type", name, rest @ ..] => self.type_line(name, rest),
            _ => {}
        }
    }

    fn subresource(&mut self, name: &str, kind: &str, verbs: &str) {
        let mut parts = kind.splitn(3, '/').map(str::to_owned);
        let mut part = || parts.next().unwrap_or_default();
        let subresource = Subresource {
            name: name.to_owned(),
            group: part(),
            version: part(),
            kind: part(),
            verbs: split(verbs),
        };
        if let Some(parent) = self.table.resources.last_mut() {
            parent.subresources.push(subresource);
        }
    }

    fn type_line(&mut self, name: &str, rest: &[&str]) {
        self.current = self.table.shapes.names[name];
        let mut node = Node {
            map: Some(Map::default()),
            ..Node::default()
        };
        for word in rest {
            match word.split_once('=') {
                Some(("kind", kind)) => {
                    let mut parts = kind.splitn(3, '/').map(str::to_owned);
                    let mut part = || parts.next().unwrap_or_default();
                    self.table
                        .kinds
                        .insert((part(), part(), part()), self.current);
                }
                Some(("as", form)) => node = special(form),
                _ if *word == "atomic" => {
                    node.map = node.map.map(|map| Map {
                        atomic: true,
                        ..map
                    });
                }
                _ => {}
            }
        }
        self.table.shapes.nodes[self.current] = node;
    }

    fn field(&mut self, line: &str, default: Option<&str>) {
        let mut words = line.split(' ');
        let (Some(name), Some(kind)) = (words.next(), words.next()) else {
            return;
        };
        let flags: BTreeMap<&str, &str> = words
            .map(|word| word.split_once('=').unwrap_or(("", word)))
            .collect();
        let marks = flags.get("").copied().unwrap_or_default();
        let strategy = flags.get("patch").copied().unwrap_or_default();
        let patch = Patch {
            merge: strategy.contains("merge"),
            replace: strategy.contains("replace"),
            retain_keys: strategy.contains("retainKeys"),
            key: flags.get("key").map(|key| (*key).to_owned()),
        };
        let mut id = self.expression(kind);
        if let Some(list) = &mut self.table.shapes.nodes[id].list
            && kind.starts_with("[]")
        {
            list.kind = list_kind(flags.get("list").copied(), &patch);
        }
        if let Some(map) = flags.get("map") {
            let target = id;
            id = self.table.shapes.push(Node::default());
            self.overrides.push((id, target, *map == "atomic"));
        }
        let field = Field {
            id,
            required: marks.contains('!'),
            pointer: marks.contains('*'),
            omit: omit(marks),
            default: default.and_then(|json| serde_json::from_str(json).ok()),
            patch,
        };
        if let Some(map) = &mut self.table.shapes.nodes[self.current].map {
            map.fields.insert(name.to_owned(), field);
        }
    }

    /// The node of a type expression; inline types get a node of their own.
    fn expression(&mut self, kind: &str) -> usize {
        if let Some(items) = kind.strip_prefix("[]") {
            let items = self.expression(items);
            return self.table.shapes.push(Node {
                list: Some(List {
                    items,
                    kind: ListKind::Atomic,
                }),
                ..Node::default()
            });
        }
        if let Some(values) = kind.strip_prefix("{}").filter(|values| !values.is_empty()) {
            let others = Some(self.expression(values));
            return self.table.shapes.push(Node {
                map: Some(Map {
                    others,
                    ..Map::default()
                }),
                ..Node::default()
            });
        }
        match self.table.shapes.names.get(kind) {
            Some(id) => *id,
            None if kind == "any" => DEDUCED,
            None => self.table.shapes.push(special(kind)),
        }
    }

    fn finish(mut self) -> Table {
        let shapes = &mut self.table.shapes;
        for (id, target, atomic) in self.overrides {
            let mut node = shapes.nodes[target].clone();
            if let Some(map) = &mut node.map {
                map.atomic = atomic;
            }
            shapes.nodes[id] = node;
        }
        self.table
    }
}

/// Types that are not structs.
fn special(form: &str) -> Node {
    let scalar = match form {
        "string" => Scalar::Text,
        "bytes" => Scalar::Bytes,
        "int32" => Scalar::Int32,
        "int64" | "integer" => Scalar::Int64,
        "double" | "number" => Scalar::Number,
        "boolean" => Scalar::Boolean,
        "quantity" => Scalar::Quantity,
        "time" => Scalar::Time,
        "micro-time" => Scalar::MicroTime,
        "int-or-string" => Scalar::IntOrString,
        "raw" => return Shapes::default().nodes[RAW].clone(),
        "any" => return Shapes::default().nodes[DEDUCED].clone(),
        _ => {
            return Node {
                map: Some(Map {
                    others: Some(DEDUCED),
                    ..Map::default()
                }),
                ..Node::default()
            };
        }
    };
    Node {
        scalar: Some(scalar),
        ..Node::default()
    }
}

fn omit(marks: &str) -> Omit {
    match marks {
        marks if marks.contains('~') => Omit::Zero,
        marks if marks.contains('?') => Omit::Empty,
        _ => Omit::Never,
    }
}

/// An explicit list type wins; else a list that patches merge is keyed the same way for apply.
pub(super) fn list_kind(declared: Option<&str>, patch: &Patch) -> ListKind {
    match declared {
        Some("set") => ListKind::Set,
        Some(map) if map.starts_with("map:") => ListKind::Map(split(&map["map:".len()..])),
        Some(_) => ListKind::Atomic,
        None if !patch.merge => ListKind::Atomic,
        None => match &patch.key {
            Some(key) => ListKind::Map(vec![key.clone()]),
            None => ListKind::Set,
        },
    }
}

fn resource(words: &[&str]) -> Option<ApiResource> {
    let [
        name,
        version,
        plural,
        singular,
        kind,
        scope,
        verbs,
        rest @ ..,
    ] = words
    else {
        return None;
    };
    let option = |key: &str| {
        let value = rest.iter().find_map(|word| word.strip_prefix(key));
        value.map(split).unwrap_or_default()
    };
    Some(ApiResource {
        group: group(name),
        version: (*version).to_owned(),
        plural: (*plural).to_owned(),
        singular: (*singular).to_owned(),
        kind: (*kind).to_owned(),
        namespaced: *scope == "namespaced",
        verbs: split(verbs),
        short_names: option("short="),
        categories: option("categories="),
        subresources: Vec::new(),
    })
}

/// The core group has no name, and is written as a dash.
fn group(name: &str) -> String {
    name.trim_matches('-').to_owned()
}

fn split(list: &str) -> Vec<String> {
    list.split(',').map(str::to_owned).collect()
}
