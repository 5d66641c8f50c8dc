//! The kinds and what sets each apart, as data.

use super::{
    Code, Status, Strategy, apps, apps_default, apps_status, batch, claim, config, definition,
    endpoints, event, node, pod, pod_update, prepare, service, service_prepare,
};
use crate::metadata::Generation;
use crate::names::NameRule;

/// No code at all.
const NONE: Code = Code {
    create: |_| {},
    update: |_, _| {},
    status_update: |_, _| {},
    view: None,
    check: |_, _| {},
    check_create: |_, _| {},
    check_update: |_, _, _| {},
    check_status: |_, _, _| {},
};

/// A built-in kind without behaviour.
pub(super) static PLAIN: Strategy = plain("", "");
/// A custom resource whose status is a field like any other.
pub(super) static CUSTOM: Strategy = Strategy {
    generation: Generation::Content,
    status: Status::Field,
    unconditional_update: false,
    ..plain("", "")
};
/// A custom resource with the status subresource, which changes nothing else, not even labels.
pub(super) static CUSTOM_WITH_STATUS: Strategy = Strategy {
    generation: Generation::ContentButStatus,
    unconditional_update: false,
    code: Code {
        status_update: prepare::only_status,
        ..NONE
    },
    ..plain("", "")
};

const fn plain(group: &'static str, named: &'static str) -> Strategy {
    Strategy {
        group,
        named,
        name: NameRule::Subdomain,
        generation: Generation::Untracked,
        status: Status::Dropped,
        unconditional_update: true,
        create_on_update: false,
        fields: &[],
        status_keeps: &[],
        code: NONE,
    }
}

/// A kind whose generation follows its spec.
const fn tracked(group: &'static str, kind: &'static str) -> Strategy {
    Strategy {
        generation: Generation::Spec,
        ..plain(group, kind)
    }
}

/// A kind whose updates must say from which revision they were made.
const fn careful(group: &'static str, kind: &'static str, generation: Generation) -> Strategy {
    Strategy {
        generation,
        unconditional_update: false,
        ..plain(group, kind)
    }
}

/// RBAC: names may be anything that fits into a path.
const fn role(kind: &'static str) -> Strategy {
    let group = "rbac.authorization.k8s.io";
    Strategy {
        name: NameRule::PathSegment,
        create_on_update: true,
        ..plain(group, kind)
    }
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];
const POD_FIELDS: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
];

