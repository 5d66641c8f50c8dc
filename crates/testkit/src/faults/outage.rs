//! A link that is down for a while, rather than for one request.

use axum::body::Body;
use futures::{StreamExt, stream};
use tokio::sync::watch;

use super::Fault;

/// What goes wrong with everything until the link is restored; clones share it.
#[derive(Clone, Default)]
pub(super) struct Outage(watch::Sender<Option<Fault>>);

impl Outage {
    pub(super) fn set(&self, fault: Option<Fault>) {
        self.0.send_replace(fault);
    }

    pub(super) fn fault(&self) -> Option<Fault> {
        self.0.borrow().clone()
    }

    /// Ends when the link is up again.
    pub(super) async fn restored(&self) {
        let _ = self.0.subscribe().wait_for(Option::is_none).await;
    }

    /// A watch that goes down with the link; with one that hangs it falls silent and ends once the
    /// link is up again, as a connection does to a server that started anew.
    pub(super) fn over(&self, body: Body) -> Body {
        let outage = self.clone();
        let mut link = self.0.subscribe();
        let down = async move {
            let _ = link.wait_for(Option::is_some).await;
        };
        let silence = stream::once(async move {
            if outage.fault() == Some(Fault::Hang) {
                outage.restored().await;
            }
        });
        let frames = body.into_data_stream().take_until(Box::pin(down));
        Body::from_stream(frames.chain(silence.filter_map(|()| async { None })))
    }
}
