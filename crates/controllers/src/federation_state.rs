//! What the controllers of federation share: which copies there are, who is in contact, what is
//! wrong. Nothing of it is kept over a restart: it is all found again.

mod contacts;
mod control_link;
mod copies;
mod problems;

pub(crate) use contacts::Contacts;
pub(crate) use control_link::ControlLink;
pub(crate) use copies::Copies;
pub(crate) use problems::Problems;

use crate::registration::Connector;

/// What the controllers of federation share.
#[derive(Clone)]
pub struct FederationState {
    /// Which copies and mirrors stand for which grid.
    pub(crate) copies: Copies,
    /// When each member last renewed its Lease.
    pub(crate) contacts: Contacts,
    /// What keeps members from getting their copies, by original and namespace.
    pub(crate) undelivered: Problems,
    /// What keeps this member from having its grids, by mirror.
    pub(crate) unapplied: Problems,
    /// Grids of this member that its control cluster no longer shows.
    pub(crate) missing: Problems,
    /// Whether this member's control cluster answers, and what it shows.
    pub(crate) control_link: ControlLink,
    /// Connects to the control cluster.
    pub(crate) connector: Connector,
}

impl FederationState {
    pub(crate) fn new(connector: Connector) -> Self {
        Self {
            copies: Copies::default(),
            contacts: Contacts::default(),
            undelivered: Problems::default(),
            unapplied: Problems::default(),
            missing: Problems::default(),
            control_link: ControlLink::default(),
            connector,
        }
    }
}
