//! What a writing request says in its query.

use edgegrid_machinery::apply::{NameError, check_manager, manager_from_user_agent};
use edgegrid_machinery::status::{FieldError, GroupResource, Status};
use http::Method;

/// What becomes of fields that the kind does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// Options of create, update, patch and delete.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Options {
    pub(crate) dry_run: bool,
    /// Who writes, for the ownership of fields.
    pub(crate) manager: String,
    pub(crate) field_validation: FieldValidation,
    pub(crate) force: Option<bool>,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) orphan_dependents: Option<bool>,
}

/// Which request the options belong to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender<'a> {
    pub(crate) method: &'a Method,
    pub(crate) user_agent: &'a str,
    /// Whether it is a patch by apply.
    pub(crate) applies: bool,
}

impl Options {
    pub(crate) fn parse(query: &str, sender: Sender<'_>) -> Result<Self, Status> {
        let mut options = Self::default();
        let mut errors = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            errors.extend(options.take(&name, &value)?);
        }
        errors.splice(0..0, options.contradiction(sender));
        if options.manager.is_empty() {
            options.manager = manager_from_user_agent(sender.user_agent);
        }
        if errors.is_empty() {
            return Ok(options);
        }
        let kind = match *sender.method {
            Method::POST => "CreateOptions",
            Method::PUT => "UpdateOptions",
            Method::PATCH => "PatchOptions",
            _ => "DeleteOptions",
        };
        Err(invalid(kind, &errors))
    }

    /// Takes over one parameter. What cannot be read at all is refused at once.
    fn take(&mut self, name: &str, value: &str) -> Result<Option<FieldError>, Status> {
        match name {
            "dryRun" => {
                self.dry_run = true;
                return Ok(dry_run(value));
            }
            "fieldManager" => {
                value.clone_into(&mut self.manager);
                return Ok(manager(value));
            }
            "fieldValidation" => match value {
                "" | "Warn" => self.field_validation = FieldValidation::Warn,
                "Ignore" => self.field_validation = FieldValidation::Ignore,
                "Strict" => self.field_validation = FieldValidation::Strict,
                _ => {
                    return Ok(Some(unsupported(
                        name,
                        value,
                        &["", "Ignore", "Strict", "Warn"],
                    )));
                }
            },
            "force" => self.force = Some(is_true(value)),
            "orphanDependents" => self.orphan_dependents = Some(is_true(value)),
            "gracePeriodSeconds" => {
                let wrong = |_| Status::bad_request(format!("{name}: {value:?} is not a number"));
                self.grace_period_seconds = Some(value.parse().map_err(wrong)?);
            }
            "propagationPolicy" => self.propagation_policy = Some(value.to_owned()),
            _ => {}
        }
        Ok(None)
    }

    /// An option that does not fit the kind of patch.
    fn contradiction(&self, sender: Sender<'_>) -> Option<FieldError> {
        if sender.applies && self.manager.is_empty() {
            let why = "is required for apply patch";
            return Some(FieldError::required("fieldManager", why));
        }
        let is_patch = sender.method == Method::PATCH;
        (is_patch && !sender.applies && self.force.is_some())
            .then(|| FieldError::forbidden("force", "may not be specified for non-apply patch"))
    }
}

/// The 422 for options of a request that break rules.
pub(crate) fn invalid(kind: &str, errors: &[FieldError]) -> Status {
    Status::invalid(&GroupResource::new("meta.k8s.io", kind), "", errors)
}

/// What is wrong with a value of `dryRun`.
pub(crate) fn dry_run(value: &str) -> Option<FieldError> {
    (value != "All").then(|| {
        FieldError::not_supported("dryRun", serde_json::json!([value]), &["All".to_owned()])
    })
}

pub(crate) fn unsupported(name: &str, value: &str, supported: &[&str]) -> FieldError {
    let supported: Vec<String> = supported.iter().map(ToString::to_string).collect();
    FieldError::not_supported(name, value, &supported)
}

fn manager(value: &str) -> Option<FieldError> {
    match check_manager(value) {
        Ok(()) => None,
        Err(NameError::TooLong) => Some(FieldError::too_long("fieldManager", 128)),
        Err(error) => Some(FieldError::invalid(
            "fieldManager",
            value,
            error.to_string(),
        )),
    }
}

/// Everything is true that is not plainly false.
fn is_true(value: &str) -> bool {
    value != "0" && !value.eq_ignore_ascii_case("false")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUT: Sender<'_> = Sender {
        method: &Method::PUT,
        user_agent: "kubectl/1.0 (linux)",
        applies: false,
    };

    #[test]
    fn the_manager_is_the_one_named_or_the_program_that_asks() {
        let named = Options::parse("fieldManager=me&force=true", PUT).unwrap();
        assert_eq!((named.manager.as_str(), named.force), ("me", Some(true)));
        assert_eq!(Options::parse("", PUT).unwrap().manager, "kubectl");
    }

    #[test]
    fn nonsense_is_refused_with_the_parameter_named() {
        for (query, code) in [
            ("dryRun=some", 422),
            ("fieldValidation=maybe", 422),
            ("fieldManager=%0A", 422),
            ("gracePeriodSeconds=soon", 400),
        ] {
            let status = Options::parse(query, PUT).unwrap_err();
            assert_eq!(status.code(), code, "{query}");
            let parameter = query.split('=').next().unwrap();
            assert!(status.message().contains(parameter), "{}", status.message());
        }
        let both = Options::parse("dryRun=some&fieldValidation=maybe", PUT).unwrap_err();
        assert_eq!(both.details().unwrap().causes.len(), 2);
    }

    #[test]
    fn apply_must_name_its_manager_and_others_must_not_force() {
        let patch = |applies| Sender {
            method: &Method::PATCH,
            applies,
            ..PUT
        };
        assert!(Options::parse("force=1", patch(true)).is_err());
        assert!(Options::parse("force=1&fieldManager=me", patch(true)).is_ok());
        assert!(Options::parse("force=1&fieldManager=me", patch(false)).is_err());
    }
}
