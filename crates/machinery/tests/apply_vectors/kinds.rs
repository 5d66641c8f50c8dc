//! What the kinds of the sequences need beside their shapes: defaults, conversion, spec changes.

use std::collections::BTreeMap;

use edgegrid_machinery::apply::{ConvertError, Versions};
use edgegrid_machinery::table::{Shape, Shapes, normal, table, zero};
use serde_json::{Map, Value, json};

/// A built-in or custom kind.
pub(crate) struct KindUnderTest {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) custom: Option<Custom>,
}

pub(crate) struct Custom {
    pub(crate) schemas: BTreeMap<String, Value>,
    shapes: BTreeMap<String, Shapes>,
    pub(crate) has_status: bool,
}

impl KindUnderTest {
    pub(crate) fn new(api_version: &str, name: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let customs: Value =
            serde_json::from_str(include_str!("../../fixtures/vectors/custom.json")).unwrap();
        if let Some(custom) = customs.get(name) {
            return Self {
                name: name.to_owned(),
                group: group.to_owned(),
                plural: custom["plural"].as_str().unwrap().to_owned(),
                custom: Some(Custom::new(group, &custom["versions"])),
            };
        }
        // A Scale is no resource of its own.
        let resource = table()
            .resources()
            .iter()
            .find(|r| r.group == group && r.version == version && r.kind == name);
        Self {
            name: name.to_owned(),
            group: group.to_owned(),
            plural: resource.map(|r| r.plural.clone()).unwrap_or_default(),
            custom: None,
        }
    }

    /// Group and resource, as messages about missing objects have them.
    pub(crate) fn qualified(&self) -> String {
        format!("{}.{}", self.plural, self.group)
            .trim_end_matches('.')
            .to_owned()
    }

    pub(crate) fn qualified_kind(&self) -> String {
        format!("{}.{}", self.name, self.group)
            .trim_end_matches('.')
            .to_owned()
    }

    pub(crate) fn has_status(&self) -> bool {
        match &self.custom {
            Some(custom) => custom.has_status,
            None => self.name != "ConfigMap" && self.name != "Secret" && self.name != "Role",
        }
    }

    pub(crate) fn has_generation(&self) -> bool {
        let spec_kinds = [
            "Deployment",
            "HorizontalPodAutoscaler",
            "PodDisruptionBudget",
        ];
        self.custom.is_some() || spec_kinds.contains(&&*self.name)
    }
}

impl Custom {
    fn new(group: &str, versions: &Value) -> Self {
        let mut schemas = BTreeMap::new();
        let mut shapes = BTreeMap::new();
        for (version, definition) in versions.as_object().unwrap() {
            let api_version = format!("{group}/{version}");
            let schema = definition["schema"].clone();
            shapes.insert(api_version.clone(), Shapes::structural(&schema));
            schemas.insert(api_version, schema);
        }
        let has_status = versions["v1"]["status"] == true;
        Self {
            schemas,
            shapes,
            has_status,
        }
    }
}

impl Versions for KindUnderTest {
    fn shape(&self, api_version: &str) -> Option<Shape<'_>> {
        if let Some(custom) = &self.custom {
            return custom.shapes.get(api_version).map(Shapes::root);
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        table().shape(group, version, &self.name)
    }

    fn blank(&self, api_version: &str) -> Option<Value> {
        let shape = self.shape(api_version).filter(|_| self.custom.is_none());
        shape.map(zero)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        let mut object = object.clone();
        let is_autoscaler = self.name == "HorizontalPodAutoscaler";
        let converts = is_autoscaler && object["apiVersion"] != api_version;
        if let Some(map) = object.as_object_mut() {
            map.insert("apiVersion".to_owned(), json!(api_version));
        }
        if converts {
            convert_autoscaler(&mut object, api_version);
            if let Some(shape) = self.shape(api_version) {
                object = normal(&object, shape).unwrap().object;
            }
        }
        Ok(object)
    }
}

/// v1 knows one metric only: the use of CPU.
fn convert_autoscaler(object: &mut Value, api_version: &str) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if api_version == "autoscaling/v1" {
        let metrics = spec.remove("metrics").unwrap_or_default();
        let share = &metrics[0]["resource"]["target"]["averageUtilization"];
        if !share.is_null() {
            spec.insert("targetCPUUtilizationPercentage".to_owned(), share.clone());
        }
    } else if let Some(share) = spec.remove("targetCPUUtilizationPercentage") {
        let target = json!({"type": "Utilization", "averageUtilization": share});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        spec.insert("metrics".to_owned(), json!([metric]));
    }
}

