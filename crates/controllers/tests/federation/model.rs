//! Ten members, or fifty, and everything that can happen to them, in virtual time: links are cut, controllers crash, both sides
//! edit, units move, grids and members go. Whenever all links are whole again everything is as the control cluster says, and
//! nothing was ever deleted because of a cut.
//!
//! `EDGEGRID_FEDERATION_MEMBERS`, `EDGEGRID_FEDERATION_STEPS` and `EDGEGRID_SEED` choose how many, how long and which.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, ensure};
use edgegrid_api::names::{label, parent_secret};
use edgegrid_testkit::{Patience, eventually_within};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::harness::dice::Dice;
use crate::stage::*;

const NAMES: [&str; 2] = ["shop", "web"];
const ZONES: [&str; 4] = ["north", "east", "south", "west"];
/// Retries of what failed while a link was cut come back within minutes.
const PATIENCE: Patience = Patience {
    limit: Duration::from_mins(30),
    pause: Duration::from_secs(20),
};

struct Model {
    control: Site,
    members: BTreeMap<usize, Life>,
    dice: Dice,
}

struct Life {
    member: Member,
    has_unit: bool,
    /// Grids that the member had when its link was cut; `None` while it is whole.
    cut: Option<BTreeSet<String>>,
}

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
            dice: Dice(seed),
        };
        for n in 0..members {
            let member = Member::registered(&model.control, &format!("m{n}")).await?;
            let zone = model.dice.pick(&ZONES);
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
        (!all.is_empty()).then(|| all[self.dice.roll(all.len())])
    }

    fn any_grid(&mut self) -> (Kind, (&'static str, &'static str)) {
        (
            GRIDS[self.dice.roll(3)],
            ("default", self.dice.pick(&NAMES)),
        )
    }

    /// Something happens. What is refused, because it is gone meanwhile, did not happen.
    async fn step(&mut self) -> Result<()> {
        match self.dice.roll(15) {
            0..=4 => self.control_side().await,
            5..=12 => self.member_side().await,
            13 => self.control.start().await,
            _ => self.leave().await,
        }
    }

    async fn control_side(&mut self) -> Result<()> {
        let (kind, at) = self.any_grid();
        let replicas = i64::try_from(self.dice.roll(9))? + 1;
        match self.dice.roll(6) {
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
                let value = ["yes", "no"][self.dice.roll(2)];
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
        let (what, zone) = (self.dice.roll(8), self.dice.pick(&ZONES));
        let Some(life) = self.members.get_mut(&n) else {
            return Ok(());
        };
        match what {
            0 | 1 if life.cut.is_none() => {
                life.member.cut();
                life.cut = Some(grids_of(&life.member.site).await?);
            }
            0..=2 => {
                life.check().await?;
                life.member.link.restore();
                life.cut = None;
            }
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
                life.check().await?;
                life.member.site.label_node("n", "zone", None).await?;
                life.has_unit = false;
                life.cut = life.cut.is_some().then(BTreeSet::new);
            }
        }
        Ok(())
    }

    /// A member is taken out of the federation, whether it is in reach or not.
    async fn leave(&mut self) -> Result<()> {
        let Some(n) = self.any_member().filter(|_| self.members.len() > 2) else {
            return Ok(());
        };
        if let Some(life) = self.members.remove(&n) {
            let before = grids_of(&life.member.site).await?;
            life.member
                .site
                .delete(SECRET, (parent_secret::NAMESPACE, parent_secret::NAME))
                .await?;
            a_while().await;
            self.control
                .delete(NAMESPACE, ("", &life.member.namespace))
                .await?;
            a_while().await;
            let after = grids_of(&life.member.site).await?;
            let lost: Vec<_> = before.difference(&after).collect();
            // A grid that was being removed at that moment may still go.
            ensure!(lost.len() <= 1, "a member that left lost {lost:?}");
        }
        Ok(())
    }

    /// Heals everything and waits until all is as the control cluster says.
    async fn heal(&mut self) -> Result<()> {
        for life in self.members.values_mut() {
            life.check().await?;
            life.member.link.restore();
            life.cut = None;
        }
        let model = &*self;
        eventually_within(PATIENCE, "all clusters agree", async || {
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
                model.copies(life, expected.len()).await?;
            }
            for namespace in model
                .control
                .api(NAMESPACE, "")
                .list(&ListParams::default())
                .await?
            {
                ensure!(
                    namespace.metadata.deletion_timestamp.is_none(),
                    "{} is left",
                    namespace.name_any()
                );
            }
            Ok(())
        })
        .await
    }

    /// Whether a member's namespace holds its copies and no others.
    async fn copies(&self, life: &Life, expected: usize) -> Result<()> {
        let mut copies = 0;
        for kind in GRIDS {
            let list = self
                .control
                .api(kind, &life.member.namespace)
                .list(&ListParams::default())
                .await?;
            copies += list.items.len();
        }
        ensure!(
            copies == expected,
            "{copies} copies for {}",
            life.member.namespace
        );
        Ok(())
    }
}

impl Life {
    /// Nothing may have gone because of the cut.
    async fn check(&self) -> Result<()> {
        let Some(before) = &self.cut else {
            return Ok(());
        };
        let now = grids_of(&self.member.site).await?;
        let lost: Vec<_> = before.difference(&now).collect();
        // One that somebody deleted by hand a moment ago is on its way back.
        ensure!(
            lost.len() <= 1,
            "{} lost {lost:?} while it was cut off",
            self.member.namespace
        );
        Ok(())
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

async fn grids_of(site: &Site) -> Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for kind in GRIDS {
        let list = site
            .api(kind, "default")
            .list(&ListParams::default())
            .await?;
        all.extend(
            list.items
                .iter()
                .map(|grid| format!("{} {}", kind.2, grid.name_any())),
        );
    }
    Ok(all)
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
        let pause = Duration::from_secs(1 + model.dice.roll(20) as u64);
        tokio::time::sleep(pause).await;
        if step % 30 == 29 {
            model.heal().await.unwrap();
        }
    }
    model.heal().await.unwrap();
}
