//! What passed the links, counted by what it was for.

use std::ops::RangeInclusive;

use edgegrid_testkit::faults::Recorded;

use crate::site::{Member, Site};

/// Of one member, or of the control cluster, in a time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Reports upstream: the status of a copy.
    pub(crate) reports: usize,
    /// Lists that it sent to the control cluster.
    pub(crate) lists: usize,
    /// Watches of the control cluster that were started or resumed.
    pub(crate) watches: usize,
    /// Reads and renewals of the Lease.
    pub(crate) leases: usize,
    /// Watch events that the control cluster sent.
    pub(crate) events: usize,
    /// Writes of its controllers in its own cluster, but for Events and Leases.
    pub(crate) writes: usize,
}

impl Counts {
    /// What a member did since the last call.
    pub(crate) fn take(member: &Member) -> Self {
        let mut counts = Self {
            events: member.events.take().len(),
            writes: writes(&member.site.writes),
            ..Self::default()
        };
        for call in member.calls.take() {
            *counts.kind_of(&call) += 1;
        }
        counts
    }

    fn kind_of(&mut self, call: &str) -> &mut usize {
        match call {
            lease if lease.contains("/leases") => &mut self.leases,
            watch if watch.contains("watch=true") => &mut self.watches,
            list if list.starts_with("GET ") => &mut self.lists,
            _ => &mut self.reports,
        }
    }
}

/// What every member did since the last call.
pub(crate) fn take(members: &[Member]) -> Vec<Counts> {
    members.iter().map(Counts::take).collect()
}

/// What the controllers of the control cluster wrote since the last call.
pub(crate) struct Above {
    pub(crate) copies: usize,
    /// The status of originals.
    pub(crate) originals: usize,
    /// Anything else: namespaces, rights.
    pub(crate) others: usize,
}

impl Above {
    pub(crate) fn take(control: &Site) -> Self {
        let (mut copies, mut originals, mut others) = (0, 0, 0);
        for line in control.writes.take() {
            let is_grid = line.contains("/deploymentgrids");
            if is_grid && line.contains("/namespaces/clusternet-") {
                copies += 1;
            } else if is_grid {
                originals += 1;
            } else if !line.contains("/events") {
                others += 1;
            }
        }
        Self {
            copies,
            originals,
            others,
        }
    }
}

fn writes(recorded: &Recorded) -> usize {
    let lines = recorded.take();
    lines
        .iter()
        .filter(|line| !line.contains("/events"))
        .count()
}

/// The least and the most of anything among members.
pub(crate) fn range(counts: &[Counts], of: impl Fn(&Counts) -> usize) -> RangeInclusive<usize> {
    let all = || counts.iter().map(&of);
    all().min().unwrap_or(0)..=all().max().unwrap_or(0)
}
