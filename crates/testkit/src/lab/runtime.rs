//! Pods that the simulated kubelet runs as network namespaces of the lab.

use std::net::Ipv4Addr;

use anyhow::Result;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::Lab;
use crate::runtime::{PodPlace, PodRuntime};

impl PodRuntime for Lab {
    fn start<'a>(&'a self, place: &'a PodPlace) -> BoxFuture<'a, Result<Ipv4Addr>> {
        async move {
            if let Some(pod) = self.pods().into_iter().find(|pod| pod.name == place.pod) {
                return Ok(pod.address);
            }
            Ok(self.add_pod(&place.node, &place.pod, None).await?.address)
        }
        .boxed()
    }

    fn stop<'a>(&'a self, place: &'a PodPlace) -> BoxFuture<'a, Result<()>> {
        self.remove_pod(&place.pod).boxed()
    }

    fn adopt(&self, _: &PodPlace, _: Ipv4Addr) {
        // A lab ends with its process, so it never meets pods of an earlier one.
    }
}
