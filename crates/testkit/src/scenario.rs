//! Scenarios that hold on every kind of cluster, written once.

/// Makes a test of each scenario (`async fn(&Cluster)`) for each kind of cluster: `upstream::…` and
/// `embedded::…`, the latter in paused time.
///
/// ```no_run
/// use edgegrid_testkit::{Cluster, on_every_cluster};
///
/// async fn nodes_can_be_added(cluster: &Cluster) {
///     cluster.add_nodes([edgegrid_testkit::node("a")]).await.unwrap();
/// }
///
/// on_every_cluster!(nodes_can_be_added);
/// ```
#[macro_export]
macro_rules! on_every_cluster {
    ($($scenario:ident),+ $(,)?) => {
        mod upstream {
            $(
                #[tokio::test]
                async fn $scenario() {
                    let cluster = $crate::Cluster::upstream().await.unwrap();
                    super::$scenario(&cluster).await;
                }
            )+
        }

        mod embedded {
            $(
                #[tokio::test(start_paused = true)]
                async fn $scenario() {
                    let cluster = $crate::Cluster::embedded().await.unwrap();
                    super::$scenario(&cluster).await;
                }
            )+
        }
    };
}
