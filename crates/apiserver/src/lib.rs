//! A Kubernetes-compatible API server as a router: no socket, no disk, no other program.
//!
//! ```text
//! request ─► path ─► Registry: what is it? ─┬─ read  ─► listwatch ─► store
//!                                           └─ write ─► body ─► verb ─► admission ─► rules ─► store
//! ```
//!
//! All resources are served by the same verbs, one file each. What built-in kinds look like and how
//! they behave is data in `machinery`; custom resources come from their definitions, live. Only what
//! is more than data has code here: namespaces, definitions, events, Services' addresses, binding,
//! eviction.
//!
//! The router is a `tower` service, so a `kube::Client` talks to it in process; time is tokio's and
//! identities come from a seed, so a test runs in virtual time and can be repeated.
//!
//! ```
//! use edgegrid_apiserver::ApiServer;
//! use k8s_openapi::api::core::v1::Namespace;
//! use kube::{Api, Client, api::ListParams};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), kube::Error> {
//! let server = ApiServer::builder().build();
//! let client = Client::new(server.router(), "default");
//! let namespaces: Api<Namespace> = Api::all(client);
//! assert_eq!(namespaces.list(&ListParams::default()).await?.items.len(), 4);
//! # Ok(()) }
//! ```

mod admission;
mod answer;
mod body;
mod bootstrap;
mod clock;
mod crds;
mod create;
mod delete;
mod delete_collection;
mod events;
mod ids;
mod namespaces;
mod options;
mod patch;
mod patch_type;
mod path;
mod pods;
mod registry;
mod request;
mod router;
mod scale;
mod served;
mod server;
mod services;
mod state;
mod storage;
mod update;
mod write;

pub use admission::{Admission, Attributes, Operation};
pub use clock::Clock;
pub use server::{ApiServer, Builder};
