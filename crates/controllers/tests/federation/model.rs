//! Ten members, or fifty, and everything that can happen to them, in virtual time: links are cut, controllers crash, both sides
//! edit, units move, grids and members go. Whenever all links are whole again everything is as the control cluster says, and
//! nothing was ever deleted because of a cut.
//!
//! `EDGEGRID_FEDERATION_MEMBERS`, `EDGEGRID_FEDERATION_STEPS` and `EDGEGRID_SEED` choose how many, how long and which.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use edgegrid_api::names::{annotation, label, parent_secret};
use edgegrid_testkit::faults::Fault;
use edgegrid_testkit::{Patience, eventually_within};
use fastrand::Rng;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::stage::*;

const NAMES: [&str; 2] = ["shop", "web"];
const ZONES: [&str; 4] = ["north", "east", "south", "west"];
/// Retries of what failed while a link was cut come back within minutes.
const AGREEMENT_TIMEOUT: Patience = Patience {
    limit: Duration::from_mins(30),
    pause: Duration::from_secs(20),
};

struct Model {
    control: Site,
    members: BTreeMap<usize, Life>,
    /// Members that left, and the grids that they had then.
    left: Vec<(Member, Grids)>,
    random: Rng,
}

struct Life {
    member: Member,
    has_unit: bool,
    /// What the member had heard when its link was cut; `None` while it is whole.
    cut: Option<Grids>,
}

