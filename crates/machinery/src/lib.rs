//! The rules of Kubernetes' objects, on plain JSON: pure functions, no server around them.
//!
//! ```text
//! table     what kinds there are and what they look like     ─┐
//! kinds     what built-in kinds default, check and keep       │
//! schema    the same for custom resources, from their schema  ├─► a server decides with these,
//! metadata  what every object has                             │   and stores the result
//! patch     JSON, merge and strategic merge patches           │
//! apply     server-side apply and the ownership of fields    ─┘
//! selector, names, quantity, status   the vocabulary of all of them
//! ```
//!
//! Time, identities and randomness come in as arguments; the same call gives the same answer. The
//! crate knows nothing of grids: it is useful to anybody who must treat objects as Kubernetes does.
//!
//! ```
//! use edgegrid_machinery::{patch::merge_patch, selector::LabelSelector};
//! use serde_json::json;
//!
//! let pod = json!({ "metadata": { "labels": { "app": "web" } } });
//! let pod = merge_patch(&pod, &json!({ "metadata": { "labels": { "tier": "edge" } } }))?;
//! assert!(LabelSelector::parse("app=web,tier in (edge)")?.matches_object(&pod));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod apply;
pub mod kinds;
pub mod metadata;
pub mod names;
pub mod patch;
pub mod quantity;
pub mod schema;
pub mod selector;
pub mod status;
pub mod table;
