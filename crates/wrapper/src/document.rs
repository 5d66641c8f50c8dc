//! EndpointSlices and Endpoints as text: taken apart once, put together with fewer endpoints.
//!
//! Only what the rule asks for is understood; every other field passes through as it was written.
//! What is put together has one layout, so that two versions can be compared up to a point:
//!
//! ```text
//! {"kind":…,"apiVersion":…, rest…, "endpoints":[…], "metadata":{ rest…, "annotations":{ rest… ▲ last-change-trigger-time },"generation":… }}
//!  └───────────────────────────── what a client can act on ──────────────────────────────────┘ └────────── bookkeeping ──────────────┘
//! ```
//!
//! Kubernetes changes the bookkeeping with every update of a slice, also with those that concern
//! other sites only. `managedFields` and `resourceVersion` are left out altogether.

mod members;
mod named;
mod substitute;

use edgegrid_api::names::label;
use members::{Members, Raw, Text, WithEndpoints};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The two kinds whose objects are edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// `EndpointSlice` of `discovery.k8s.io/v1`.
    Slices,
    /// `Endpoints` of the core group.
    Endpoints,
}

/// Address family of an endpoint; each is decided on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// Host names.
    Other,
}

impl Family {
    /// All of them.
    pub(crate) const ALL: [Family; 3] = [Family::V4, Family::V6, Family::Other];
}

/// What the rule must know of an endpoint, with its node's name.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) node: Option<Cow<'a, str>>,
    pub(crate) family: Family,
    pub(crate) ready: bool,
    pub(crate) serving: bool,
}

/// An object taken apart.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    source: Source,
    pub(crate) namespace: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    /// The revision upstream gave it, where it comes from there.
    pub(crate) revision: Option<Cow<'a, str>>,
    metadata: Members<'a>,
    annotations: Members<'a>,
    /// The other members of the object.
    rest: Members<'a>,
    lists: Lists<'a>,
}

/// The endpoints, in the order in which masks count them.
#[derive(Debug)]
enum Lists<'a> {
    Slice(Vec<Raw<'a>>),
    Subsets(Vec<Subset<'a>>),
}

#[derive(Debug, Default)]
struct Subset<'a> {
    rest: Members<'a>,
    addresses: Vec<Raw<'a>>,
    not_ready: Vec<Raw<'a>>,
}

/// An object put together.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) bytes: Vec<u8>,
    /// Up to here is what a client can act on.
    pub(crate) stable: usize,
}

/// An object that is not what its kind promises.
#[derive(Debug, thiserror::Error)]
#[error("{kind}: {why}")]
pub(crate) struct Unreadable {
    kind: &'static str,
    why: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SliceEndpoint<'a> {
    #[serde(borrow)]
    node_name: Option<Text<'a>>,
    #[serde(default)]
    conditions: Option<Conditions>,
}

#[derive(Deserialize, Default)]
struct Conditions {
    ready: Option<bool>,
    serving: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Address<'a> {
    #[serde(borrow)]
    ip: Option<Text<'a>>,
    #[serde(borrow)]
    node_name: Option<Text<'a>>,
}

impl Source {
    /// Both.
    pub const ALL: [Source; 2] = [Source::Slices, Source::Endpoints];

    fn kind(self) -> &'static str {
        match self {
            Source::Slices => "EndpointSlice",
            Source::Endpoints => "Endpoints",
        }
    }

    fn head(self) -> &'static [u8] {
        match self {
            Source::Slices => br#"{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1""#,
            Source::Endpoints => br#"{"kind":"Endpoints","apiVersion":"v1""#,
        }
    }
}

impl<'a> Parts<'a> {
    /// Takes an object apart, as it comes from upstream or as it was put together.
    pub(crate) fn parse(source: Source, json: &'a [u8]) -> Result<Self, Unreadable> {
        let unreadable = |why: String| Unreadable {
            kind: source.kind(),
            why,
        };
        let text = std::str::from_utf8(json).map_err(|error| unreadable(error.to_string()))?;
        Self::read(source, text).map_err(|error| unreadable(error.to_string()))
    }

