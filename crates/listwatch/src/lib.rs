//! GET, LIST, WATCH and `WatchList` as Kubernetes' clients expect them, over any store.
//!
//! The embedded API server and the node-local wrapper mount the same [`Reader`]: the protocol is
//! written once. What is read is described by a [`Resource`]; what is stored is one JSON document
//! for each object in an [`edgegrid_store::Store`], under the resource's key prefix.
//!
//! ```text
//! query ──► Options ─┐                       ┌─► GET   one object
//! Accept ─► Form ────┼─► Reader ─► snapshot ─┼─► LIST  pages at one revision, or a fresh view
//! path ───► Scope ───┘      │                └─► WATCH initial events, then…
//!                           └──► store watch ──────► ADDED, MODIFIED, DELETED, BOOKMARK, ERROR
//! ```
//!
//! **Where `resourceVersion` lives.** Only in the store: the stored document has none (see
//! [`storable`]). The first reader of a version notes where its `metadata` opens, and whoever sends
//! it copies head, revision and tail. So nothing is encoded twice however many watchers there are, no second
//! copy of an object is kept, the old object of a DELETED event can carry the new revision, and a
//! `PartialObjectMetadata` is a slice of the same bytes.
//!
//! **What a watch costs.** A position in the store's history and two timers, all inside the response
//! body: nothing is spawned and nothing queued, so a client that vanishes frees everything with its
//! connection. Time is tokio's, so a paused clock carries tests through hours.
//!
//! A revision *ahead* of the store is one of another server's; a watch from there gets 410 at once
//! (Kubernetes' own server would wait for it in silence), a list waits three seconds first.
//!
//! ```
//! use edgegrid_listwatch::{Read, Reader, Resource, Store, storable};
//! use edgegrid_store::Expect;
//! use http_body_util::BodyExt;
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let store = Store::default();
//! let maps = Resource::new("", "v1", "ConfigMap", "configmaps").namespaced().shared();
//! let object = storable(&serde_json::json!({"metadata": {"name": "a", "namespace": "b"}}));
//! store.put(maps.key(Some("b"), "a"), object, Expect::Absent).unwrap();
//!
//! let reader = Reader::new(store, 1);
//! let response = reader.read(Read { query: "limit=5", ..Read::all(&maps) }).await;
//! let list = response.into_body().collect().await.unwrap().to_bytes();
//! let list: serde_json::Value = serde_json::from_slice(&list).unwrap();
//! assert_eq!(list["kind"], "ConfigMapList");
//! assert_eq!(list["items"][0]["metadata"]["resourceVersion"], "2");
//! # });
//! ```

mod accept;
mod body;
mod encode;
mod filter;
mod list;
mod options;
mod reader;
mod resource;
mod served_object;
mod token;
mod view;
mod watch;

pub use accept::{Form, MetadataVersion};
pub use body::{Body, status_response};
pub use options::{ListAt, ListOptions, WatchOptions, WatchStart};
pub use reader::{Read, Reader};
pub use resource::{Field, Resource};
pub use served_object::{Memo, ServedObject, served_object, storable};
pub use view::{Malformed, View};

/// A store whose entries remember how they are read.
pub type Store = edgegrid_store::Store<Memo>;
