//! One EndpointSlice or Endpoints object as it is kept: compressed text, and four bytes per endpoint
//! of what the rule asks for.

use super::nodes::NodeNames;
use crate::document::{Family, Parts, Source};
use crate::view::{Endpoint, NodeId};
use std::sync::Arc;

const READY: u32 = 1 << 31;
const SERVING: u32 = 1 << 30;
const FAMILY: u32 = 28;
const NODE: u32 = (1 << FAMILY) - 1;
const NO_NODE: u32 = NODE;

/// What is kept of an object.
#[derive(Debug, Clone)]
pub(crate) struct SliceEntry {
    /// Namespace and name of its Service; none if no label says.
    pub(crate) service: Option<Arc<str>>,
    pub(crate) body: Compressed,
    endpoints: Box<[u32]>,
}

/// Text that is kept compressed: sites other than the own one are most of it, and nobody reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Compressed(Arc<[u8]>);

/// Bytes that are no compressed text.
#[derive(Debug, thiserror::Error)]
#[error("compressed object")]
pub(crate) struct Damaged(#[from] lz4_flex::block::DecompressError);

impl Compressed {
    pub(crate) fn new(text: &[u8]) -> Self {
        Self(lz4_flex::block::compress_prepend_size(text).into())
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn text(&self) -> Result<Vec<u8>, Damaged> {
        Ok(lz4_flex::block::decompress_size_prepended(&self.0)?)
    }
}

impl SliceEntry {
    /// Packs an object; its text is what is written of it as a whole.
    pub(crate) fn pack(parts: &Parts<'_>, names: &mut NodeNames) -> Self {
        Self::with_body(parts, Compressed::new(&parts.write(|_| true).bytes), names)
    }

    /// The same around text that is compressed already.
    pub(crate) fn with_body(parts: &Parts<'_>, body: Compressed, names: &mut NodeNames) -> Self {
        let packed = |fact: &crate::document::Facts<'_>| {
            let node = fact
                .node
                .as_ref()
                .map_or(NO_NODE, |name| names.number(name));
            let flag = |set: bool, flag: u32| if set { flag } else { 0 };
            let family = (fact.family as u32) << FAMILY;
            (node & NODE) | family | flag(fact.ready, READY) | flag(fact.serving, SERVING)
        };
        Self {
            service: parts.service().map(Into::into),
            body,
            endpoints: parts.facts().iter().map(packed).collect(),
        }
    }

    /// The text, taken apart by `read`.
    pub(crate) fn read<T>(
        &self,
        source: Source,
        read: impl FnOnce(&Parts<'_>) -> T,
    ) -> Result<T, String> {
        let text = self.body.text().map_err(|error| error.to_string())?;
        let parts = Parts::parse(source, &text).map_err(|error| error.to_string())?;
        Ok(read(&parts))
    }

    pub(crate) fn endpoints(&self) -> impl Iterator<Item = (Family, Endpoint)> + Clone + '_ {
        self.endpoints.iter().map(|packed| unpack(*packed))
    }

    pub(crate) fn len(&self) -> usize {
        self.endpoints.len()
    }

    pub(crate) fn is_on(&self, node: NodeId) -> bool {
        self.endpoints.iter().any(|packed| packed & NODE == node)
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        let nodes = self.endpoints.iter().map(|packed| packed & NODE);
        nodes.filter(|node| *node != NO_NODE)
    }
}

fn unpack(packed: u32) -> (Family, Endpoint) {
    let family = match (packed >> FAMILY) & 0b11 {
        0 => Family::V4,
        1 => Family::V6,
        _ => Family::Other,
    };
    let node = Some(packed & NODE).filter(|node| *node != NO_NODE);
    let (ready, serving) = (packed & READY != 0, packed & SERVING != 0);
    (
        family,
        Endpoint {
            node,
            ready,
            serving,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_endpoint_is_the_endpoint_and_the_text_is_the_text() {
        let text = br#"{"metadata":{"name":"s","namespace":"n","labels":{"kubernetes.io/service-name":"web"}},
            "addressType":"IPv6","endpoints":[
            {"addresses":["fd::1"],"nodeName":"a","conditions":{"ready":false,"serving":true}},
            {"addresses":["fd::2"]}]}"#;
        let mut names = NodeNames::default();
        let parts = Parts::parse(Source::Slices, text).unwrap();
        let entry = SliceEntry::pack(&parts, &mut names);
        let a = names.known("a").unwrap();
        let facts: Vec<_> = entry
            .endpoints()
            .map(|(family, one)| (family, one.node, one.ready, one.serving))
            .collect();
        let expected = [
            (Family::V6, Some(a), false, true),
            (Family::V6, None, true, true),
        ];
        assert_eq!(facts, expected);
        assert!(entry.is_on(a) && !entry.is_on(a + 1));
        assert_eq!(entry.nodes().collect::<Vec<_>>(), [a]);
        assert_eq!(entry.service.as_deref(), Some("n/web"));
        assert_eq!(entry.body.text().unwrap(), parts.write(|_| true).bytes);
    }
}
