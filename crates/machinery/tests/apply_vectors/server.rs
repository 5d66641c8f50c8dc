//! Storage, strategies and the order of checks, for one object.

use edgegrid_machinery::apply::{
    self, PathSet, Versions, Writer, builtin_reset_fields, check_manager, custom_reset_fields,
    manager_from_user_agent, restore_times, track_update,
};
use edgegrid_machinery::patch::{json_patch, merge_patch, strategic_merge_patch};
use edgegrid_machinery::table::{normal, table};
use serde_json::{Map, Value, json};

use super::answers::{
    Reply, apply_refusal, check_identity, check_type, invalid, managers, refuse, shown,
};
use super::custom;
use super::kinds::{self, KindUnderTest};

/// What the steps of a request share.
pub(crate) struct Request<'a> {
    pub(crate) step: &'a Value,
    pub(crate) verb: &'a str,
    pub(crate) api_version: String,
    through: Option<&'a str>,
    manager: String,
    now: String,
    warnings: Vec<String>,
}

pub(crate) struct Server {
    kind: KindUnderTest,
    storage_version: String,
    stored: Option<Value>,
    revision: u64,
    clock: u64,
}

impl Server {
    pub(crate) fn new(api_version: &str, kind: &str) -> Self {
        Self {
            kind: KindUnderTest::new(api_version, kind),
            storage_version: api_version.to_owned(),
            stored: None,
            revision: 1000,
            clock: 0,
        }
    }

    pub(crate) fn snapshot(&self) -> Value {
        self.stored.clone().unwrap_or_default()
    }

    pub(crate) fn final_state(&self) -> (Value, Value) {
        let object = self.snapshot();
        (
            shown(&object),
            managers(&object["metadata"]["managedFields"]),
        )
    }

    pub(crate) fn handle(&mut self, step: &Value) -> Reply {
        self.clock += step["wait"].as_u64().unwrap_or(0);
        let version = step["version"].as_str();
        let agent = step["agent"].as_str().unwrap_or("vector/1.0");
        let mut request = Request {
            step,
            verb: step["do"].as_str().unwrap(),
            api_version: match version {
                Some(version) => format!("{}/{version}", self.kind.group),
                None => self.storage_version.clone(),
            },
            through: step["through"].as_str(),
            manager: match step["manager"].as_str() {
                Some(manager) => manager.to_owned(),
                None => manager_from_user_agent(agent),
            },
            now: format!(
                "2030-01-01T00:{:02}:{:02}Z",
                self.clock / 60,
                self.clock % 60
            ),
            warnings: Vec::new(),
        };
        let result = self.dispatch(&mut request);
        let mut reply = result.unwrap_or_else(|refusal| refusal);
        reply.warnings = request.warnings;
        reply
    }

    fn dispatch(&mut self, request: &mut Request<'_>) -> Result<Reply, Reply> {
        options(request)?;
        match request.verb {
            "create" => self.create(request),
            "delete" => Ok(self.delete()),
            "replace" => {
                let live = self.live(request)?;
                let body = self.body(request)?;
                self.update(request, &live, body)
            }
            _ if request.through == Some("scale") => self.scale(request),
            "apply" => self.apply(request),
            _ => {
                let body = self.body(request)?;
                let live = self.live(request)?;
                let patched = self.patched(request, &live, &body)?;
                self.update(request, &live, patched)
            }
        }
    }

    /// The body, with `$RV` and `$UID` filled in.
    pub(crate) fn body(&self, request: &Request<'_>) -> Result<Value, Reply> {
        let text = match request.step.get("text") {
            Some(text) => text.as_str().unwrap().to_owned(),
            None => request.step["body"].to_string(),
        };
        let metadata = &self.snapshot()["metadata"];
        let fill = |text: String, mark: &str, key: &str| match metadata[key].as_str() {
            Some(value) => text.replace(mark, value),
            None => text,
        };
        let text = fill(fill(text, "$RV", "resourceVersion"), "$UID", "uid");
        serde_json::from_str(&text).map_err(|_| refuse(400, "invalid JSON patch"))
    }

