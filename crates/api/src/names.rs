//! Every label, annotation, finalizer, reason and default name of edgegrid's API.
//!
//! Manifests and clusters depend on these strings letter for letter, so they stand
//! here once and nowhere else. Those of the `superedge.io` family are SuperEdge's own
//! and are kept as they were.

/// API group of the three grid kinds.
pub const GRID_GROUP: &str = "superedge.io";
/// Version of the three grid kinds.
pub const GRID_VERSION: &str = "v1";
/// API group of NodeUnit and NodeGroup.
pub const SITE_GROUP: &str = "site.superedge.io";
/// Version of NodeUnit and NodeGroup.
pub const SITE_VERSION: &str = "v1alpha2";

/// Label keys that manifests, selectors and our own objects use.
pub mod label {
    /// On every workload and Service made for a grid: the grid's name.
    pub const GRID_SELECTOR: &str = "superedge.io/grid-selector";
    /// On the same objects: the grid's `gridUniqKey`.
    pub const GRID_UNIQ_KEY: &str = "superedge.io/grid-uniq-key";
    /// Pod template label left by SuperEdge; preserved, so that taking over restarts no pod.
    pub const TEMPLATE_HASH_KEY: &str = "superedge.io/template-hash-key";
    /// On a grid of the control cluster: send it to every member cluster (value [`super::YES`]).
    pub const FEDERATE: &str = "superedge.io/fed";
    /// On a member cluster's copy of a federated grid (value [`super::YES`]).
    pub const DISTRIBUTED: &str = "superedge.io/dis";
    /// On copies and on a member's grids: the namespace of the original.
    pub const TARGET_NAMESPACE: &str = "superedge.io/target-namespace";
    /// On a namespace of the control cluster: it belongs to this member (clusternet's label).
    pub const CLUSTER_ID: &str = "clusters.clusternet.io/cluster-id";
    /// On the same namespace: what people call the member (clusternet's label).
    pub const CLUSTER_NAME: &str = "clusters.clusternet.io/cluster-name";
    /// On copies of a federated grid and on a member's grids: the uid of the original.
    pub const ORIGIN: &str = "edgegrid.io/origin";
    /// On a NodeUnit found by `autoFindNodeKeys`: hash of the sorted keys.
    pub const AUTO_KEYS_HASH: &str = "site.superedge.io/node-group-auto-keys-hash";
    /// Kubernetes' own: the `Endpoints` belong to a headless Service.
    pub const HEADLESS: &str = "service.kubernetes.io/headless";
    /// Kubernetes' own: the Service that an EndpointSlice belongs to.
    pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
    /// Kubernetes' own: who keeps an EndpointSlice up to date.
    pub const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
    /// On every workload of a grid: its unit. In selector and pod labels too when we made the workload,
    /// so that an autoscaler or a disruption budget of one unit selects that unit's pods alone.
    pub const UNIT: &str = "edgegrid.io/unit";
}

/// Kubernetes' own taints of nodes.
pub mod taint {
    /// The control plane no longer hears of the node.
    pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
    /// Somebody says that the machine is down, so that its pods may start elsewhere.
    pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
    /// The effect that evicts pods which do not tolerate the taint.
    pub const NO_EXECUTE: &str = "NoExecute";
}

/// Values of the labels whose key is the name of a unit or of a group.
pub mod marker {
    /// Node label `<NodeUnit name>` has this value: the node is in that unit.
    pub const NODE_UNIT: &str = "nodeunits.superedge.io";
    /// NodeUnit label `<NodeGroup name>` has this value: the unit is in that group.
    pub const NODE_GROUP: &str = "nodegroups.superedge.io";
}

