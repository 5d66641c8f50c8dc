//! Plausible values by the name of a field: tables, read from the most specific entry.

use serde_json::{Map, Value};

use crate::rng::Rng;

/// Fields of which only one may be set, by the end of their parent's path.
pub(crate) const UNIONS: &[(&str, &[&str])] = &[
    ("env", &["value", "valueFrom"]),
    (
        "valueFrom",
        &[
            "fieldRef",
            "resourceFieldRef",
            "configMapKeyRef",
            "secretKeyRef",
            "fileKeyRef",
        ],
    ),
    ("envFrom", &["configMapRef", "secretRef"]),
    ("livenessProbe", PROBES),
    ("readinessProbe", PROBES),
    ("startupProbe", PROBES),
    ("postStart", PROBES),
    ("preStop", PROBES),
    ("items", &["fieldRef", "resourceFieldRef"]),
    (
        "sources",
        &[
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ],
    ),
    ("volumes", VOLUMES),
    ("clusterTrustBundle", &["name", "signerName"]),
    ("spec", &["dataSource", "dataSourceRef"]),
    ("state", &["running", "terminated", "waiting"]),
    ("lastState", &["running", "terminated", "waiting"]),
];

const PROBES: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

const VOLUMES: &[&str] = &[
    "hostPath",
    "emptyDir",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "downwardAPI",
    "fc",
    "azureFile",
    "configMap",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "projected",
    "portworxVolume",
    "scaleIO",
    "storageos",
    "csi",
    "ephemeral",
    "image",
];

