//! Decisions over all units: who is written, who waits, who goes.

use std::time::Duration;

use edgegrid_api::DeploymentGrid;
use edgegrid_api::names::{annotation, label};
use serde_json::{Value, json};

use super::*;
use crate::failure::{Attempt, Failure, Failures, REMOVAL_ATTEMPT, Refusal};
use crate::grid_state::{SettledAt, VanishedUnit};
use crate::step::{Claim, Manager, Step};
use crate::unreachable::UnreachableNode;

const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);
const GRACE: Duration = Duration::from_mins(5);

fn grid_with(change: impl FnOnce(&mut Value)) -> Grid {
    let mut object = json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "g", "resourceVersion": "1" },
        "spec": { "gridUniqKey": "zone", "template": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "main", "image": "web:1" }] } },
        } },
    });
    change(&mut object);
    let grid: DeploymentGrid = serde_json::from_value(object).unwrap();
    Grid::from(&grid)
}

fn grid() -> Grid {
    grid_with(|_| {})
}

/// A workload that SuperEdge or an earlier pass made for `unit`, without anything of ours.
fn child(unit: &str, change: impl FnOnce(&mut Value)) -> Arc<Child> {
    let mut object = json!({
        "metadata": {
            "name": format!("web-{unit}"), "uid": format!("uid-{unit}"), "resourceVersion": "5",
            "labels": { label::GRID_SELECTOR: "web", label::GRID_UNIQ_KEY: "zone" },
            "ownerReferences": [{ "apiVersion": "superedge.io/v1", "kind": "DeploymentGrid", "name": "web", "uid": "g", "controller": true }],
        },
        "spec": { "selector": { "matchLabels": { "app": "web" } } },
    });
    change(&mut object);
    Arc::new(serde_json::from_value(object).unwrap())
}

struct Memory {
    failures: Failures,
    settled: BTreeMap<String, SettledAt>,
}

impl Memory {
    fn empty() -> Self {
        Self {
            failures: Failures::new(),
            settled: BTreeMap::new(),
        }
    }

    fn world(&self, units: &[&str], children: Vec<Arc<Child>>) -> World<'_> {
        World {
            units: units.iter().map(|unit| (*unit).to_owned()).collect(),
            vanished: BTreeMap::new(),
            children,
            names_scanned: true,
            foreign: BTreeMap::new(),
            pending: BTreeSet::new(),
            missed: BTreeSet::new(),
            failures: &self.failures,
            settled: &self.settled,
            unit_grace: GRACE,
            unreachable: Vec::new(),
        }
    }
}

fn state<'a>(decision: &'a Decision, unit: &str) -> &'a State {
    &decision.units[unit].state
}

#[test]
fn a_name_that_was_not_scanned_is_not_written() {
    let memory = Memory::empty();
    let mut world = memory.world(&["a"], vec![]);
    world.names_scanned = false;
    let decision = decide(&grid(), &world, NOW);
    assert!(decision.needs_name_scan && decision.plan.is_empty());
    world.names_scanned = true;
    let decision = decide(&grid(), &world, NOW);
    let Step::Apply(apply) = &decision.plan.steps[&"a".into()][0] else {
        panic!("{decision:?}");
    };
    assert_eq!(apply.claim, Claim::Free);
}

#[test]
fn a_workload_that_is_missed_asks_for_a_name_scan() {
    let memory = Memory::empty();
    let mut world = memory.world(&[], vec![]);
    world.missed = BTreeSet::from(["web-b".to_owned()]);
    world.names_scanned = false;
    assert!(decide(&grid(), &world, NOW).needs_name_scan);
    world.names_scanned = true;
    assert!(!decide(&grid(), &world, NOW).needs_name_scan);
}

#[test]
fn a_taken_name_is_looked_at_again_and_stops_no_other_unit() {
    let memory = Memory::empty();
    let mut world = memory.world(&["a", "b"], vec![]);
    world.foreign = BTreeMap::from([("web-a".to_owned(), "no controller".to_owned())]);
    let decision = decide(&grid(), &world, NOW);
    assert!(
        matches!(state(&decision, "a"), State::Blocked(problem) if problem.reason == reason::NAME_TAKEN)
    );
    assert_eq!(state(&decision, "b"), &State::New);
    assert_eq!(decision.plan.recheck, Some(RECHECK_INTERVAL));
    assert_eq!(decision.plan.steps.len(), 1);
}

#[test]
fn ours_is_written_by_force_and_uid() {
    let memory = Memory::empty();
    let decision = decide(
        &grid(),
        &memory.world(&["a"], vec![child("a", |_| {})]),
        NOW,
    );
    let Step::Apply(apply) = &decision.plan.steps[&"a".into()][0] else {
        panic!("{decision:?}");
    };
    assert_eq!(
        apply.claim,
        Claim::Ours {
            uid: "uid-a".into()
        }
    );
}