/// Annotation keys that manifests and our own objects use.
pub mod annotation {
    /// On a Service: JSON list of node label keys; traffic stays where they agree.
    pub const TOPOLOGY_KEYS: &str = "topologyKeys";
    /// On `default/kubernetes` endpoints: address that stands in for the API server's on this node.
    pub const LOCAL_ENDPOINT: &str = "superedge.io/local-endpoint";
    /// On `default/kubernetes` endpoints: port that stands in for the API server's on this node.
    pub const LOCAL_PORT: &str = "superedge.io/local-port";
    /// On a Service: `open` shows all units' endpoints of a headless one.
    pub const HEADLESS: &str = "edgegrid.io/headless";
    /// On a Service with topology keys: `keep` shows endpoints that are on no node.
    pub const EXTERNAL_ENDPOINTS: &str = "edgegrid.io/external-endpoints";
    /// On our definitions: the [`crate::SCHEMA_VERSION`] they were written with.
    pub const SCHEMA_VERSION: &str = "edgegrid.io/schema-version";
    /// On what we apply: hash of the applied body, by which we see that we want something else now.
    pub const APPLIED: &str = "edgegrid.io/applied";
    /// On a workload: the grid's name and the unit's true value, as JSON `{"grid": …, "unit": …}`.
    pub const GRID: &str = "edgegrid.io/grid";
    /// On a workload or Service whose [`super::label::GRID_UNIQ_KEY`] is a hash: the true `gridUniqKey`.
    pub const GRID_UNIQ_KEY: &str = "edgegrid.io/grid-uniq-key";
    /// On a workload: hash of its rendered template without `replicas`, which a rollout compares.
    pub const TEMPLATE_HASH: &str = "edgegrid.io/template-hash";
    /// On a workload that got another template: when (RFC 3339).
    pub const CHANGED_AT: &str = "edgegrid.io/changed-at";
    /// On a workload whose unit has no nodes any more: since when, by the leader's wall clock (RFC 3339). For people only.
    pub const UNIT_GONE_SINCE: &str = "edgegrid.io/unit-gone-since";
    /// kubectl's own: what client-side apply applied last.
    pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
    /// On copies of a federated grid: the name of the original.
    pub const ORIGIN_NAME: &str = "edgegrid.io/origin-name";
    /// On a copy that is about to be deleted because its original is (value [`super::YES`]): the member
    /// removes its grid. One that goes without it, with its namespace, takes nothing with it.
    pub const REMOVAL: &str = "edgegrid.io/removal";
    /// On a member's Lease: the grids that it has and the control cluster no longer shows it.
    pub const MISSING: &str = "edgegrid.io/missing";
    /// On a member's namespace that `edgegrid join` made (value [`super::YES`]).
    pub const JOINED: &str = "edgegrid.io/joined";
    /// On a Node: JSON list of the taints that we put there, and only those.
    pub const TAINTS: &str = "edgegrid.io/taints";
    /// On NodeUnit's definition: [`super::UNIT_NODE_ALL`] has been made once (value [`super::YES`]).
    pub const DEFAULT_UNIT_MADE: &str = "edgegrid.io/default-unit-made";
}

/// Field managers, as `managedFields` names them.
pub mod manager {
    /// Owns everything that edgegrid applies.
    pub const EDGEGRID: &str = "edgegrid";
    /// Owns a workload's `replicas` while it is handed over to whoever scales from now on.
    pub const REPLICAS: &str = "edgegrid-replicas";
    /// Owns the mark of a workload whose unit lost its nodes, which is put and taken away on its own.
    pub const GRACE: &str = "edgegrid-grace";
    /// Applies copies of federated grids, in the control cluster and as kept in a member.
    pub const FEDERATION: &str = "edgegrid-federation";
    /// Applies a member's grids, and what the member tells the control cluster.
    pub const MEMBER: &str = "edgegrid-member";
    /// All field managers of edgegrid.
    pub const OURS: [&str; 5] = [EDGEGRID, REPLICAS, GRACE, FEDERATION, MEMBER];
    /// SuperEdge's controller of NodeUnits and NodeGroups.
    pub const SITE_MANAGER: &str = "site-manager";
    /// SuperEdge's field managers: what they own passes to us when we take an object over.
    pub const SUPEREDGE: [&str; 2] = ["application-grid-controller", SITE_MANAGER];
}

