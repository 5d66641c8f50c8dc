//! The tables of `docs/figures.md`.

use std::time::Duration;

use edgegrid_benches::report::{machine, table};

use crate::agent::Comparison;
use crate::cases::{AT_ONCE, Case, Figures, Measured, Memory};
use crate::load::LoadResult;
use crate::site;

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

/// The agent beside the wrapper alone.
pub(crate) fn agent(comparisons: &[Comparison; 2]) -> String {
    let head = ["", "wrapper", "agent", "difference"].map(str::to_owned);
    let mut rows = vec![head];
    for moment in comparisons {
        let among = format!("{} services × {} pods", moment.services, site::PODS);
        let memory = moment.memory.map(|usage| usage.anonymous);
        rows.push(beside(format!("{among}: RssAnon, KiB"), memory.map(kib)));
        let resident = moment.memory.map(|usage| usage.resident);
        rows.push(beside("… RSS, KiB".to_owned(), resident.map(kib)));
        let middle = |times: &Vec<Duration>| {
            let middle = times.get(times.len() / 2);
            micros(middle.copied().unwrap_or_default())
        };
        let change = moment.change.each_ref().map(middle);
        rows.push(beside("… CPU of a pod's change, µs".to_owned(), change));
    }
    format!(
        "`edgegrid agent --dns-listen` beside `edgegrid wrapper` on the same cluster, every other service headless with a \
         StatefulSet in each of ten sites. Aim: at most 4 MB more; a change costs the same among ten times as many pods \
         ({} runs, their median)\n\n{}",
        comparisons[0].change[0].len(),
        table(&rows)
    )
}

fn beside(name: String, [wrapper, agent]: [f64; 2]) -> Row {
    [
        name,
        format!("{wrapper:.0}"),
        format!("{agent:.0}"),
        format!("{:+.0}", agent - wrapper),
    ]
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
            both(&|result| median(result, LoadResult::per_second)),
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

fn median(result: &Measured, of: impl Fn(&crate::load::LoadResult) -> f64) -> f64 {
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

fn mib(bytes: u64) -> f64 {
    kib(bytes) / 1024.0
}

#[expect(clippy::cast_precision_loss, reason = "shown with few digits")]
fn kib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}
