//! What a writing request says in its query.

use edgegrid_machinery::apply::{check_manager, manager_from_user_agent};
use edgegrid_machinery::status::Status;

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
    /// Whether the manager was named, as apply demands.
    pub(crate) manager_given: bool,
    pub(crate) field_validation: FieldValidation,
    pub(crate) force: Option<bool>,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) orphan_dependents: Option<bool>,
}

impl Options {
    pub(crate) fn parse(query: &str, user_agent: &str) -> Result<Self, Status> {
        let mut options = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            options.take(&name, &value)?;
        }
        options.manager_given = !options.manager.is_empty();
        if !options.manager_given {
            options.manager = manager_from_user_agent(user_agent);
        }
        Ok(options)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), Status> {
        match name {
            "dryRun" => self.dry_run = dry_run(value)?,
            "fieldManager" => {
                check_manager(value)
                    .map_err(|why| Status::bad_request(format!("fieldManager: {why}")))?;
                value.clone_into(&mut self.manager);
            }
            "fieldValidation" => self.field_validation = field_validation(value)?,
            "force" => self.force = Some(boolean(name, value)?),
            "orphanDependents" => self.orphan_dependents = Some(boolean(name, value)?),
            "gracePeriodSeconds" => {
                let seconds = value.parse().map_err(|_| not_a(name, value, "number"))?;
                self.grace_period_seconds = Some(seconds);
            }
            "propagationPolicy" => self.propagation_policy = Some(value.to_owned()),
            _ => {}
        }
        Ok(())
    }
}

pub(crate) fn dry_run(value: &str) -> Result<bool, Status> {
    match value {
        "" => Ok(false),
        "All" => Ok(true),
        other => Err(Status::bad_request(format!(
            "dryRun: Unsupported value: {other:?}: supported values: \"All\""
        ))),
    }
}

fn field_validation(value: &str) -> Result<FieldValidation, Status> {
    match value {
        "" | "Warn" => Ok(FieldValidation::Warn),
        "Ignore" => Ok(FieldValidation::Ignore),
        "Strict" => Ok(FieldValidation::Strict),
        other => Err(Status::bad_request(format!(
            "fieldValidation: Unsupported value: {other:?}: \
             supported values: \"Ignore\", \"Strict\", \"Warn\""
        ))),
    }
}

fn boolean(name: &str, value: &str) -> Result<bool, Status> {
    match value {
        "true" | "1" => Ok(true),
        "false" | "0" | "" => Ok(false),
        _ => Err(not_a(name, value, "boolean")),
    }
}

fn not_a(name: &str, value: &str, what: &str) -> Status {
    Status::bad_request(format!("{name}: {value:?} is not a {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_is_the_one_named_or_the_program_that_asks() {
        let named = Options::parse("fieldManager=me&force=true", "kubectl/1.0").unwrap();
        assert_eq!((named.manager.as_str(), named.manager_given), ("me", true));
        assert_eq!(named.force, Some(true));
        let unnamed = Options::parse("", "kubectl/1.0 (linux)").unwrap();
        assert_eq!(
            (unnamed.manager.as_str(), unnamed.manager_given),
            ("kubectl", false)
        );
    }

    #[test]
    fn nonsense_is_refused_with_the_parameter_named() {
        for (query, says) in [
            ("dryRun=some", "dryRun"),
            ("fieldValidation=maybe", "fieldValidation"),
            ("force=perhaps", "force"),
            ("gracePeriodSeconds=soon", "gracePeriodSeconds"),
        ] {
            let status = Options::parse(query, "").unwrap_err();
            assert_eq!(status.code(), 400, "{query}");
            assert!(status.message().contains(says), "{}", status.message());
        }
    }
}
