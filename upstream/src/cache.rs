//! Where built programs are kept: per user, so that a second clone finds what the first has built.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::{Error, Program, Set};

/// The variable that moves the cache, for machines whose home is small or not kept.
pub const CACHE_VARIABLE: &str = "EDGEGRID_CACHE";

/// The file of a program that is built, or an error that names the command to build it.
pub fn locate(program: &Program) -> Result<PathBuf, Error> {
    locate_in(&cache_root()?, program)
}

/// [`locate`] in a given cache.
pub fn locate_in(cache: &Path, program: &Program) -> Result<PathBuf, Error> {
    let path = program.path_in(cache);
    if path.is_file() {
        return Ok(path);
    }
    Err(Error::Missing {
        program: program.to_string(),
        version: program.set().version(),
    })
}

/// `$EDGEGRID_CACHE`, else `$XDG_CACHE_HOME/edgegrid`, else `$HOME/.cache/edgegrid`.
pub fn cache_root() -> Result<PathBuf, Error> {
    cache_root_from(|variable| std::env::var_os(variable))
}

impl Set {
    /// The set's folder in a cache.
    pub fn directory_in(&self, cache: &Path) -> PathBuf {
        cache.join("upstream").join(self.directory_name())
    }
}

impl Program {
    /// Where the program is in a cache once it is built.
    pub fn path_in(&self, cache: &Path) -> PathBuf {
        self.set().directory_in(cache).join(self.name())
    }
}

fn cache_root_from(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, Error> {
    let path = |name: &str| {
        let value = variable(name).filter(|value| !value.is_empty())?;
        Some(PathBuf::from(value))
    };
    if let Some(root) = path(CACHE_VARIABLE) {
        return if root.is_absolute() {
            Ok(root)
        } else {
            Err(Error::RelativeCache {
                value: root.display().to_string(),
            })
        };
    }
    // The XDG base directory specification has relative values ignored.
    path("XDG_CACHE_HOME")
        .filter(|xdg| xdg.is_absolute())
        .or_else(|| Some(path("HOME")?.join(".cache")))
        .map(|caches| caches.join("edgegrid"))
        .ok_or(Error::NoCache)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(variables: &[(&str, &str)]) -> Result<PathBuf, Error> {
        cache_root_from(|name| {
            let (_, value) = variables.iter().find(|(n, _)| *n == name)?;
            Some(OsString::from(value))
        })
    }

    #[test]
    fn our_own_variable_wins_over_xdg_and_xdg_over_home() {
        let (ours, xdg, home) = (
            ("EDGEGRID_CACHE", "/o"),
            ("XDG_CACHE_HOME", "/x"),
            ("HOME", "/h"),
        );
        assert_eq!(root(&[ours, xdg, home]).unwrap(), Path::new("/o"));
        assert_eq!(root(&[xdg, home]).unwrap(), Path::new("/x/edgegrid"));
        assert_eq!(root(&[home]).unwrap(), Path::new("/h/.cache/edgegrid"));
    }

    #[test]
    fn empty_and_relative_xdg_values_count_as_unset() {
        for value in ["", "relative"] {
            let found = root(&[("XDG_CACHE_HOME", value), ("HOME", "/h")]).unwrap();
            assert_eq!(found, Path::new("/h/.cache/edgegrid"));
        }
    }

    #[test]
    fn a_relative_cache_and_no_cache_at_all_are_refused() {
        assert!(matches!(
            root(&[("EDGEGRID_CACHE", "here")]),
            Err(Error::RelativeCache { .. })
        ));
        assert!(matches!(root(&[]), Err(Error::NoCache)));
    }

    #[test]
    fn a_missing_program_names_the_command_that_builds_it() {
        let program = Program::parse("kubectl@1.33").unwrap();
        let message = locate_in(Path::new("/nowhere"), &program)
            .unwrap_err()
            .to_string();
        assert!(
            message.ends_with("run `cargo xtask upstream kubectl@1.33`"),
            "{message}"
        );
    }
}
