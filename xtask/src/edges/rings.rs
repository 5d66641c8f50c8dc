//! Do top-level modules of a crate use each other in a ring?
//!
//! ```text
//! a target's root file ─► its modules, without #[cfg(test)] ─► `crate::…`, `super::…` ─► who uses whom ─► rings
//! ```
//!
//! Read from tokens, not from text: comments and documentation do not count, paths inside macros do.
//! A name that the root file re-exports counts as its module; what the root file defines itself is
//! a module of its own here, called by the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::process;

/// The rings of one target, each as text with a line for every use inside it.
pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let mut source = Source::default();
    source.read(root, &[])?;
    let uses = source.uses(&stem(root));
    let shown = root.strip_prefix(process::root()).unwrap_or(root);
    Ok(rings(&uses)
        .iter()
        .map(|ring| describe(shown, ring, &uses))
        .collect())
}

/// Who uses whom, and the first place where.
type Uses = BTreeMap<(String, String), String>;

/// What all files of a target say, before names are resolved.
#[derive(Default)]
struct Source {
    modules: BTreeSet<String>,
    /// Names that the root file brings in, and the module each comes from.
    imports: BTreeMap<String, String>,
    /// Names that the root file brings in for itself: the others are re-exports.
    private: BTreeSet<String>,
    mentions: Vec<Mention>,
}

/// A path that starts at the root of the crate: who says it, and its first name.
struct Mention {
    from: Option<String>,
    name: String,
    place: String,
}

impl Source {
    /// Reads a file and the modules it declares; `module` is its path in the crate.
    fn read(&mut self, file: &Path, module: &[String]) -> Result<()> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        let tokens: TokenStream = text
            .parse()
            .map_err(|error| anyhow!("{}: {error}", file.display()))?;
        let at = At { file, module };
        self.items(tokens, &at)
    }

    fn items(&mut self, tokens: TokenStream, at: &At<'_>) -> Result<()> {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut rest = tokens.as_slice();
        while !rest.is_empty() {
            let (item, after) = rest.split_at(item_length(rest));
            rest = after;
            if !is_test(item) {
                self.item(item, at)?;
            }
        }
        Ok(())
    }

    fn item(&mut self, item: &[TokenTree], at: &At<'_>) -> Result<()> {
        if let Some((name, body)) = module(item) {
            if at.module.is_empty() {
                self.modules.insert(name.clone());
            }
            let inner = [at.module, std::slice::from_ref(&name)].concat();
            return match body {
                Some(tokens) => self.items(
                    tokens,
                    &At {
                        file: at.file,
                        module: &inner,
                    },
                ),
                None => match path_attribute(item) {
                    Some(path) => self.read(&at.file.with_file_name(path), &inner),
                    None => self.read(&at.file_of(&name)?, &inner),
                },
            };
        }
        if at.module.is_empty() && self.import(item) {
            return Ok(());
        }
        self.paths(item, at);
        Ok(())
    }

    /// Takes in a `use` of the root file; whether it is one.
    fn import(&mut self, item: &[TokenTree]) -> bool {
        let Some(start) = item.iter().position(|token| is_ident(token, "use")) else {
            return false;
        };
        let is_item = item[..start].iter().all(|token| {
            matches!(token, TokenTree::Group(_))
                || is_ident(token, "pub")
                || matches!(token, TokenTree::Punct(p) if p.as_char() == '#')
        });
        if is_item {
            let is_private = !item[..start].iter().any(|token| is_ident(token, "pub"));
            let mut path = item[start + 1..].to_vec();
            while matches!(path.first(), Some(token) if is_ident(token, "crate") || is_ident(token, "self"))
            {
                path.drain(..3);
            }
            if let Some(TokenTree::Ident(module)) = path.first() {
                let module = module.to_string();
                for name in leaves(&path) {
                    if is_private {
                        self.private.insert(name.clone());
                    }
                    self.imports.insert(name, module.clone());
                }
            }
        }
        is_item
    }

    /// Notes every path among the tokens that leads to the root of the crate, at any depth.
    fn paths(&mut self, tokens: &[TokenTree], at: &At<'_>) {
        for (n, token) in tokens.iter().enumerate() {
            if let TokenTree::Group(group) = token {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                self.paths(&inner, at);
            }
            if n > 1 && is_colons(&tokens[n - 2..n]) {
                continue;
            }
            for name in at.names_below_root(&tokens[n..]) {
                self.mentions.push(Mention {
                    from: at.module.first().cloned(),
                    name,
                    place: at.place(token),
                });
            }
        }
    }

    /// Resolves the names that were mentioned; `root` is what the root file is called.
    fn uses(&self, root: &str) -> Uses {
        let mut uses = Uses::new();
        for mention in &self.mentions {
            let from = mention.from.as_deref();
            let imported = self.imports.get(&mention.name);
            let target = if self.modules.contains(&mention.name) {
                Some(&mention.name)
            } else {
                imported.filter(|module| self.modules.contains(*module))
            };
            let is_unused_by_root =
                from.is_none() && (target.is_none() || !self.is_local(&mention.name));
            // A name of the root file that is neither a module nor imported is defined there.
            let is_foreign = target.is_none() && imported.is_some();
            if is_unused_by_root || is_foreign {
                continue;
            }
            let (from, to) = (from.unwrap_or(root), target.map_or(root, String::as_str));
            if from != to {
                uses.entry((from.to_owned(), to.to_owned()))
                    .or_insert_with(|| mention.place.clone());
            }
        }
        uses
    }

    /// Whether the root file means this name for its own use.
    fn is_local(&self, name: &str) -> bool {
        self.modules.contains(name) || self.private.contains(name)
    }
}

