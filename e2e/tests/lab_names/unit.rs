//! The two units, which of their nodes has which way to names, and what their pods are called.

pub(crate) const DOMAIN: &str = "cluster.local";
/// The walk-through's headless Service.
pub(crate) const BARE: &str = "servicegrid-demo-svc.default.svc.cluster.local";

/// A unit, and which of its nodes has which way to names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unit {
    pub(crate) name: &'static str,
    /// CoreDNS reads the API through the agent here.
    pub(crate) view: &'static str,
    /// CoreDNS reads the agent's hosts file here.
    pub(crate) hosts: &'static str,
    /// The agent answers itself here.
    pub(crate) own: &'static str,
}

impl Unit {
    pub(crate) fn nodes(self) -> [&'static str; 3] {
        [self.view, self.hosts, self.own]
    }
}

pub(crate) const UNITS: [Unit; 2] = [
    Unit {
        name: "beijing",
        view: "bj-1",
        hosts: "bj-2",
        own: "bj-3",
    },
    Unit {
        name: "guangzhou",
        view: "gz-1",
        hosts: "gz-2",
        own: "gz-3",
    },
];

pub(crate) fn short(ordinal: usize) -> String {
    format!("statefulsetgrid-demo-{ordinal}.{BARE}")
}

pub(crate) fn full(unit: Unit, ordinal: usize) -> String {
    format!("statefulsetgrid-demo-{}-{ordinal}.{BARE}", unit.name)
}