    fn read(source: Source, json: &'a str) -> Result<Self, serde_json::Error> {
        let (mut rest, lists) = match source {
            Source::Slices => {
                let slice: WithEndpoints<'a> = serde_json::from_str(json)?;
                (slice.rest, Lists::Slice(slice.endpoints))
            }
            Source::Endpoints => {
                let mut rest: Members<'a> = serde_json::from_str(json)?;
                let subsets = subsets(&mut rest)?;
                (rest, Lists::Subsets(subsets))
            }
        };
        let mut metadata: Members<'a> = rest.take_members("metadata")?;
        for gone in ["kind", "apiVersion"] {
            rest.take(gone);
        }
        let revision = metadata.text("resourceVersion");
        for gone in ["managedFields", "resourceVersion"] {
            metadata.take(gone);
        }
        let annotations = metadata.take_members("annotations")?;
        let mut parts = Self {
            source,
            namespace: metadata.text("namespace").unwrap_or_default(),
            name: metadata.text("name").unwrap_or_default(),
            revision,
            metadata,
            annotations,
            rest,
            lists,
        };
        parts.substitute_local_endpoint();
        Ok(parts)
    }

    /// Namespace and name of the object itself.
    pub(crate) fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Namespace and name of the Service this belongs to, by label for a slice and by name else.
    pub(crate) fn service(&self) -> Option<String> {
        let name = match self.source {
            Source::Slices => {
                let labels = self.metadata.members("labels");
                labels.as_ref()?.text(label::SERVICE_NAME)?.into_owned()
            }
            Source::Endpoints => self.name.clone().into_owned(),
        };
        Some(format!("{}/{name}", self.namespace))
    }

    /// What the rule must know of each endpoint. One that cannot be read is on no node and does
    /// not answer.
    pub(crate) fn facts(&self) -> Vec<Facts<'_>> {
        match &self.lists {
            Lists::Slice(endpoints) => {
                let family = self.family();
                let mut facts = Vec::with_capacity(endpoints.len());
                facts.extend(endpoints.iter().map(|raw| slice_facts(raw, family)));
                facts
            }
            Lists::Subsets(subsets) => {
                let mut facts = Vec::new();
                for subset in subsets {
                    facts.extend(subset.addresses.iter().map(|raw| address_facts(raw, true)));
                    facts.extend(subset.not_ready.iter().map(|raw| address_facts(raw, false)));
                }
                facts
            }
        }
    }

    /// The object with only the endpoints that `keep` accepts by their position.
    pub(crate) fn write(&self, keep: impl Fn(usize) -> bool) -> Written {
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(self.source.head());
        self.rest.write(&mut out, b",");
        match &self.lists {
            Lists::Slice(endpoints) => {
                out.extend_from_slice(br#","endpoints":"#);
                write_list(&mut out, endpoints, 0, &keep);
            }
            Lists::Subsets(subsets) => write_subsets(&mut out, subsets, &keep),
        }
        let stable = self.write_metadata(&mut out);
        Written { bytes: out, stable }
    }

    /// Closes the object with its metadata; gives where the bookkeeping starts.
    fn write_metadata(&self, out: &mut Vec<u8>) -> usize {
        let bookkeeping = |name: &str| name == "generation";
        out.extend_from_slice(br#","metadata":{"#);
        let mut comma = self
            .metadata
            .write_where(out, b"", |name| !bookkeeping(name));
        let trigger = self.annotations.get(TRIGGER_TIME);
        let mut stable = out.len();
        if !self.annotations.is_empty() {
            out.extend_from_slice(comma);
            out.extend_from_slice(br#""annotations":{"#);
            comma = self
                .annotations
                .write_where(out, b"", |name| name != TRIGGER_TIME);
            stable = out.len();
            if let Some(trigger) = trigger {
                out.extend_from_slice(comma);
                members::write_member(out, TRIGGER_TIME, trigger);
            }
            out.push(b'}');
            comma = b",";
        }
        if let Some(generation) = self.metadata.get("generation") {
            out.extend_from_slice(comma);
            members::write_member(out, "generation", generation);
        }
        out.extend_from_slice(b"}}");
        stable
    }
}

fn subsets<'a>(rest: &mut Members<'a>) -> Result<Vec<Subset<'a>>, serde_json::Error> {
    let mut subsets = Vec::new();
    for raw in rest.take_list("subsets")? {
        let Cow::Borrowed(raw) = raw else { continue }; // what is parsed is always borrowed

        let mut members: Members<'a> = serde_json::from_str(raw.get())?;
        subsets.push(Subset {
            addresses: members.take_list("addresses")?,
            not_ready: members.take_list("notReadyAddresses")?,
            rest: members,
        });
    }
    Ok(subsets)
}

