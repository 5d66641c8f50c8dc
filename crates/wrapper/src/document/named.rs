//! What names need of an endpoint, and an endpoint under another name.

use super::members::{Members, Text};
use super::{Family, Lists, Parts};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;

/// An endpoint that has a hostname.
#[derive(Debug)]
pub(crate) struct Named<'a> {
    raw: &'a RawValue,
    pub(crate) hostname: Cow<'a, str>,
    /// The pod behind it, if that is one.
    pub(crate) pod: Option<Cow<'a, str>>,
    pub(crate) node: Option<Cow<'a, str>>,
    /// Whether it takes new connections: a pod that is about to end does not, whatever its Service
    /// wants published.
    pub(crate) answers: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint<'a> {
    #[serde(borrow)]
    hostname: Option<Text<'a>>,
    #[serde(borrow)]
    node_name: Option<Text<'a>>,
    #[serde(borrow)]
    target_ref: Option<Target<'a>>,
    #[serde(default)]
    conditions: Option<Conditions>,
}

#[derive(Deserialize)]
struct Target<'a> {
    #[serde(borrow)]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
struct Conditions {
    ready: Option<bool>,
    terminating: Option<bool>,
}

impl Parts<'_> {
    /// The endpoints of a slice that have a hostname.
    pub(crate) fn named(&self) -> Vec<Named<'_>> {
        match &self.lists {
            Lists::Slice(endpoints) => endpoints.iter().filter_map(|raw| named(raw)).collect(),
            Lists::Subsets(_) => Vec::new(),
        }
    }

    /// What sort of addresses a slice has.
    pub(crate) fn address_type(&self) -> Option<Cow<'_, str>> {
        self.rest.text("addressType")
    }

    /// The address family of a slice.
    pub(crate) fn family(&self) -> Family {
        match self.address_type().as_deref() {
            Some("IPv4") => Family::V4,
            Some("IPv6") => Family::V6,
            _ => Family::Other,
        }
    }
}

impl Named<'_> {
    /// The same endpoint under another hostname, as text.
    pub(crate) fn renamed(&self, hostname: &str) -> Option<Box<RawValue>> {
        let mut endpoint: Members<'_> = serde_json::from_str(self.raw.get()).ok()?;
        endpoint.put("hostname", to_raw_value(hostname).ok()?);
        let mut text = vec![b'{'];
        endpoint.write(&mut text, b"");
        text.push(b'}');
        RawValue::from_string(String::from_utf8(text).ok()?).ok()
    }
}

fn named(raw: &RawValue) -> Option<Named<'_>> {
    let one: Endpoint<'_> = serde_json::from_str(raw.get()).ok()?;
    let hostname = one.hostname?.0;
    let conditions = one.conditions.unwrap_or_default();
    let target = one.target_ref;
    let is_pod = |target: &Target<'_>| target.kind.as_ref().is_some_and(|kind| kind.0 == "Pod");
    Some(Named {
        raw,
        hostname,
        pod: target
            .filter(is_pod)
            .and_then(|target| target.name)
            .map(|name| name.0),
        node: one.node_name.map(|name| name.0),
        answers: conditions.ready.unwrap_or(true) && !conditions.terminating.unwrap_or(false),
    })
}
