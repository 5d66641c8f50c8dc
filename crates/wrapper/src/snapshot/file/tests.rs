use super::*;
use crate::discovery::{Head, Question};
use crate::feed::Feed;
use crate::index::sets::Stamp;
use crate::publish::Publisher;
use crate::snapshot::{GraceRecords, Meta, NodeSet, StampedSets};
use edgegrid_listwatch::Store;
use proptest::prelude::*;
use std::sync::Arc;

fn image() -> Image {
    let feed = Feed::Peers {
        key: "unit".to_owned(),
        value: "a".to_owned(),
    };
    let store = Store::default();
    let service = r#"{"metadata":{"name":"web","namespace":"default","annotations":{"topologyKeys":"[\"unit\"]"}}}"#;
    let key = ServedKind::Services.resource().key(Some("default"), "web");
    store
        .put(key.clone(), service, edgegrid_store::Expect::Anything)
        .unwrap();
    let slice = br#"{"metadata":{"name":"web-x","namespace":"default","labels":{"kubernetes.io/service-name":"web"}},"endpoints":[{"addresses":["10.0.0.1"],"nodeName":"a-0"}]}"#;
    let stamp = Stamp {
        grid: "db".into(),
        key: "unit".into(),
        unit: "a".into(),
    };
    Image {
        meta: Meta {
            node: "a-0".to_owned(),
            feeds: Vec::new(),
            cluster: None,
            keys: None,
            grace: GraceRecords::default(),
        },
        objects: vec![(ServedKind::Services, store.get(&key).unwrap())],
        sets: vec![NodeSet {
            feed,
            nodes: vec!["a-0".to_owned()],
        }],
        stamped: vec![StampedSets {
            feed: Feed::Sets("a".to_owned()),
            sets: vec![("default/db-a".to_owned(), stamp)],
        }],
        entries: vec![(ServedKind::Slices, Compressed::new(slice))],
        discovery: vec![(question(), answer())],
    }
}

fn question() -> Question {
    let path = "/apis/discovery.k8s.io/v1".parse().unwrap();
    Question::new(&http::Method::GET, &path, "application/json").unwrap()
}

fn answer() -> Discovered {
    Discovered {
        head: Head {
            content_type: "application/json".to_owned(),
            etag: None,
        },
        body: Compressed::new(b"{\"kind\":\"APIResourceList\"}"),
    }
}

/// The bytes of a snapshot without its sum.
fn body() -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, &image()).unwrap();
    bytes
}

fn sealed(mut body: Vec<u8>) -> Vec<u8> {
    let sum = Sha256::digest(&body);
    body.push(END);
    body.extend_from_slice(&sum);
    body
}

fn publisher() -> Publisher {
    let clock = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
    Publisher::new("a-0", Store::default(), false, 1, clock)
}

#[test]
fn what_is_written_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let size = save(folder.path(), &image()).unwrap();
    assert_eq!(fs::metadata(folder.path().join(FILE)).unwrap().len(), size);
    let mut records = Vec::new();
    let found = load(folder.path(), &mut |record| {
        records.push(format!("{record:?}"));
        Ok(())
    });
    assert!(found.unwrap());
    assert_eq!(records.len(), 6);
    assert!(!load(&folder.path().join("nothing"), &mut |_| Ok(())).unwrap());
}

#[test]
fn a_snapshot_of_before_there_were_answers_in_it_is_read() {
    let without = Image {
        discovery: Vec::new(),
        ..image()
    };
    let folder = tempfile::tempdir().unwrap();
    for (image, known) in [(without, None), (image(), Some(answer()))] {
        save(folder.path(), &image).unwrap();
        let publisher = publisher();
        assert!(publisher.restore(folder.path()).unwrap());
        assert_eq!(publisher.discovered(&question()), known);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::fuzz_cases()))]

    #[test]
    fn any_other_bytes_are_refused(at in 0usize..1000, change in 1u8.., cut in 0usize..1000) {
        let mut bytes = sealed(body());
        let at = at % bytes.len();
        bytes[at] ^= change;
        let read = |bytes: &[u8]| super::read(io::Cursor::new(bytes.to_vec()), &mut |_| Ok(()));
        prop_assert!(read(&bytes).is_err());
        let whole = sealed(body());
        prop_assert!(read(&whole[..cut % whole.len()]).is_err());
    }

    #[test]
    fn bytes_with_a_right_sum_and_wrong_content_do_no_harm(
        changes in prop::collection::vec((0usize..1000, any::<u8>()), 1..6)
    ) {
        let mut bytes = body();
        for (at, byte) in changes {
            let at = MAGIC.len() + at % (bytes.len() - MAGIC.len());
            bytes[at] = byte;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), sealed(bytes)).unwrap();
        let _ = publisher().restore(folder.path());
    }
}
