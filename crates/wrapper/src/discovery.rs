//! The last good answers to what programs ask of an API server besides objects: its version, its groups
//! and its kinds. kube-proxy and CoreDNS ask for some of it when they start, so a node that is cut off
//! needs them too.
//!
//! Only these paths are ever remembered, or answered from memory:
//!
//! ```text
//! /version   /api   /api/<version>   /apis   /apis/<group>   /apis/<group>/<version>
//! ```
//!
//! The answers are bounded in number and bytes. Those that the wrapper asks for by itself ([`FIXED`])
//! always have room; others of whoever asked go, the oldest first.

use crate::index::slice_entry::Compressed;
use crate::kinds::ServedKind;
use http::{Method, Uri};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// So many answers are remembered at most, in so many compressed bytes.
const MAX_ANSWERS: usize = 64;
const MAX_BYTES: usize = 4 << 20;
/// No client has as much to say about what it accepts.
const MAX_ACCEPT: usize = 1024;
const JSON: &str = "application/json";
/// All groups in one document, as client-go asks for it since 1.30.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// What a change of anything in discovery shows in: if these are as they were, all is.
pub(crate) static HEADS: LazyLock<[Question; 3]> = LazyLock::new(|| {
    [
        ("/version", JSON),
        ("/api", AGGREGATED),
        ("/apis", AGGREGATED),
    ]
    .map(Question::fixed)
});
/// The other questions that the wrapper asks by itself: of the groups it serves, and of events.
pub(crate) static FIXED: LazyLock<BTreeSet<Question>> = LazyLock::new(|| {
    let served = ServedKind::ALL.map(|kind| {
        let path = kind.path();
        let parent = path.rsplit_once('/').map(|(parent, _)| parent.to_owned());
        parent.unwrap_or(path)
    });
    let others = ["/api", "/apis", "/apis/events.k8s.io/v1"].map(str::to_owned);
    let paths = served.into_iter().chain(others);
    let plain = paths.map(|path| Question::fixed((&path, JSON)));
    plain.collect()
});

/// A path of discovery, and what the asking client accepts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Question {
    path: String,
    accept: String,
}

/// What an API server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Discovered {
    pub(crate) head: Head,
    pub(crate) body: Compressed,
}

/// How an answer is to be read, and how its server calls it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) content_type: String,
    #[serde(default)]
    pub(crate) etag: Option<String>,
}

/// What an answer was beside the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Novelty {
    /// The first one to a question that programs ask at their start.
    First,
    Changed,
    Same,
    /// There is no room for it.
    NotTaken,
}

/// The answers that are remembered.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    known: BTreeMap<Question, (u64, Discovered)>,
    /// Counts what was remembered, to tell older from newer.
    count: u64,
    bytes: usize,
}

impl Question {
    /// What a request asks; none if it is about anything but discovery and the version.
    pub(crate) fn new(method: &Method, uri: &Uri, accept: &str) -> Option<Self> {
        let path = uri.path();
        let path = path.strip_suffix('/').unwrap_or(path);
        let has_plain_query = uri.query().unwrap_or_default().split('&').all(|pair| {
            // client-go sends its timeout along; anything else may change the answer.
            pair.is_empty() || pair.starts_with("timeout=")
        });
        let question = Self {
            path: path.to_owned(),
            accept: accept.split_whitespace().collect(),
        };
        (method == Method::GET && has_plain_query && question.is_discovery()).then_some(question)
    }

