//! How a set is built, as data, and the key that this gives its place in the cache.
//!
//! Whatever changes the bytes of a program belongs in here: then a change of it is a change of the
//! key, and an old program is never taken for a new one.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use crate::Set;

/// The environment of every Go command: nothing of the user's settings may change the outcome, and Go
/// must not fetch a toolchain by itself. Programs without C run on any Linux. `GOFLAGS` has a value
/// because Go takes an empty variable for an unset one and then reads what `go env -w` has stored.
pub const ENVIRONMENT: &[(&str, &str)] = &[
    ("CGO_ENABLED", "0"),
    ("GOFLAGS", "-mod=readonly"),
    ("GOTOOLCHAIN", "local"),
    ("GOWORK", "off"),
];

/// The flags of every build: with them two machines get the same bytes.
pub const BUILD_FLAGS: &[&str] = &["-trimpath", "-buildvcs=false"];

/// Hexadecimal digits of a key: enough that two pins never meet, short enough to read in a path.
const KEY_DIGITS: usize = 12;

impl Set {
    /// The linker's flags: no debug information, and for Kubernetes the version that its programs
    /// report, without which they call themselves v0.0.0 and clients see a skew that is not there.
    pub fn linker_flags(&self) -> String {
        let mut flags = String::from("-s -w");
        let Some((major, minor)) = self.kubernetes_minor().and_then(|m| m.split_once('.')) else {
            return flags;
        };
        let version = self.version();
        for module in [
            "k8s.io/component-base/version",
            "k8s.io/client-go/pkg/version",
        ] {
            for (variable, value) in [
                ("gitVersion", format!("v{version}")),
                ("gitMajor", major.to_owned()),
                ("gitMinor", minor.to_owned()),
            ] {
                let _ = write!(flags, " -X {module}.{variable}={value}");
            }
        }
        flags
    }

    /// `<set>-<key>`: the folder in the cache that holds programs built from exactly these pins.
    pub fn directory_name(&self) -> String {
        let (go_mod, go_sum) = pins(self.name());
        let mut recipe = Sha256::new();
        let linker_flags = self.linker_flags();
        let environment = ENVIRONMENT.iter().flat_map(|(name, value)| [*name, *value]);
        let parts = [go_mod, go_sum, linker_flags.as_str()]
            .into_iter()
            .chain(BUILD_FLAGS.iter().copied())
            .chain(environment);
        for part in parts {
            recipe.update(part.as_bytes());
            recipe.update([0]); // so that moving a byte between two parts changes the key
        }
        let mut digits = String::new();
        for byte in recipe.finalize() {
            let _ = write!(digits, "{byte:02x}");
        }
        format!("{}-{}", self.name(), &digits[..KEY_DIGITS])
    }
}

/// A set's go.mod and go.sum, compiled in so that a test binary knows its pins wherever it runs.
fn pins(set: &str) -> (&'static str, &'static str) {
    macro_rules! of {
        ($folder:literal) => {
            (
                include_str!(concat!("../", $folder, "/go.mod")),
                include_str!(concat!("../", $folder, "/go.sum")),
            )
        };
    }
    match set {
        "etcd" => of!("etcd"),
        "kubernetes-1.37" => of!("kubernetes-1.37"),
        "kubernetes-1.35" => of!("kubernetes-1.35"),
        "kubernetes-1.33" => of!("kubernetes-1.33"),
        "coredns" => of!("coredns"),
        other => unreachable!("invariant: a test asks for the pins of every set, {other} too"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProgramKind, sets};

    #[test]
    fn versions_agree_with_the_go_modules() {
        for set in sets() {
            let (go_mod, go_sum) = pins(set.name());
            for module in set.modules() {
                let pin = format!("{module} v{}", set.version());
                let required = |line: &str| {
                    let line = line.trim().trim_start_matches("require ");
                    line.trim_end_matches(" // indirect") == pin
                };
                assert!(go_mod.lines().any(required), "{}: no `{pin}`", set.name());
                assert!(
                    go_sum.contains(&format!("{pin} h1:")),
                    "{}: `{pin}` has no hash",
                    set.name()
                );
            }
        }
    }

    #[test]
    fn minimum_go_agrees_with_the_go_modules() {
        for set in sets() {
            let line = format!("go {}.0", set.minimum_go());
            assert!(
                pins(set.name()).0.lines().any(|l| l == line),
                "{}",
                set.name()
            );
        }
    }

    #[test]
    fn every_main_package_is_a_tool_of_its_module() {
        for program in sets().iter().flat_map(Set::programs) {
            let (go_mod, _) = pins(program.set().name());
            let is_tool = |line: &str| line.trim().trim_start_matches("tool ") == program.package();
            assert!(
                program.kind() == ProgramKind::Test || go_mod.lines().any(is_tool),
                "{program}: {} is no tool in go.mod",
                program.package()
            );
        }
    }

    #[test]
    fn kubernetes_is_stamped_with_its_version_and_others_are_not() {
        let flags = |name: &str| {
            sets()
                .iter()
                .find(|s| s.name() == name)
                .unwrap()
                .linker_flags()
        };
        let kubernetes = flags("kubernetes-1.33");
        for stamp in [
            "k8s.io/component-base/version.gitVersion=v1.33.13",
            "k8s.io/component-base/version.gitMajor=1",
            "k8s.io/component-base/version.gitMinor=33",
            "k8s.io/client-go/pkg/version.gitVersion=v1.33.13",
        ] {
            assert!(kubernetes.contains(stamp), "{kubernetes}");
        }
        assert_eq!(flags("etcd"), "-s -w");
    }

    #[test]
    fn each_set_has_its_own_directory_with_a_short_key() {
        for set in sets() {
            let directory = set.directory_name();
            let key = directory.strip_prefix(&format!("{}-", set.name())).unwrap();
            assert_eq!(key.len(), KEY_DIGITS);
            assert!(key.bytes().all(|b| b.is_ascii_hexdigit()), "{key}");
        }
    }
}
