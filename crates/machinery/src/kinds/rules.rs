//! The rules of types, as a table: what single fields must be, and the code for what holds between them.

use super::check::{Errors, FieldValue};
use super::types::{Rule, Rules};
use super::vocabulary::PROTOCOLS;
use super::{claim, container, pod, pod_containers, scheduling, security, volume};

const fn fields(fields: &'static [(&'static str, Rule)]) -> Rules {
    Rules {
        fields,
        code: None,
        late: None,
    }
}

const fn code(code: fn(&FieldValue<'_>, &mut Errors)) -> Rules {
    Rules {
        fields: &[],
        code: Some(code),
        late: None,
    }
}

const fn both(
    fields: &'static [(&'static str, Rule)],
    code: fn(&FieldValue<'_>, &mut Errors),
) -> Rules {
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
    ("name", Rule::Name),
    ("key", Rule::Needed),
    ("key", Rule::ConfigKey),
];

pub(super) static RULES: &[(&str, Rules)] = &[
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
                ("runtimeClassName", Rule::MaybeName),
                (
                    "preemptionPolicy",
                    Rule::MaybeChosen(&["PreemptLowerPriority", "Never"]),
                ),
            ],
            code: Some(pod::spec),
            late: Some(pod_containers::check),
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
        both(
            &[
                ("labelSelector", Rule::Selector),
                ("nodeAffinityPolicy", Rule::OneOf(&["Honor", "Ignore"])),
                ("nodeTaintsPolicy", Rule::OneOf(&["Honor", "Ignore"])),
            ],
            scheduling::spread,
        ),
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
        both(
            &[
                ("runAsUser", Rule::UserId),
                ("runAsGroup", Rule::UserId),
                ("fsGroup", Rule::UserId),
                ("supplementalGroups", Rule::UserIds),
                (
                    "fsGroupChangePolicy",
                    Rule::OneOf(&["Always", "OnRootMismatch"]),
                ),
                (
                    "supplementalGroupsPolicy",
                    Rule::OneOf(&["Merge", "Strict"]),
                ),
                (
                    "seLinuxChangePolicy",
                    Rule::OneOf(&["MountOption", "Recursive"]),
                ),
            ],
            security::sysctls,
        ),
    ),
    (
        "api.core.v1.SecurityContext",
        both(
            &[
                ("runAsUser", Rule::UserId),
                ("runAsGroup", Rule::UserId),
                ("procMount", Rule::OneOf(&["Default", "Unmasked"])),
            ],
            security::container,
        ),
    ),
    (
        "api.core.v1.SeccompProfile",
        code(|profile, errors| security::profile(profile, errors, true)),
    ),
    (
        "api.core.v1.AppArmorProfile",
        code(|profile, errors| security::profile(profile, errors, false)),
    ),
    (
        "api.core.v1.WindowsSecurityContextOptions",
        code(security::windows),
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
        "api.core.v1.FileKeySelector",
        both(
            &[
                ("key", Rule::Needed),
                ("volumeName", Rule::Needed),
                ("volumeName", Rule::Label),
                ("path", Rule::Needed),
            ],
            container::file_key,
        ),
    ),
    (
        "api.core.v1.ResourceRequirements",
        code(container::resources),
    ),
    (
        "api.core.v1.ContainerRestartRule",
        fields(&[
            ("action", Rule::Among(&["Restart", "RestartAllContainers"])),
            ("exitCodes", Rule::Needed),
            ("exitCodes.operator", Rule::Among(&["In", "NotIn"])),
        ]),
    ),
    (
        "api.core.v1.PodResourceClaim",
        both(
            &[("name", Rule::Needed), ("name", Rule::Label)],
            pod::resource_claim,
        ),
    ),
    ("api.core.v1.VolumeMount", code(container::mount)),
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
        "api.core.v1.GitRepoVolumeSource",
        fields(&[
            ("repository", Rule::Needed),
            ("directory", Rule::Descending),
        ]),
    ),
    (
        "api.core.v1.GCEPersistentDiskVolumeSource",
        fields(&[
            ("pdName", Rule::Needed),
            ("partition", Rule::Within(0, 255)),
        ]),
    ),
    (
        "api.core.v1.AWSElasticBlockStoreVolumeSource",
        fields(&[
            ("volumeID", Rule::Needed),
            ("partition", Rule::Within(0, 255)),
        ]),
    ),
    (
        "api.core.v1.SecretVolumeSource",
        fields(&[
            ("secretName", Rule::Needed),
            ("defaultMode", Rule::FileMode),
        ]),
    ),
    (
        "api.core.v1.NFSVolumeSource",
        both(
            &[("server", Rule::Needed), ("path", Rule::Needed)],
            volume::nfs,
        ),
    ),
    (
        "api.core.v1.ISCSIVolumeSource",
        both(
            &[
                ("targetPortal", Rule::Needed),
                ("iqn", Rule::Needed),
                ("lun", Rule::Within(0, 255)),
            ],
            volume::iscsi,
        ),
    ),
    (
        "api.core.v1.GlusterfsVolumeSource",
        fields(&[("endpoints", Rule::Needed), ("path", Rule::Needed)]),
    ),
    ("api.core.v1.FlockerVolumeSource", code(volume::flocker)),
    (
        "api.core.v1.PersistentVolumeClaimVolumeSource",
        fields(&[("claimName", Rule::Needed)]),
    ),
    (
        "api.core.v1.RBDVolumeSource",
        fields(&[("monitors", Rule::Needed), ("image", Rule::Needed)]),
    ),
    (
        "api.core.v1.CinderVolumeSource",
        fields(&[("volumeID", Rule::Needed), ("secretRef.name", Rule::Needed)]),
    ),
    (
        "api.core.v1.CephFSVolumeSource",
        fields(&[("monitors", Rule::Needed)]),
    ),
    (
        "api.core.v1.QuobyteVolumeSource",
        both(
            &[("registry", Rule::Needed), ("volume", Rule::Needed)],
            volume::quobyte,
        ),
    ),
    (
        "api.core.v1.DownwardAPIVolumeSource",
        both(&[("defaultMode", Rule::FileMode)], volume::downward_files),
    ),
    (
        "api.core.v1.DownwardAPIProjection",
        code(volume::downward_files),
    ),
    ("api.core.v1.FCVolumeSource", code(volume::fibre_channel)),
    (
        "api.core.v1.FlexVolumeSource",
        fields(&[("driver", Rule::Needed)]),
    ),
    (
        "api.core.v1.ConfigMapVolumeSource",
        fields(&[("name", Rule::Needed), ("defaultMode", Rule::FileMode)]),
    ),
    (
        "api.core.v1.AzureFileVolumeSource",
        fields(&[("secretName", Rule::Needed), ("shareName", Rule::Needed)]),
    ),
    (
        "api.core.v1.VsphereVirtualDiskVolumeSource",
        fields(&[("volumePath", Rule::Needed)]),
    ),
    (
        "api.core.v1.PhotonPersistentDiskVolumeSource",
        fields(&[("pdID", Rule::Needed)]),
    ),
    (
        "api.core.v1.PortworxVolumeSource",
        fields(&[("volumeID", Rule::Needed)]),
    ),
    (
        "api.core.v1.AzureDiskVolumeSource",
        both(
            &[
                ("diskName", Rule::Needed),
                ("diskURI", Rule::Needed),
                (
                    "cachingMode",
                    Rule::OneOf(&["None", "ReadOnly", "ReadWrite"]),
                ),
                ("kind", Rule::OneOf(&["Dedicated", "Managed", "Shared"])),
            ],
            volume::azure_disk,
        ),
    ),
    (
        "api.core.v1.StorageOSVolumeSource",
        fields(&[
            ("volumeName", Rule::Needed),
            ("volumeName", Rule::Label),
            ("volumeNamespace", Rule::Label),
            ("secretRef.name", Rule::Needed),
        ]),
    ),
    (
        "api.core.v1.ProjectedVolumeSource",
        both(&[("defaultMode", Rule::FileMode)], volume::projected),
    ),
    (
        "api.core.v1.SecretProjection",
        fields(&[("name", Rule::Needed)]),
    ),
    (
        "api.core.v1.ConfigMapProjection",
        fields(&[("name", Rule::Needed)]),
    ),
    (
        "api.core.v1.ServiceAccountTokenProjection",
        fields(&[("expirationSeconds", Rule::Within(600, 1 << 32))]),
    ),
    (
        "api.core.v1.ClusterTrustBundleProjection",
        both(&[("path", Rule::Needed)], volume::trust_bundle),
    ),
    (
        "api.core.v1.PodCertificateProjection",
        both(
            &[
                (
                    "keyType",
                    Rule::Among(&[
                        "ECDSAP256",
                        "ECDSAP384",
                        "ECDSAP521",
                        "ED25519",
                        "RSA3072",
                        "RSA4096",
                    ]),
                ),
                ("maxExpirationSeconds", Rule::Within(3600, 7_862_400)),
            ],
            volume::pod_certificate,
        ),
    ),
    (
        "api.core.v1.ScaleIOVolumeSource",
        fields(&[
            ("gateway", Rule::Needed),
            ("system", Rule::Needed),
            ("volumeName", Rule::Needed),
        ]),
    ),
    (
        "api.core.v1.CSIVolumeSource",
        fields(&[
            ("driver", Rule::Needed),
            ("nodePublishSecretRef.name", Rule::Needed),
        ]),
    ),
    (
        "api.core.v1.EphemeralVolumeSource",
        both(
            &[("volumeClaimTemplate", Rule::Needed)],
            volume::claim_template,
        ),
    ),
    (
        "api.core.v1.ImageVolumeSource",
        fields(&[
            ("reference", Rule::Needed),
            (
                "pullPolicy",
                Rule::Chosen(&["Always", "IfNotPresent", "Never"]),
            ),
        ]),
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
            ("protocol", Rule::OneOf(PROTOCOLS)),
            ("appProtocol", Rule::Qualified),
        ]),
    ),
    ("api.core.v1.PodDNSConfig", code(pod::dns_config)),
];
