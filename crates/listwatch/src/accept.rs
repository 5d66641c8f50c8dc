//! What the client can read: `Accept` decides between whole objects and their metadata.
//!
//! Everything is JSON. A clause for something else (protobuf, `as=Table`) is passed over, because
//! the clients that prefer those name JSON or `*/*` behind them; only a header without any
//! acceptable clause is refused. A Table would become a further [`Form`].

use edgegrid_machinery::status::Status;

const JSON: &str = "application/json";

/// The form in which objects are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Objects as they are stored.
    Object,
    /// Only `metadata`, as `PartialObjectMetadata`.
    Metadata(MetadataVersion),
}

/// The versions of `meta.k8s.io` that have a `PartialObjectMetadata`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataVersion {
    /// `meta.k8s.io/v1`, which all present clients ask for.
    V1,
    /// The one before, with the same content.
    V1beta1,
}

impl MetadataVersion {
    /// `apiVersion` of the objects and lists.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

impl Form {
    /// The best form an `Accept` header allows; an empty header allows anything.
    pub fn negotiate(accept: &str) -> Result<Self, Status> {
        if accept.trim().is_empty() {
            return Ok(Self::Object);
        }
        let mut clauses: Vec<Clause<'_>> = accept.split(',').map(Clause::parse).collect();
        clauses.sort_by(|a, b| b.weight.total_cmp(&a.weight)); // stable: the first of equals wins
        let form = clauses
            .iter()
            .filter(|clause| clause.weight > 0.0)
            .find_map(Clause::form);
        form.ok_or_else(|| Status::not_acceptable(&[JSON]))
    }
}

/// One alternative of an `Accept` header.
struct Clause<'a> {
    media: &'a str,
    target: Option<&'a str>,
    group: &'a str,
    version: &'a str,
    weight: f32,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let mut clause = Self {
            media,
            target: None,
            group: "",
            version: "",
            weight: 1.0,
        };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match key {
                "as" => clause.target = Some(value),
                "g" => clause.group = value,
                "v" => clause.version = value,
                "q" => clause.weight = value.parse().unwrap_or(0.0),
                _ => {}
            }
        }
        clause
    }

    fn form(&self) -> Option<Form> {
        if ![JSON, "application/*", "*/*"].contains(&self.media) {
            return None;
        }
        match (self.target, self.group, self.version) {
            (None, ..) => Some(Form::Object),
            (
                Some("PartialObjectMetadata" | "PartialObjectMetadataList"),
                "meta.k8s.io",
                version,
            ) => match version {
                "v1" => Some(Form::Metadata(MetadataVersion::V1)),
                "v1beta1" => Some(Form::Metadata(MetadataVersion::V1beta1)),
                _ => None,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_clause_we_can_serve_wins() {
        let metadata = Some(Form::Metadata(MetadataVersion::V1));
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        for (accept, form) in [
            ("", Some(Form::Object)),
            ("application/json", Some(Form::Object)),
            ("application/json;stream=watch", Some(Form::Object)),
            (
                "application/vnd.kubernetes.protobuf, */*",
                Some(Form::Object),
            ),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Some(Form::Object),
            ),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                metadata,
            ),
            (
                "application/json; as=PartialObjectMetadata; g=meta.k8s.io; v=v1",
                metadata,
            ),
            (
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1",
                Some(Form::Metadata(MetadataVersion::V1beta1)),
            ),
            (
                "application/json;q=0.5,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                metadata,
            ),
            (
                "application/json;as=Nonsense;g=x;v=y,application/json",
                Some(Form::Object),
            ),
            ("application/vnd.kubernetes.protobuf", None),
            ("text/html", None),
            ("application/json;q=0", None),
            (table, None),
            (";;=,,;q=,\u{0}", None),
        ] {
            assert_eq!(Form::negotiate(accept).ok(), form, "{accept}");
        }
        let kubectl =
            format!("{table},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json");
        assert_eq!(Form::negotiate(&kubectl), Ok(Form::Object));
    }
}