/// Finalizers, each removed by the controller that put it there.
pub mod finalizer {
    /// On a member's copy of a federated grid: the member still has the grid.
    pub const DISTRIBUTED: &str = "dis";
    /// On a federated grid: members may still have it.
    pub const FEDERATED: &str = "edgegrid.io/federated";
    /// On a NodeUnit: its nodes still carry what it had written on them.
    pub const NODE_UNIT: &str = "site.superedge.io/nodeunit";
    /// On a NodeGroup: its units still carry the group's labels.
    pub const NODE_GROUP: &str = "site.superedge.io/finalizer";
}

/// Condition types in the status of our kinds.
pub mod condition {
    /// Every unit runs what the grid asks for.
    pub const READY: &str = "Ready";
    /// Units are still being brought to what the grid asks for.
    pub const PROGRESSING: &str = "Progressing";
    /// At least one unit cannot be brought there.
    pub const DEGRADED: &str = "Degraded";
    /// An object of a name the grid needs belongs to somebody else.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// The grid asks for a change that Kubernetes forbids.
    pub const IMMUTABLE: &str = "Immutable";
    /// The template has a field that apply cannot express.
    pub const NOT_APPLICABLE: &str = "NotApplicable";
    /// SuperEdge's controllers still write to objects that we took over.
    pub const SUPEREDGE_RUNNING: &str = "SuperEdgeRunning";
    /// `states` leaves units out, because the object would become too big.
    pub const STATES_TRUNCATED: &str = "StatesTruncated";
    /// Pods are kept on nodes that the cluster has not reached for ten minutes.
    pub const NODE_UNREACHABLE: &str = "NodeUnreachable";
    /// The annotation `topologyKeys` of a ServiceGrid cannot be read.
    pub const TOPOLOGY_KEYS_MALFORMED: &str = "TopologyKeysMalformed";
    /// A NodeUnit does not get its way on a node, because an older one wants something else there.
    pub const CONFLICT: &str = "Conflict";
    /// A NodeUnit names nodes that do not exist.
    pub const NODES_MISSING: &str = "NodesMissing";
    /// A NodeGroup names NodeUnits that do not exist.
    pub const UNITS_MISSING: &str = "UnitsMissing";
    /// Part of the spec means nothing to Kubernetes and is left out.
    pub const INVALID: &str = "Invalid";
    /// Every member cluster has the grid as it is here; on a copy: the member has it as the copy says; on a member's
    /// grid: the control cluster is in reach and shows it.
    pub const IN_STEP: &str = "InStep";
    /// On a copy: the member no longer has the grid.
    pub const REMOVED: &str = "Removed";
    /// Clusters have units of the same name, so `states` calls them `<cluster>/<unit>`.
    pub const UNIT_NAMES_SHARED: &str = "UnitNamesShared";
    /// Workloads have no nodes any more and are not deleted until a person decides.
    pub const REMOVAL_HELD: &str = "RemovalHeld";
}