#[test]
fn what_is_on_its_way_is_left_alone() {
    let memory = Memory::empty();
    let leaving = child("a", |child| {
        child["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    let decision = decide(&grid(), &memory.world(&["a"], vec![leaving]), NOW);
    assert_eq!(
        (state(&decision, "a"), decision.plan.is_empty()),
        (&State::Pending, true)
    );
    let mut world = memory.world(&["a"], vec![]);
    world.pending = BTreeSet::from(["web-a".to_owned()]);
    let decision = decide(&grid(), &world, NOW);
    assert_eq!(
        (state(&decision, "a"), decision.plan.is_empty()),
        (&State::Pending, true)
    );
}

#[test]
fn a_grid_that_is_being_deleted_writes_nothing() {
    let memory = Memory::empty();
    let grid =
        grid_with(|grid| grid["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    let decision = decide(&grid, &memory.world(&["a"], vec![child("b", |_| {})]), NOW);
    assert_eq!(decision, Decision::default());
}

#[test]
fn an_empty_key_is_warned_about_and_nothing_else_is_done() {
    let memory = Memory::empty();
    let grid = grid_with(|grid| grid["spec"]["gridUniqKey"] = json!(""));
    let decision = decide(&grid, &memory.world(&["a"], vec![child("a", |_| {})]), NOW);
    assert!(decision.plan.is_empty() && decision.units.is_empty());
    assert_eq!(decision.plan.notices[0].reason, reason::EMPTY);
}

/// A unit that this process saw go a while ago.
fn gone_for(seconds: u64, lost_label: bool) -> VanishedUnit {
    VanishedUnit {
        lost_label,
        elapsed: Duration::from_secs(seconds),
        since: Timestamp::constant(1_767_225_000, 0),
    }
}

/// What becomes of the workload of a unit that has no nodes any more.
fn without_nodes(change: impl FnOnce(&mut Value), vanished: VanishedUnit) -> Decision {
    let memory = Memory::empty();
    let mut world = memory.world(&[], vec![child("a", change)]);
    world.vanished.insert("a".into(), vanished);
    decide(&grid(), &world, NOW)
}

fn steps(decision: Decision) -> Vec<Step> {
    decision.plan.into_steps()
}

fn marked(moment: Timestamp) -> impl Fn(&mut Value) {
    move |child| {
        child["metadata"]["annotations"] =
            json!({ annotation::UNIT_GONE_SINCE: moment.to_string() });
    }
}

#[test]
fn a_unit_that_lost_its_label_goes_at_once_and_one_whose_nodes_were_deleted_later() {
    assert!(
        matches!(&steps(without_nodes(|_| {}, gone_for(0, true)))[..], [Step::Delete { uid, .. }] if uid == "uid-a")
    );
    let seen = gone_for(299, false);
    let waiting = without_nodes(marked(seen.since), seen);
    assert_eq!(waiting.plan.recheck, Some(Duration::from_secs(1)));
    let until = seen.since + jiff::Span::new().minutes(5);
    assert_eq!(
        waiting.units["a"].leaving.as_ref().unwrap().until,
        Some(until)
    );
    let over = steps(without_nodes(marked(seen.since), gone_for(300, false)));
    assert!(matches!(&over[..], [Step::Delete { .. }]), "{over:?}");
}

/// Whoever left it may have had another clock, and the nodes may have been back since.
#[test]
fn a_mark_neither_shortens_nor_prolongs_the_grace_and_is_corrected() {
    let hour = jiff::Span::new().hours(2);
    let seen = gone_for(10, false);
    for moment in [NOW - hour, NOW + hour] {
        let early = without_nodes(marked(moment), seen);
        assert_eq!(early.plan.recheck, Some(Duration::from_secs(290)));
        let early = steps(early);
        let [Step::Apply(mark), Step::Apply(_)] = &early[..] else {
            panic!("a mark and the template: {early:?}");
        };
        assert_eq!(
            mark.body.value()["metadata"]["annotations"][annotation::UNIT_GONE_SINCE],
            json!(seen.since.to_string())
        );
        let over = steps(without_nodes(marked(moment), gone_for(300, false)));
        assert!(matches!(&over[..], [Step::Delete { .. }]), "{over:?}");
    }
}

#[test]
fn a_unit_that_was_not_seen_going_has_the_whole_grace() {
    let memory = Memory::empty();
    let old = marked(NOW - jiff::Span::new().hours(2));
    let world = memory.world(&[], vec![child("a", old)]);
    let decision = decide(&grid(), &world, NOW);
    assert_eq!(decision.plan.recheck, Some(GRACE));
}

fn deletes_claims(child: &mut Value) {
    child["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({ "whenDeleted": "Delete" });
}

#[test]
fn what_would_take_its_claims_along_is_marked_and_held_and_nothing_else() {
    let old_key = |child: &mut Value| {
        deletes_claims(child);
        child["metadata"]["labels"][label::GRID_UNIQ_KEY] = json!("rack");
    };
    let other_key = without_nodes(old_key, gone_for(0, false));
    let held = [
        without_nodes(deletes_claims, gone_for(0, true)),
        without_nodes(deletes_claims, gone_for(0, false)),
        without_nodes(deletes_claims, gone_for(1_000_000, false)),
        other_key,
    ];
    for decision in held {
        assert_eq!(decision.held, BTreeSet::from(["web-a".to_owned()]));
        assert_eq!(state(&decision, "a"), &State::Held);
        assert_eq!(decision.units["a"].leaving.as_ref().unwrap().until, None);
        assert_eq!(decision.plan.recheck, None);
        assert_eq!(decision.plan.notices[0].reason, reason::CLAIMS_WOULD_GO);
        let steps = steps(decision);
        assert!(
            matches!(&steps[..], [Step::Apply(mark)] if mark.manager == Manager::Grace),
            "{steps:?}"
        );
    }
    let both = |child: &mut Value| {
        marked(gone_for(0, false).since)(child);
        deletes_claims(child);
    };
    assert!(without_nodes(both, gone_for(0, true)).plan.is_empty());
    let retains = |child: &mut Value| {
        child["spec"]["persistentVolumeClaimRetentionPolicy"] =
            json!({ "whenDeleted": "Retain", "whenScaled": "Delete" });
    };
    let steps = steps(without_nodes(retains, gone_for(0, true)));
    assert!(matches!(&steps[..], [Step::Delete { .. }]), "{steps:?}");
}

/// It may hang about for months, and what runs nowhere is never Available.
#[test]
fn a_held_unit_does_not_stop_the_rollout_of_the_others() {
    let one_by_one = grid_with(|grid| grid["spec"]["rollout"] = json!({ "maxConcurrentUnits": 1 }));
    let memory = Memory::empty();
    let changed_long_ago = |child: &mut Value| {
        deletes_claims(child);
        child["metadata"]["annotations"] =
            json!({ annotation::CHANGED_AT: "2025-01-01T00:00:00Z" });
    };
    let children = vec![child("a", changed_long_ago), child("b", |_| {})];
    let mut world = memory.world(&["b"], children);
    world.vanished.insert("a".into(), gone_for(0, false));
    let decision = decide(&one_by_one, &world, NOW);
    assert_eq!(
        (state(&decision, "a"), state(&decision, "b")),
        (&State::Held, &State::Change)
    );
}

#[test]
fn a_unit_of_another_key_goes_at_once() {
    let other =
        |child: &mut Value| child["metadata"]["labels"][label::GRID_UNIQ_KEY] = json!("rack");
    let decision = without_nodes(other, gone_for(0, false));
    assert!(matches!(
        &decision.plan.steps[&"a".into()][..],
        [Step::Delete { .. }]
    ));
}

#[test]
fn what_merely_carries_our_label_is_not_deleted() {
    let orphan = |child: &mut Value| child["metadata"]["ownerReferences"] = json!([]);
    assert!(without_nodes(orphan, gone_for(0, true)).plan.is_empty());
}

#[test]
fn a_failed_write_waits_and_shows_when_it_is_tried_again() {
    let mut memory = Memory::empty();
    let attempt_hash = decide(&grid(), &memory.world(&["a"], vec![]), NOW).units["a"]
        .attempt_hash
        .clone();
    let refusal = Refusal::Refused("exceeded quota".into());
    memory.failures.insert(
        "a".into(),
        Failure::after(
            None,
            &refusal,
            Attempt {
                hash: &attempt_hash,
                object_existed: false,
            },
            NOW,
        ),
    );
    let decision = decide(&grid(), &memory.world(&["a", "b"], vec![]), NOW);
    assert_eq!(state(&decision, "a"), &State::Retrying);
    assert_eq!(state(&decision, "b"), &State::New);
    assert_eq!(decision.plan.recheck, Some(Duration::from_millis(500)));
    let later = NOW + jiff::Span::new().seconds(1);
    assert_eq!(
        state(&decide(&grid(), &memory.world(&["a"], vec![]), later), "a"),
        &State::New
    );
}

#[test]
fn a_failure_is_forgotten_when_its_unit_needs_nothing_any_more() {
    let refusal = Refusal::Refused("exceeded quota".into());
    let removal = Attempt {
        hash: REMOVAL_ATTEMPT,
        object_existed: true,
    };
    let failure = Failure::after(None, &refusal, removal, NOW);
    let memory = Memory::empty();
    let decision = decide(&grid(), &memory.world(&["a"], vec![]), NOW);
    assert!(
        decision.still_fails(&"a".into(), &failure, NOW),
        "it is tried again"
    );
    let later = NOW + jiff::Span::new().seconds(1);
    assert!(
        decision.still_fails(&"leaving".into(), &failure, NOW),
        "its removal is tried again"
    );
    assert!(!decision.still_fails(&"leaving".into(), &failure, later));
}

/// Two units of one grid can have one name only if a hash collides with a plain one.
#[test]
fn of_two_units_with_one_name_the_second_is_blocked() {
    let hashed = object_name(grid().workload, "web", "A");
    let twin = hashed.strip_prefix("web-").unwrap().to_owned();
    let memory = Memory::empty();
    let decision = decide(&grid(), &memory.world(&["A", &twin], vec![]), NOW);
    assert_eq!(state(&decision, "A"), &State::New);
    assert!(matches!(state(&decision, &twin), State::Blocked(_)));
    assert_eq!(decision.plan.steps.len(), 1);
}

/// A write whose answer was lost may have changed the unit: until that is known it counts.
#[test]
fn a_unit_that_may_have_been_changed_counts_against_the_rollout() {
    let one_by_one = grid_with(|grid| grid["spec"]["rollout"] = json!({ "maxConcurrentUnits": 1 }));
    let children = || vec![child("a", |_| {}), child("b", |_| {})];
    let mut memory = Memory::empty();
    let first = decide(&one_by_one, &memory.world(&["a", "b"], children()), NOW);
    assert_eq!(
        (state(&first, "a"), state(&first, "b")),
        (&State::Change, &State::Waiting)
    );
    for (refusal, b) in [
        (Refusal::NoAnswer("lost".into()), State::Waiting),
        (Refusal::Refused("exceeded quota".into()), State::Change),
    ] {
        let change = Attempt {
            hash: &first.units["a"].attempt_hash,
            object_existed: true,
        };
        let failure = Failure::after(None, &refusal, change, NOW);
        memory.failures.insert("a".into(), failure);
        let next = decide(&one_by_one, &memory.world(&["a", "b"], children()), NOW);
        assert_eq!(
            (state(&next, "a"), state(&next, "b")),
            (&State::Retrying, &b),
            "{refusal:?}"
        );
    }
    // As does one whose change the caches do not show yet.
    let memory = Memory::empty();
    let mut world = memory.world(&["a", "b"], children());
    world.pending = BTreeSet::from(["web-a".to_owned()]);
    let next = decide(&one_by_one, &world, NOW);
    assert_eq!(
        (state(&next, "a"), state(&next, "b")),
        (&State::Pending, &State::Waiting)
    );
}

/// The node of unit `a`, not reached for so many minutes.
fn cut_off(minutes: i64) -> UnreachableNode {
    UnreachableNode {
        unit: "a".into(),
        node: "a-1".into(),
        since: NOW - jiff::Span::new().minutes(minutes),
    }
}

#[test]
fn a_node_that_keeps_pods_is_told_of_after_ten_minutes_and_looked_at_again_only_then() {
    let memory = Memory::empty();
    let decided = |when: Value, minutes: &[i64]| {
        let grid = grid_with(|grid| grid["spec"]["whenUnreachable"] = when);
        let mut world = memory.world(&[], vec![]);
        world.unreachable = minutes.iter().copied().map(cut_off).collect();
        let decision = decide(&grid, &world, NOW);
        (decision.unreachable.len(), decision.plan.recheck)
    };
    let minutes = |count| Some(Duration::from_mins(count));
    let keep = || json!("Keep");
    assert_eq!(decided(keep(), &[]), (0, None));
    assert_eq!(decided(keep(), &[0]), (0, minutes(10)));
    assert_eq!(decided(keep(), &[9, 3]), (0, minutes(1)));
    assert_eq!(decided(keep(), &[10]), (1, None));
    assert_eq!(decided(keep(), &[600, 4]), (1, minutes(6)));
    // Where pods are evicted, there is nothing to say.
    assert_eq!(decided(json!("Evict"), &[600, 4]), (0, None));
    let absent = decide(&grid(), &memory.world(&[], vec![]), NOW);
    assert!(absent.unreachable.is_empty());
}
