use super::*;
use crate::records::{Host, ServiceName, ServiceRecords, Target};
use proptest::prelude::*;

fn text(file: &[u8], lines: &str) -> String {
    String::from_utf8(merge(file, lines.as_bytes())).unwrap()
}

fn block(lines: &str) -> String {
    let (begin, end) = (str::from_utf8(BEGIN).unwrap(), str::from_utf8(END).unwrap());
    format!("{begin}\n{lines}{end}\n")
}

fn service(aliases: &[(&str, &[&str])]) -> ServiceRecords {
    let host = |addresses: &[&str], alias| Host {
        addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
        ports: [].into(),
        alias,
    };
    let aliases = aliases
        .iter()
        .map(|(name, addresses)| ((*name).into(), host(addresses, true)));
    let full = [("db-x-0".into(), host(&["10.0.0.9"], false))];
    ServiceRecords {
        target: Target::Headless,
        ports: Vec::new(),
        hosts: aliases.chain(full).collect(),
    }
}

// SuperEdge's lines in random order make every look at the file a new one.
#[test]
fn lines_are_sorted_with_all_addresses_of_both_families_and_no_full_name() {
    let mut records = Records::default();
    let named = |namespace: &str, name: &str| ServiceName {
        namespace: namespace.into(),
        name: name.into(),
    };
    let two: (&str, &[&str]) = ("a-0", &["10.0.0.9", "fd00::1"]);
    records.set_service(
        &named("n", "s"),
        Some(service(&[("b-0", &["10.0.0.1"]), two])),
    );
    records.set_service(&named("m", "z"), Some(service(&[("c-0", &["10.0.0.2"])])));
    records.set_service(&named("n", "plain"), Some(service(&[])));
    let wanted = "10.0.0.2 c-0.z.m.svc.x\n10.0.0.9 a-0.s.n.svc.x\nfd00::1 a-0.s.n.svc.x\n10.0.0.1 b-0.s.n.svc.x\n";
    assert_eq!(String::from_utf8(lines(&records, "x")).unwrap(), wanted);
}

#[test]
fn what_others_wrote_stays_and_our_block_is_written_anew() {
    let foreign = "# mine\n10.1.1.1 registry.local registry\n\n";
    let before = format!(
        "{foreign}{}127.0.0.1 localhost\n",
        block("10.0.0.1 a.s.n.svc.x\n")
    );
    let after = text(before.as_bytes(), "10.0.0.2 b.s.n.svc.x\n");
    let kept = format!("{foreign}127.0.0.1 localhost\n");
    assert_eq!(after, kept + &block("10.0.0.2 b.s.n.svc.x\n"));
}

#[test]
fn what_superedges_daemon_left_of_our_names_is_taken_over() {
    let left = "10.0.0.9 a.s.n.svc.x\n10.0.0.8 A.s.n.svc.x.\n10.0.0.7 other.s.n.svc.x\n10.0.0.6 a.s.n.svc.x alias\n";
    let after = text(left.as_bytes(), "10.0.0.1 a.s.n.svc.x\n");
    let kept = "10.0.0.7 other.s.n.svc.x\n10.0.0.6 a.s.n.svc.x alias\n";
    assert_eq!(after, kept.to_owned() + &block("10.0.0.1 a.s.n.svc.x\n"));
}

#[test]
fn a_block_that_was_cut_short_leaves_nothing_behind_and_takes_nothing_along() {
    let whole = block("10.0.0.1 a.s.n.svc.x\n10.0.0.2 b.s.n.svc.x\n");
    let cut = whole.split_once("b.s").unwrap().0;
    let after = text(format!("{cut}\n# mine\n").as_bytes(), "");
    assert!(
        after.starts_with("10.0.0.2 \n# mine\n") || after.starts_with("# mine\n"),
        "{after}"
    );
    assert!(after.ends_with(&block("")), "{after}");
}

proptest! {
    #[test]
    fn any_file_keeps_its_foreign_lines_and_a_second_write_changes_nothing(
        file in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(b"\n# 10.a".to_vec())], 0..200)
    ) {
        let lines = b"10.0.0.1 a.s.n.svc.x\n";
        let once = merge(&file, lines);
        prop_assert_eq!(merge(&once, lines), once.clone());
        for line in foreign(&file) {
            let kept = once.split(|byte| *byte == b'\n').any(|other| other == line);
            prop_assert!(kept || names_one_of(line, &names(lines)));
        }
    }
}
