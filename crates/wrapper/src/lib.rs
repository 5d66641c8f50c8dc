//! The API as one node is to see it: what the node's kube-proxy and CoreDNS read instead of the
//! cloud's.
//!
//! ```text
//! kube-apiserver ─ one list+watch per kind ─► upstream ─► publish ─► store ─► listwatch ─► clients
//!                                                │ index: what is known, small in memory
//!                                                │ view: the rule, pure
//!                                                └─► snapshot: disk, for when nobody answers
//! ```
//!
//! - [`view`] decides which endpoints of a service a node sees, and knows nothing else.
//! - `index` is what is known, with the objects compressed; `document` takes objects apart and puts them
//!   together with fewer endpoints; `publish` applies a change and commits what it makes of the view.
//! - Where short names are wanted (`Config::names`) the view has them as slices of their own;
//!   [`Follower`] tells others in the process what has changed of names.
//! - `upstream` reads, and takes nothing away that a complete answer has not denied.
//! - `snapshot` is the file on disk, `snapshot_writer` says when it is written.
//! - `serve` answers: the view through [`edgegrid_listwatch`], all else through a proxy that lends
//!   the wrapper's name only for a few things.
//! - `discovery` is what is remembered of the API server's version and groups, for when it is cut off.
//!
//! The process is one thread's work: a view is for one node. Nothing of Kubernetes' list and watch
//! protocol is in here; the view is an [`edgegrid_store`] like the embedded API server's.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use edgegrid_runtime::client::Source;
//! use edgegrid_wrapper::{Config, Link, Socket, Wrapper};
//! let link = Link::new(Source::Environment).await?;
//! let wrapper = Wrapper::new(&Config::new("bj-1"), link, std::sync::Arc::new(jiff::Timestamp::now));
//! let (_trigger, stop) = edgegrid_runtime::shutdown::channel();
//! let socket = Socket::bind(([127, 0, 0, 1], 51006).into(), None).await?;
//! wrapper.run(vec![socket], stop).await?;
//! # Ok(()) }
//! ```

mod discovery;
mod document;
mod feed;
mod follow;
mod identity;
mod index;
mod kinds;
mod metrics;
mod publish;
mod serve;
mod snapshot;
mod snapshot_writer;
mod tokens;
mod upstream;
pub mod view;
mod wrapper;

pub use follow::{Follower, ServiceView, Stale};
pub use identity::{Access, Identity};
pub use kinds::ServedKind;
pub use publish::Clock;
pub use serve::listen::{BindError, Socket};
pub use serve::tls::{Tls, TlsError};
pub use upstream::Link;
pub use wrapper::{Config, Wrapper};

/// How many inputs a test that feeds nonsense makes up; `EDGEGRID_FUZZ_CASES` makes it a long run.
#[cfg(test)]
fn fuzz_cases() -> u32 {
    let given = std::env::var("EDGEGRID_FUZZ_CASES").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(1000)
}
