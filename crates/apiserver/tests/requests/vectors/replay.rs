//! One sequence on one server: requests out, answers compared.

use std::time::Duration;

use http::{Request, header};
use serde_json::{Value, json};

use super::shown;
use crate::caller::{Caller, Reply};

struct Server {
    caller: Caller,
    group: String,
    version: String,
    plural: String,
}

pub(crate) async fn replay(vector: &Value) -> Result<(), String> {
    let of = |index: usize| vector["of"][index].as_str().unwrap();
    let server = Server::start(of(0), of(1)).await;
    if let Some(given) = vector.get("given") {
        let step = json!({"do": "create", "manager": "before", "body": given});
        let reply = server.handle(&step).await;
        if reply.code != 201 {
            return Err(format!("given: {} {}", reply.code, reply.body));
        }
    }
    for (index, step) in vector["steps"].as_array().unwrap().iter().enumerate() {
        tokio::time::advance(Duration::from_secs(step["wait"].as_u64().unwrap_or(0))).await;
        let before = server.stored().await;
        let reply = server.handle(step).await;
        let after = server.stored().await;
        check(&reply, &before, &after, &step["then"]).map_err(|e| format!("step {index}: {e}"))?;
    }
    let object = server.stored().await;
    same(
        "object",
        &shown::object(&object),
        &vector["finally"]["object"],
    )?;
    let found = shown::managers(&object["metadata"]["managedFields"]);
    same_managers(&found, &vector["finally"]["managers"])
}

impl Server {
    async fn start(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let mut server = Self {
            caller: Caller::new(),
            group: group.to_owned(),
            version: version.to_owned(),
            plural: String::new(),
        };
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}});
        server
            .caller
            .must("POST", "/api/v1/namespaces", &namespace)
            .await;
        server.plural = match shown::definition(kind) {
            Some(definition) => {
                let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
                server.caller.must("POST", path, &definition).await;
                definition["spec"]["names"]["plural"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            }
            None => shown::plural(kind),
        };
        server
    }

    async fn stored(&self) -> Value {
        let reply = self.caller.get(&self.path(&json!({"do": "get"}))).await;
        match reply.code {
            200 => reply.body,
            404 => Value::Null,
            code => panic!("get: {code} {}", reply.body),
        }
    }

    async fn handle(&self, step: &Value) -> Reply {
        let verb = step["do"].as_str().unwrap();
        let (method, media) = match verb {
            "create" => ("POST", "application/json"),
            "replace" => ("PUT", "application/json"),
            "delete" => ("DELETE", "application/json"),
            "apply" => ("PATCH", "application/apply-patch+yaml"),
            "strategic" => ("PATCH", "application/strategic-merge-patch+json"),
            "merge" => ("PATCH", "application/merge-patch+json"),
            "json" => ("PATCH", "application/json-patch+json"),
            other => ("PATCH", other),
        };
        let agent = step["agent"].as_str().unwrap_or("vector/1.0");
        let request = Request::builder()
            .method(method)
            .uri(self.path(step))
            .header(header::CONTENT_TYPE, media)
            .header(header::USER_AGENT, agent);
        let body = self.body(step).await;
        self.caller.call(request.body(body).unwrap()).await
    }

    /// The body, with `$RV` and `$UID` filled in.
    async fn body(&self, step: &Value) -> String {
        let text = match (step.get("text"), step.get("body")) {
            (Some(text), _) => text.as_str().unwrap().to_owned(),
            (None, Some(body)) => body.to_string(),
            (None, None) => String::new(),
        };
        let metadata = &self.stored().await["metadata"];
        let fill = |text: String, mark: &str, key: &str| match metadata[key].as_str() {
            Some(value) => text.replace(mark, value),
            None => text,
        };
        fill(fill(text, "$RV", "resourceVersion"), "$UID", "uid")
    }

    fn path(&self, step: &Value) -> String {
        let version = step["version"].as_str().unwrap_or(&self.version);
        let root = match self.group.as_str() {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        let name = match step["do"].as_str() {
            Some("create") => "",
            _ => "/obj",
        };
        let through = step["through"].as_str().map(|name| format!("/{name}"));
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (parameter, key) in [
            ("fieldManager", "manager"),
            ("force", "force"),
            ("dryRun", "dryRun"),
            ("fieldValidation", "validate"),
        ] {
            if let Some(value) = step[key].as_str() {
                query.append_pair(parameter, value);
            }
        }
        let (plural, through) = (&self.plural, through.unwrap_or_default());
        format!(
            "{root}/namespaces/ns/{plural}{name}{through}?{}",
            query.finish()
        )
    }
}

fn check(reply: &Reply, before: &Value, after: &Value, then: &Value) -> Result<(), String> {
    if then["code"] != reply.code {
        return Err(format!(
            "code {} instead of {}: {}",
            reply.code, then["code"], reply.body
        ));
    }
    let text = |key: &str| json!(reply.body[key].as_str().unwrap_or_default());
    for (key, found) in [
        ("reason", text("reason")),
        ("message", text("message")),
        ("warnings", json!(reply.warnings)),
        ("generation", after["metadata"]["generation"].clone()),
    ] {
        let is_said = key != "generation" || !after.is_null();
        if let Some(wanted) = then.get(key).filter(|_| is_said) {
            same(key, &found, wanted)?;
        }
    }
    if let Some(causes) = then.get("causes") {
        same_causes(&reply.body["details"]["causes"], causes)?;
    }
    let revision = |object: &Value| object["metadata"]["resourceVersion"].clone();
    same(
        "written",
        &json!(revision(before) != revision(after)),
        &then["written"],
    )?;
    if let Some(retimed) = then.get("retimed") {
        same("retimed", &shown::retimed(before, after), retimed)?;
    }
    if let Some(object) = then.get("object") {
        same("answer", &shown::object(&reply.body), object)?;
    }
    match then.get("managers") {
        Some(wanted) => {
            let found = shown::managers(&reply.body["metadata"]["managedFields"]);
            same(
                "answered managers",
                &shown::untimed(&found),
                &shown::untimed(wanted),
            )
        }
        None => Ok(()),
    }
}

fn same_causes(found: &Value, wanted: &Value) -> Result<(), String> {
    let mut found = shown::causes(found);
    for (index, cause) in wanted.as_array().unwrap().iter().enumerate() {
        if cause[2].is_null() && found.get(index).is_some() {
            found[index][2] = Value::Null;
        }
    }
    same("causes", &found, wanted)
}

fn same_managers(found: &Value, wanted: &Value) -> Result<(), String> {
    // Where several entries have one name, the recording does not say which of them had no time.
    let unsaid = |entry: &Value| entry[4].is_null();
    if wanted.as_array().into_iter().flatten().any(unsaid) {
        return same("managers", &shown::untimed(found), &shown::untimed(wanted));
    }
    same("managers", found, &shown::sorted(wanted))
}

fn same(what: &str, found: &Value, wanted: &Value) -> Result<(), String> {
    if found == wanted {
        Ok(())
    } else {
        Err(format!("{what}:\n  found  {found}\n  wanted {wanted}"))
    }
}