/// Kinds and names of grids, with their specs.
type Grids = BTreeMap<(&'static str, String), Value>;

fn chosen(variable: &str, default: usize) -> usize {
    std::env::var(variable)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

impl Model {
    async fn new(members: usize, seed: u64) -> Result<Self> {
        let mut model = Self {
            control: Site::control().await?,
            members: BTreeMap::new(),
            left: Vec::new(),
            random: Rng::with_seed(seed),
        };
        for n in 0..members {
            let member = Member::registered(&model.control, &format!("m{n}")).await?;
            let zone = ZONES[model.random.usize(..ZONES.len())];
            member.site.add_nodes(&[&format!("n zone={zone}")]).await?;
            let life = Life {
                member,
                has_unit: true,
                cut: None,
            };
            model.members.insert(n, life);
        }
        for kind in GRIDS {
            for name in NAMES {
                model
                    .control
                    .create(kind, ("default", name), &federated(kind, 1))
                    .await?;
            }
        }
        Ok(model)
    }

    fn any_member(&mut self) -> Option<usize> {
        let all: Vec<usize> = self.members.keys().copied().collect();
        (!all.is_empty()).then(|| all[self.random.usize(..all.len())])
    }

    fn any_grid(&mut self) -> (Gvk, (&'static str, &'static str)) {
        (
            GRIDS[self.random.usize(..3)],
            ("default", NAMES[self.random.usize(..NAMES.len())]),
        )
    }

    /// Something happens. What is refused, because it is gone meanwhile, did not happen.
    async fn step(&mut self) -> Result<()> {
        match self.random.usize(..15) {
            0..=4 => self.control_side().await,
            5..=12 => self.member_side().await,
            13 => self.control.start().await,
            _ => self.leave().await,
        }
    }

    async fn control_side(&mut self) -> Result<()> {
        let (kind, at) = self.any_grid();
        let replicas = i64::try_from(self.random.usize(..9))? + 1;
        match self.random.usize(..6) {
            0 | 1 => drop(
                self.control
                    .edit(kind, at, &json!({ "spec": spec(kind, replicas) }))
                    .await,
            ),
            2 => drop(self.control.delete(kind, at).await),
            3 => drop(
                self.control
                    .create(kind, at, &federated(kind, replicas))
                    .await,
            ),
            4 => {
                let value = ["yes", "no"][self.random.usize(..2)];
                let change = json!({ "metadata": { "labels": { label::FEDERATE: value } } });
                drop(self.control.edit(kind, at, &change).await);
            }
            _ => {
                if let Some(n) = self.any_member() {
                    let namespace = &self.members[&n].member.namespace;
                    drop(self.control.delete(kind, (namespace, at.1)).await);
                }
            }
        }
        Ok(())
    }

    async fn member_side(&mut self) -> Result<()> {
        let (kind, at) = self.any_grid();
        let Some(n) = self.any_member() else {
            return Ok(());
        };
        let (what, zone) = (
            self.random.usize(..8),
            ZONES[self.random.usize(..ZONES.len())],
        );
        let fault = self.any_fault();
        let Some(life) = self.members.get_mut(&n) else {
            return Ok(());
        };
        match what {
            0 | 1 if life.cut.is_none() => life.cut_off(fault).await?,
            0..=2 => life.heal().await?,
            3 => life.member.site.start().await?,
            4 => drop(
                life.member
                    .site
                    .edit(kind, at, &json!({ "spec": spec(kind, 77) }))
                    .await,
            ),
            5 => drop(life.member.site.delete(kind, at).await),
            6 => {
                life.member.site.label_node("n", "zone", Some(zone)).await?;
                life.has_unit = true;
            }
            _ => {
                life.member.site.label_node("n", "zone", None).await?;
                life.has_unit = false;
            }
        }
        Ok(())
    }

    fn any_fault(&mut self) -> Fault {
        let faults = [
            Fault::LoseRequest,
            Fault::Hang,
            Fault::Refuse(401),
            Fault::Refuse(403),
            Fault::Refuse(404),
        ];
        faults[self.random.usize(..faults.len())].clone()
    }

    /// A member is taken out of the federation, whether it is in reach or not. From then on nothing that it has changes.
    async fn leave(&mut self) -> Result<()> {
        let Some(n) = self.any_member().filter(|_| self.members.len() > 2) else {
            return Ok(());
        };
        let Some(life) = self.members.remove(&n) else {
            return Ok(());
        };
        a_while().await;
        let kept = self.kept(&life).await?;
        let member = life.member;
        let secret = (parent_secret::NAMESPACE, parent_secret::NAME);
        member.site.delete(SECRET, secret).await?;
        a_while().await;
        let before = grids_of(&member.site, "default").await?;
        let lost = kept.iter().find(|grid| !before.contains_key(*grid));
        ensure!(lost.is_none(), "{} lost {lost:?}", member.namespace);
        self.control
            .delete(NAMESPACE, ("", &member.namespace))
            .await?;
        self.left.push((member, before));
        Ok(())
    }

    /// The grids of a member that nobody asked to remove.
    async fn kept(&self, life: &Life) -> Result<BTreeSet<(&'static str, String)>> {
        let mut kept = BTreeSet::new();
        for grid in life.heard().await?.into_keys().filter(|_| life.has_unit) {
            let kind = GRIDS.into_iter().find(|kind| kind.2 == grid.0);
            let kind = kind.context("a kind of ours")?;
            let at = (life.member.namespace.as_str(), grid.1.as_str());
            let copy = self.control.find(kind, at).await?;
            if !copy.is_some_and(|copy| is_marked(&copy)) {
                kept.insert(grid);
            }
        }
        Ok(kept)
    }

    /// Heals everything and waits until all is as the control cluster says.
    async fn heal(&mut self) -> Result<()> {
        for life in self.members.values_mut() {
            life.heal().await?;
        }
        let model = &*self;
        eventually_within(AGREEMENT_TIMEOUT, "all clusters agree", async || {
            model.control.empty_namespaces().await?;
            let mut expected = BTreeMap::new();
            for kind in GRIDS {
                for name in NAMES {
                    let Some(grid) = model.control.find(kind, ("default", name)).await? else {
                        continue;
                    };
                    ensure!(
                        grid["metadata"].get("deletionTimestamp").is_none(),
                        "{kind:?} {name} still goes"
                    );
                    if grid["metadata"]["labels"][label::FEDERATE] == "yes" {
                        expected.insert((kind.2, name), grid["spec"].clone());
                    }
                }
            }
            for life in model.members.values() {
                life.agrees(&expected).await?;
            }
            model.nothing_is_left_behind(expected.len()).await
        })
        .await?;
        for (member, had) in &self.left {
            let has = grids_of(&member.site, "default").await?;
            ensure!(has == *had, "{} left and has {has:?}", member.namespace);
        }
        Ok(())
    }

    /// No copy but those of members, no finalizer on a grid that is not sent, no namespace that waits to go.
    async fn nothing_is_left_behind(&self, expected: usize) -> Result<()> {
        let mut copies: BTreeMap<String, usize> = BTreeMap::new();
        for kind in GRIDS {
            let grids = self.control.api(kind, "");
            for grid in grids.list(&ListParams::default()).await? {
                let sent = grid.labels().get(label::FEDERATE);
                let is_sent = sent.is_some_and(|value| value == "yes");
                let namespace = grid.namespace().unwrap_or_default();
                if namespace != "default" {
                    *copies.entry(namespace).or_default() += 1;
                } else if !is_sent {
                    ensure!(grid.finalizers().is_empty(), "{:?}", grid.metadata);
                }
            }
        }
        let members = self.members.values().filter(|_| expected > 0);
        let wanted = members.map(|life| (life.member.namespace.clone(), expected));
        let wanted: BTreeMap<String, usize> = wanted.collect();
        ensure!(copies == wanted, "{copies:?}");
        let namespaces = self.control.api(NAMESPACE, "");
        for namespace in namespaces.list(&ListParams::default()).await? {
            let is_left = namespace.metadata.deletion_timestamp.is_some();
            ensure!(!is_left, "{} is left", namespace.name_any());
        }
        Ok(())
    }
}

impl Life {
    async fn cut_off(&mut self, fault: Fault) -> Result<()> {
        self.member.link.break_off(fault);
        a_while().await; // what it had heard already is done
        self.cut = Some(self.heard().await?);
        Ok(())
    }

    /// Makes the link whole again. Until then the member had exactly what it had heard before, however often it was started anew and
    /// whatever was edited there.
    async fn heal(&mut self) -> Result<()> {
        let Some(before) = self.cut.take() else {
            return Ok(());
        };
        a_while().await; // an edit of this moment is put back
        let name = &self.member.namespace;
        let heard = self.heard().await?;
        ensure!(
            heard == before,
            "{name} heard {before:?} and keeps {heard:?}"
        );
        let has = grids_of(&self.member.site, "default").await?;
        let wanted = if self.has_unit { before } else { Grids::new() };
        ensure!(has == wanted, "{name} heard {wanted:?} and has {has:?}");
        self.member.link.restore();
        Ok(())
    }

    /// What the member heard last and nobody asked to remove.
    async fn heard(&self) -> Result<Grids> {
        grids_of(&self.member.site, parent_secret::NAMESPACE).await
    }

    /// Whether the member has the grids it should have, as they should be, and nothing else.
    async fn agrees(&self, expected: &BTreeMap<(&str, &str), Value>) -> Result<()> {
        for kind in GRIDS {
            for name in NAMES {
                let found = self.member.site.find(kind, ("default", name)).await?;
                let wanted = expected.get(&(kind.2, name)).filter(|_| self.has_unit);
                let found = found.map(|grid| grid["spec"].clone());
                ensure!(
                    found.as_ref() == wanted,
                    "{} {kind:?} {name}: {found:?}",
                    self.member.namespace
                );
            }
            let mirrors = self
                .member
                .site
                .api(kind, parent_secret::NAMESPACE)
                .list(&ListParams::default())
                .await?;
            let wanted = expected.keys().filter(|(of, _)| *of == kind.2).count();
            ensure!(
                mirrors.items.len() == wanted,
                "{} has {} mirrors",
                self.member.namespace,
                mirrors.items.len()
            );
        }
        Ok(())
    }
}

/// The grids in a namespace but for those that are to go.
async fn grids_of(site: &Site, namespace: &str) -> Result<Grids> {
    let mut all = Grids::new();
    for kind in GRIDS {
        let list = site
            .api(kind, namespace)
            .list(&ListParams::default())
            .await?;
        for grid in list {
            let name = grid.name_any();
            let grid = serde_json::to_value(grid)?;
            if !is_marked(&grid) {
                all.insert((kind.2, name), grid["spec"].clone());
            }
        }
    }
    Ok(all)
}

/// Whether the control cluster asked to remove a grid.
fn is_marked(grid: &Value) -> bool {
    grid["metadata"]["annotations"]
        .get(annotation::REMOVAL)
        .is_some()
}

#[tokio::test(start_paused = true)]
async fn everything_converges_whenever_links_heal_and_nothing_goes_because_of_a_cut() {
    let members = chosen("EDGEGRID_FEDERATION_MEMBERS", 10);
    let steps = chosen("EDGEGRID_FEDERATION_STEPS", 30);
    let seed = chosen("EDGEGRID_SEED", 1);
    println!(
        "EDGEGRID_FEDERATION_MEMBERS={members} EDGEGRID_FEDERATION_STEPS={steps} EDGEGRID_SEED={seed}"
    );
    let mut model = Model::new(members, seed as u64).await.unwrap();
    for step in 0..steps {
        model.step().await.unwrap();
        let pause = Duration::from_secs(1 + model.random.usize(..20) as u64);
        tokio::time::sleep(pause).await;
        if step % 30 == 29 {
            model.heal().await.unwrap();
        }
    }
    model.heal().await.unwrap();
}