/// The file and module that tokens are read from.
struct At<'a> {
    file: &'a Path,
    module: &'a [String],
}

impl At<'_> {
    /// The names right below the crate's root that a path beginning here leads to.
    fn names_below_root(&self, tokens: &[TokenTree]) -> Vec<String> {
        let mut depth = self.module.len();
        let mut rest = tokens;
        let Some(TokenTree::Ident(first)) = rest.first() else {
            return Vec::new();
        };
        if first == "crate" {
            depth = 0;
            rest = &rest[1..];
        } else if first == "super" {
            while let Some(token) = rest.first()
                && is_ident(token, "super")
                && depth > 0
            {
                depth -= 1;
                rest = &rest[1..];
                if is_colons(rest) && matches!(rest.get(2), Some(token) if is_ident(token, "super"))
                {
                    rest = &rest[2..];
                }
            }
        } else if depth == 0 {
            return vec![first.to_string()]; // in the root file every name may be one
        } else {
            return Vec::new();
        }
        if depth > 0 || !is_colons(rest) {
            return Vec::new();
        }
        firsts(&rest[2..])
    }

    fn file_of(&self, module: &str) -> Result<PathBuf> {
        let folder = if self.module.is_empty() || is_mod_file(self.file) {
            self.file.with_file_name("")
        } else {
            self.file.with_extension("")
        };
        [
            folder.join(format!("{module}.rs")),
            folder.join(module).join("mod.rs"),
        ]
        .into_iter()
        .find(|file| file.is_file())
        .with_context(|| format!("find module `{module}` of {}", self.file.display()))
    }

    fn place(&self, token: &TokenTree) -> String {
        let file = self.file.strip_prefix(process::root()).unwrap_or(self.file);
        format!("{}:{}", file.display(), token.span().start().line)
    }
}

fn is_mod_file(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == "mod.rs")
}

fn stem(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// How many tokens the first item has: to its semicolon or its braces, attributes included.
fn item_length(tokens: &[TokenTree]) -> usize {
    let is_use = tokens
        .iter()
        .take_while(|token| !ends(token))
        .any(|token| is_ident(token, "use"));
    let end = tokens.iter().position(|token| {
        matches!(token, TokenTree::Punct(p) if p.as_char() == ';')
            || !is_use && matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace)
    });
    end.map_or(tokens.len(), |end| end + 1)
}

fn ends(token: &TokenTree) -> bool {
    match token {
        TokenTree::Punct(punct) => punct.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    }
}

/// The attributes of an item, as text without blanks.
fn attributes(item: &[TokenTree]) -> impl Iterator<Item = String> {
    item.windows(2).filter_map(|pair| match pair {
        [TokenTree::Punct(hash), TokenTree::Group(attribute)] if hash.as_char() == '#' => {
            Some(attribute.stream().to_string().replace(' ', ""))
        }
        _ => None,
    })
}

/// Whether an item is compiled for tests alone.
fn is_test(item: &[TokenTree]) -> bool {
    attributes(item).any(|attribute| attribute.starts_with("cfg(test"))
}

/// The file that `#[path = "…"]` names.
fn path_attribute(item: &[TokenTree]) -> Option<String> {
    attributes(item).find_map(|attribute| {
        let path = attribute.strip_prefix("path=\"")?.strip_suffix('"')?;
        Some(path.to_owned())
    })
}

/// Name and, unless it is a file, body of an item that is a module.
fn module(item: &[TokenTree]) -> Option<(String, Option<TokenStream>)> {
    let [.., keyword, TokenTree::Ident(name), last] = item else {
        return None;
    };
    if !is_ident(keyword, "mod") {
        return None;
    }
    match last {
        TokenTree::Group(group) => Some((name.to_string(), Some(group.stream()))),
        _ => Some((name.to_string(), None)),
    }
}

fn is_ident(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

fn is_colons(tokens: &[TokenTree]) -> bool {
    let is_colon = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ':');
    matches!(tokens, [first, second, ..] if is_colon(first) && is_colon(second))
}

