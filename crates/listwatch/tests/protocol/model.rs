//! Clients that follow the protocol, against any interleaving of what can happen to them.
//!
//! Each client either lists in pages and watches, or uses `WatchList`. It starts over on 410 and only
//! then. Whatever happened, it ends with exactly what the server holds of its selection, and every
//! single event fits what it knew before.

use crate::fixture::{Contents, Events, Server, name, version};
use proptest::prelude::*;
use serde_json::Value;
use std::time::Duration;

const SELECTIONS: [&str; 4] = [
    "",
    "labelSelector=app%3Dweb",
    "fieldSelector=data.tier!%3Dback",
    "labelSelector=app!%3Dweb&fieldSelector=metadata.namespace%3Dx",
];
const HISTORY: usize = 10;

#[derive(Debug, Clone)]
enum Step {
    Put {
        namespace: usize,
        name: usize,
        app: usize,
        tier: usize,
    },
    Delete {
        namespace: usize,
        name: usize,
    },
    Compact {
        back: u64,
    },
    Read {
        client: usize,
        events: usize,
    },
    Disconnect {
        client: usize,
    },
    Restart {
        client: usize,
        streaming: bool,
    },
    Wait {
        seconds: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (two, five) = (0..2_usize, 0..5_usize);
    prop_oneof![
        8 => (two.clone(), five.clone(), two.clone(), two.clone())
            .prop_map(|(namespace, name, app, tier)| Step::Put { namespace, name, app, tier }),
        4 => (two, five).prop_map(|(namespace, name)| Step::Delete { namespace, name }),
        1 => (0..6_u64).prop_map(|back| Step::Compact { back }),
        9 => (0..4_usize, 1..5_usize).prop_map(|(client, events)| Step::Read { client, events }),
        2 => (0..4_usize).prop_map(|client| Step::Disconnect { client }),
        1 => (0..4_usize, any::<bool>()).prop_map(|(client, streaming)| Step::Restart { client, streaming }),
        1 => prop_oneof![Just(1), Just(70), Just(700)].prop_map(|seconds| Step::Wait { seconds }),
    ]
}

/// What a client is about to do.
enum Phase {
    /// Fetch the next page.
    List {
        token: Option<String>,
        pages: Contents,
    },
    /// Collect the initial events of this stream.
    Stream { events: Events, collected: Contents },
    /// Follow the changes; without a stream, open one at the last revision.
    Follow(Option<Events>),
    /// Start over.
    Start,
}

struct Client {
    selection: &'static str,
    streaming: bool,
    contents: Contents,
    revision: String,
    phase: Phase,
}

impl Client {
    fn new(selection: &'static str, streaming: bool) -> Self {
        let (contents, revision) = (Contents::new(), String::new());
        Self {
            selection,
            streaming,
            contents,
            revision,
            phase: Phase::Start,
        }
    }

    /// Does one thing; false if there is nothing to do but wait.
    async fn act(&mut self, server: &Server) -> bool {
        match std::mem::replace(&mut self.phase, Phase::Start) {
            Phase::Start if self.streaming => {
                let query = format!(
                    "{}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=600",
                    self.selection
                );
                let events = server.watch(&query).await;
                self.phase = Phase::Stream {
                    events,
                    collected: Contents::new(),
                };
                true
            }
            Phase::Start => {
                self.phase = Phase::List {
                    token: None,
                    pages: Contents::new(),
                };
                true
            }
            Phase::List { token, pages } => self.list(server, token, pages).await,
            Phase::Stream { events, collected } => self.collect(events, collected).await,
            Phase::Follow(None) => {
                let query = format!(
                    "{}&resourceVersion={}&allowWatchBookmarks=true&timeoutSeconds=600",
                    self.selection, self.revision
                );
                self.phase = Phase::Follow(Some(server.watch(&query).await));
                true
            }
            Phase::Follow(Some(events)) => self.follow(events).await,
        }
    }

    async fn list(&mut self, server: &Server, token: Option<String>, mut pages: Contents) -> bool {
        let token = token
            .map(|token| format!("&continue={token}"))
            .unwrap_or_default();
        let (code, list) = server
            .list(&format!("{}&limit=2{token}", self.selection))
            .await;
        if code == 410 {
            return true;
        }
        assert_eq!(code, 200, "{list}");
        for item in list["items"].as_array().unwrap() {
            assert_eq!(pages.insert(name(item), version(item).to_owned()), None);
        }
        if let Some(token) = list["metadata"]["continue"].as_str() {
            let token = Some(token.to_owned());
            self.phase = Phase::List { token, pages };
        } else {
            self.contents = pages;
            version(&list).clone_into(&mut self.revision);
            self.phase = Phase::Follow(None);
        }
        true
    }

