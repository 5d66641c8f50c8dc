//! A watch's body that is counted for as long as it lives.

use bytes::Bytes;
use edgegrid_listwatch::Body;
use http_body::{Frame, SizeHint};
use prometheus_client::metrics::gauge::Gauge;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;

/// A body, its permit among those that may be open, and the gauge that shows how many are.
pub(super) struct Counted {
    body: Body,
    gauge: Gauge,
    _permit: OwnedSemaphorePermit,
}

impl Counted {
    pub(super) fn new(body: Body, permit: OwnedSemaphorePermit, gauge: Gauge) -> Self {
        gauge.inc();
        Self {
            body,
            gauge,
            _permit: permit,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
