//! Which unmodified programs of others our tests run, and where on this machine they are.
//!
//! `versions.toml` is the only list of pins. `cargo xtask upstream` builds from it, tests and the demo
//! ask [`locate`]; both reach the same file because its place is computed from the pins alone:
//!
//! ```text
//! versions.toml + <set>/go.mod + <set>/go.sum + build flags ─► <cache>/upstream/<set>-<key>/<program>
//! ```
//!
//! A program's file being there means it is whole: it is renamed into place as the last act of its
//! build. So asking costs one look at the file system, starts no Go, and a changed pin is a new place.
//!
//! ```
//! use edgegrid_upstream::Program;
//!
//! let kubectl: Program = "kubectl".parse()?;
//! assert_eq!(kubectl.to_string(), "kubectl@1.37");
//! # Ok::<(), edgegrid_upstream::Error>(())
//! ```

mod cache;
mod catalogue;
mod recipe;

pub use cache::{CACHE_VARIABLE, cache_root, locate, locate_in};
pub use catalogue::{Built, Program, ProgramKind, Set, all, defaults, sets};
pub use recipe::{BUILD_FLAGS, ENVIRONMENT};

/// Why a program cannot be named or found.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is not in `versions.toml`.
    #[error("no upstream program is called `{asked}`; there are: {known}")]
    Unknown {
        /// What was asked for.
        asked: String,
        /// Every name that would have been understood.
        known: String,
    },
    /// The program is known but was not built on this machine with the present pins.
    #[error("{program} ({version}) is not built yet; run `cargo xtask upstream {program}`")]
    Missing {
        /// The program as `cargo xtask upstream` takes it.
        program: String,
        /// The only version that there is, as `versions.toml` pins it.
        version: &'static str,
    },
    /// Neither of the variables that could say where the cache is does so.
    #[error("no place for the cache of upstream programs; set {CACHE_VARIABLE} or HOME")]
    NoCache,
    /// A relative path would mean another folder in every crate's tests.
    #[error("{CACHE_VARIABLE} is `{value}`, which is not an absolute path")]
    RelativeCache {
        /// What the variable is set to, which is no absolute path.
        value: String,
    },
}
