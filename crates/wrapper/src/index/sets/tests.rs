use super::*;
use serde_json::json;

fn read(feed: &Feed, name: &str, labels: &[(&str, &str)], note: Option<&str>) -> Option<Stamp> {
    let labels: BTreeMap<_, _> = labels.iter().copied().collect();
    let notes: BTreeMap<_, _> = note
        .map(|note| (annotation::GRID, note))
        .into_iter()
        .collect();
    let set = json!({
        "metadata": { "name": name, "namespace": "n", "labels": labels, "annotations": notes },
        "spec": { "template": { "spec": { "nodeSelector": { "zone": "e" } } } },
    });
    Stamped::read(feed, set.to_string().as_bytes())
        .unwrap()
        .stamp
}

fn known(sets: &[(&str, &str, &str)]) -> Sets {
    let mut all = Sets::default();
    for (name, grid, unit) in sets {
        let stamp = Stamp {
            grid: (*grid).into(),
            key: "zone".into(),
            unit: (*unit).into(),
        };
        all.set(
            &Feed::Sets((*unit).to_owned()),
            &format!("n/{name}"),
            Some(stamp),
        );
    }
    all
}

fn short(sets: &Sets, pod: &str) -> Option<String> {
    let (stamp, ordinal) = sets.owner("n", pod)?;
    Some(format!("{}-{ordinal}", stamp.grid))
}

// SuperEdge cuts the first occurrence of the unit out of the pod's name.
#[test]
fn a_unit_that_is_part_of_its_grids_name_does_no_harm() {
    let sets = known(&[("web-e", "web", "e"), ("e-e", "e", "e"), ("odd", "db", "e")]);
    for (pod, wanted) in [
        ("web-e-0", Some("web-0")),
        ("web-e-10", Some("web-10")),
        ("e-e-3", Some("e-3")),
        ("odd-0", Some("db-0")),
        ("web-0", None),
        ("web-e", None),
        ("web-e-", None),
        ("web-e-x", None),
        ("web-e-00", None),
        ("web-e-+1", None),
        ("my-web-e-0", None),
        ("web-e-0-0", None),
        ("web-e-99999999999999999999999", None),
        ("", None),
    ] {
        assert_eq!(short(&sets, pod).as_deref(), wanted, "{pod}");
    }
    assert_eq!(sets.owner("other", "web-e-0"), None);
}

// In SuperEdge a sync of grid `web` deletes what belongs to `my-web`.
#[test]
fn a_set_that_goes_takes_nothing_of_one_with_a_similar_name_along() {
    let mut sets = known(&[("web-e", "web", "e"), ("my-web-e", "my-web", "e")]);
    assert!(sets.set(&Feed::Sets("e".to_owned()), "n/web-e", None));
    assert_eq!(short(&sets, "web-e-0"), None);
    assert_eq!(short(&sets, "my-web-e-0").as_deref(), Some("my-web-0"));
}

#[test]
fn a_set_is_what_its_note_says_and_superedges_what_its_labels_and_template_say() {
    let (ours, theirs) = (Feed::Sets("e".to_owned()), Feed::SuperEdgeSets);
    let grid = [
        (label::GRID_SELECTOR, "web"),
        (label::GRID_UNIQ_KEY, "zone"),
    ];
    let labelled = [grid[0], grid[1], (label::UNIT, "e")];
    let note = Some(r#"{"grid":"web","unit":"e"}"#);
    let stamp = Some(Stamp {
        grid: "web".into(),
        key: "zone".into(),
        unit: "e".into(),
    });
    assert_eq!(read(&ours, "any", &labelled, note), stamp);
    assert_eq!(read(&theirs, "any", &grid, None), stamp);
    assert_eq!(read(&ours, "any", &grid, note), None, "not of this unit");
    assert_eq!(read(&ours, "any", &labelled, None), None, "no note");
    assert_eq!(read(&ours, "any", &labelled, Some("{")), None, "no JSON");
    assert_eq!(read(&theirs, "any", &labelled, note), None, "taken over");
    assert_eq!(read(&theirs, "any", &grid[..1], None), None, "no key");
}

#[test]
fn a_list_tells_the_namespaces_where_something_is_different() {
    let mut sets = known(&[("web-e", "web", "e")]);
    let feed = Feed::Sets("e".to_owned());
    let same: BTreeMap<String, Stamp> = [(
        "n/web-e".to_owned(),
        sets.owner("n", "web-e-0").unwrap().0.clone(),
    )]
    .into();
    assert!(sets.relist(&feed, same).is_empty());
    assert_eq!(sets.relist(&feed, BTreeMap::new()), ["n".into()].into());
}

#[test]
fn a_name_may_be_somebodys_short_name_while_its_grid_has_a_set_in_the_namespace() {
    let feed = Feed::Sets("e".to_owned());
    let mut sets = known(&[("web-e", "web", "e"), ("web-second", "web", "e")]);
    for (set, is_left) in [("n/web-e", true), ("n/web-second", false)] {
        assert!(sets.is_short("n", "web-0"));
        assert!(!sets.is_short("other", "web-0"));
        assert!(sets.set(&feed, set, None));
        assert_eq!(sets.is_short("n", "web-0"), is_left);
    }
}
