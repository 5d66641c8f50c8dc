//! The wrapper against everything that happens to it at once: random changes upstream, cuts, 410s,
//! restarts with and without disk, many clients, slow and fast. Whatever happens, every client ends
//! with what the rule says of what is upstream, and never sees what it must not.
//!
//! `EDGEGRID_MODEL_OPERATIONS` and `EDGEGRID_MODEL_SEED` choose how much and which; a failure
//! prints its seed.

use crate::cloud::{Cloud, node, service, slice};
use crate::mirror::{Mirror, Style, name};
use crate::rule::expected_slices;
use crate::{Running, eventually};
use edgegrid_wrapper::{Config, ServedKind};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;
use tempfile::TempDir;

const OWN: &str = "a-0";
/// These never move, so that what is foreign stays foreign. The own node comes and goes.
const FIXED: [(&str, &str); 5] = [
    ("a-0", "a"),
    ("a-1", "a"),
    ("b-0", "b"),
    ("b-1", "b"),
    ("c-0", "c"),
];
const MOVERS: [&str; 2] = ["m-0", "m-1"];
const UNITS: [&str; 3] = ["a", "b", "c"];
/// Services that are strict from birth to death.
const STRICT: [&str; 2] = ["strict-0", "strict-1"];
const OTHERS: [&str; 3] = ["free-0", "free-1", "free-2"];
const KEYS: [Option<&str>; 6] = [
    None,
    Some("[\"unit\"]"),
    Some("[\"unit\",\"*\"]"),
    Some("[\"kubernetes.io/hostname\",\"unit\"]"),
    Some("[\"nonsense"),
    Some("[\"missing\"]"),
];
/// What is gone counts for so long: shorter than it takes to settle.
const NODE_GRACE: Duration = Duration::from_secs(20);
const HEADLESS: &str = "labelSelector=!service.kubernetes.io/headless";

/// Repeatable random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

struct World {
    random: Random,
    cloud: Cloud,
    running: Option<Running>,
    disk: TempDir,
    slices: Vec<Mirror>,
    services: Vec<Mirror>,
    counter: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let cloud = Cloud::default();
        for (name, unit) in FIXED {
            cloud.put(ServedKind::Nodes, &unit_node(name, Some(unit)));
        }
        for name in STRICT {
            cloud.put(ServedKind::Services, &service(name, Some("[\"unit\"]")));
        }
        cloud.put(
            ServedKind::Namespaces,
            &json!({ "metadata": { "name": "default" } }),
        );
        let disk = tempfile::tempdir().unwrap();
        let config = Config {
            state: Some(disk.path().to_owned()),
            node_grace: NODE_GRACE,
            ..Config::new(OWN)
        };
        let running = Running::with(&config, cloud.client());
        let client = || running.client();
        let path = ServedKind::Slices.path();
        let slices = (0..8).map(|at| {
            let style = if at % 2 == 0 {
                Style::Paged
            } else {
                Style::Streamed
            };
            Mirror::new(
                client(),
                &path,
                style,
                if at % 3 == 0 { HEADLESS } else { "" },
            )
        });
        let slices = slices.collect();
        let services = vec![Mirror::new(
            client(),
            &ServedKind::Services.path(),
            Style::Streamed,
            "",
        )];
        Self {
            random: Random(seed),
            cloud,
            running: Some(running),
            disk,
            slices,
            services,
            counter: 0,
        }
    }

    async fn step(&mut self) {
        self.counter += 1;
        match self.random.below(200) {
            0..90 => self.change_slice(),
            90..120 => self.change_service(),
            120..135 => self.change_node(),
            135..137 => self.cloud.compact(),
            137..140 => self.cloud.cut(true),
            140..150 => self.cloud.cut(false),
            150 => self.restart().await,
            151..160 => {
                let at = self.random.below(self.slices.len());
                self.slices[at].disconnect(None);
            }
            160..165 => {
                let millis = self.random.below(3000) as u64;
                tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
            }
            _ => self.read_some().await,
        }
    }

    fn change_slice(&mut self) {
        let service = if self.random.below(2) == 0 {
            self.random.pick(&STRICT)
        } else {
            self.random.pick(&OTHERS)
        };
        let name = format!("{service}-{}", self.random.below(2));
        if self.random.below(6) == 0 {
            return self
                .cloud
                .delete(ServedKind::Slices, Some("default"), &name);
        }
        let count = self.random.below(5);
        let nodes: Vec<&str> = (0..count).map(|_| self.any_node()).collect();
        let mut object = slice(&name, service, &nodes);
        for endpoint in object["endpoints"].as_array_mut().unwrap() {
            let (ready, serving) = self
                .random
                .pick(&[(true, true), (false, true), (false, false)]);
            endpoint["conditions"] = json!({ "ready": ready, "serving": serving });
        }
        object["metadata"]["generation"] = self.counter.into();
        if self.random.below(10) == 0 {
            object["addressType"] = "IPv6".into();
        }
        self.cloud.put(ServedKind::Slices, &object);
    }

    fn any_node(&mut self) -> &'static str {
        match self.random.below(8) {
            0 => "",
            1..3 => self.random.pick(&MOVERS),
            _ => self.random.pick(&FIXED).0,
        }
    }

    fn change_service(&mut self) {
        if self.random.below(4) == 0 {
            let name = self.random.pick(&STRICT);
            if self.random.below(2) == 0 {
                return self
                    .cloud
                    .delete(ServedKind::Services, Some("default"), name);
            }
            return self
                .cloud
                .put(ServedKind::Services, &service(name, Some("[\"unit\"]")));
        }
        let name = self.random.pick(&OTHERS);
        if self.random.below(5) == 0 {
            return self
                .cloud
                .delete(ServedKind::Services, Some("default"), name);
        }
        let mut object = service(name, self.random.pick(&KEYS));
        if self.random.below(5) == 0 {
            object["metadata"]["annotations"]["edgegrid.io/external-endpoints"] = "keep".into();
        }
        self.cloud.put(ServedKind::Services, &object);
    }

    fn change_node(&mut self) {
        if self.random.below(4) == 0 {
            return self.change_own_node();
        }
        let name = self.random.pick(&MOVERS);
        match self.random.below(4) {
            0 => self.cloud.delete(ServedKind::Nodes, None, name),
            1 => self.cloud.put(ServedKind::Nodes, &unit_node(name, None)),
            _ => {
                let unit = self.random.pick(&UNITS);
                self.cloud
                    .put(ServedKind::Nodes, &unit_node(name, Some(unit)));
            }
        }
    }

    /// The own node never has another unit, so that what is foreign stays foreign.
    fn change_own_node(&mut self) {
        let known = self.cloud.get(ServedKind::Nodes, None, OWN);
        let unit = match self.random.below(4) {
            0 => return self.cloud.delete(ServedKind::Nodes, None, OWN),
            1 => None,
            _ => Some("a"),
        };
        let mut node = unit_node(OWN, unit);
        let uid = known.map(|known| known["metadata"]["uid"].clone());
        let uid = uid.filter(Value::is_string);
        node["metadata"]["uid"] = uid.unwrap_or_else(|| self.counter.to_string().into());
        self.cloud.put(ServedKind::Nodes, &node);
    }

    async fn restart(&mut self) {
        let running = self.running.take().unwrap();
        match self.random.below(3) {
            0 => running.stop().await,
            1 => running.crash().await,
            _ => {
                running.crash().await;
                let _ = std::fs::remove_file(self.disk.path().join("view.snapshot"));
            }
        }
        let config = Config {
            state: Some(self.disk.path().to_owned()),
            stream_lists: self.random.below(2) == 0,
            node_grace: NODE_GRACE,
            ..Config::new(OWN)
        };
        let running = Running::with(&config, self.cloud.client());
        for mirror in self.slices.iter_mut().chain(&mut self.services) {
            mirror.disconnect(Some(running.client()));
        }
        self.running = Some(running);
    }

    /// Some clients read; the others are slow.
    async fn read_some(&mut self) {
        tokio::task::yield_now().await;
        for _ in 0..2 {
            let at = self.random.below(self.slices.len());
            self.slices[at].pump(&mut never_foreign).await;
        }
        self.services[0].pump(&mut |_| {}).await;
    }

    /// With the link up, everybody comes to see exactly what the rule says.
    async fn settle(&mut self) {
        self.cloud.cut(false);
        let slices = expected_slices(OWN, &self.cloud);
        let services = all(&self.cloud, ServedKind::Services);
        let (mirrors, others) = (&mut self.slices, &mut self.services);
        eventually("every client sees what the rule says", async || {
            for (wanted, mirrors) in [(&slices, &mut *mirrors), (&services, &mut *others)] {
                for (at, mirror) in mirrors.iter_mut().enumerate() {
                    mirror.pump(&mut never_foreign).await;
                    if mirror.objects != *wanted {
                        let difference = difference(&mirror.objects, wanted);
                        return Err(format!("client {at}: {difference}"));
                    }
                }
            }
            Ok(())
        })
        .await;
    }
}

