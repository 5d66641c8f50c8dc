//! The names of a site's pods, in one process and in virtual time: the embedded cluster, the
//! wrapper's view, and the ways out of it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agent;
mod cut_off;
mod property;
mod rules;
mod scene;
mod site;
mod ways;
