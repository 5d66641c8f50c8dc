//! The tables of `docs/figures.md`.

use std::time::Duration;

use edgegrid_benches::report::{machine, table};

use crate::cases::{AT_ONCE, Case, Figures, Measured, Memory};
use crate::load::Seen;

type Row = [String; 4];

pub(crate) fn tables(figures: &Figures) -> String {
    let head = ["", "ours", "CoreDNS", "ratio"].map(str::to_owned);
    let mut rows = vec![head];
    rows.extend(figures.cases.iter().flat_map(rows_of));
    rows.extend(memory(&figures.memory));
    let today = jiff::Timestamp::now().strftime("%Y-%m-%d");
    format!(
        "{today} · {} · CoreDNS 1.14.7 (errors, kubernetes, prometheus, cache, loadbalance) on kube-apiserver 1.37 · \
         {} services with {} pods each · {} runs in turns, their median · {} answers compared first, all equal\n\n{}",
        machine(),
        figures.services,
        crate::names::PODS,
        figures.runs,
        figures.compared,
        table(&rows)
    )
}

fn rows_of(case: &Case) -> Vec<Row> {
    let both = |of: &dyn Fn(&Measured) -> f64| [of(&case.results[0]), of(&case.results[1])];
    let name = case.name;
    let lost = case.results.iter().flat_map(|result| &result.many);
    let lost: usize = lost.map(|seen| seen.lost).sum();
    let lost = if lost == 0 {
        String::new()
    } else {
        format!(" ({lost} lost)")
    };
    vec![
        row(
            format!("{name}: answers a second, {AT_ONCE} at once{lost}"),
            both(&|result| median(result, Seen::per_second)),
            0,
        ),
        row(
            format!("… p99, {AT_ONCE} at once, µs"),
            both(&|result| median(result, |seen| micros(seen.percentile(99)))),
            0,
        ),
        row(
            "… p50, one at a time, µs".to_owned(),
            both(&|result| micros(result.single.percentile(50))),
            0,
        ),
        row(
            "… p99, one at a time, µs".to_owned(),
            both(&|result| micros(result.single.percentile(99))),
            0,
        ),
        row(
            "… CPU of an answer, µs".to_owned(),
            both(&|result| micros(result.cpu)),
            1,
        ),
    ]
}

fn median(result: &Measured, of: impl Fn(&crate::load::Seen) -> f64) -> f64 {
    let mut values: Vec<f64> = result.many.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn memory([ours, theirs]: &[Memory; 2]) -> Vec<Row> {
    let of = |name: &str, of: fn(&Memory) -> u64| {
        row(format!("{name}, MiB"), [mib(of(ours)), mib(of(theirs))], 1)
    };
    vec![
        of("resident memory before", |memory| memory.at_rest),
        of("resident memory after", |memory| memory.afterwards),
        of("… of it no file's", |memory| memory.anonymous),
    ]
}

fn row(name: String, [ours, theirs]: [f64; 2], digits: usize) -> Row {
    [
        name,
        format!("{ours:.digits$}"),
        format!("{theirs:.digits$}"),
        format!("{:.2}", ours / theirs),
    ]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
