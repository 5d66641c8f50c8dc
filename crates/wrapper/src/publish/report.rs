//! What the publisher reports of itself: readiness, age, metrics, and why a service looks as it does.

use super::short_names::ShortNames;
use super::{Inner, Progress, Publisher};
use crate::document::Source;
use crate::feed::Feed;
use crate::index::filter::Viewer;
use crate::kinds::ServedKind;
use crate::view::{Rule, Selected, Topology, Visibility};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Out of touch for less than so many seconds is between two watches, not cut off.
const BETWEEN_WATCHES: u64 = 5;

/// When upstream was last heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contact {
    /// It is being heard.
    Now,
    /// So many seconds ago.
    Lost(u64),
    /// Neither by this process nor by the one whose state it found on disk.
    Never,
}

/// Numbers for metrics.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    pub(crate) withheld: [u64; Visibility::WITHHELD.len()],
    pub(crate) malformed_services: u64,
    pub(crate) ready: bool,
    /// Seconds since the last contact with upstream; zero while there is contact.
    pub(crate) age: u64,
    pub(crate) feeds: Vec<(String, Progress)>,
    pub(crate) snapshot_outdated: bool,
    pub(crate) nodes_in_grace: u64,
    pub(crate) aliases: u64,
    pub(crate) aliases_left_out: u64,
}

impl Publisher {
    /// Whether reads of a kind can be answered; asking for Endpoints starts reading them.
    pub(crate) fn is_ready(&self, kind: ServedKind) -> bool {
        let mut inner = self.inner();
        if kind == ServedKind::Endpoints && !inner.endpoints_wanted {
            inner.endpoints_wanted = true;
            self.publish_wanted(&mut inner);
        }
        let synced = inner.is_synced(&Feed::Kind(kind));
        match kind {
            ServedKind::Services | ServedKind::Slices | ServedKind::Endpoints => {
                inner.open && synced
            }
            ServedKind::Namespaces | ServedKind::ServiceCidrs | ServedKind::Nodes => synced,
        }
    }

    /// Whether the view is complete.
    pub(crate) fn is_open(&self) -> bool {
        self.inner().open
    }

    /// What is still missing for the view to be complete.
    pub(crate) fn missing(&self) -> Vec<String> {
        let inner = self.inner();
        let kinds = [ServedKind::Services, ServedKind::Slices, ServedKind::Nodes].map(Feed::Kind);
        let kinds = kinds.into_iter().filter(|feed| !inner.is_synced(feed));
        let peers = inner.index.wanted_peers().into_iter();
        let peers = peers.filter(|(key, _)| !inner.index.peers().contains_key(key));
        let peers = peers.map(|(key, value)| Feed::Peers {
            key: key.into(),
            value,
        });
        let sets = inner.wanted_sets().into_iter();
        let sets = sets.filter(|feed| !inner.is_synced(feed));
        let missing = kinds.chain(peers).chain(sets);
        missing.map(|feed| feed.to_string()).collect()
    }

    /// Seconds since upstream was last heard of; none while there is contact.
    pub(crate) fn age(&self) -> Option<u64> {
        self.inner().age(self.now())
    }

    /// When upstream was last heard of.
    pub(crate) fn contact(&self) -> Contact {
        let inner = self.inner();
        if let Some(seconds) = inner.age(self.now()) {
            return Contact::Lost(seconds);
        }
        let mut feeds = inner.feeds.values();
        if feeds.any(|feed| feed.online || feed.synced) {
            Contact::Now
        } else {
            Contact::Never
        }
    }

    pub(crate) fn figures(&self) -> Figures {
        let inner = self.inner();
        let is_malformed = |topology: &Topology| matches!(topology, Topology::Malformed(_));
        let malformed = inner
            .index
            .rules()
            .filter(|(_, rule)| is_malformed(&rule.topology));
        let age = inner.age(self.now());
        let aliases = inner.aliases.as_ref();
        let (aliases, aliases_left_out) = aliases.map(ShortNames::counts).unwrap_or_default();
        Figures {
            nodes_in_grace: inner.nodes_in_grace() as u64,
            aliases,
            aliases_left_out,
            withheld: inner.rendered.withheld(),
            malformed_services: malformed.count() as u64,
            ready: inner.open,
            age: age.unwrap_or(0),
            snapshot_outdated: self.is_snapshot_outdated(inner.open),
            feeds: inner
                .feeds
                .iter()
                .map(|(feed, at)| (feed.to_string(), at.clone()))
                .collect(),
        }
    }