/// Reasons of events and conditions.
pub mod reason {
    /// The grid has no `gridUniqKey`.
    pub const EMPTY: &str = "Empty";
    /// All is as asked for.
    pub const AS_WANTED: &str = "AsWanted";
    /// No node has the grid's key, or no NodeUnit is in the group.
    pub const NO_UNITS: &str = "NoUnits";
    /// Workloads were made, changed or removed.
    pub const STAMPED: &str = "Stamped";
    /// Units are on their way to what the grid asks for.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// With a StatefulSet its claims would be deleted, because `whenDeleted` says so.
    pub const CLAIMS_WOULD_GO: &str = "ClaimsWouldBeDeleted";
    /// `spec.rollout.paused` keeps units as they are.
    pub const PAUSED: &str = "Paused";
    /// A changed unit did not become Available in time, so the rest keeps what it has.
    pub const ROLLOUT_STOPPED: &str = "RolloutStopped";
    /// A unit's workload does not run as it should.
    pub const NOT_AVAILABLE: &str = "NotAvailable";
    /// A unit is to get a template that is not in the pool, or `spec.template`, which is not there.
    pub const TEMPLATE_MISSING: &str = "TemplateMissing";
    /// An object of a name the grid needs belongs to somebody else.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// The grid asks for a change that Kubernetes forbids.
    pub const IMMUTABLE: &str = "Immutable";
    /// The template has a field that apply cannot express.
    pub const NOT_APPLICABLE: &str = "NotApplicable";
    /// Kubernetes refused a write, for example by a quota; it is tried again.
    pub const REFUSED: &str = "Refused";
    /// A write had no answer; it is tried again.
    pub const NO_ANSWER: &str = "NoAnswer";
    /// Somebody else wrote in between and it is tried again; or an older NodeUnit wants something
    /// else on a node.
    pub const CONFLICT: &str = "Conflict";
    /// SuperEdge's controllers still write to objects that we took over.
    pub const SUPEREDGE_RUNNING: &str = "SuperEdgeRunning";
    /// `states` leaves units out, because the object would become too big.
    pub const STATES_TRUNCATED: &str = "StatesTruncated";
    /// Pods are kept on nodes that the cluster has not reached for ten minutes.
    pub const NODE_UNREACHABLE: &str = "NodeUnreachable";
    /// The annotation `topologyKeys` of a ServiceGrid cannot be read.
    pub const TOPOLOGY_KEYS_MALFORMED: &str = "TopologyKeysMalformed";
    /// Every node of the NodeUnit is ready.
    pub const NODES_READY: &str = "NodesReady";
    /// Some nodes of the NodeUnit are not ready.
    pub const NODES_NOT_READY: &str = "NodesNotReady";
    /// The NodeUnit has no nodes.
    pub const NO_NODES: &str = "NoNodes";
    /// Every NodeUnit that the group names is there.
    pub const UNITS_FOUND: &str = "UnitsFound";
    /// A member cluster was not heard of for a while; in a member: its control cluster was not.
    pub const OUT_OF_CONTACT: &str = "OutOfContact";
    /// A member cluster has not yet reported that it has the grid as it is now.
    pub const NOT_REPORTED: &str = "NotReported";
    /// A member cluster is to remove the grid and has not said so yet.
    pub const REMOVING: &str = "Removing";
    /// A member cluster has removed the grid.
    pub const REMOVED: &str = "Removed";
    /// Clusters have units of the same name.
    pub const UNIT_NAMES_SHARED: &str = "UnitNamesShared";
    /// The namespace that a federated grid is for does not exist in the member, and may not be made.
    pub const NAMESPACE_MISSING: &str = "NamespaceMissing";
    /// The control cluster no longer shows a grid to the member, without having asked to remove it.
    pub const COPY_MISSING: &str = "CopyMissing";
    /// Nodes could not be written.
    pub const NODES_NOT_WRITTEN: &str = "NodesNotWritten";
    /// The Node object of a running node was deleted.
    pub const NODE_GONE: &str = "NodeGone";
}