    async fn collect(&mut self, mut events: Events, mut collected: Contents) -> bool {
        let event = match events.now().await {
            Some(Some(event)) => event,
            Some(None) => return true,
            None => panic!("initial events are never waited for"),
        };
        let object = &event["object"];
        match event["type"].as_str() {
            Some("ADDED") => {
                assert_eq!(
                    collected.insert(name(object), version(object).to_owned()),
                    None
                );
                self.phase = Phase::Stream { events, collected };
            }
            Some("BOOKMARK") => {
                assert_eq!(
                    object["metadata"]["annotations"]["k8s.io/initial-events-end"],
                    "true"
                );
                self.contents = collected;
                version(object).clone_into(&mut self.revision);
                self.phase = Phase::Follow(Some(events));
            }
            Some("ERROR") => assert_eq!(object["code"], 410),
            other => panic!("{other:?} among the initial events"),
        }
        true
    }

    async fn follow(&mut self, mut events: Events) -> bool {
        let Some(event) = events.now().await else {
            self.phase = Phase::Follow(Some(events));
            return false;
        };
        let Some(event) = event else {
            self.phase = Phase::Follow(None);
            return true;
        };
        if event["type"] == "ERROR" {
            assert_eq!(event["object"]["code"], 410);
            return true; // the phase is already to start over
        }
        self.take(&event);
        self.phase = Phase::Follow(Some(events));
        true
    }

    fn take(&mut self, event: &Value) {
        let object = &event["object"];
        let revision = version(object).to_owned();
        let number = |text: &str| text.parse::<u64>().unwrap();
        assert!(
            number(&revision) >= number(&self.revision),
            "revisions only grow"
        );
        match event["type"].as_str() {
            Some("ADDED") => assert_eq!(self.contents.insert(name(object), revision.clone()), None),
            Some("MODIFIED") => assert!(
                self.contents
                    .insert(name(object), revision.clone())
                    .is_some()
            ),
            Some("DELETED") => assert!(self.contents.remove(&name(object)).is_some()),
            Some("BOOKMARK") => {}
            other => panic!("{other:?}"),
        }
        self.revision = revision;
    }
}

async fn apply(server: &Server, clients: &mut [Client; 4], step: Step) {
    let namespaces = ["x", "y"];
    let names = ["a", "b", "c", "d", "e"];
    match step {
        Step::Put {
            namespace,
            name,
            app,
            tier,
        } => {
            server.put(
                namespaces[namespace],
                names[name],
                ["web", "api"][app],
                ["front", "back"][tier],
            );
        }
        Step::Delete { namespace, name } => drop(server.delete(namespaces[namespace], names[name])),
        Step::Compact { back } => server
            .store
            .compact(server.store.revision().saturating_sub(back)),
        Step::Read { client, events } => {
            for _ in 0..events {
                clients[client].act(server).await;
            }
        }
        Step::Disconnect { client } => {
            let phase = &mut clients[client].phase;
            *phase = match std::mem::replace(phase, Phase::Start) {
                Phase::Follow(_) => Phase::Follow(None),
                Phase::Stream { .. } | Phase::Start => Phase::Start,
                list @ Phase::List { .. } => list,
            };
        }
        Step::Restart { client, streaming } => {
            clients[client] = Client::new(clients[client].selection, streaming);
        }
        Step::Wait { seconds } => tokio::time::advance(Duration::from_secs(seconds)).await,
    }
}

async fn run(steps: Vec<Step>) {
    let server = Server::new(HISTORY);
    let mut index = 0;
    let mut clients = SELECTIONS.map(|selection| {
        index += 1;
        Client::new(selection, index % 2 == 0)
    });
    for step in steps {
        apply(&server, &mut clients, step).await;
    }
    for client in &mut clients {
        while client.act(&server).await {}
        let (_, list) = server.list(client.selection).await;
        let items = list["items"].as_array().unwrap();
        let truth: Contents = items
            .iter()
            .map(|item| (name(item), version(item).to_owned()))
            .collect();
        assert_eq!(client.contents, truth, "selection {:?}", client.selection);
    }
    drop(clients);
    assert_eq!(server.store.watched_prefixes(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_client_that_follows_the_protocol_ends_with_the_servers_state(
        steps in prop::collection::vec(step(), 1..150)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(run(steps));
    }

    #[test]
    fn any_query_namespace_and_accept_get_an_answer(
        query in "((limit|continue|resourceVersion|resourceVersionMatch|watch|timeoutSeconds|sendInitialEvents|labelSelector|fieldSelector)=(.{0,6}|[0-9]{1,21}|Exact|NotOlderThan|v1:[0-9]:[a-z/]{1,3})&){0,4}",
        namespace in proptest::option::of(".{0,4}"),
        name in proptest::option::of(".{0,4}"),
        accept in "(application/json|\\*/\\*|[a-z;=,/*]{0,20}|.{0,10})",
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let server = Server::new(HISTORY);
            server.put("x", "a", "web", "front");
            let (namespace, name) = (namespace.as_deref(), name.as_deref());
            let read = edgegrid_listwatch::Read { resource: &server.maps, namespace, name, query: &query, accept: &accept };
            let response = server.reader.read(read).await;
            assert!(response.status().as_u16() < 600);
        });
    }
}