pub(super) static STRATEGIES: &[Strategy] = &[
    Strategy {
        fields: POD_FIELDS,
        status_keeps: &["ownerReferences"],
        code: Code {
            create: pod::prepare_create,
            update: pod::prepare_update,
            status_update: pod::prepare_status_update,
            check_create: pod::check_create,
            check_update: pod_update::check,
            check_status: pod_update::check_status,
            ..NONE
        },
        ..tracked("", "Pod")
    },
    Strategy {
        generation: Generation::SpecAndAnnotations,
        status_keeps: &["labels"],
        code: Code {
            check: apps::deployment,
            check_update: apps::selector_is_fixed,
            check_status: apps_status::deployment_status,
            ..NONE
        },
        ..tracked("apps", "Deployment")
    },
    Strategy {
        code: Code {
            check: apps::replica_set,
            check_update: apps::selector_is_fixed,
            check_status: apps_status::replica_set_status,
            ..NONE
        },
        ..tracked("apps", "ReplicaSet")
    },
    Strategy {
        name: NameRule::Label,
        code: Code {
            view: Some(apps::with_claims_as_volumes),
            check: apps::stateful_set,
            check_create: apps::stateful_set_create,
            check_update: apps::stateful_set_update,
            check_status: apps_status::stateful_set_status,
            ..NONE
        },
        ..tracked("apps", "StatefulSet")
    },
    Strategy {
        code: Code {
            create: apps_default::prepare_daemon_set,
            update: apps_default::prepare_daemon_set_update,
            check: apps::daemon_set,
            check_update: apps::selector_is_fixed,
            check_status: apps_status::daemon_set_status,
            ..NONE
        },
        ..tracked("apps", "DaemonSet")
    },
    Strategy {
        code: Code {
            check: apps::controller_revision,
            check_create: apps::controller_revision_data,
            check_update: apps::controller_revision_update,
            ..NONE
        },
        ..plain("apps", "ControllerRevision")
    },
    Strategy {
        fields: &["status.successful"],
        code: Code {
            create: batch::prepare_job,
            check: batch::job,
            check_create: batch::job_selector,
            check_update: batch::job_update,
            ..NONE
        },
        ..tracked("batch", "Job")
    },
    tracked("batch", "CronJob"),
    Strategy {
        name: NameRule::Label1035,
        create_on_update: true,
        fields: &["spec.clusterIP", "spec.type"],
        code: Code {
            create: service_prepare::prepare_create,
            update: service_prepare::prepare_update,
            check: service::check,
            check_update: service::check_update,
            check_status: service::check_status,
            ..NONE
        },
        ..plain("", "Service")
    },
    Strategy {
        generation: Generation::Prepared,
        code: Code {
            create: endpoints::prepare_slice,
            update: endpoints::prepare_slice_update,
            check: endpoints::slice,
            check_update: endpoints::slice_update,
            ..NONE
        },
        ..plain("discovery.k8s.io", "EndpointSlice")
    },
    Strategy {
        create_on_update: true,
        code: Code {
            check: endpoints::endpoints,
            check_update: endpoints::endpoints_update,
            ..NONE
        },
        ..plain("", "Endpoints")
    },
    Strategy {
        status: Status::Kept,
        fields: &["spec.unschedulable"],
        code: Code {
            create: node::prepare,
            update: |new, _| node::prepare(new),
            status_update: |new, _| node::prepare(new),
            check: node::check,
            check_update: node::check_update,
            check_status: node::check_status,
            ..NONE
        },
        ..plain("", "Node")
    },
    Strategy {
        create_on_update: true,
        code: Code {
            check: config::lease,
            ..NONE
        },
        ..careful("coordination.k8s.io", "Lease", Generation::Untracked)
    },
    Strategy {
        code: Code {
            check: config::config_map,
            check_update: config::config_map_update,
            ..NONE
        },
        ..plain("", "ConfigMap")
    },
    Strategy {
        fields: &["type"],
        code: Code {
            update: config::prepare_secret_update,
            check: config::secret,
            check_update: config::secret_update,
            ..NONE
        },
        ..plain("", "Secret")
    },
    Strategy {
        name: NameRule::Label,
        fields: &["status.phase"],
        code: Code {
            create: config::prepare_namespace,
            update: config::prepare_namespace_update,
            check: config::namespace,
            check_status: config::namespace_status,
            ..NONE
        },
        ..plain("", "Namespace")
    },
    Strategy {
        code: Code {
            create: config::prepare_service_account,
            update: |new, _| config::prepare_service_account(new),
            ..NONE
        },
        ..plain("", "ServiceAccount")
    },
    Strategy {
        code: Code {
            create: claim::prepare_create,
            update: claim::prepare_update,
            status_update: claim::prepare_status_update,
            check_update: claim::check_update,
            check_status: claim::check_status,
            ..NONE
        },
        ..plain("", "PersistentVolumeClaim")
    },
    Strategy {
        create_on_update: true,
        fields: EVENT_FIELDS,
        code: Code {
            check: event::core,
            ..NONE
        },
        ..plain("", "Event")
    },
    Strategy {
        create_on_update: true,
        fields: event::FIELDS,
        code: Code {
            check: event::common,
            check_create: event::create,
            check_update: event::update,
            ..NONE
        },
        ..plain("events.k8s.io", "Event")
    },
    Strategy {
        code: Code {
            check: apps::disruption_budget,
            ..NONE
        },
        ..careful("policy", "PodDisruptionBudget", Generation::Spec)
    },
    Strategy {
        status_keeps: &["labels", "annotations", "finalizers", "ownerReferences"],
        code: Code {
            create: definition::prepare_create,
            update: definition::prepare_update,
            check: definition::check,
            check_create: definition::check_name,
            check_update: definition::check_update,
            ..NONE
        },
        ..careful(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            Generation::Spec,
        )
    },
    // Kinds that only differ in what the generic verbs allow.
    Strategy {
        fields: &["status.replicas"],
        ..tracked("", "ReplicationController")
    },
    Strategy {
        generation: Generation::Content,
        ..plain("", "PodTemplate")
    },
    Strategy {
        create_on_update: true,
        ..plain("", "LimitRange")
    },
    tracked("autoscaling", "HorizontalPodAutoscaler"),
    tracked("networking.k8s.io", "Ingress"),
    tracked("networking.k8s.io", "IngressClass"),
    tracked("networking.k8s.io", "NetworkPolicy"),
    tracked("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    tracked("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
    tracked("resource.k8s.io", "DeviceClass"),
    tracked("resource.k8s.io", "ResourceSlice"),
    tracked("resource.k8s.io", "DeviceTaintRule"),
    role("Role"),
    role("RoleBinding"),
    role("ClusterRole"),
    role("ClusterRoleBinding"),
    Strategy {
        fields: &["spec.signerName"],
        ..plain("certificates.k8s.io", "CertificateSigningRequest")
    },
    careful(
        "certificates.k8s.io",
        "ClusterTrustBundle",
        Generation::Untracked,
    ),
    careful(
        "certificates.k8s.io",
        "PodCertificateRequest",
        Generation::Untracked,
    ),
    Strategy {
        create_on_update: true,
        fields: &["spec.leaseName"],
        ..careful(
            "coordination.k8s.io",
            "LeaseCandidate",
            Generation::Untracked,
        )
    },
    Strategy {
        create_on_update: true,
        ..careful("node.k8s.io", "RuntimeClass", Generation::Untracked)
    },
    careful("storage.k8s.io", "CSIDriver", Generation::Spec),
    careful("storage.k8s.io", "CSINode", Generation::Untracked),
    careful(
        "storage.k8s.io",
        "CSIStorageCapacity",
        Generation::Untracked,
    ),
    careful("storage.k8s.io", "VolumeAttachment", Generation::Untracked),
    careful(
        "apiregistration.k8s.io",
        "APIService",
        Generation::Untracked,
    ),
    careful("scheduling.k8s.io", "Workload", Generation::Untracked),
    careful("scheduling.k8s.io", "PodGroup", Generation::Untracked),
    careful(
        "storagemigration.k8s.io",
        "StorageVersionMigration",
        Generation::Untracked,
    ),
    careful(
        "internal.apiserver.k8s.io",
        "StorageVersion",
        Generation::Untracked,
    ),
    careful(
        ADMISSION,
        "MutatingWebhookConfiguration",
        Generation::Content,
    ),
    careful(
        ADMISSION,
        "ValidatingWebhookConfiguration",
        Generation::Content,
    ),
    careful(ADMISSION, "ValidatingAdmissionPolicy", Generation::Spec),
    careful(
        ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        Generation::Spec,
    ),
    careful(ADMISSION, "MutatingAdmissionPolicy", Generation::Spec),
    careful(
        ADMISSION,
        "MutatingAdmissionPolicyBinding",
        Generation::Spec,
    ),
    Strategy {
        generation: Generation::Content,
        ..plain("scheduling.k8s.io", "PriorityClass")
    },
];
