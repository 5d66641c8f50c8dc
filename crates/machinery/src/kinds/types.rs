//! Rules that hang on types: most as data, those between fields as code.

use super::check::{Errors, Place};
use super::vocabulary::{self, PROTOCOLS};
use super::{claim, container, pod, scheduling, volume, walk};
use crate::names;
use crate::table::Shape;
use serde_json::Value;
use std::sync::OnceLock;

/// What one field must be; an absent or empty field is only judged by `Needed` and `Chosen`.
enum Rule {
    /// There must be something.
    Needed,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// One of these, and not nothing.
    Chosen(&'static [&'static str]),
    NotNegative,
    /// A port number, and not nothing.
    Port,
    /// A port number or nothing.
    MaybePort,
    /// A port number or the name of a port.
    PortOrName,
    Label,
    Subdomain,
    Qualified,
    Labels,
    /// A label selector, if there is one.
    Selector,
    ConfigKey,
    FileMode,
    UserId,
}

struct Rules {
    fields: &'static [(&'static str, Rule)],
    code: Option<fn(&Place<'_>, &mut Errors)>,
    /// Judged when everything else was, and knows what was found.
    late: Option<fn(&Place<'_>, &mut Errors)>,
}

/// Reports everything in an object that breaks a rule of its type.
pub(super) fn check(object: &Value, shape: Shape<'_>, errors: &mut Errors) {
    static INDEX: OnceLock<walk::Index<Rules>> = OnceLock::new();
    let index = INDEX.get_or_init(|| walk::Index::new(RULES));
    let mut late = Vec::new();
    walk::visit(object, shape, &mut |value, path, shape| {
        let Some(rules) = index.of(shape) else { return };
        let place = Place::new(value, path);
        for (name, rule) in rules.fields {
            rule.judge(&place.at(name), errors);
        }
        if let Some(code) = rules.code {
            code(&place, errors);
        }
        late.extend(rules.late.map(|rule| (rule, place)));
    });
    // Children first: a pod wants to know which of its volumes are sound.
    for (rule, place) in late.into_iter().rev() {
        rule(&place, errors);
    }
}

impl Rule {
    fn judge(&self, field: &Place<'_>, errors: &mut Errors) {
        match self {
            Self::Needed => {
                field.needed(errors);
            }
            Self::Chosen(supported) => {
                if field.needed(errors) {
                    field.one_of(errors, supported);
                }
            }
            Self::Port => field.complain(errors, vocabulary::port(field.number())),
            _ if field.is_empty() => {}
            Self::OneOf(supported) => field.one_of(errors, supported),
            Self::NotNegative => field.not_negative(errors),
            Self::MaybePort if field.number() == 0 => {}
            Self::MaybePort => field.complain(errors, vocabulary::port(field.number())),
            Self::PortOrName => field.port_or_name(errors),
            Self::Label => field.dns_label(errors),
            Self::Subdomain => field.dns_subdomain(errors),
            Self::Qualified => field.complain(errors, names::qualified_name(field.text())),
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
            Self::UserId => field.complain(
                errors,
                vocabulary::between(field.number(), 0, i64::from(i32::MAX)),
            ),
        }
    }
}

const fn fields(fields: &'static [(&'static str, Rule)]) -> Rules {
    Rules {
        fields,
        code: None,
        late: None,
    }
}

const fn code(code: fn(&Place<'_>, &mut Errors)) -> Rules {
    Rules {
        fields: &[],
        code: Some(code),
        late: None,
    }
}

const fn both(fields: &'static [(&'static str, Rule)], code: fn(&Place<'_>, &mut Errors)) -> Rules {
    Rules {
        fields,
        code: Some(code),
        late: None,
    }
}

const CONTAINER: &[(&str, Rule)] = &[
    ("name", Rule::Needed),
    ("name", Rule::Label),
    ("image", Rule::Needed),
    (
        "terminationMessagePolicy",
        Rule::Chosen(&["File", "FallbackToLogsOnError"]),
    ),
    (
        "imagePullPolicy",
        Rule::Chosen(&["Always", "IfNotPresent", "Never"]),
    ),
];
const KEY_SELECTOR: &[(&str, Rule)] = &[
    ("name", Rule::Subdomain),
    ("key", Rule::Needed),
    ("key", Rule::ConfigKey),
];

