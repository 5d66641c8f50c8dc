//! The control cluster, as a member reaches it.

use edgegrid_runtime::executor::Executor;
use kube::Client;

/// Client, executor and the member's namespace there.
#[derive(Clone)]
pub(super) struct ControlCluster {
    pub(super) client: Client,
    pub(super) executor: Executor,
    pub(super) namespace: String,
}