/// The first names of what follows `crate::`: one, or those in braces.
fn firsts(tokens: &[TokenTree]) -> Vec<String> {
    match tokens.first() {
        Some(TokenTree::Ident(name)) => vec![name.to_string()],
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            inner.split(is_comma).flat_map(firsts).collect()
        }
        _ => Vec::new(),
    }
}

fn is_comma(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(p) if p.as_char() == ',')
}

/// The names that a `use` brings into scope.
fn leaves(tokens: &[TokenTree]) -> Vec<String> {
    let mut last = None;
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                return inner.split(is_comma).flat_map(leaves).collect();
            }
            TokenTree::Ident(name) if name != "as" => last = Some(name.to_string()),
            _ => {}
        }
    }
    last.into_iter().collect()
}

/// The sets of modules that all reach each other.
fn rings(uses: &Uses) -> Vec<BTreeSet<String>> {
    let mut rings: Vec<BTreeSet<String>> = Vec::new();
    let modules: BTreeSet<&String> = uses.keys().map(|(from, _)| from).collect();
    for module in modules {
        let ring: BTreeSet<String> = reached(uses, module)
            .into_iter()
            .filter(|other| reached(uses, other).contains(module))
            .collect();
        if !ring.is_empty() && !rings.contains(&ring) {
            rings.push(ring);
        }
    }
    rings
}

/// All that a module uses, directly or round about.
fn reached(uses: &Uses, module: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![module];
    while let Some(from) = next.pop() {
        for (_, to) in uses.keys().filter(|(user, _)| user == from) {
            if reached.insert(to.clone()) {
                next.push(to);
            }
        }
    }
    reached
}

fn describe(root: &Path, ring: &BTreeSet<String>, uses: &Uses) -> String {
    let names: Vec<&str> = ring.iter().map(String::as_str).collect();
    let mut text = format!(
        "{}: these modules use each other in a ring: {}; move what they share into a module below them",
        root.display(),
        names.join(", ")
    );
    for ((from, to), place) in uses {
        if ring.contains(from) && ring.contains(to) {
            let _ = write!(text, "\n    {from} uses {to} at {place}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rings of a crate of these files, by the names in them.
    fn rings_of(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        check(&folder.path().join("lib.rs")).unwrap()
    }

    fn is_ring(ring: &[String], modules: &str) -> bool {
        matches!(ring, [only] if only.contains(&format!("in a ring: {modules};")))
    }

    #[test]
    fn modules_that_use_each_other_are_a_ring_and_every_use_is_shown() {
        let ring = rings_of(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B;\nuse crate::c;"),
            ("b.rs", "mod inner;"),
            ("b/inner.rs", "// one\nfn f() { crate::a::g(); }"),
            ("c.rs", ""),
        ]);
        assert!(is_ring(&ring, "a, b"), "{ring:?}");
        assert!(ring[0].contains("b uses a at ") && ring[0].contains("inner.rs:2"));
        assert!(!ring[0].contains("a uses c"), "{ring:?}");
    }

    #[test]
    fn a_ring_may_go_round_about_and_through_braces_super_and_macros() {
        let ring = rings_of(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::{b::{B, D}, x};"),
            ("b.rs", "use super::c::C;"),
            ("c.rs", "mod d { fn f() { vec![super::super::a::X] } }"),
        ]);
        assert!(is_ring(&ring, "a, b, c"), "{ring:?}");
    }

    #[test]
    fn a_name_that_the_root_re_exports_is_its_module() {
        let ring = rings_of(&[
            ("lib.rs", "mod a; mod b; pub use b::{inner::B, other as C};"),
            ("a.rs", "use crate::C;"),
            ("b.rs", "use crate::a;"),
        ]);
        assert!(is_ring(&ring, "a, b"), "{ring:?}");
    }

    #[test]
    fn what_the_root_file_defines_is_a_module_too() {
        let files = |root: &'static str| [("lib.rs", root), ("a.rs", "use crate::shared;")];
        let ring = rings_of(&files("mod a; use a::A; pub fn shared() { A::new(); }"));
        assert!(is_ring(&ring, "a, lib"), "{ring:?}");
        assert!(rings_of(&files("mod a; pub use a::A; pub fn shared() {}")).is_empty());
    }

    #[test]
    fn comments_tests_and_a_module_s_own_parts_make_no_ring() {
        let ring = rings_of(&[
            ("lib.rs", "mod a; mod b;"),
            (
                "a.rs",
                "//! crate::b\nmod c; mod d;\n#[cfg(test)]\nmod tests { use crate::b; }",
            ),
            ("a/c.rs", "use super::d::D;\n/// [`crate::b`]\nstruct C;"),
            ("a/d.rs", "use crate::a::c::C;\n#[cfg(test)]\nmod tests;"),
            ("b.rs", "use crate::a;"),
        ]);
        assert!(ring.is_empty(), "{ring:?}");
    }
}
