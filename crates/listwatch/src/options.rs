//! The query of a read, parsed and validated before anything is read.
//!
//! The rules follow `ListOptions` of `meta.k8s.io`: what `resourceVersion` means depends on
//! `resourceVersionMatch`, `limit`, `continue` and `sendInitialEvents`, and combinations without a
//! meaning are refused with 422 and a cause that names the parameter.

use crate::token::Token;
use edgegrid_machinery::status::{FieldError, GroupResource, Status};
use std::num::NonZeroUsize;

/// How a list is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListOptions {
    /// The revision to read: one, a newer one, or that of an earlier page.
    pub at: ListAt,
    /// At most this many items.
    pub limit: Option<NonZeroUsize>,
}

/// The revision of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListAt {
    /// The present, which must have reached this revision; zero for any.
    NotOlderThan(u64),
    /// That revision and no other; 410 once it is compacted.
    Exact(u64),
    /// Where an earlier page left off.
    Continue(Token),
}

/// How a watch is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchOptions {
    /// With what it starts.
    pub start: WatchStart,
    /// Whether the client understands bookmarks.
    pub bookmarks: bool,
    /// After how many seconds it ends; none to let the server choose.
    pub timeout_seconds: Option<u64>,
}

/// What a watch starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchStart {
    /// The first change after a revision.
    After(u64),
    /// The first change after now.
    Now,
    /// An ADDED event for each object of the present, which must have reached a revision.
    State {
        /// The least revision; zero for any.
        not_older_than: u64,
        /// Whether a bookmark says that the present is complete (`WatchList`).
        closed: bool,
    },
}

/// The parameters as they stand in the query.
#[derive(Debug, Default)]
pub(crate) struct Query {
    limit: Option<i64>,
    token: String,
    version: String,
    version_match: String,
    watch: bool,
    timeout_seconds: Option<i64>,
    bookmarks: bool,
    initial_events: Option<bool>,
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
}

impl Query {
    /// Reads a query; of a repeated parameter the first counts, unknown ones are passed over.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        let mut query = Self::default();
        let mut seen = Vec::new();
        for (key, value) in form_urlencoded::parse(text.as_bytes()) {
            if seen.contains(&key) {
                continue;
            }
            match &*key {
                "limit" => query.limit = Some(integer(&key, &value)?),
                "continue" => query.token = value.into_owned(),
                "resourceVersion" => query.version = value.into_owned(),
                "resourceVersionMatch" => query.version_match = value.into_owned(),
                "watch" => query.watch = boolean(&value),
                "timeoutSeconds" => query.timeout_seconds = Some(integer(&key, &value)?),
                "allowWatchBookmarks" => query.bookmarks = boolean(&value),
                "sendInitialEvents" => query.initial_events = Some(boolean(&value)),
                "labelSelector" => query.label_selector = value.into_owned(),
                "fieldSelector" => query.field_selector = value.into_owned(),
                _ => continue,
            }
            seen.push(key);
        }
        Ok(query)
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.watch
    }

    /// The least revision a single object may be read at.
    pub(crate) fn get(&self) -> Result<u64, Status> {
        Ok(self.revision()?.unwrap_or(0))
    }

    pub(crate) fn list(&self) -> Result<ListOptions, Status> {
        refuse(&self.list_errors())?;
        let limit = self
            .limit
            .and_then(|limit| usize::try_from(limit).ok())
            .and_then(NonZeroUsize::new);
        let revision = self.revision()?;
        let at = match (&*self.version_match, revision) {
            _ if !self.token.is_empty() => {
                if revision.is_some_and(|revision| revision > 0) {
                    let why = "specifying resource version is not allowed when using continue";
                    return Err(Status::bad_request(why));
                }
                ListAt::Continue(Token::parse(&self.token)?)
            }
            ("Exact", Some(revision)) => ListAt::Exact(revision),
            // A page at a revision: what the following pages need is that very one.
            ("", Some(revision)) if revision > 0 && limit.is_some() => ListAt::Exact(revision),
            _ => ListAt::NotOlderThan(revision.unwrap_or(0)),
        };
        Ok(ListOptions { at, limit })
    }

    pub(crate) fn watch(&self) -> Result<WatchOptions, Status> {
        refuse(&self.watch_errors())?;
        let revision = self.revision()?.unwrap_or(0);
        let start = match (self.initial_events, revision) {
            (Some(true), not_older_than) => WatchStart::State {
                not_older_than,
                closed: true,
            },
            (Some(false), 0) => WatchStart::Now,
            (None, 0) => WatchStart::State {
                not_older_than: 0,
                closed: false,
            },
            (_, revision) => WatchStart::After(revision),
        };
        let timeout_seconds = self
            .timeout_seconds
            .map(|seconds| u64::try_from(seconds).unwrap_or(0));
        Ok(WatchOptions {
            start,
            bookmarks: self.bookmarks,
            timeout_seconds,
        })
    }

    fn revision(&self) -> Result<Option<u64>, Status> {
        if self.version.is_empty() {
            return Ok(None);
        }
        let refused =
            || Status::bad_request(format!("invalid resource version {:?}", self.version));
        self.version.parse().map(Some).map_err(|_| refused())
    }

    fn list_errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut forbid =
            |why: &str| errors.push(FieldError::forbidden("resourceVersionMatch", why));
        if !self.version_match.is_empty() {
            if self.version.is_empty() {
                forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.token.is_empty() {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if self.version_match == "Exact" && self.version == "0" {
                forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
            if !["Exact", "NotOlderThan"].contains(&&*self.version_match) {
                errors.push(self.unsupported(&["Exact", "NotOlderThan", ""]));
            }
        }
        if self.initial_events.is_some() {
            let why = "sendInitialEvents is forbidden for list";
            errors.push(FieldError::forbidden("sendInitialEvents", why));
        }
        errors
    }

    fn watch_errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut forbid =
            |why: &str| errors.push(FieldError::forbidden("resourceVersionMatch", why));
        let fresh = self.version_match == "NotOlderThan";
        if self.initial_events.is_some() && !fresh {
            forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        if !self.version_match.is_empty() {
            if self.initial_events.is_none() {
                forbid(
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                );
            }
            if !self.token.is_empty() {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if !fresh {
                errors.push(self.unsupported(&["NotOlderThan"]));
            }
        }
        errors
    }

    fn unsupported(&self, supported: &[&str]) -> FieldError {
        let supported: Vec<String> = supported.iter().map(ToString::to_string).collect();
        FieldError::not_supported(
            "resourceVersionMatch",
            self.version_match.as_str(),
            &supported,
        )
    }
}

fn refuse(errors: &[FieldError]) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(
        &GroupResource::new("meta.k8s.io", "ListOptions"),
        "",
        errors,
    ))
}

fn integer(key: &str, value: &str) -> Result<i64, Status> {
    value
        .parse()
        .map_err(|_| Status::bad_request(format!("{key}: {value:?} is no whole number")))
}

/// Presence is enough, as for Kubernetes: only `false` and `0` say no.
fn boolean(value: &str) -> bool {
    !(value == "0" || value.eq_ignore_ascii_case("false"))
}
