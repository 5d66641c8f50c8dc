//! Prints what the store costs on this machine: `cargo run --release --example measure_store`.

#![allow(
    clippy::cast_precision_loss,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "printing rounded figures, or nothing, is the job"
)]

use edgegrid_store::{Expect, Limits, Store};
use std::hint::black_box;
use tokio::time::Instant;

const VALUE: usize = 1500;

fn main() {
    for objects in [10_000, 100_000] {
        let keys: Vec<String> = (0..objects)
            .map(|i| format!("pods/ns-{:03}/pod-{i:06}", i % 100))
            .collect();
        let order: Vec<&str> = (0..objects).map(|i| &*keys[i * 7919 % objects]).collect();
        let before = resident();
        let limits = Limits {
            events: 10_000,
            bytes: 1 << 24,
        };
        let store: Store = Store::builder().limits(limits).build();
        writes(&store, &order);
        let each = resident().saturating_sub(before) / objects;
        println!("{objects:>7}  resident, values of {VALUE} and history {each:>8} bytes");
        reads(&store, &order);
        watches(&store, &order);
    }
}

fn put(store: &Store, key: &str) {
    store.put(key, vec![b'y'; VALUE], Expect::Anything).unwrap();
}

fn writes(store: &Store, keys: &[&str]) {
    timed("put (create)", keys.len(), || {
        for key in keys {
            put(store, key);
        }
    });
    timed("put (update)", keys.len(), || {
        for key in keys {
            put(store, key);
        }
    });
    timed("put (update, snapshot out)", keys.len(), || {
        for key in keys {
            let _snapshot = store.snapshot();
            put(store, key);
        }
    });
}

fn reads(store: &Store, keys: &[&str]) {
    timed("get", keys.len(), || {
        for key in keys {
            black_box(store.get(key));
        }
    });
    timed("list, each entry", keys.len(), || {
        let entries: Vec<_> = store.snapshot().under("pods/").iter().cloned().collect();
        black_box(entries.len());
    });
    let revision = store.revision();
    for key in &keys[..1000] {
        put(store, key);
    }
    timed("list 1,000 writes back, each entry", keys.len(), || {
        black_box(store.snapshot_at("pods/", revision).unwrap().iter().count());
    });
}

fn watches(store: &Store, keys: &[&str]) {
    let open = |_| store.watch("pods/", store.revision()).unwrap();
    let mut watches: Vec<_> = (0..500).map(open).collect();
    timed("500 watchers x 1,000, each event", 500_000, || {
        for key in &keys[..1000] {
            put(store, key);
            for watch in &mut watches {
                black_box(watch.try_batch(16).unwrap().events.len());
            }
        }
    });
}

fn timed(what: &str, times: usize, run: impl FnOnce()) {
    let start = Instant::now();
    run();
    let each = start.elapsed().as_nanos() as f64 / times as f64;
    println!("{times:>7}  {what:<36} {each:>9.0} ns");
}

/// Resident memory in bytes, as Linux tells it.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok())
        .unwrap_or(0)
        * 4096
}