    pub(crate) fn live(&self, request: &Request<'_>) -> Result<Value, Reply> {
        let missing = || refuse(404, format!("{} \"obj\" not found", self.kind.qualified()));
        let stored = self.stored.as_ref().ok_or_else(missing)?;
        Ok(self.convert(stored, &request.api_version))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Value {
        self.kind.convert(object, api_version).unwrap()
    }

    pub(crate) fn writer<'a>(&'a self, request: &'a Request<'_>, reset: &'a PathSet) -> Writer<'a> {
        Writer {
            versions: &self.kind,
            api_version: &request.api_version,
            subresource: request.through,
            manager: &request.manager,
            reset,
            now: &request.now,
        }
    }

    fn reset(&self, request: &Request<'_>) -> PathSet {
        match &self.kind.custom {
            Some(custom) => custom_reset_fields(custom.has_status, request.through),
            None => builtin_reset_fields(&self.kind.name, request.through),
        }
    }

    fn create(&mut self, request: &mut Request<'_>) -> Result<Reply, Reply> {
        let body = self.body(request)?;
        let new = self.decode(request, body)?;
        let new = track_update(&self.writer(request, &self.reset(request)), None, &new);
        self.store_new(request, new)
    }

    fn store_new(&mut self, request: &Request<'_>, mut new: Value) -> Result<Reply, Reply> {
        self.keep_status(&mut new, None);
        kinds::allocate(&self.kind.name, &mut new);
        kinds::rewrite(&self.kind.name, &mut new);
        let metadata = new["metadata"].as_object_mut().unwrap();
        metadata.remove("resourceVersion");
        metadata.insert("namespace".to_owned(), json!("ns"));
        metadata.insert(
            "uid".to_owned(),
            json!("00000000-0000-0000-0000-000000000001"),
        );
        if self.kind.has_generation() {
            metadata.insert("generation".to_owned(), json!(1));
        }
        self.validate(&new)?;
        let object = self.store(request, &new);
        Ok(Reply {
            code: 201,
            object,
            ..Reply::default()
        })
    }

    fn store(&mut self, request: &Request<'_>, new: &Value) -> Value {
        let mut new = self.convert(new, &self.storage_version);
        if request.step["dryRun"] == "All" {
            return new;
        }
        self.revision += 1;
        new["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.stored = Some(new.clone());
        new
    }

    fn delete(&mut self) -> Reply {
        let mut object = self.stored.take().unwrap();
        let held = object["metadata"]["finalizers"].is_array();
        if held {
            let generation = object["metadata"]["generation"].as_u64().unwrap_or(0);
            if generation > 0 {
                object["metadata"]["generation"] = json!(generation + 1);
            }
            object["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
            object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
            self.revision += 1;
            object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
            self.stored = Some(object.clone());
        }
        Reply {
            code: 200,
            object,
            ..Reply::default()
        }
    }

    fn patched(&self, request: &Request<'_>, live: &Value, body: &Value) -> Result<Value, Reply> {
        let patched = match request.verb {
            "merge" => merge_patch(live, body),
            "json" => json_patch(live, body),
            _ => {
                let shape = self.kind.shape(&request.api_version).unwrap();
                strategic_merge_patch(live, body, shape)
            }
        };
        patched.map_err(|error| refuse(error.code(), error.to_string()))
    }

    fn apply(&mut self, request: &mut Request<'_>) -> Result<Reply, Reply> {
        let body = self.body(request)?;
        check_type(&body, &request.api_version, &self.kind.name)?;
        let live = match (&self.stored, request.through) {
            (None, None) => None,
            _ => Some(self.live(request)?),
        };
        let force = request.step["force"].as_str();
        let force = force.is_some_and(|text| !["false", "0"].contains(&&*text.to_lowercase()));
        let reset = self.reset(request);
        let outcome = apply::apply(&self.writer(request, &reset), live.as_ref(), &body, force);
        let object = outcome.map_err(apply_refusal)?.object;
        check_identity(&object, live.as_ref())?;
        let new = self.decode(request, object)?;
        match live {
            Some(live) => self.finish(request, &live, new),
            None => self.store_new(request, new),
        }
    }

    fn update(
        &mut self,
        request: &mut Request<'_>,
        live: &Value,
        new: Value,
    ) -> Result<Reply, Reply> {
        if request.verb != "replace" {
            check_identity(&new, Some(live))?;
        }
        let new = self.decode(request, new)?;
        let reset = self.reset(request);
        let new = track_update(&self.writer(request, &reset), Some(live), &new);
        self.finish(request, live, new)
    }

    /// Decodes as the kind and fills in defaults.
    fn decode(&self, request: &mut Request<'_>, object: Value) -> Result<Value, Reply> {
        let malformed = |text: String| invalid(" \"\"", "FieldValueInvalid", "patch", &text);
        for key in ["apiVersion", "kind"] {
            let wanted = match key {
                "kind" => &self.kind.name,
                _ => &request.api_version,
            };
            if object.get(key).is_some_and(|found| found != wanted) {
                return Err(malformed(format!("wrong {key}")));
            }
        }
        let mut object = object;
        put(&mut object, "apiVersion", json!(request.api_version));
        put(&mut object, "kind", json!(self.kind.name));
        let (mut object, unknown) = if let Some(custom) = &self.kind.custom {
            let schema = &custom.schemas[&request.api_version];
            decode_custom(object, schema).map_err(malformed)?
        } else {
            let shape = self.kind.shape(&request.api_version).unwrap();
            let normal = normal(&object, shape);
            let normal = normal.map_err(|error| malformed(error.to_string()))?;
            (normal.object, normal.unknown)
        };
        match request.step["validate"].as_str() {
            Some("Ignore") => {}
            Some("Strict") if !unknown.is_empty() => {
                return Err(malformed(format!("unknown field {unknown:?}")));
            }
            _ => {
                let texts = unknown.iter().map(|path| format!("unknown field {path:?}"));
                request.warnings.extend(texts);
            }
        }
        if self.kind.custom.is_none() {
            kinds::default(&self.kind.name, &mut object);
        }
        Ok(object)
    }

    /// Strategy, validation, no-op detection, storing.
    pub(crate) fn finish(
        &mut self,
        request: &Request<'_>,
        live: &Value,
        mut new: Value,
    ) -> Result<Reply, Reply> {
        self.check_version(request, live, &new)?;
        self.restore(request, live, &mut new);
        kinds::rewrite(&self.kind.name, &mut new);
        self.validate(&new)?;
        self.bump(request, live, &mut new);
        restore_times(live, &mut new);
        let gone = !new["metadata"]["deletionTimestamp"].is_null()
            && new["metadata"]["finalizers"].is_null();
        let object = if gone {
            self.stored = None;
            new
        } else if self.convert(&new, &self.storage_version) == *self.stored.as_ref().unwrap() {
            new
        } else {
            self.store(request, &new)
        };
        Ok(Reply {
            code: 200,
            object,
            ..Reply::default()
        })
    }

    fn check_version(&self, request: &Request<'_>, live: &Value, new: &Value) -> Result<(), Reply> {
        let stale = |why: &str| {
            let resource = self.kind.qualified();
            let what = format!("Operation cannot be fulfilled on {resource} \"obj\": {why}");
            refuse(409, what)
        };
        let (old, new) = (&live["metadata"], &new["metadata"]);
        if !new["uid"].is_null() && old["uid"] != new["uid"] {
            if request.verb == "replace" {
                return Err(stale("Precondition failed"));
            }
            let prefix = format!("{} \"obj\"", self.kind.qualified_kind());
            let text = format!("Invalid value: {}: field is immutable", new["uid"]);
            return Err(invalid(&prefix, "FieldValueInvalid", "metadata.uid", &text));
        }
        let version = new["resourceVersion"].as_str().unwrap_or_default();
        let unset = version.is_empty() || version == "0";
        if unset && self.kind.custom.is_some() {
            let prefix = format!("{} \"obj\"", self.kind.qualified());
            let text = "Invalid value: 0: must be specified for an update";
            let field = "metadata.resourceVersion";
            return Err(invalid(&prefix, "FieldValueInvalid", field, text));
        }
        if !unset && old["resourceVersion"] != version {
            return Err(stale(
                "the object has been modified; please apply your changes to the latest version \
                 and try again",
            ));
        }
        if new["deletionTimestamp"] != old["deletionTimestamp"] {
            let prefix = format!("{} \"obj\"", self.kind.qualified_kind());
            let text = format!(
                "Invalid value: {}: field is immutable",
                new["deletionTimestamp"]
            );
            let field = "metadata.deletionTimestamp";
            return Err(invalid(&prefix, "FieldValueInvalid", field, &text));
        }
        Ok(())
    }

    /// Puts back what this endpoint may not change.
    fn restore(&self, request: &Request<'_>, live: &Value, new: &mut Value) {
        let managers = new["metadata"]["managedFields"].clone();
        match request.through {
            Some("status") => {
                restore_field(new, live, "spec");
                if self.kind.custom.is_some() {
                    restore_field(new, live, "metadata");
                    put(&mut new["metadata"], "managedFields", managers);
                } else if self.kind.name == "Deployment" {
                    restore_field(&mut new["metadata"], &live["metadata"], "labels");
                }
            }
            _ => self.keep_status(new, Some(live)),
        }
        for key in [
            "uid",
            "namespace",
            "generation",
            "resourceVersion",
            "deletionTimestamp",
        ] {
            restore_field(&mut new["metadata"], &live["metadata"], key);
        }
    }

    fn keep_status(&self, new: &mut Value, live: Option<&Value>) {
        if !self.kind.has_status() {
            return;
        }
        let version = new["apiVersion"].as_str().unwrap();
        let blank = self.kind.blank(version).unwrap_or_default();
        restore_field(new, live.unwrap_or(&blank), "status");
    }

    fn validate(&self, object: &Value) -> Result<(), Reply> {
        let Some(custom) = &self.kind.custom else {
            return Ok(());
        };
        let schema = &custom.schemas[object["apiVersion"].as_str().unwrap()];
        custom::validate(object, schema, "").map_err(|custom::Mistake(path, text)| {
            let prefix = format!("{} \"obj\"", self.kind.qualified_kind());
            invalid(&prefix, "FieldValueTypeInvalid", &path, &text)
        })
    }

    fn bump(&self, request: &Request<'_>, live: &Value, new: &mut Value) {
        if !self.kind.has_generation() || request.through == Some("status") {
            return;
        }
        let content = |object: &Value| {
            let mut object = object.clone();
            let map = object.as_object_mut().unwrap();
            let annotations = map["metadata"]["annotations"].clone();
            map.remove("metadata");
            if self.kind.has_status() {
                map.remove("status");
            }
            if self.kind.name == "Deployment" {
                map.insert("annotations".to_owned(), annotations);
            }
            object
        };
        if content(live) != content(new) {
            let generation = live["metadata"]["generation"].as_u64().unwrap_or(0);
            new["metadata"]["generation"] = json!(generation + 1);
        }
    }
}

fn decode_custom(mut object: Value, schema: &Value) -> Result<(Value, Vec<String>), String> {
    let metadata = object.get("metadata").cloned().unwrap_or_default();
    let normal = normal(&metadata, table().object_meta()).map_err(|error| error.to_string())?;
    let keep: Vec<(&str, Value)> = vec![
        ("apiVersion", object["apiVersion"].clone()),
        ("kind", object["kind"].clone()),
        ("metadata", normal.object),
    ];
    for (key, _) in &keep {
        object.as_object_mut().unwrap().remove(*key);
    }
    let unknown = custom::prune(&mut object, schema, "");
    custom::default(&mut object, schema);
    for (key, value) in keep {
        put(&mut object, key, value);
    }
    Ok((object, unknown))
}

fn options(request: &Request<'_>) -> Result<(), Reply> {
    let bad = |cause: &str, field: &str, text: &str| {
        invalid("PatchOptions.meta.k8s.io \"\"", cause, field, text)
    };
    if let Err(error) = check_manager(&request.manager) {
        return Err(match error {
            apply::NameError::TooLong => {
                let text = format!("Too long: {error}");
                bad("FieldValueTooLong", "fieldManager", &text)
            }
            apply::NameError::NotPrintable { .. } => {
                let text = format!("Invalid value: {:?}: {error}", request.manager);
                bad("FieldValueInvalid", "fieldManager", &text)
            }
        });
    }
    if request.verb != "apply" && request.step.get("force").is_some() {
        let text = "Forbidden: may not be specified for non-apply patch";
        return Err(bad("FieldValueForbidden", "force", text));
    }
    Ok(())
}

pub(crate) fn put(value: &mut Value, key: &str, new: Value) {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    if new.is_null() {
        value.as_object_mut().unwrap().remove(key);
    } else {
        value[key] = new;
    }
}

fn restore_field(new: &mut Value, live: &Value, key: &str) {
    put(new, key, live.get(key).cloned().unwrap_or_default());
}
