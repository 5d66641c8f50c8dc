//! What the run found, for people.

use crate::known;
use crate::run::Found;

/// Prints the figures of one kind.
pub(crate) fn figures(plural: &str, found: &Found) {
    let covered = found.fields.intersection(&found.sent).count();
    println!(
        "{plural:<24} {:>6} operations  {:>3} % accepted  {covered}/{} fields ({} %)",
        found.operations,
        percent(found.accepted, found.operations),
        found.fields.len(),
        percent(covered, found.fields.len()),
    );
}

/// Prints the differences of one kind, and says how many signatures are not explained.
pub(crate) fn differences(found: &Found, all: bool) -> usize {
    let mut unexplained = 0;
    let mut sorted: Vec<_> = found.differences.iter().collect();
    sorted.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    for (signature, (count, example)) in sorted {
        match known::reason(signature) {
            Some(reason) if all => {
                println!("  known {count:>5} × {signature}\n    because {reason}");
            }
            Some(_) => {}
            None => {
                unexplained += 1;
                println!("  DIFFERENT {count} × {signature}\n    {example}");
            }
        }
    }
    unexplained
}

fn percent(part: usize, whole: usize) -> usize {
    (part * 100).checked_div(whole).unwrap_or(0)
}