    /// What this node sees of a service, and why.
    pub(crate) fn explain(&self, service: &str) -> Value {
        let inner = self.inner();
        let own: Value = inner
            .index
            .labels()
            .iter()
            .map(|(k, v)| (k.clone(), json!(v)))
            .collect();
        let Some(rule) = inner.index.rule(service) else {
            return json!({ "service": service, "known": false, "node": self.node, "labels": own,
                "objects": inner.objects(service) });
        };
        let topology = match &rule.topology {
            Topology::Open => json!("no topology keys: everything stays"),
            Topology::Malformed(why) => json!({ "malformed": why }),
            Topology::Keys { keys, any } => json!({ "keys": keys, "any": any }),
        };
        let peers = rule
            .keys()
            .iter()
            .map(|key| (key.to_string(), inner.peers_of(key)));
        json!({
            "service": service, "known": true, "node": self.node, "labels": own,
            "topology": topology, "keepExternal": rule.keep_external,
            "peers": peers.collect::<serde_json::Map<_, _>>(),
            "objects": inner.objects(service),
            "nodeGrace": inner.grace_lines(Instant::now()),
            "shortNames": inner.aliases.as_ref().map(|aliases| aliases.explain(&inner.index, service)),
        })
    }

    /// All services at a glance.
    pub(crate) fn overview(&self) -> Value {
        let grace = self.grace_lines();
        let inner = self.inner();
        let rules = inner
            .index
            .rules()
            .filter(|(_, rule)| rule.topology != Topology::Open);
        let services: serde_json::Map<String, Value> = rules
            .map(|(service, rule)| {
                let said = match &rule.topology {
                    Topology::Malformed(why) => json!({ "malformed": why }),
                    _ => json!({ "keys": rule.keys() }),
                };
                (service.to_string(), said)
            })
            .collect();
        json!({ "node": self.node, "ready": inner.open, "topologyServices": services,
            "nodeGrace": grace })
    }
}

impl Inner {
    /// A view is as old as what has been out of touch longest, and as the last outage until a look has
    /// shown that it ended in the same history.
    fn age(&self, now: Timestamp) -> Option<u64> {
        let wanted = self.wanted();
        let feeds = self.feeds.iter().filter(|(feed, _)| wanted.contains(feed));
        let offline = feeds.filter(|(_, progress)| !progress.online && progress.synced);
        let since = |then: Timestamp| now.duration_since(then).as_secs().max(0).unsigned_abs();
        let offline = offline.map(|(_, progress)| since(progress.contact.unwrap_or_default()));
        let oldest = offline
            .chain(self.history.unverified_since.map(since))
            .max();
        oldest.filter(|age| *age >= BETWEEN_WATCHES)
    }

    fn peers_of(&self, key: &str) -> Value {
        match self.index.peers().get(key) {
            Some(peers) => {
                let names = peers
                    .members
                    .iter()
                    .map(|node| self.index.names.name(*node));
                json!({ "value": peers.value, "nodes": names.collect::<Vec<_>>() })
            }
            None => json!("not known"),
        }
    }

    fn objects(&self, service: &str) -> Vec<Value> {
        let rule = self.index.rule(service);
        let mut objects = Vec::new();
        for source in Source::ALL {
            let selected =
                rule.map(|rule| self.index.selected(source, service, rule, Viewer::Node));
            for (_, key, entry) in self
                .index
                .entries_of(service)
                .filter(|(of, ..)| *of == source)
            {
                let endpoints = entry.endpoints().map(|(family, one)| {
                    let selected = selected.as_ref().and_then(|all| all.get(&family));
                    let visibility = match (rule, selected) {
                        (Some(rule), Some(selected)) => {
                            self.index.visibility(rule, *selected, one, Viewer::Node)
                        }
                        _ => Visibility::UnknownService,
                    };
                    json!({
                        "node": one.node.map(|node| self.index.names.name(node)),
                        "ready": one.ready, "serving": one.serving, "visibility": visibility.name(),
                        "because": because(rule.map(Rule::keys), selected.copied()),
                    })
                });
                objects.push(json!({
                    "object": &**key, "kind": ServedKind::from(source).resource().kind,
                    "endpoints": endpoints.collect::<Vec<_>>(),
                }));
            }
        }
        objects
    }
}

fn because(keys: Option<&[Box<str>]>, selected: Option<Selected>) -> String {
    match (keys, selected) {
        (Some(keys), Some(Selected::Key(winner))) => {
            format!("key {} wins", keys.get(winner).map_or("", |key| key))
        }
        (_, Some(Selected::Everything)) => "everything stays".to_owned(),
        (_, Some(Selected::AnyKey)) => "nobody answers at home".to_owned(),
        (_, Some(Selected::Nothing)) => "the annotation is malformed".to_owned(),
        _ => "no such Service is known".to_owned(),
    }
}