/// What an object must have beside the fields that its type requires.
const COMPANIONS: &[(&str, &str)] = &[
    ("containers", r#"{"image":"example/app:1"}"#),
    ("initContainers", r#"{"image":"example/init:1"}"#),
    ("ephemeralContainers", r#"{"image":"example/debug:1"}"#),
    ("livenessProbe", r#"{"httpGet":{"port":8080}}"#),
    ("readinessProbe", r#"{"tcpSocket":{"port":"http"}}"#),
    ("startupProbe", r#"{"exec":{"command":["true"]}}"#),
    ("postStart", r#"{"exec":{"command":["true"]}}"#),
    ("preStop", r#"{"sleep":{"seconds":3}}"#),
    ("exec", r#"{"command":["true"]}"#),
    ("volumes", r#"{"emptyDir":{}}"#),
    ("volumes.configMap", r#"{"name":"settings"}"#),
    ("volumes.secret", r#"{"secretName":"keys"}"#),
    ("sources", r#"{"configMap":{"name":"settings"}}"#),
    ("sources.configMap", r#"{"name":"settings"}"#),
    ("sources.secret", r#"{"name":"keys"}"#),
    ("sources.clusterTrustBundle", r#"{"name":"trust"}"#),
    (
        "projected",
        r#"{"sources":[{"configMap":{"name":"settings"}}]}"#,
    ),
    (
        "volumes.fc",
        r#"{"targetWWNs":["50060e801049cfd1"],"lun":1}"#,
    ),
    ("volumes.image", r#"{"reference":"example/data:1"}"#),
    ("configMapKeyRef", r#"{"name":"settings"}"#),
    ("secretKeyRef", r#"{"name":"keys"}"#),
    ("configMapRef", r#"{"name":"settings"}"#),
    ("secretRef", r#"{"name":"keys"}"#),
    ("envFrom", r#"{"configMapRef":{"name":"settings"}}"#),
    (
        "downwardAPI.items",
        r#"{"fieldRef":{"fieldPath":"metadata.name"}}"#,
    ),
    ("volumeClaimTemplate.spec", CLAIM),
    ("volumeClaimTemplates.spec", CLAIM),
    (
        "volumeClaimTemplates",
        r#"{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}"#,
    ),
    ("seccompProfile", r#"{"type":"RuntimeDefault"}"#),
    ("appArmorProfile", r#"{"type":"RuntimeDefault"}"#),
    ("ports", "{}"),
    (
        "requiredDuringSchedulingIgnoredDuringExecution",
        r#"{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"Exists"}]}]}"#,
    ),
    (
        "nodeSelectorTerms",
        r#"{"matchExpressions":[{"key":"zone","operator":"Exists"}]}"#,
    ),
    (
        "preference",
        r#"{"matchExpressions":[{"key":"zone","operator":"Exists"}]}"#,
    ),
    (
        "podAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        r#"{"topologyKey":"zone","labelSelector":{"matchLabels":{"app":"web"}}}"#,
    ),
    (
        "podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        r#"{"topologyKey":"zone","labelSelector":{"matchLabels":{"app":"web"}}}"#,
    ),
    ("tolerations", r#"{"operator":"Exists"}"#),
    ("dnsConfig.options", r#"{"name":"ndots"}"#),
    ("hostAliases", r#"{"hostnames":["db.example"]}"#),
    ("imagePullSecrets", r#"{"name":"pull"}"#),
    (
        "dataSource",
        r#"{"apiGroup":"snapshot.storage.k8s.io","kind":"VolumeSnapshot","name":"before"}"#,
    ),
    (
        "dataSourceRef",
        r#"{"apiGroup":"snapshot.storage.k8s.io","kind":"VolumeSnapshot","name":"before"}"#,
    ),
    (
        "sessionAffinityConfig",
        r#"{"clientIP":{"timeoutSeconds":60}}"#,
    ),
    ("loadBalancer.ingress", r#"{"ip":"192.0.2.1"}"#),
    ("securityContext.sysctls", "{}"),
    ("resourceClaims", r#"{"resourceClaimName":"gpu"}"#),
    ("schedulingGroup", r#"{"podGroupName":"group"}"#),
];

const CLAIM: &str =
    r#"{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}"#;

/// Values of whole subtrees that are easier given than built.
const SUBTREES: &[(&str, &str)] = &[
    ("selector.matchLabels", r#"[{"app":"web"}]"#),
    (
        "template.metadata.labels",
        r#"[{"app":"web"},{"app":"web","tier":"front"}]"#,
    ),
    (
        "resources.requests",
        r#"[{"cpu":"100m"},{"cpu":"250m","memory":"64Mi"}]"#,
    ),
    (
        "resources.limits",
        r#"[{"cpu":"500m"},{"cpu":"1","memory":"128Mi"}]"#,
    ),
    (
        "volumeClaimTemplate.spec.resources.requests",
        r#"[{"storage":"1Gi"}]"#,
    ),
    (
        "volumeClaimTemplates.spec.resources.requests",
        r#"[{"storage":"1Gi"}]"#,
    ),
    (
        "accessModes",
        r#"[["ReadWriteOnce"],["ReadWriteMany"],["ReadOnlyMany","ReadWriteOnce"]]"#,
    ),
    (
        "metadata.finalizers",
        r#"[["example.com/hold"],["example.com/hold","example.com/wait"]]"#,
    ),
    (
        "metadata.labels",
        r#"[{"app":"web"},{"app":"web","tier":"front"},{"tier":"back"}]"#,
    ),
    (
        "annotations",
        r#"[{"note":"one"},{"example.com/note":"two","other":"three"}]"#,
    ),
    ("command", r#"[["run"],["sh","-c","true"]]"#),
    ("args", r#"[["--verbose"],["a","b"]]"#),
    ("fieldsV1", "[{}]"),
    (
        "data",
        r#"[{"first":"YWxwaGE="},{"first":"YmV0YQ==","second":"YWxwaGE="}]"#,
    ),
    ("add", r#"[["NET_ADMIN"],["CHOWN","KILL"]]"#),
    ("drop", r#"[["ALL"]]"#),
    ("podCIDRs", r#"[["10.2.0.0/24"]]"#),
    ("clusterIPs", r#"[["None"]]"#),
    ("ipFamilies", r#"[["IPv4"]]"#),
    ("targetWWNs", r#"[["50060e801049cfd1"]]"#),
    ("wwids", r#"[["3600508b400105e210000900000490000"]]"#),
    ("monitors", r#"[["mon-1:6789"]]"#),
    ("portals", r#"[["10.0.2.15:3261"]]"#),
    ("supplementalGroups", "[[1000],[1000,2000]]"),
    (
        "nameservers",
        r#"[["192.0.2.53"],["192.0.2.53","192.0.2.54"]]"#,
    ),
    ("searches", r#"[["example.com"],["a.example","b.example"]]"#),
    ("hostnames", r#"[["db.example"],["a.example","b.example"]]"#),
    ("externalIPs", r#"[["192.0.2.7"]]"#),
    ("loadBalancerSourceRanges", r#"[["192.0.2.0/24"]]"#),
    ("matchLabelKeys", r#"[["pod-template-hash"]]"#),
    ("mismatchLabelKeys", r#"[["pod-template-hash"]]"#),
    ("mountOptions", r#"[["ro"]]"#),
    (
        "endpoints.addresses",
        r#"[["10.1.0.1"],["10.1.0.2"],["10.1.0.3"]]"#,
    ),
];

const SCALARS: &[(&str, &str)] = &[
    ("metadata.name", r#"["data"]"#),
    ("metadata.namespace", r#"["diff"]"#),
    ("metadata.generateName", r#"["gen-"]"#),
    (
        "metadata.uid",
        r#"["11111111-2222-4333-8444-555555555555"]"#,
    ),
    ("ownerReferences.apiVersion", r#"["apps/v1","v1"]"#),
    ("ownerReferences.kind", r#"["ReplicaSet","Node"]"#),
    ("ownerReferences.name", r#"["owner","other"]"#),
    (
        "ownerReferences.uid",
        r#"["11111111-2222-4333-8444-555555555555"]"#,
    ),
    ("labels", r#"["one","two"]"#),
    ("containers.name", r#"["main","side"]"#),
    ("initContainers.name", r#"["init","prepare"]"#),
    ("ephemeralContainers.name", r#"["debug"]"#),
    ("targetContainerName", r#"["main"]"#),
    ("containerName", r#"["main"]"#),
    ("image", r#"["example/app:1","example/app:2"]"#),
    ("imagePullPolicy", r#"["Always","IfNotPresent","Never"]"#),
    ("pullPolicy", r#"["Always","IfNotPresent","Never"]"#),
    (
        "terminationMessagePolicy",
        r#"["File","FallbackToLogsOnError"]"#,
    ),
    (
        "terminationMessagePath",
        r#"["/dev/termination-log","/tmp/last"]"#,
    ),
    ("workingDir", r#"["/srv","/"]"#),
    ("restartPolicy", r#"["Always"]"#),
    (
        "containers.restartPolicy",
        r#"["Always","Never","OnFailure"]"#,
    ),
    ("restartPolicyRules.action", r#"["Restart"]"#),
    ("exitCodes.operator", r#"["In","NotIn"]"#),
    (
        "dnsPolicy",
        r#"["ClusterFirst","Default","None","ClusterFirstWithHostNet"]"#,
    ),
    ("hostNetwork", "[false,true]"),
    ("hostPID", "[true]"),
    ("priority", "[0]"),
    ("priorityClassName", r#"["system-node-critical"]"#),
    ("preemptionPolicy", r#"["PreemptLowerPriority","Never"]"#),
    (
        "schedulerName",
        r#"["default-scheduler","other-scheduler"]"#,
    ),
    ("serviceAccountName", r#"["default","robot"]"#),
    ("serviceAccount", r#"["default","robot"]"#),
    ("nodeName", r#"["node-1","node-2"]"#),
    ("hostname", r#"["host-1"]"#),
    ("subdomain", r#"["sub"]"#),
    ("hostnameOverride", r#"["host-2"]"#),
    ("runtimeClassName", r#"["fast"]"#),
    ("os.name", r#"["linux"]"#),
    ("env.name", r#"["MODE","LEVEL"]"#),
    ("env.value", r#"["a","b $(MODE)"]"#),
    ("envFrom.prefix", r#"["PRE_"]"#),
    ("fieldPath", r#"["metadata.name","status.podIP"]"#),
    ("involvedObject.fieldPath", r#"["spec.containers{main}"]"#),
    ("fieldRef.apiVersion", r#"["v1"]"#),
    (
        "resourceFieldRef.resource",
        r#"["limits.cpu","requests.memory"]"#,
    ),
    ("divisor", r#"["1","1m"]"#),
    ("configMapKeyRef.key", r#"["first"]"#),
    ("secretKeyRef.key", r#"["first"]"#),
    ("fileKeyRef.path", r#"["env/file"]"#),
    ("fileKeyRef.key", r#"["MODE"]"#),
    ("fileKeyRef.volumeName", r#"["data"]"#),
    ("items.key", r#"["first","second"]"#),
    ("items.path", r#"["a/first","second"]"#),
    ("items.mode", "[256,420]"),
    ("defaultMode", "[256,420]"),
    ("ports.name", r#"["http","web"]"#),
    ("ports.containerPort", "[8080,8081,9090]"),
    ("ports.hostPort", "[8080,9090]"),
    ("ports.hostIP", r#"["192.0.2.1"]"#),
    ("protocol", r#"["TCP","UDP","SCTP"]"#),
    ("ports.port", "[80,443]"),
    ("ports.appProtocol", r#"["http","kubernetes.io/h2c"]"#),
    ("nodePort", "[30010,30020]"),
    ("port", "[8080,80]"),
    ("httpGet.port", r#"[8080,"http"]"#),
    ("tcpSocket.port", r#"[8080,"http"]"#),
    ("targetPort", r#"[8080,"http"]"#),
    ("httpGet.scheme", r#"["HTTP","HTTPS"]"#),
    ("httpGet.path", r#"["/","/healthz"]"#),
    ("httpGet.host", r#"["localhost"]"#),
    ("httpHeaders.name", r#"["X-Check"]"#),
    ("grpc.service", r#"["health"]"#),
    ("successThreshold", "[1]"),
    ("stopSignal", r#"["SIGTERM","SIGUSR1"]"#),
    ("probe.terminationGracePeriodSeconds", "[10]"),
    ("resizePolicy.resourceName", r#"["cpu","memory"]"#),
    (
        "resizePolicy.restartPolicy",
        r#"["NotRequired","RestartContainer"]"#,
    ),
    ("capabilities", r#"["NET_ADMIN"]"#),
    ("procMount", r#"["Default"]"#),
    ("seccompProfile.type", r#"["RuntimeDefault","Unconfined"]"#),
    ("appArmorProfile.type", r#"["RuntimeDefault","Unconfined"]"#),
    ("localhostProfile", r#"["profiles/a.json"]"#),
    ("fsGroupChangePolicy", r#"["OnRootMismatch","Always"]"#),
    ("supplementalGroupsPolicy", r#"["Merge","Strict"]"#),
    ("seLinuxChangePolicy", r#"["MountOption","Recursive"]"#),
    ("sysctls.name", r#"["net.core.somaxconn"]"#),
    ("hostProcess", "[false]"),
    ("volumeMounts.name", r#"["data","cache"]"#),
    ("volumeMounts.mountPath", r#"["/data","/cache"]"#),
    ("volumeMounts.subPath", r#"["sub/dir"]"#),
    ("volumeMounts.subPathExpr", r#"["$(MODE)"]"#),
    ("mountPropagation", r#"["None","HostToContainer"]"#),
    ("recursiveReadOnly", r#"["Disabled"]"#),
    ("volumeDevices.name", r#"["data"]"#),
    ("volumeDevices.devicePath", r#"["/dev/xvda"]"#),
    ("volumes.name", r#"["data","cache"]"#),
    ("hostPath.path", r#"["/srv/data"]"#),
    ("hostPath.type", r#"["","Directory","File"]"#),
    ("emptyDir.medium", r#"["","Memory"]"#),
    ("medium", r#"["","Memory"]"#),
    ("claimName", r#"["data"]"#),
    ("serviceAccountToken.path", r#"["token"]"#),
    ("expirationSeconds", "[600,3600]"),
    ("clusterTrustBundle.path", r#"["trust.pem"]"#),
    ("signerName", r#"["example.com/signer"]"#),
    ("keyType", r#"["ED25519"]"#),
    ("credentialBundlePath", r#"["bundle.pem"]"#),
    ("nfs.path", r#"["/export"]"#),
    ("cephfs.path", r#"["/export"]"#),
    ("iscsi.targetPortal", r#"["10.0.2.15:3260"]"#),
    ("iqn", r#"["iqn.2001-04.com.example:storage.disk1"]"#),
    ("initiatorName", r#"["iqn.2001-04.com.example:client"]"#),
    ("cachingMode", r#"["None","ReadOnly","ReadWrite"]"#),
    ("azureDisk.kind", r#"["Shared","Dedicated"]"#),
    ("diskURI", r#"["https://example.com/disk.vhd"]"#),
    ("registry", r#"["quobyte:7861"]"#),
    ("csi.driver", r#"["csi.example.com"]"#),
    ("flexVolume.driver", r#"["example.com/driver"]"#),
    ("topologyKey", r#"["kubernetes.io/hostname","zone"]"#),
    (
        "topologySpreadConstraints.topologyKey",
        r#"["zone","kubernetes.io/hostname"]"#,
    ),
    ("whenUnsatisfiable", r#"["DoNotSchedule","ScheduleAnyway"]"#),
    ("minDomains", "[2]"),
    ("nodeAffinityPolicy", r#"["Honor","Ignore"]"#),
    ("nodeTaintsPolicy", r#"["Honor","Ignore"]"#),
    ("weight", "[1,50,100]"),
    ("matchExpressions.key", r#"["zone","tier"]"#),
    ("matchExpressions.operator", r#"["Exists","DoesNotExist"]"#),
    ("matchFields.key", r#"["metadata.name"]"#),
    ("matchFields.operator", r#"["In"]"#),
    ("tolerations.operator", r#"["Exists"]"#),
    ("tolerations.key", r#"["zone","dedicated"]"#),
    ("tolerations.value", r#"[""]"#),
    ("tolerations.effect", r#"["NoExecute"]"#),
    ("tolerationSeconds", "[30,300]"),
    ("hostAliases.ip", r#"["192.0.2.9","192.0.2.10"]"#),
    ("readinessGates.conditionType", r#"["example.com/ready"]"#),
    ("schedulingGates.name", r#"["example.com/gate"]"#),
    ("resourceClaims.name", r#"["gpu"]"#),
    ("resourceClaimName", r#"["gpu-claim"]"#),
    ("resourceClaimTemplateName", r#"["gpu-template"]"#),
    ("claims.name", r#"["gpu"]"#),
    ("strategy.type", r#"["RollingUpdate"]"#),
    ("updateStrategy.type", r#"["RollingUpdate","OnDelete"]"#),
    ("maxUnavailable", r#"[1,"25%"]"#),
    ("maxSurge", r#"[1,"25%"]"#),
    ("partition", "[0,2]"),
    ("podManagementPolicy", r#"["OrderedReady","Parallel"]"#),
    ("whenDeleted", r#"["Retain","Delete"]"#),
    ("whenScaled", r#"["Retain","Delete"]"#),
    ("serviceName", r#"["web"]"#),
    ("replicas", "[0,1,3]"),
    ("progressDeadlineSeconds", "[600,1200]"),
    ("minReadySeconds", "[0,5]"),
    ("activeDeadlineSeconds", "[60]"),
    ("volumeMode", r#"["Filesystem","Block"]"#),
    ("storageClassName", r#"["fast",""]"#),
    ("volumeAttributesClassName", r#"["gold"]"#),
    ("volumeName", r#"["pv-1"]"#),
    ("service.type", r#"["ClusterIP"]"#),
    ("sessionAffinity", r#"["None","ClientIP"]"#),
    ("clientIP.timeoutSeconds", "[60,10800]"),
    ("internalTrafficPolicy", r#"["Cluster","Local"]"#),
    ("externalTrafficPolicy", r#"["Cluster","Local"]"#),
    ("trafficDistribution", r#"["PreferClose","PreferSameZone"]"#),
    ("ipFamilyPolicy", r#"["SingleStack","PreferDualStack"]"#),
    ("clusterIP", r#"["None"]"#),
    ("externalName", r#"["db.example.com"]"#),
    ("loadBalancerIP", r#"["192.0.2.8"]"#),
    ("loadBalancerClass", r#"["example.com/lb"]"#),
    ("healthCheckNodePort", "[30099]"),
    ("ipMode", r#"["VIP","Proxy"]"#),
    ("ingress.ip", r#"["192.0.2.1","192.0.2.2"]"#),
    ("ingress.hostname", r#"["lb.example.com"]"#),
    ("addressType", r#"["IPv4"]"#),
    ("endpoints.hostname", r#"["web-0"]"#),
    ("endpoints.zone", r#"["zone-a"]"#),
    ("targetRef.kind", r#"["Pod"]"#),
    ("holderIdentity", r#"["a","b"]"#),
    ("leaseDurationSeconds", "[15,30]"),
    ("strategy", r#"["OldestEmulationVersion"]"#),
    ("preferredHolder", r#"["c"]"#),
    ("secrets.type", r#"["Opaque"]"#),
    ("immutable", "[false,false,true]"),
    ("revision", "[1,2,3]"),
    ("type", r#"["Normal","Warning"]"#),
    ("action", r#"["Binding"]"#),
    ("reportingComponent", r#"["example.com/tool"]"#),
    ("reportingInstance", r#"["tool-1"]"#),
    ("series.count", "[2]"),
    ("podCIDR", r#"["10.2.0.0/24"]"#),
    ("providerID", r#"["edge://node"]"#),
    ("unschedulable", "[true,false]"),
    ("taints.key", r#"["dedicated","zone"]"#),
    ("taints.value", r#"["edge"]"#),
    (
        "taints.effect",
        r#"["NoSchedule","NoExecute","PreferNoSchedule"]"#,
    ),
    ("configSource.configMap.namespace", r#"["kube-system"]"#),
    ("kubeletConfigKey", r#"["kubelet"]"#),
    ("spec.finalizers", r#"["kubernetes"]"#),
    ("phase", r#"["Pending","Running"]"#),
    ("conditions.type", r#"["Ready","Available"]"#),
    ("conditions.status", r#"["True","False","Unknown"]"#),
    ("conditions.reason", r#"["Because","Tested"]"#),
    ("podIP", r#"["10.1.0.9"]"#),
    ("podIPs.ip", r#"["10.1.0.9"]"#),
    ("hostIP", r#"["192.0.2.1"]"#),
    ("hostIPs.ip", r#"["192.0.2.1"]"#),
    ("qosClass", r#"["BestEffort"]"#),
    ("containerStatuses.name", r#"["main"]"#),
    ("addresses.type", r#"["InternalIP","Hostname"]"#),
    ("addresses.address", r#"["192.0.2.4","node-1"]"#),
    ("spec.type", r#"["edge","cloud"]"#),
    ("autonomyLevel", r#"["L3","L4"]"#),
    ("gridUniqKey", r#"["location"]"#),
    ("whenUnreachable", r#"["Keep","Evict"]"#),
    ("exitCode", "[0,1]"),
    ("signal", "[9]"),
    ("user.linux.uid", "[1000]"),
    ("resourceHealth.health", r#"["Healthy"]"#),
];

/// Keys of free maps.
const KEYS: &[(&str, &str)] = &[
    ("labels", r#"["tier","example.com/role"]"#),
    ("requests", r#"["cpu","memory"]"#),
    ("limits", r#"["cpu","memory"]"#),
    ("overhead", r#"["cpu","memory"]"#),
    ("capacity", r#"["cpu","memory","pods"]"#),
    ("allocatable", r#"["cpu","memory","pods"]"#),
    ("allocatedResources", r#"["cpu","storage"]"#),
    ("nodeSelector", r#"["zone","disk"]"#),
    ("persistentvolumeclaims.capacity", r#"["storage"]"#),
];

/// A plausible scalar, if the tables have one.
pub(crate) fn plausible(trail: &[String], rng: &mut Rng) -> Option<Value> {
    draw(SCALARS, trail, rng)
}

/// A plausible subtree, if the tables have one.
pub(crate) fn subtree(trail: &[String], rng: &mut Rng) -> Option<Value> {
    draw(SUBTREES, trail, rng)
}

/// A plausible key of a free map.
pub(crate) fn key(trail: &[String], rng: &mut Rng) -> String {
    let key = draw(KEYS, trail, rng).and_then(|key| key.as_str().map(str::to_owned));
    key.unwrap_or_else(|| (*rng.pick(&["first", "second", "third"])).to_owned())
}

/// What an object must have beside what its type requires.
pub(crate) fn companions(trail: &[String]) -> Map<String, Value> {
    let text = best(COMPANIONS, trail).unwrap_or("{}");
    serde_json::from_str(text).unwrap_or_default()
}

/// Whether a path ends with these names, joined by dots.
pub(crate) fn ends_with(trail: &[String], names: &str) -> bool {
    let mut trail = trail.iter().rev();
    names
        .rsplit('.')
        .all(|name| trail.next().is_some_and(|step| step == name))
}

fn draw(table: &[(&str, &str)], trail: &[String], rng: &mut Rng) -> Option<Value> {
    let choices: Vec<Value> = serde_json::from_str(best(table, trail)?).ok()?;
    (!choices.is_empty()).then(|| rng.pick(&choices).clone())
}

/// The entry that matches most names.
fn best<'a>(table: &[(&str, &'a str)], trail: &[String]) -> Option<&'a str> {
    let matching = table.iter().filter(|(names, _)| ends_with(trail, names));
    matching
        .max_by_key(|(names, _)| names.matches('.').count())
        .map(|(_, value)| *value)
}
