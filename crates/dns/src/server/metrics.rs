//! What the server counts.

use hickory_proto::op::ResponseCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::wire::Transport;
use crate::answer::To;

type Label = (&'static str, &'static str);

/// Counters and gauges; clones count together.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    questions: Family<[Label; 1], Counter>,
    answers: Family<[Label; 2], Counter>,
    turned_away: Family<[Label; 1], Counter>,
    unheard: Family<[Label; 1], Counter>,
    pub(super) connections: Gauge,
}

/// Why a question was not answered as it might have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnedAway {
    /// The client is not of this node.
    Stranger,
    /// The client asks too much.
    Rate,
    /// Too much is under way.
    Busy,
}

impl Metrics {
    /// Shows them in a registry.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("edgegrid_dns");
        registry.register(
            "questions",
            "Packets of clients by transport",
            self.questions.clone(),
        );
        registry.register(
            "answers",
            "Answers by who knew them and by their code",
            self.answers.clone(),
        );
        registry.register(
            "turned_away",
            "Questions turned away, by reason",
            self.turned_away.clone(),
        );
        registry.register(
            "unheard",
            "Questions to others that nobody answered",
            self.unheard.clone(),
        );
        registry.register(
            "connections",
            "TCP connections that are open",
            self.connections.clone(),
        );
    }

    pub(super) fn asked(&self, transport: Transport) {
        let name = match transport {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        };
        self.questions.get_or_create(&[("transport", name)]).inc();
    }

    pub(super) fn answered(&self, from: Option<To>, code: ResponseCode) {
        let labels = [("source", source(from)), ("code", code.to_str())];
        self.answers.get_or_create(&labels).inc();
    }

    pub(super) fn turned_away(&self, why: TurnedAway) {
        let reason = match why {
            TurnedAway::Stranger => "stranger",
            TurnedAway::Rate => "rate",
            TurnedAway::Busy => "busy",
        };
        self.turned_away.get_or_create(&[("reason", reason)]).inc();
    }

    pub(super) fn unheard(&self, to: To) {
        let labels = [("source", source(Some(to)))];
        self.unheard.get_or_create(&labels).inc();
    }
}

fn source(from: Option<To>) -> &'static str {
    match from {
        None => "view",
        Some(To::Cluster) => "cluster",
        Some(To::Resolvers) => "resolvers",
    }
}
