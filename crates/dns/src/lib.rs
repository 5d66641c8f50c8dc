//! The names of a node's own site: which pods and services a name stands for, as this node is to see it.
//!
//! ```text
//! wrapper's view ─┬─► aliases in the view, for a CoreDNS that reads the wrapper
//!                 └─► service_records (pure) ─► Records ─┬─► hosts file, for a CoreDNS with the `hosts` plugin
//!                                                        └─► answer (pure) ─► server: a DNS server of the node's own
//! ```
//!
//! Who has a short name is decided once, where the view is made: the wrapper shows it as a slice of
//! its own. [`service_records`] reads services and slices as CoreDNS does, so all ways agree. [`names`]
//! follows the view service by service; [`hosts`] writes the file.

pub mod answer;
pub mod hosts;
pub mod names;
pub mod records;
pub mod server;
pub mod service_records;