static RULES: &[(&str, Rules)] = &[
    (
        "api.core.v1.PodSpec",
        Rules {
            fields: &[
                (
                    "restartPolicy",
                    Rule::Chosen(&["Always", "OnFailure", "Never"]),
                ),
                (
                    "dnsPolicy",
                    Rule::Chosen(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]),
                ),
                ("nodeSelector", Rule::Labels),
                ("serviceAccountName", Rule::Subdomain),
                ("nodeName", Rule::Subdomain),
                ("hostname", Rule::Label),
                ("subdomain", Rule::Label),
                ("priorityClassName", Rule::Subdomain),
                ("runtimeClassName", Rule::Subdomain),
                (
                    "preemptionPolicy",
                    Rule::OneOf(&["PreemptLowerPriority", "Never"]),
                ),
            ],
            code: Some(pod::spec),
            late: Some(pod::mounts_have_volumes),
        },
    ),
    ("api.core.v1.PodTemplateSpec", code(pod::template)),
    (
        "api.core.v1.PodReadinessGate",
        code(scheduling::readiness_gate),
    ),
    (
        "api.core.v1.Toleration",
        both(&[("key", Rule::Qualified)], scheduling::toleration),
    ),
    (
        "api.core.v1.TopologySpreadConstraint",
        both(&[("labelSelector", Rule::Selector)], scheduling::spread),
    ),
    (
        "api.core.v1.PodAffinityTerm",
        both(
            &[("labelSelector", Rule::Selector)],
            scheduling::affinity_term,
        ),
    ),
    (
        "api.core.v1.PreferredSchedulingTerm",
        code(scheduling::weight),
    ),
    (
        "api.core.v1.WeightedPodAffinityTerm",
        code(scheduling::weight),
    ),
    ("api.core.v1.NodeSelector", code(scheduling::node_selector)),
    (
        "api.core.v1.NodeSelectorRequirement",
        code(scheduling::node_requirement),
    ),
    ("api.core.v1.HostAlias", code(pod::host_alias)),
    (
        "api.core.v1.PodSecurityContext",
        fields(&[
            ("runAsUser", Rule::UserId),
            ("runAsGroup", Rule::UserId),
            ("fsGroup", Rule::UserId),
            (
                "fsGroupChangePolicy",
                Rule::OneOf(&["Always", "OnRootMismatch"]),
            ),
        ]),
    ),
    (
        "api.core.v1.SecurityContext",
        both(
            &[("runAsUser", Rule::UserId), ("runAsGroup", Rule::UserId)],
            container::security,
        ),
    ),
    (
        "api.core.v1.Container",
        both(CONTAINER, container::container),
    ),
    (
        "api.core.v1.EphemeralContainer",
        both(CONTAINER, container::container),
    ),
    (
        "api.core.v1.ContainerPort",
        both(
            &[
                ("hostPort", Rule::MaybePort),
                ("protocol", Rule::Chosen(PROTOCOLS)),
            ],
            container::port,
        ),
    ),
    ("api.core.v1.EnvVar", code(container::env)),
    ("api.core.v1.EnvFromSource", code(container::env_from)),
    ("api.core.v1.ConfigMapKeySelector", fields(KEY_SELECTOR)),
    ("api.core.v1.SecretKeySelector", fields(KEY_SELECTOR)),
    (
        "api.core.v1.ResourceRequirements",
        code(container::resources),
    ),
    (
        "api.core.v1.Probe",
        Rules {
            fields: &[
                ("initialDelaySeconds", Rule::NotNegative),
                ("timeoutSeconds", Rule::NotNegative),
                ("periodSeconds", Rule::NotNegative),
                ("successThreshold", Rule::NotNegative),
                ("failureThreshold", Rule::NotNegative),
            ],
            code: Some(container::probe),
            late: Some(container::first_handler),
        },
    ),
    (
        "api.core.v1.LifecycleHandler",
        Rules {
            fields: &[],
            code: Some(container::handler),
            late: Some(container::first_handler),
        },
    ),
    (
        "api.core.v1.ExecAction",
        fields(&[("command", Rule::Needed)]),
    ),
    (
        "api.core.v1.HTTPGetAction",
        fields(&[
            ("path", Rule::Needed),
            ("port", Rule::PortOrName),
            ("scheme", Rule::OneOf(&["HTTP", "HTTPS"])),
        ]),
    ),
    (
        "api.core.v1.TCPSocketAction",
        fields(&[("port", Rule::PortOrName)]),
    ),
    ("api.core.v1.GRPCAction", fields(&[("port", Rule::Port)])),
    (
        "api.core.v1.Volume",
        Rules {
            fields: &[("name", Rule::Needed), ("name", Rule::Label)],
            code: Some(volume::volume),
            late: Some(volume::first_source),
        },
    ),
    (
        "api.core.v1.HostPathVolumeSource",
        both(&[("path", Rule::Needed)], volume::host_path),
    ),
    (
        "api.core.v1.SecretVolumeSource",
        fields(&[
            ("secretName", Rule::Needed),
            ("defaultMode", Rule::FileMode),
        ]),
    ),
    (
        "api.core.v1.ConfigMapVolumeSource",
        fields(&[("name", Rule::Needed), ("defaultMode", Rule::FileMode)]),
    ),
    (
        "api.core.v1.DownwardAPIVolumeSource",
        fields(&[("defaultMode", Rule::FileMode)]),
    ),
    (
        "api.core.v1.ProjectedVolumeSource",
        fields(&[("defaultMode", Rule::FileMode)]),
    ),
    (
        "api.core.v1.PersistentVolumeClaimVolumeSource",
        fields(&[("claimName", Rule::Needed)]),
    ),
    (
        "api.core.v1.NFSVolumeSource",
        both(
            &[("server", Rule::Needed), ("path", Rule::Needed)],
            volume::nfs,
        ),
    ),
    (
        "api.core.v1.KeyToPath",
        both(
            &[
                ("key", Rule::Needed),
                ("path", Rule::Needed),
                ("mode", Rule::FileMode),
            ],
            volume::key_to_path,
        ),
    ),
    (
        "api.core.v1.PersistentVolumeClaimSpec",
        both(&[("selector", Rule::Selector)], claim::spec),
    ),
    (
        "api.core.v1.ServicePort",
        fields(&[
            ("port", Rule::Port),
            ("name", Rule::Label),
            ("protocol", Rule::Chosen(PROTOCOLS)),
            ("targetPort", Rule::PortOrName),
            ("appProtocol", Rule::Qualified),
        ]),
    ),
    (
        "api.core.v1.EndpointPort",
        fields(&[
            ("name", Rule::Label),
            ("port", Rule::Port),
            ("protocol", Rule::Chosen(PROTOCOLS)),
            ("appProtocol", Rule::Qualified),
        ]),
    ),
    (
        "api.discovery.v1.EndpointPort",
        fields(&[
            ("name", Rule::Label),
            ("protocol", Rule::Chosen(PROTOCOLS)),
            ("appProtocol", Rule::Qualified),
        ]),
    ),
    ("api.core.v1.PodDNSConfig", code(pod::dns_config)),
];
