//! What the schemas do not say but the wire form depends on: whether a Go field is a pointer, and
//! whether it is left out when empty.
//!
//! Go's own parser is not needed: the API packages are formatted by gofmt and declare one field
//! per line.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::Modules;

/// How Go writes one field to JSON.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tag {
    /// A pointer: absent differs from empty.
    pub(super) pointer: bool,
    /// Left out when empty.
    pub(super) omitted: bool,
    /// Left out when zero, even if it is a struct.
    pub(super) omitted_zero: bool,
}

#[derive(Clone, Default)]
struct Struct {
    fields: BTreeMap<String, Tag>,
    embedded: Vec<String>,
}

type Package = BTreeMap<String, Struct>;

/// The structs of all API packages, read when first asked for.
pub(super) struct Structs<'a> {
    modules: &'a Modules,
    packages: RefCell<BTreeMap<PathBuf, Package>>,
}

impl<'a> Structs<'a> {
    /// No package is read yet.
    pub(super) fn new(modules: &'a Modules) -> Self {
        Self {
            modules,
            packages: RefCell::default(),
        }
    }

    /// How `field` of the type called `definition` in the schemas is written; nothing if Go's
    /// declaration was not found.
    pub(super) fn tag(&self, definition: &str, field: &str) -> Option<Tag> {
        let (folder, name) = self.declaration(definition)?;
        let mut packages = self.packages.borrow_mut();
        let package = packages
            .entry(folder.clone())
            .or_insert_with(|| read(&folder));
        find(package, name, field)
    }

    /// Folder and type name: `io.k8s.api.apps.v1.Deployment` lies in `k8s.io/api/apps/v1`.
    fn declaration<'d>(&self, definition: &'d str) -> Option<(PathBuf, &'d str)> {
        let rest = definition.strip_prefix("io.k8s.")?;
        let (module, rest) = rest.split_once('.')?;
        let (package, name) = rest.rsplit_once('.')?;
        let root = self.modules.folder(&format!("k8s.io/{module}")).ok()?;
        Some((root.join(package.replace('.', "/")), name))
    }
}

fn find(package: &Package, name: &str, field: &str) -> Option<Tag> {
    let declared = package.get(name)?;
    let embedded = || {
        let mut inner = declared.embedded.iter();
        inner.find_map(|name| find(package, name, field))
    };
    declared.fields.get(field).copied().or_else(embedded)
}

fn read(folder: &PathBuf) -> Package {
    let mut package = Package::new();
    let Ok(entries) = fs::read_dir(folder) else {
        return package;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".go") && !name.starts_with("zz_") && !name.starts_with("generated") {
            parse(&fs::read_to_string(&path).unwrap_or_default(), &mut package);
        }
    }
    package
}

fn parse(source: &str, package: &mut Package) {
    let mut current: Option<(String, Struct)> = None;
    for line in source.lines() {
        if let Some(name) = line
            .strip_prefix("type ")
            .and_then(|rest| rest.strip_suffix(" struct {"))
        {
            current = Some((name.to_owned(), Struct::default()));
        } else if line == "}" {
            package.extend(current.take());
        } else if let Some((_, declared)) = current.as_mut() {
            field(line.trim(), declared);
        }
    }
}

/// A line such as `Name *Type` with its tag `json:"name,omitempty"`.
fn field(line: &str, declared: &mut Struct) {
    let Some((declaration, tags)) = line.split_once('`') else {
        return;
    };
    let Some((_, tag)) = tags.split_once("json:\"") else {
        return;
    };
    let mut options = tag.split('"').next().unwrap_or_default().split(',');
    let name = options.next().unwrap_or_default();
    let options: Vec<&str> = options.collect();
    let mut words = declaration.split_whitespace();
    let (first, second) = (words.next().unwrap_or_default(), words.next());
    if name.is_empty() {
        let embedded = second.unwrap_or(first).trim_start_matches('*');
        declared.embedded.push(embedded.to_owned());
        return;
    }
    let tag = Tag {
        pointer: second.unwrap_or(first).starts_with('*'),
        omitted: options.contains(&"omitempty"),
        omitted_zero: options.contains(&"omitzero"),
    };
    declared.fields.insert(name.to_owned(), tag);
}
