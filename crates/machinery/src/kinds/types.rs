//! Rules that hang on types: most as data, those between fields as code.

use super::check::{Errors, FieldValue};
use super::rules::RULES;
use super::{vocabulary, walk};
use crate::names;
use crate::table::Shape;
use serde_json::Value;
use std::sync::OnceLock;

/// What one field must be; an absent or empty field is only validated by `Needed`, `Chosen`, `Port` and
/// `Name`. A field is named by its path; one whose parent is absent is not validated.
pub(super) enum Rule {
    /// There must be something.
    Needed,
    /// One of these values, if there is one.
    OneOf(&'static [&'static str]),
    /// One of these; nothing is another.
    Among(&'static [&'static str]),
    /// One of these, and not nothing.
    Chosen(&'static [&'static str]),
    /// The same, if it is there.
    MaybeChosen(&'static [&'static str]),
    NotNegative,
    /// A port number, and not nothing.
    Port,
    /// A port number or nothing.
    MaybePort,
    /// A port number or the name of a port.
    PortOrName,
    Label,
    Subdomain,
    /// A DNS subdomain, and not nothing.
    Name,
    /// The same, if it is there.
    MaybeName,
    Qualified,
    Labels,
    /// A label selector, if there is one.
    Selector,
    ConfigKey,
    FileMode,
    UserId,
    /// A list of user ids.
    UserIds,
    /// A number from the first to the second.
    Within(i64, i64),
    /// A path that stays below where it starts.
    Descending,
}

pub(super) struct Rules {
    pub(super) fields: &'static [(&'static str, Rule)],
    pub(super) code: Option<fn(&FieldValue<'_>, &mut Errors)>,
    /// Runs after everything else, and knows what was found.
    pub(super) late: Option<fn(&FieldValue<'_>, &mut Errors)>,
}

/// Reports everything in an object that breaks a rule of its type.
pub(super) fn check(object: &Value, shape: Shape<'_>, errors: &mut Errors) {
    static INDEX: OnceLock<walk::Index<Rules>> = OnceLock::new();
    let index = INDEX.get_or_init(|| walk::Index::new(RULES));
    let mut late = Vec::new();
    walk::visit(object, shape, &mut |value, path, shape| {
        let Some(rules) = index.get(shape) else {
            return;
        };
        let value = FieldValue::new(value, path);
        for (name, rule) in rules.fields {
            if let Some(field) = value.within(name) {
                rule.check(&field, errors);
            }
        }
        if let Some(code) = rules.code {
            code(&value, errors);
        }
        late.extend(rules.late.map(|rule| (rule, value)));
    });
    // Children first: a pod wants to know which of its volumes are sound.
    for (rule, value) in late.into_iter().rev() {
        rule(&value, errors);
    }
}

impl Rule {
    fn check(&self, field: &FieldValue<'_>, errors: &mut Errors) {
        match self {
            Self::Needed => {
                field.needed(errors);
            }
            Self::Port => field.complain(errors, vocabulary::port(field.number())),
            Self::Among(supported) => {
                if !supported.contains(&field.text()) {
                    field.unsupported(errors, supported);
                }
            }
            Self::OneOf(supported) => field.one_of(errors, supported),
            Self::MaybeName | Self::MaybeChosen(_) | Self::Qualified if !field.is_set() => {}
            Self::Name | Self::MaybeName => {
                field.complain(errors, names::dns_subdomain(field.text()));
            }
            Self::Chosen(supported) | Self::MaybeChosen(supported) => {
                if field.needed(errors) {
                    field.one_of(errors, supported);
                }
            }
            Self::Qualified => field.complain(errors, names::qualified_name(field.text())),
            _ if field.is_empty() => {}
            Self::NotNegative => field.not_negative(errors),
            Self::MaybePort if field.number() == 0 => {}
            Self::MaybePort => field.complain(errors, vocabulary::port(field.number())),
            Self::PortOrName => field.port_or_name(errors),
            Self::Label => field.dns_label(errors),
            Self::Subdomain => field.dns_subdomain(errors),
            Self::Labels => field.labels(errors),
            Self::Selector => {
                field.selector(errors);
            }
            Self::ConfigKey => field.complain(errors, vocabulary::config_key(field.text())),
            Self::FileMode => {
                let why = "must be a number between 0 and 0777 (octal), both inclusive";
                let wrong = !(0..=0o777).contains(&field.number());
                field.complain(errors, vocabulary::complaint(wrong, why));
            }
            Self::UserId => Self::Within(0, i64::from(i32::MAX)).check(field, errors),
            Self::UserIds => {
                let check = |id: FieldValue<'_>| Self::UserId.check(&id, errors);
                field.items().into_iter().for_each(check);
            }
            Self::Within(low, high) => {
                field.complain(errors, vocabulary::between(field.number(), *low, *high));
            }
            Self::Descending => field.complain(errors, vocabulary::descending_path(field.text())),
        }
    }
}
