//! What a ServiceGrid's Service becomes.

use edgegrid_api::names::label;

use super::*;
use crate::failure::{Attempt, Refusal};
use crate::step::Scope;

const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn grid(template: &Value) -> ServiceGrid {
    serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "g" },
        "spec": { "gridUniqKey": "zone", "template": template },
    }))
    .unwrap()
}

fn template() -> Value {
    json!({ "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": "http" }] })
}

/// The Service as it is, after nobody touched what we applied.
fn settled(grid: &ServiceGrid) -> Arc<Child> {
    let (mut body, _) = body(grid, "zone");
    body["metadata"]["annotations"][annotation::APPLIED] = json!(digest(&body.to_string()));
    body["metadata"]["name"] = json!("web-svc");
    body["metadata"]["uid"] = json!("s");
    body["metadata"]["managedFields"] = json!([{ "manager": "edgegrid", "operation": "Apply", "fieldsV1": {
        "f:metadata": {
            "f:labels": { (format!("f:{}", label::GRID_SELECTOR)): {}, (format!("f:{}", label::GRID_UNIQ_KEY)): {} },
            "f:annotations": { (format!("f:{}", annotation::TOPOLOGY_KEYS)): {}, (format!("f:{}", annotation::APPLIED)): {} },
            "f:ownerReferences": { "k:{\"uid\":\"g\"}": {} },
        },
        "f:spec": { "f:selector": {}, "f:ports": { "k:{\"port\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:port": {}, "f:targetPort": {} } } },
    } }]);
    body["spec"]["clusterIP"] = json!("10.0.0.7");
    Arc::new(serde_json::from_value(body).unwrap())
}

fn world(children: Vec<Arc<Child>>) -> World<'static> {
    World {
        children,
        names_scanned: true,
        ..World::default()
    }
}

#[test]
fn a_settled_service_gives_an_empty_plan() {
    let grid = grid(&template());
    let decision = decide(&grid, &world(vec![settled(&grid)]), NOW);
    assert_eq!(
        (decision.state, decision.plan.is_empty()),
        (State::Settled, true)
    );
}

#[test]
fn the_name_is_scanned_before_it_is_taken() {
    let grid = grid(&template());
    let mut world = world(vec![]);
    world.names_scanned = false;
    assert!(decide(&grid, &world, NOW).needs_name_scan);
    world.names_scanned = true;
    let decision = decide(&grid, &world, NOW);
    let Step::Apply(apply) = &decision.plan.steps[&Scope::Grid][0] else {
        panic!("{decision:?}");
    };
    assert_eq!(
        (&apply.claim, apply.id.name.as_str()),
        (&Claim::Free, "web-svc")
    );
    world.foreign = BTreeMap::from([("web-svc".to_owned(), "no controller".to_owned())]);
    let decision = decide(&grid, &world, NOW);
    assert!(
        matches!(&decision.state, State::Blocked(problem) if problem.reason == reason::NAME_TAKEN)
    );
    assert!(decision.plan.is_empty());
}

#[test]
fn what_the_server_allocates_is_not_applied() {
    let mut template = template();
    template["clusterIP"] = json!("");
    let (body, _) = body(&grid(&template), "zone");
    for field in ["clusterIP", "clusterIPs", "ipFamilies"] {
        assert!(body["spec"].get(field).is_none(), "{field}");
    }
}

#[test]
fn headless_or_not_cannot_be_exchanged() {
    let plain = grid(&template());
    let mut headless = template();
    headless["clusterIP"] = json!("None");
    let decision = decide(&grid(&headless), &world(vec![settled(&plain)]), NOW);
    assert!(
        matches!(&decision.state, State::Blocked(problem) if problem.reason == reason::IMMUTABLE)
    );
    assert!(decision.plan.is_empty());
}

#[test]
fn only_services_that_the_grid_controls_are_removed() {
    let grid = grid(&template());
    let renamed = |owned: bool| {
        let mut child = Child::clone(&settled(&grid));
        child.metadata.name = Some("old-name".into());
        if !owned {
            child.metadata.owner_references = None;
        }
        Arc::new(child)
    };
    let decision = decide(&grid, &world(vec![settled(&grid), renamed(true)]), NOW);
    assert!(
        matches!(&decision.plan.steps[&Scope::Grid][..], [Step::Delete { id, .. }] if id.name == "old-name")
    );
    let decision = decide(&grid, &world(vec![settled(&grid), renamed(false)]), NOW);
    assert!(decision.plan.is_empty());
}

#[test]
fn a_failed_write_waits() {
    let grid = grid(&template());
    let attempt_hash = decide(&grid, &world(vec![]), NOW).attempt_hash;
    let failure = Failure::after(
        None,
        &Refusal::Refused("no".into()),
        Attempt {
            hash: &attempt_hash,
            object_existed: false,
        },
        NOW,
    );
    let mut world = world(vec![]);
    world.failure = Some(&failure);
    let decision = decide(&grid, &world, NOW);
    assert_eq!(
        (decision.state, decision.plan.is_empty()),
        (State::Retrying, true)
    );
    assert!(decision.plan.recheck.is_some());
}

#[test]
fn a_grid_without_a_template_keeps_what_there_is_and_reports_it() {
    let settled = settled(&grid(&template()));
    let mut empty = grid(&template());
    empty.spec.template = None;
    let decision = decide(&empty, &world(vec![settled]), NOW);
    assert!(
        matches!(&decision.state, State::Blocked(problem) if problem.reason == reason::TEMPLATE_MISSING)
    );
    assert!(decision.plan.is_empty());
}