fn slice_facts<'b>(raw: &'b RawValue, family: Family) -> Facts<'b> {
    let nothing = SliceEndpoint {
        node_name: None,
        conditions: Some(Conditions {
            ready: Some(false),
            serving: Some(false),
        }),
    };
    let one: SliceEndpoint<'b> = serde_json::from_str(raw.get()).unwrap_or(nothing);
    let conditions = one.conditions.unwrap_or_default();
    let ready = conditions.ready.unwrap_or(true);
    Facts {
        node: named(one.node_name),
        family,
        ready,
        serving: conditions.serving.unwrap_or(ready),
    }
}

fn address_facts<'b>(raw: &'b RawValue, ready: bool) -> Facts<'b> {
    let nothing = Address {
        ip: None,
        node_name: None,
    };
    let one: Address<'b> = serde_json::from_str(raw.get()).unwrap_or(nothing);
    let is_v6 = one.ip.as_ref().is_some_and(|ip| ip.0.contains(':'));
    Facts {
        node: named(one.node_name),
        family: if is_v6 { Family::V6 } else { Family::V4 },
        ready,
        serving: ready,
    }
}

/// An empty name is no name.
fn named(name: Option<Text<'_>>) -> Option<Cow<'_, str>> {
    name.map(|name| name.0).filter(|name| !name.is_empty())
}

fn write_list(out: &mut Vec<u8>, list: &[Raw<'_>], first: usize, keep: &impl Fn(usize) -> bool) {
    out.push(b'[');
    let mut comma = false;
    for (at, raw) in list.iter().enumerate() {
        if keep(first + at) {
            if comma {
                out.push(b',');
            }
            out.extend_from_slice(raw.get().as_bytes());
            comma = true;
        }
    }
    out.push(b']');
}

/// Subsets of which nothing is left go: Kubernetes allows none without an address.
fn write_subsets(out: &mut Vec<u8>, subsets: &[Subset<'_>], keep: &impl Fn(usize) -> bool) {
    out.extend_from_slice(br#","subsets":["#);
    let (mut first, mut comma) = (0, false);
    for subset in subsets {
        let ready = first..first + subset.addresses.len();
        let not_ready = ready.end..ready.end + subset.not_ready.len();
        first = not_ready.end;
        let (any_ready, any_unready) = (ready.clone().any(keep), not_ready.clone().any(keep));
        if !any_ready && !any_unready {
            continue;
        }
        out.extend_from_slice(if comma { b",{" } else { b"{" });
        comma = true;
        let mut separator: &[u8] = b"";
        if any_ready {
            out.extend_from_slice(br#""addresses":"#);
            write_list(out, &subset.addresses, ready.start, keep);
            separator = b",";
        }
        if any_unready {
            out.extend_from_slice(separator);
            out.extend_from_slice(br#""notReadyAddresses":"#);
            write_list(out, &subset.not_ready, not_ready.start, keep);
        }
        subset.rest.write(out, b",");
        out.push(b'}');
    }
    out.push(b']');
}

#[cfg(test)]
mod tests;
