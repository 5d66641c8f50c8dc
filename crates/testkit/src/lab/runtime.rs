//! Pods that the simulated kubelet runs as network namespaces of the lab.

use std::net::Ipv4Addr;

use anyhow::Result;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::Lab;
use crate::runtime::{PodKey, PodRuntime};

impl PodRuntime for Lab {
    fn start<'a>(&'a self, pod: &'a PodKey) -> BoxFuture<'a, Result<Ipv4Addr>> {
        async move {
            if let Some(running) = self
                .pods()
                .into_iter()
                .find(|running| running.name == pod.pod)
            {
                return Ok(running.address);
            }
            Ok(self.add_pod(&pod.node, &pod.pod, None).await?.address)
        }
        .boxed()
    }

    fn stop<'a>(&'a self, pod: &'a PodKey) -> BoxFuture<'a, Result<()>> {
        self.remove_pod(&pod.pod).boxed()
    }

    fn adopt(&self, _: &PodKey, _: Ipv4Addr) {
        // A lab ends with its process, so it never meets pods of an earlier one.
    }
}
