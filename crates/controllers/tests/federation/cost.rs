//! What a change costs: calls, events and writes, counted on the links.

use std::time::Duration;

use edgegrid_testkit::faults::Recorded;
use serde_json::json;

use crate::stage::*;

const GRID: (&str, &str) = ("default", "echo");

/// A member and what passes its links.
struct Counted {
    member: Member,
    /// Calls to the control cluster, but for the Lease.
    calls: Recorded,
    /// Events of copies from there.
    events: Recorded,
}

impl Counted {
    /// Watches begun and lists asked for since the last call, by kind.
    fn watches_and_lists(&self) -> (Vec<usize>, Vec<usize>) {
        let calls = self.calls.take();
        let of = |is_watch: bool| {
            let begun = GRIDS.map(|kind| {
                let place = format!("GET {}?", path(kind, &self.member.namespace));
                let concerned = calls.iter().filter(|call| call.starts_with(&place));
                concerned
                    .filter(|call| call.contains("watch=true") == is_watch)
                    .count()
            });
            begun.to_vec()
        };
        (of(true), of(false))
    }

    async fn new(control: &Site, name: &str) -> Self {
        let member = Member::unregistered(control, name).await.unwrap();
        let calls = member.link.record(|_, path| !path.contains("/leases"));
        let events = member.link.record_events(|_| true);
        member.register(control, name).await.unwrap();
        let node = format!("{name}-1 zone=zone-{name}");
        member.site.add_nodes(&[&node]).await.unwrap();
        Self {
            member,
            calls,
            events,
        }
    }
}

async fn five() -> (Site, Vec<Counted>) {
    let control = Site::control().await.unwrap();
    let mut members = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        members.push(Counted::new(&control, name).await);
    }
    for kind in GRIDS {
        control
            .create(kind, GRID, &federated(kind, 1))
            .await
            .unwrap();
        for one in &members {
            one.member.site.exists(kind, GRID, true).await.unwrap();
        }
    }
    settle(&members).await;
    (control, members)
}

/// Lets everything come to rest, workloads included.
async fn settle(members: &[Counted]) {
    for _ in 0..4 {
        for one in members {
            one.member.site.roll_out().await.unwrap();
        }
        a_while().await;
        a_while().await;
    }
}

fn writes(site: &Site) -> Vec<String> {
    let mut writes = site.running.as_ref().unwrap().writes.take();
    for line in &mut writes {
        line.truncate(line.find('?').unwrap_or(line.len()));
    }
    writes.sort();
    writes
}

/// What each member has of a kind besides the grid.
fn child(kind: Gvk, member: &str) -> String {
    match kind.2 {
        "DeploymentGrid" => {
            format!("/apis/apps/v1/namespaces/default/deployments/echo-zone-{member}")
        }
        "StatefulSetGrid" => {
            format!("/apis/apps/v1/namespaces/default/statefulsets/echo-zone-{member}")
        }
        _ => "/api/v1/namespaces/default/services/echo-svc".into(),
    }
}

fn path(kind: Gvk, namespace: &str) -> String {
    let plural = kind.2.to_lowercase() + "s";
    format!("/apis/superedge.io/v1/namespaces/{namespace}/{plural}")
}

fn count(lines: &[String], wanted: &str) -> usize {
    lines.iter().filter(|line| *line == wanted).count()
}

#[tokio::test(start_paused = true)]
async fn a_grid_change_costs_each_member_one_event_and_one_write() {
    let (control, members) = five().await;
    for kind in GRIDS {
        writes(&control);
        for one in &members {
            writes(&one.member.site);
            one.calls.take();
            one.events.take();
        }
        control
            .edit(kind, GRID, &json!({ "spec": spec(kind, 3) }))
            .await
            .unwrap();
        a_while().await;
        let above = writes(&control);
        for (one, name) in members.iter().zip(["a", "b", "c", "d", "e"]) {
            let namespace = &one.member.namespace;
            let copy = path(kind, namespace);
            assert_eq!(
                count(&above, &format!("PATCH {copy}/echo")),
                1,
                "{above:#?}"
            );
            // The change, and the echo of the member's own report.
            assert_eq!(one.events.take(), vec![format!("MODIFIED {copy}"); 2]);
            // The report, and no other call: nothing is listed or watched anew.
            let calls = one.calls.take();
            assert_eq!(calls.len(), 1, "{calls:#?}");
            assert!(calls[0].starts_with(&format!("PATCH {copy}/echo/status?")));
            let here = writes(&one.member.site);
            for object in [
                format!("{}/echo", path(kind, "clusternet-system")),
                format!("{}/echo", path(kind, "default")),
                child(kind, name),
            ] {
                assert_eq!(count(&here, &format!("PATCH {object}")), 1, "{here:#?}");
            }
            let others = here.iter().filter(|line| !line.contains("/events/"));
            assert!(
                others.count() <= 5,
                "beside these the grid's status, twice: {here:#?}"
            );
        }
        settle(&members).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_has_one_watch_per_kind_upstream_and_lists_once() {
    let control = Site::control().await.unwrap();
    let one = Counted::new(&control, "a").await;
    a_while().await;
    let (watches, lists) = one.watches_and_lists();
    assert_eq!((watches, lists), (vec![1; 3], vec![1; 3]));
    for kind in GRIDS {
        control
            .create(kind, GRID, &federated(kind, 1))
            .await
            .unwrap();
        one.member.site.exists(kind, GRID, true).await.unwrap();
    }
    tokio::time::sleep(Duration::from_hours(1)).await;
    let (watches, lists) = one.watches_and_lists();
    assert_eq!(lists, vec![0; 3]);
    // A watch ends after 290 seconds, and goes on where it was.
    assert_eq!(watches, vec![12; 3]);
}
