//! Runs futures side by side without waking those that have nothing to do.

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;

/// Runs all until each has ended. Only those are polled that have something to do, which `join_all` does
/// not promise: every answer to a write would wake every watch.
pub(crate) async fn all(running: Vec<BoxFuture<'_, ()>>) {
    FuturesUnordered::from_iter(running).collect::<()>().await;
}