    fn fixed((path, accept): (&str, &str)) -> Self {
        Self {
            path: path.to_owned(),
            accept: accept.to_owned(),
        }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn accept(&self) -> &str {
        &self.accept
    }

    /// Whether it has one of the shapes that may be remembered.
    fn is_discovery(&self) -> bool {
        let is_shaped = match self.path.strip_prefix('/').map(|path| path.split('/')) {
            Some(segments) => match &*segments.collect::<Vec<_>>() {
                ["version" | "api" | "apis"] => true,
                ["api", version] => is_version(version),
                ["apis", group] => is_group(group),
                ["apis", group, version] => is_group(group) && is_version(version),
                _ => false,
            },
            None => false,
        };
        is_shaped && self.accept.len() <= MAX_ACCEPT
    }

    fn is_ours(&self) -> bool {
        FIXED.contains(self) || HEADS.contains(self)
    }

    fn bytes(&self, answer: &Discovered) -> usize {
        let etag = answer.head.etag.as_ref().map_or(0, String::len);
        let texts = self.path.len() + self.accept.len() + answer.head.content_type.len() + etag;
        texts + answer.body.bytes().len()
    }

    /// Whether the client takes JSON that is no other view of the answer, as tables are.
    fn takes_plain_json(&self) -> bool {
        self.accept.is_empty() || self.accept.split(',').any(takes_plain_json)
    }
}

impl Discovered {
    fn is_plain_json(&self) -> bool {
        let mut parts = self.head.content_type.split(';').map(str::trim);
        parts.next() == Some(JSON) && !parts.any(|part| part.starts_with("as="))
    }
}

impl Answers {
    /// The answer to a question: the one to the same Accept, or plain JSON where that will do.
    pub(crate) fn find(&self, question: &Question) -> Option<&Discovered> {
        if let Some((_, answer)) = self.known.get(question) {
            return Some(answer);
        }
        let of_path = self.known.range(Question::fixed((question.path(), ""))..);
        let mut of_path = of_path.take_while(|(known, _)| known.path == question.path);
        let plain = of_path.find(|(_, (_, answer))| answer.is_plain_json());
        let (_, (_, answer)) = plain.filter(|_| question.takes_plain_json())?;
        Some(answer)
    }

    /// Takes note of an answer.
    pub(crate) fn remember(&mut self, question: Question, answer: Discovered) -> Novelty {
        let novelty = match self.known.get(&question) {
            Some((_, known)) if *known == answer => return Novelty::Same,
            None if question.is_ours() => Novelty::First,
            Some(_) | None => Novelty::Changed,
        };
        let bytes = question.bytes(&answer);
        if !question.is_discovery() || bytes > MAX_BYTES {
            return Novelty::NotTaken;
        }
        self.forget(&question);
        while self.known.len() >= MAX_ANSWERS || self.bytes + bytes > MAX_BYTES {
            let others = self.known.iter().filter(|(known, _)| !known.is_ours());
            let oldest = others.min_by_key(|(_, (count, _))| *count);
            let Some(oldest) = oldest.map(|(known, _)| known.clone()) else {
                return Novelty::NotTaken;
            };
            self.forget(&oldest);
        }
        self.count += 1;
        self.bytes += bytes;
        self.known.insert(question, (self.count, answer));
        novelty
    }

    /// Takes an answer back from disk.
    pub(crate) fn restore(&mut self, question: Question, answer: Discovered) -> Result<(), String> {
        if !question.is_discovery() {
            return Err(format!("{} is no path of discovery", question.path));
        }
        answer.body.text().map_err(|error| error.to_string())?;
        self.remember(question, answer);
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Question, &Discovered)> {
        self.known
            .iter()
            .map(|(question, (_, answer))| (question, answer))
    }

    fn forget(&mut self, question: &Question) {
        if let Some((_, answer)) = self.known.remove(question) {
            self.bytes -= question.bytes(&answer);
        }
    }
}

/// A version as Kubernetes writes them: `v1`, `v2beta1`.
fn is_version(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('v') else {
        return false;
    };
    let plain = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let stage = plain.trim_end_matches(|c: char| c.is_ascii_digit());
    rest.len() > plain.len()
        && (plain.is_empty() || (matches!(stage, "alpha" | "beta") && plain.len() > stage.len()))
}

/// A group's name: that of a domain.
fn is_group(text: &str) -> bool {
    edgegrid_machinery::names::dns_subdomain(text).is_empty()
}

fn takes_plain_json(range: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let is_json = matches!(parts.next(), Some(JSON | "application/*" | "*/*"));
    let refuses = |part: &str| {
        let weight = part
            .strip_prefix("q=")
            .and_then(|weight| weight.parse().ok());
        part.starts_with("as=") || weight == Some(0.0_f32)
    };
    is_json && !parts.any(refuses)
}

#[cfg(test)]
mod tests;
