//! What a request's path leads to, read strictly: a path that could mean two things means none.

use edgegrid_api::names::INGRESS_VIEW;
use edgegrid_machinery::status::Status;
use percent_encoding::percent_decode_str;

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Path {
    /// The wrapper's own: `/healthz` and the like.
    Own(String),
    /// An object or a collection of the API.
    Resource(Target),
    /// Something else of an API server: discovery, the version.
    Other,
    /// Anything of the above, as a unit's ingress sees it.
    Unit {
        /// The unit's name.
        unit: String,
        /// The path behind it, as it was written.
        rest: String,
    },
}

/// An object or a collection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// Whether the path itself asks for a watch, as clients did long ago.
    pub(crate) watch: bool,
}

const OWN: [&str; 4] = ["healthz", "livez", "readyz", "metrics"];

impl Path {
    /// Reads a path; refuses what is no plain sequence of segments.
    pub(crate) fn parse(path: &str) -> Result<Self, Status> {
        let strange = || Status::bad_request(format!("{path:?} is no path of an API server"));
        let plain = path.strip_prefix('/').ok_or_else(strange)?;
        let plain = plain.strip_suffix('/').unwrap_or(plain);
        let segments = plain.split('/').map(segment).collect::<Option<Vec<_>>>();
        let segments = segments.ok_or_else(strange)?;
        let words: Vec<&str> = segments.iter().map(String::as_str).collect();
        match &*words {
            [own] if OWN.contains(own) => Ok(Self::Own((*own).to_owned())),
            ["debug", rest @ ..] => Ok(Self::Own(format!("debug/{}", rest.join("/")))),
            [prefix, unit, _, ..] if *prefix == INGRESS_VIEW => {
                let rest = plain.splitn(3, '/').nth(2).unwrap_or_default();
                Ok(Self::Unit {
                    unit: (*unit).to_owned(),
                    rest: format!("/{rest}"),
                })
            }
            [prefix, ..] if *prefix == INGRESS_VIEW => Err(strange()),
            ["api", version, rest @ ..] if !rest.is_empty() => Target::parse("", version, rest)
                .map(Self::Resource)
                .ok_or_else(strange),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => {
                Target::parse(group, version, rest)
                    .map(Self::Resource)
                    .ok_or_else(strange)
            }
            _ => Ok(Self::Other),
        }
    }
}

impl Target {
    fn parse(group: &str, version: &str, segments: &[&str]) -> Option<Self> {
        let (watch, segments) = match segments {
            ["watch", rest @ ..] => (true, rest),
            all => (false, all),
        };
        let target = match segments {
            ["namespaces", namespace, plural, rest @ ..]
                if !matches!(*plural, "status" | "finalize") =>
            {
                let target = Self::object(plural, rest);
                Self {
                    namespace: Some((*namespace).to_owned()),
                    ..target
                }
            }
            [plural, rest @ ..] => Self::object(plural, rest),
            [] => return None,
        };
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            watch,
            ..target
        })
    }

    fn object(plural: &str, rest: &[&str]) -> Self {
        let (name, subresource) = match rest {
            [] => (None, None),
            [name] => (Some(*name), None),
            // Behind a subresource may be a path of its own, as for a proxy.
            [name, subresource, ..] => (Some(*name), Some(*subresource)),
        };
        Self {
            plural: plural.to_owned(),
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
            ..Self::default()
        }
    }
}

/// A segment, decoded. Empty ones, dots and hidden slashes mean different things to different
/// servers, so they mean nothing here.
fn segment(text: &str) -> Option<String> {
    let decoded = percent_decode_str(text).decode_utf8().ok()?.into_owned();
    let strange = decoded.is_empty()
        || decoded == "."
        || decoded == ".."
        || decoded
            .chars()
            .any(|c| c == '/' || c == '\\' || c == '%' || c.is_control());
    (!strange).then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> String {
        match Path::parse(path).unwrap() {
            Path::Resource(t) => {
                let part = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
                let watch = if t.watch { "|watch" } else { "" };
                format!(
                    "{}|{}|{}|{}|{}|{}{watch}",
                    t.group,
                    t.version,
                    t.plural,
                    part(t.namespace),
                    part(t.name),
                    part(t.subresource)
                )
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn every_form_of_a_path_is_understood() {
        for (path, expected) in [
            ("/api/v1/services", "|v1|services|-|-|-"),
            ("/api/v1/services/", "|v1|services|-|-|-"),
            ("/api/v1/namespaces/a/services/b", "|v1|services|a|b|-"),
            ("/api/v1/namespaces/a", "|v1|namespaces|-|a|-"),
            ("/api/v1/namespaces/a/status", "|v1|namespaces|-|a|status"),
            (
                "/api/v1/namespaces/a/endpoints/b/x/y",
                "|v1|endpoints|a|b|x",
            ),
            (
                "/api/v1/watch/namespaces/a/endpoints",
                "|v1|endpoints|a|-|-|watch",
            ),
            (
                "/apis/discovery.k8s.io/v1/end%70ointslices",
                "discovery.k8s.io|v1|endpointslices|-|-|-",
            ),
        ] {
            assert_eq!(target(path), expected, "{path}");
        }
        assert_eq!(Path::parse("/version").unwrap(), Path::Other);
        assert_eq!(
            Path::parse("/apis/discovery.k8s.io/v1").unwrap(),
            Path::Other
        );
        assert_eq!(
            Path::parse("/readyz").unwrap(),
            Path::Own("readyz".to_owned())
        );
        let unit = Path::Unit {
            unit: "u".to_owned(),
            rest: "/api/v1/endpoints".to_owned(),
        };
        assert_eq!(
            Path::parse("/superedge-ingress/u/api/v1/endpoints").unwrap(),
            unit
        );
    }

    #[test]
    fn what_could_mean_two_things_is_refused() {
        for path in [
            "",
            "/",
            "//api/v1/endpoints",
            "/api//v1/endpoints",
            "/api/v1/./endpoints",
            "/api/v1/x/../endpoints",
            "/api/v1/%2e%2e/endpoints",
            "/api/v1/a%2fb",
            "/api/v1/%ff",
            "/api/v1/a%00",
            "/api/v1/a%5cb",
            "/api/v1/%252e",
            "/superedge-ingress",
            "/superedge-ingress/",
            "/superedge-ingress/u",
            "/superedge-ingress//api/v1/endpoints",
            "/api/v1/watch/",
        ] {
            assert!(Path::parse(path).is_err(), "{path}");
        }
    }
}
