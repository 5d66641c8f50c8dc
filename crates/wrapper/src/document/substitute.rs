//! SuperEdge's stand-in for the API server: on an edge node `default/kubernetes` leads to the
//! node's own proxy, if annotations on its Endpoints and slices say so.

use super::{Lists, Parts, Subset};
use edgegrid_api::names::annotation;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::net::IpAddr;

impl Parts<'_> {
    /// Replaces all endpoints of `default/kubernetes` by the address and port its annotations name.
    /// Without both, or in a slice of the other address family, all stays as it is.
    pub(super) fn substitute_local_endpoint(&mut self) {
        if let Some((address, port)) = self.local_endpoint() {
            // Plain values always become JSON; if not, the object stays as it is.
            let _ = self.replace_endpoints(address, port);
        }
    }

    fn local_endpoint(&self) -> Option<(IpAddr, u16)> {
        let name = match self.lists {
            Lists::Slice(_) => self.service()?,
            Lists::Subsets(_) => format!("{}/{}", self.namespace, self.name),
        };
        let (address, port) = (
            self.annotations.text(annotation::LOCAL_ENDPOINT)?,
            self.annotations.text(annotation::LOCAL_PORT)?,
        );
        let (address, port): (IpAddr, u16) = (address.parse().ok()?, port.parse().ok()?);
        let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        let fits = match self.lists {
            Lists::Slice(_) => self.rest.text("addressType").as_deref() == Some(family),
            Lists::Subsets(_) => true,
        };
        (name == "default/kubernetes" && port > 0 && fits).then_some((address, port))
    }

    fn replace_endpoints(&mut self, address: IpAddr, port: u16) -> Result<(), serde_json::Error> {
        let raw = |value| -> Result<Box<RawValue>, serde_json::Error> { to_raw_value(&value) };
        let ports = raw(json!([{ "name": "https", "port": port, "protocol": "TCP" }]))?;
        self.lists = match self.lists {
            Lists::Slice(_) => {
                let endpoint = raw(json!({ "addresses": [address], "conditions": {} }))?;
                self.rest.put("ports", ports);
                Lists::Slice(vec![Cow::Owned(endpoint)])
            }
            Lists::Subsets(_) => {
                let mut subset = Subset::default();
                subset
                    .addresses
                    .push(Cow::Owned(raw(json!({ "ip": address }))?));
                subset.rest.put("ports", ports);
                Lists::Subsets(vec![subset])
            }
        };
        Ok(())
    }
}
