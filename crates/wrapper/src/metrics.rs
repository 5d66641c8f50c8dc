//! What the wrapper counts.

use crate::publish::Publisher;
use crate::view::Visibility;
use edgegrid_runtime::credentials::Refusals;
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

type Labels = Vec<(&'static str, String)>;

/// Counters and gauges, and the registry that shows them.
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    pub(crate) events: Counter,
    pub(crate) failures: Counter,
    pub(crate) uplink_bytes: Counter,
    pub(crate) requests: Family<Labels, Counter>,
    pub(crate) watches: Gauge,
    pub(crate) connections: Gauge,
    pub(crate) snapshot_bytes: Counter,
    pub(crate) snapshot_failures: Counter,
    snapshot_outdated: Gauge,
    withheld: Family<Labels, Gauge>,
    malformed: Gauge,
    ready: Gauge,
    age: Gauge,
    feeds: Family<Labels, Gauge>,
    nodes_in_grace: Gauge,
    aliases: Gauge,
    aliases_left_out: Gauge,
}

impl Metrics {
    pub(crate) fn new(refusals: &Refusals) -> Self {
        let mut registry = Registry::default();
        let metrics = Self {
            registry: Mutex::default(),
            events: Counter::default(),
            failures: Counter::default(),
            uplink_bytes: Counter::default(),
            requests: Family::default(),
            watches: Gauge::default(),
            connections: Gauge::default(),
            snapshot_bytes: Counter::default(),
            snapshot_failures: Counter::default(),
            snapshot_outdated: Gauge::default(),
            withheld: Family::default(),
            malformed: Gauge::default(),
            ready: Gauge::default(),
            age: Gauge::default(),
            feeds: Family::default(),
            nodes_in_grace: Gauge::default(),
            aliases: Gauge::default(),
            aliases_left_out: Gauge::default(),
        };
        let own = registry.sub_registry_with_prefix("edgegrid_wrapper");
        metrics.register(own);
        refusals.register(own);
        Self {
            registry: Mutex::new(registry),
            ..metrics
        }
    }

    fn register(&self, to: &mut Registry) {
        to.register(
            "upstream_events",
            "Events taken over from upstream",
            self.events.clone(),
        );
        to.register(
            "upstream_failures",
            "Lists and watches that failed",
            self.failures.clone(),
        );
        to.register(
            "upstream_bytes",
            "Bytes of lists and watches",
            self.uplink_bytes.clone(),
        );
        to.register(
            "requests",
            "Requests by how they were answered",
            self.requests.clone(),
        );
        to.register("watches", "Watches that are open", self.watches.clone());
        to.register(
            "connections",
            "Connections that are open",
            self.connections.clone(),
        );
        to.register(
            "snapshot_bytes",
            "Bytes written to disk",
            self.snapshot_bytes.clone(),
        );
        to.register(
            "snapshot_failures",
            "Snapshots that were not written",
            self.snapshot_failures.clone(),
        );
        to.register(
            "snapshot_outdated",
            "Whether the snapshot on disk is older than what clients see",
            self.snapshot_outdated.clone(),
        );
        to.register(
            "withheld_endpoints",
            "Endpoints that this node does not see",
            self.withheld.clone(),
        );
        to.register(
            "malformed_services",
            "Services with an annotation that is no list of keys",
            self.malformed.clone(),
        );
        to.register("ready", "Whether the view is complete", self.ready.clone());
        to.register(
            "age_seconds",
            "Seconds since upstream was last heard of",
            self.age.clone(),
        );
        to.register(
            "feed_online",
            "Whether a kind's watch is up",
            self.feeds.clone(),
        );
        to.register(
            "nodes_in_grace",
            "Nodes that are gone and count for the grace as if they were there",
            self.nodes_in_grace.clone(),
        );
        to.register(
            "aliases",
            "Short names of pods in the view",
            self.aliases.clone(),
        );
        to.register(
            "aliases_left_out",
            "Short names that a pod of that name has itself",
            self.aliases_left_out.clone(),
        );
    }

    /// Takes further metrics in.
    pub(crate) fn extend(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.registry.lock());
    }

    /// The text of `/metrics`.
    pub(crate) fn text(&self, publisher: &Publisher) -> String {
        let figures = publisher.figures();
        for ((visibility, _), count) in Visibility::WITHHELD.into_iter().zip(figures.withheld) {
            let labels = vec![("reason", visibility.name().to_owned())];
            self.withheld.get_or_create(&labels).set(signed(count));
        }
        self.malformed.set(signed(figures.malformed_services));
        self.ready.set(i64::from(figures.ready));
        self.age.set(signed(figures.age));
        self.snapshot_outdated
            .set(i64::from(figures.snapshot_outdated));
        self.nodes_in_grace.set(signed(figures.nodes_in_grace));
        self.aliases.set(signed(figures.aliases));
        self.aliases_left_out.set(signed(figures.aliases_left_out));
        self.feeds.clear();
        for (feed, progress) in figures.feeds {
            self.feeds
                .get_or_create(&vec![("feed", feed)])
                .set(i64::from(progress.online));
        }
        let mut text = String::new();
        let registry = self.registry.lock();
        if let Err(error) = encode(&mut text, &registry) {
            tracing::warn!(%error, "metrics cannot be written");
        }
        text
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
