//! What outlives the process: everything needed to serve again with nobody to ask.
//!
//! ```text
//! edgegrid wrapper view 1
//! m …            the node of the view, how far each feed had come and when
//! o … o … n … t …    objects served whole; node sets; StatefulSets of the own units
//! s … e …        slices and Endpoints, compressed as they are in memory
//! d …            answers about the API server's version and groups, the same way
//! z sha-256      of all before
//! ```
//!
//! The file is written beside the old one and renamed, so there is always a whole one; a damaged
//! one is set aside and logged. How often it is written is bounded by [`crate::snapshot_writer`], as
//! edge nodes live on flash. Next to it `revisions` says which numbers may have been given out.
//! Nobody else may read any of it.

mod file;
mod image;
mod private;
mod reserve;

use std::path::Path;

pub(crate) use file::{Damaged, load, remove, save};
pub(crate) use image::{
    AbsentRecord, FeedMeta, GraceRecords, Image, KeptLabelRecord, Meta, NodeSet, Record,
    StampedSets,
};
pub(crate) use reserve::Reserve;

/// Name of the file.
const FILE: &str = "view.snapshot";
/// What is being written.
const NEW: &str = "view.snapshot.new";
/// What a damaged one is renamed to.
const SET_ASIDE: &str = "view.snapshot.damaged";

/// Takes the folder, and what an earlier version left in it, from the eyes of others.
pub(crate) fn tighten(folder: &Path) {
    private::tighten(folder, &[FILE, NEW, SET_ASIDE, reserve::FILE]);
}