/// Fills in the defaults of built-in kinds, as far as the sequences show them.
pub(crate) fn default(kind: &str, object: &mut Value) {
    match kind {
        "Deployment" => default_deployment(object),
        "Service" => default_service(object),
        "HorizontalPodAutoscaler" => put(&mut object["spec"], &[("minReplicas", json!(1))]),
        _ => {}
    }
}

fn put(value: &mut Value, defaults: &[(&str, Value)]) {
    if let Some(map) = value.as_object_mut() {
        for (key, default) in defaults {
            map.entry(*key).or_insert_with(|| default.clone());
        }
    }
}

fn each(value: &mut Value, list: &str, action: impl Fn(&mut Value)) {
    let items = value.get_mut(list).and_then(Value::as_array_mut);
    items.into_iter().flatten().for_each(action);
}

fn default_deployment(object: &mut Value) {
    let spec = &mut object["spec"];
    put(
        spec,
        &[
            ("replicas", json!(1)),
            ("revisionHistoryLimit", json!(10)),
            ("progressDeadlineSeconds", json!(600)),
        ],
    );
    put(&mut spec["strategy"], &[("type", json!("RollingUpdate"))]);
    if spec["strategy"]["type"] == "RollingUpdate" {
        put(&mut spec["strategy"], &[("rollingUpdate", json!({}))]);
        let quarter = json!("25%");
        let both = [("maxUnavailable", quarter.clone()), ("maxSurge", quarter)];
        put(&mut spec["strategy"]["rollingUpdate"], &both);
    }
    let pod = &mut spec["template"]["spec"];
    put(
        pod,
        &[
            ("restartPolicy", json!("Always")),
            ("terminationGracePeriodSeconds", json!(30)),
            ("dnsPolicy", json!("ClusterFirst")),
            ("securityContext", json!({})),
            ("schedulerName", json!("default-scheduler")),
        ],
    );
    each(pod, "containers", default_container);
    each(pod, "initContainers", default_container);
    each(pod, "volumes", |volume| {
        for (source, defaults) in [
            ("configMap", vec![("defaultMode", json!(420))]),
            ("secret", vec![("defaultMode", json!(420))]),
            ("hostPath", vec![("type", json!(""))]),
        ] {
            if let Some(source) = volume.get_mut(source) {
                put(source, &defaults);
            }
        }
    });
}

fn default_container(container: &mut Value) {
    let image = container["image"].as_str().unwrap_or_default();
    let latest = !image.contains(':') || image.ends_with(":latest");
    let policy = if latest { "Always" } else { "IfNotPresent" };
    put(
        container,
        &[
            ("terminationMessagePath", json!("/dev/termination-log")),
            ("terminationMessagePolicy", json!("File")),
            ("imagePullPolicy", json!(policy)),
        ],
    );
    each(container, "ports", |port| {
        put(port, &[("protocol", json!("TCP"))]);
    });
    each(container, "env", |variable| {
        let field = variable
            .get_mut("valueFrom")
            .and_then(|from| from.get_mut("fieldRef"));
        if let Some(field) = field {
            put(field, &[("apiVersion", json!("v1"))]);
        }
    });
}

fn default_service(object: &mut Value) {
    let spec = &mut object["spec"];
    put(
        spec,
        &[
            ("type", json!("ClusterIP")),
            ("sessionAffinity", json!("None")),
            ("internalTrafficPolicy", json!("Cluster")),
        ],
    );
    each(spec, "ports", |port| {
        let number = port["port"].clone();
        put(port, &[("protocol", json!("TCP")), ("targetPort", number)]);
    });
}

/// What the storage strategy sets on create, after ownership is tracked.
pub(crate) fn allocate(kind: &str, object: &mut Value) {
    if kind == "Service" {
        let address = object["spec"]["clusterIP"].clone();
        put(
            &mut object["spec"],
            &[
                ("clusterIPs", json!([address])),
                ("ipFamilies", json!(["IPv4"])),
                ("ipFamilyPolicy", json!("SingleStack")),
            ],
        );
    }
}

/// What the storage strategy turns into something else, after ownership is tracked.
pub(crate) fn rewrite(kind: &str, object: &mut Value) {
    if kind != "Secret" {
        return;
    }
    let texts = object
        .as_object_mut()
        .and_then(|map| map.remove("stringData"));
    let Some(Value::Object(texts)) = texts else {
        return;
    };
    put(object, &[("data", Value::Object(Map::new()))]);
    for (key, text) in texts {
        // The only text in the sequences.
        assert_eq!(text, "x");
        object["data"][key] = json!("eA==");
    }
}
