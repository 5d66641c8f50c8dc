//! wip
#![allow(missing_docs, dead_code, unused)]
pub mod document;
pub mod held;
pub mod view;
pub mod keeper;
pub mod kinds;
pub mod feed;
pub mod upstream;
pub mod metrics;
pub mod serve;
pub mod wrapper;
pub use wrapper::*;
pub use upstream::Link;
