//! `anyOf`, `oneOf`, `allOf` and `not`.
//!
//! Where no alternative fits, the one that came furthest is reported beside the failure itself.

use super::Schema;
use super::validate::{At, Found, Walk};
use crate::status::quoted;
use serde_json::Value;

impl Walk<'_> {
    /// Alternatives are never ratcheted on their own, only with the value as a whole.
    pub(super) fn combinators(
        &self,
        schema: &Schema,
        value: &Value,
        path: &str,
        found: &mut Found,
    ) {
        let checks = &schema.checks;
        let shown = quoted(path);
        if !checks.any_of.is_empty() {
            self.any_of(self.tried(&checks.any_of, value, path), &shown, found);
        }
        if !checks.one_of.is_empty() {
            self.one_of(self.tried(&checks.one_of, value, path), &shown, found);
        }
        if !checks.all_of.is_empty() {
            self.all_of(self.tried(&checks.all_of, value, path), &shown, found);
        }
        if let Some(not) = &checks.not
            && self
                .node(
                    At {
                        schema: not,
                        path,
                        pair: None,
                    },
                    value,
                )
                .is_valid()
        {
            found.add(self.composite(format!("{shown} must not validate the schema (not)")));
        }
        found.passed += 1;
    }

    fn tried(&self, members: &[Schema], value: &Value, path: &str) -> Vec<Found> {
        members
            .iter()
            .map(|schema| {
                self.node(
                    At {
                        schema,
                        path,
                        pair: None,
                    },
                    value,
                )
            })
            .collect()
    }

    fn any_of(&self, tried: Vec<Found>, shown: &str, found: &mut Found) {
        if tried.iter().any(Found::is_valid) {
            found.merge(tried.into_iter().find(Found::is_valid).unwrap_or_default());
            return;
        }
        found.add(self.composite(format!("{shown} must validate at least one schema (anyOf)")));
        found.merge(best(tried));
    }

    fn one_of(&self, tried: Vec<Found>, shown: &str, found: &mut Found) {
        let valid = tried.iter().filter(|found| found.is_valid()).count();
        let prefix = format!("{shown} must validate one and only one schema (oneOf).");
        match valid {
            0 => {
                found.add(self.composite(format!("{prefix} Found none valid")));
                found.merge(best(tried));
            }
            1 => found.merge(tried.into_iter().find(Found::is_valid).unwrap_or_default()),
            _ => {
                found.add(self.composite(format!("{prefix} Found {valid} valid alternatives")));
            }
        }
    }

    fn all_of(&self, tried: Vec<Found>, shown: &str, found: &mut Found) {
        let total = tried.len();
        let valid = tried.iter().filter(|found| found.is_valid()).count();
        for one in tried {
            found.merge(one);
        }
        if valid != total {
            let tail = if valid == 0 { ". None validated" } else { "" };
            let why = format!("{shown} must validate all the schemas (allOf){tail}");
            found.add(self.composite(why));
        }
    }
}

fn best(tried: Vec<Found>) -> Found {
    tried
        .into_iter()
        .reduce(|best, next| {
            if next.passed > best.passed {
                next
            } else {
                best
            }
        })
        .unwrap_or_default()
}