/// Components that events name as their source.
pub mod component {
    /// Source of a DeploymentGrid's events.
    pub const DEPLOYMENT_GRID: &str = "deployment-grid-controller";
    /// Source of a StatefulSetGrid's events.
    pub const STATEFUL_SET_GRID: &str = "statefulset-grid-controller";
    /// Source of a ServiceGrid's events.
    pub const SERVICE_GRID: &str = "service-grid-controller";
    /// Source of a NodeUnit's events.
    pub const NODE_UNIT: &str = "nodeunit-controller";
    /// Source of a NodeGroup's events.
    pub const NODE_GROUP: &str = "nodegroup-controller";
    /// Source of events about the link of a member to its control cluster.
    pub const MEMBER: &str = "fed-member-controller";
    /// Source of events about the federation of a DeploymentGrid.
    pub const FEDERATED_DEPLOYMENT_GRID: &str = "fed-deployment-grid-controller";
    /// Source of events about the federation of a StatefulSetGrid.
    pub const FEDERATED_STATEFUL_SET_GRID: &str = "fed-statefulset-grid-controller";
    /// Source of events about the federation of a ServiceGrid.
    pub const FEDERATED_SERVICE_GRID: &str = "fed-service-grid-controller";
    /// Source of what a node's agent or wrapper says of its Node.
    pub const AGENT: &str = "edgegrid-agent";
}

/// The Secret by which a member cluster knows its control cluster (clusternet's).
pub mod parent_secret {
    /// Namespace of the Secret.
    pub const NAMESPACE: &str = "clusternet-system";
    /// Name of the Secret.
    pub const NAME: &str = "parent-cluster";
    /// Key: URL of the control cluster's API server.
    pub const URL: &str = "parent-url";
    /// Key: bearer token of this member.
    pub const TOKEN: &str = "token";
    /// Key: certificate authority of the control cluster's API server.
    pub const CA: &str = "ca.crt";
    /// Key: this member's namespace in the control cluster.
    pub const MEMBER_NAMESPACE: &str = "namespace";
}

/// The Lease in a member's namespace of the control cluster that the member renews.
pub const MEMBER_LEASE: &str = "edgegrid-member";
/// Service account, role and token of a member in its namespace, as `edgegrid join` makes them.
pub const MEMBER_ACCOUNT: &str = "edgegrid-member";
/// What the control cluster's own units are called when members have units of the same name.
pub const CONTROL_CLUSTER: &str = "control";
/// Value of the labels and annotations that are simply set.
pub const YES: &str = "yes";
/// The controller's Deployment, service account, roles and lease.
pub const CONTROLLER: &str = "edgegrid-controller";
/// Service account, roles and lease of the StatefulSet controller.
pub const STATEFULSET_CONTROLLER: &str = "edgegrid-statefulset";
/// Namespace of what edgegrid itself runs, unless configured otherwise.
pub const SYSTEM_NAMESPACE: &str = "edgegrid-system";
/// Name of the template that means `spec.template`.
pub const DEFAULT_TEMPLATE: &str = "default";
/// The NodeUnit that has every node, made by the controller.
pub const UNIT_NODE_ALL: &str = "unit-node-all";
/// Autonomy of a unit whose nodes merely survive on their own.
pub const DEFAULT_AUTONOMY_LEVEL: &str = "L3";
/// Path prefix and header by which an ingress asks the wrapper for one unit's view.
pub const INGRESS_VIEW: &str = "superedge-ingress";
/// [`label::SLICE_MANAGED_BY`] of the slices with short names; they exist in a node's view alone.
pub const ALIAS_MANAGER: &str = "aliases.edgegrid.io";
/// The hosts file that SuperEdge's CoreDNS reads short names from.
pub const DEFAULT_HOSTS_FILE: &str = "/data/edge/hosts";
/// The domain of pod names unless configured otherwise.
pub const DEFAULT_CLUSTER_DOMAIN: &str = "cluster.local";

/// Name of the Deployment or StatefulSet that a grid has in a unit.
///
/// ```
/// assert_eq!(edgegrid_api::names::workload("web", "beijing"), "web-beijing");
/// ```
pub fn workload(grid: &str, unit: &str) -> String {
    format!("{grid}-{unit}")
}

/// Name of the Service that a ServiceGrid has in the whole cluster.
///
/// ```
/// assert_eq!(edgegrid_api::names::service("web"), "web-svc");
/// ```
pub fn service(grid: &str) -> String {
    format!("{grid}-svc")
}