fn difference(seen: &BTreeMap<String, Value>, wanted: &BTreeMap<String, Value>) -> String {
    let names: BTreeSet<_> = seen.keys().chain(wanted.keys()).collect();
    let mut text = String::new();
    for name in names {
        let (seen, wanted) = (seen.get(name), wanted.get(name));
        if seen != wanted {
            writeln!(text, "{name}: sees {seen:?}, not {wanted:?}").unwrap();
        }
    }
    text
}

fn unit_node(name: &str, unit: Option<&str>) -> Value {
    let host = ("kubernetes.io/hostname", name);
    match unit {
        Some(unit) => node(name, &[host, ("unit", unit)]),
        None => node(name, &[host]),
    }
}

fn all(cloud: &Cloud, kind: ServedKind) -> BTreeMap<String, Value> {
    cloud
        .all(kind)
        .into_iter()
        .map(|object| (name(&object), object))
        .collect()
}

/// A strict service never shows a node that was never at home.
fn never_foreign(object: &Value) {
    let service = object["metadata"]["labels"]["kubernetes.io/service-name"].as_str();
    if !service.is_some_and(|service| STRICT.contains(&service)) {
        return;
    }
    let foreign: BTreeSet<&str> = FIXED
        .iter()
        .filter(|(_, unit)| *unit != "a")
        .map(|(name, _)| *name)
        .collect();
    for endpoint in object["endpoints"].as_array().into_iter().flatten() {
        let node = endpoint["nodeName"].as_str();
        assert!(
            !node.is_none_or(|node| foreign.contains(node)),
            "leaked: {object:#}"
        );
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_every_client_ends_with_what_the_rule_says() {
    let operations = setting("EDGEGRID_MODEL_OPERATIONS", 6_000);
    let seed = setting("EDGEGRID_MODEL_SEED", 1);
    println!("seed {seed}, {operations} operations: EDGEGRID_MODEL_SEED={seed}");
    let mut world = World::new(seed);
    for operation in 1..=operations {
        world.step().await;
        if operation % 200 == 0 || operation == operations {
            world.settle().await;
        }
    }
    let relists: usize = world.slices.iter().map(|mirror| mirror.relists).sum();
    let events: usize = world.slices.iter().map(|mirror| mirror.events).sum();
    println!("{relists} relists, {events} events");
    assert!(relists > 10 && events > 100);
}
