//! Paths of the API: `/api/v1/…` and `/apis/<group>/<version>/…`.

use percent_encoding::percent_decode_str;

/// What a path of the API leads to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Target {
    /// API group, empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

/// The target of a path, or nothing if it leads to no resource.
pub(crate) fn parse(path: &str) -> Option<Target> {
    let segments = path.strip_prefix('/')?.split('/').map(decode);
    let segments: Vec<String> = segments.collect::<Option<_>>()?;
    let mut segments = segments.as_slice();
    // One slash at the end does no harm.
    if let [rest @ .., last] = segments
        && last.is_empty()
    {
        segments = rest;
    }
    if segments.iter().any(String::is_empty) {
        return None;
    }
    let (group, version, rest) = match segments {
        [api, version, rest @ ..] if api == "api" => ("", version, rest),
        [apis, group, version, rest @ ..] if apis == "apis" => (group.as_str(), version, rest),
        _ => return None,
    };
    let target = resource(rest)?;
    Some(Target {
        group: group.to_owned(),
        version: version.clone(),
        ..target
    })
}

fn resource(segments: &[String]) -> Option<Target> {
    match segments {
        // Below a namespace, unless it is one of the two things a namespace itself has.
        [first, namespace, plural, rest @ ..]
            if first == "namespaces" && !matches!(plural.as_str(), "status" | "finalize") =>
        {
            let target = object(plural, rest)?;
            Some(Target {
                namespace: Some(namespace.clone()),
                ..target
            })
        }
        [plural, rest @ ..] => object(plural, rest),
        [] => None,
    }
}

fn object(plural: &str, rest: &[String]) -> Option<Target> {
    let mut target = Target {
        plural: plural.to_owned(),
        ..Target::default()
    };
    match rest {
        [] => {}
        [name] => target.name = Some(name.clone()),
        [name, subresource] => {
            target.name = Some(name.clone());
            target.subresource = Some(subresource.clone());
        }
        _ => return None,
    }
    Some(target)
}

fn decode(segment: &str) -> Option<String> {
    percent_decode_str(segment)
        .decode_utf8()
        .ok()
        .map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str) -> Option<String> {
        parse(path).map(|target| {
            let part = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
            format!(
                "{}|{}|{}|{}|{}|{}",
                target.group,
                target.version,
                target.plural,
                part(target.namespace),
                part(target.name),
                part(target.subresource)
            )
        })
    }

    #[test]
    fn every_form_of_a_path_is_understood() {
        for (path, expected) in [
            ("/api/v1/pods", "|v1|pods|-|-|-"),
            ("/api/v1/namespaces", "|v1|namespaces|-|-|-"),
            ("/api/v1/namespaces/a", "|v1|namespaces|-|a|-"),
            ("/api/v1/namespaces/a/status", "|v1|namespaces|-|a|status"),
            (
                "/api/v1/namespaces/a/finalize",
                "|v1|namespaces|-|a|finalize",
            ),
            ("/api/v1/namespaces/a/pods", "|v1|pods|a|-|-"),
            ("/api/v1/namespaces/a/pods/b/status", "|v1|pods|a|b|status"),
            ("/apis/apps/v1/deployments/", "apps|v1|deployments|-|-|-"),
            (
                "/apis/a.b/v1/namespaces/n/things/x%2Fy",
                "a.b|v1|things|n|x/y|-",
            ),
        ] {
            assert_eq!(shown(path).as_deref(), Some(expected), "{path}");
        }
    }

    #[test]
    fn what_leads_nowhere_is_nothing() {
        for path in [
            "",
            "/",
            "/api",
            "/api/v1",
            "/apis/apps/v1",
            "/metrics",
            "/api/v1/a/b/c/d",
            "/api//pods",
            "/api/v1/%ff",
        ] {
            assert_eq!(shown(path), None, "{path}");
        }
    }
}
