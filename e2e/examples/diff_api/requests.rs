//! The next request of an object's life, from what is known of it and from chance.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

use crate::generate::Generator;
use crate::kinds::{NAMESPACE, Subject};
use crate::normal::portable;
use crate::patches;
use crate::rng::Rng;
use crate::sides::Request;
use crate::targets::{Choice, Targets};

/// What an accepted request does to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    /// The answer is the object as it is now.
    Writes,
    /// It may be gone.
    Deletes,
}

/// The life of one object, on both servers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Life {
    /// Beginning of its name, and of no other's.
    pub(crate) key: String,
    pub(crate) exists: bool,
    /// What each server holds.
    pub(crate) known: [Value; 2],
    /// What each manager wants.
    pub(crate) intents: BTreeMap<&'static str, Value>,
    pub(crate) history: Vec<String>,
}

const MANAGERS: [&str; 3] = ["alice", "bob", "carol"];
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const NAME: &str = "{{/metadata/name}}";

/// Draws requests for one kind.
pub(crate) struct Requests<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) targets: Targets,
}

impl<'a> Requests<'a> {
    pub(crate) fn new(subject: &'a Subject) -> Self {
        let targets = Targets::new(subject);
        Self { subject, targets }
    }

    /// What happens next to an object.
    pub(crate) fn next(&mut self, life: &mut Life, rng: &mut Rng) -> Result<(Request, Effect)> {
        if !life.exists {
            return self.first(life, rng);
        }
        let kind = self.subject.kind;
        let is_fixed = self.targets.is_fixed;
        let deletes = if is_fixed { 20 } else { 8 };
        Ok(match rng.below(100 + deletes) {
            0..14 => self.put(life, rng),
            14..26 => self.patch(life, rng, "merge", MERGE),
            26..38 => self.patch(life, rng, "json", JSON_PATCH),
            38..60 if !self.subject.is_custom() || rng.chance(5) => {
                self.patch(life, rng, "strategic", STRATEGIC)
            }
            38..80 => self.apply(life, rng),
            80..88 if kind.status => self.status(life, rng),
            80..92 if kind.scale => self.scale(life, rng),
            80..94 => (
                self.request("get", "GET", NAME, JSON, None),
                Effect::Nothing,
            ),
            94..100 => (self.list(rng), Effect::Nothing),
            100..102 => self.delete_collection(life),
            _ => self.delete(rng),
        })
    }

    fn first(&mut self, life: &mut Life, rng: &mut Rng) -> Result<(Request, Effect)> {
        let mut object = self.subject.kind.base()?;
        object["metadata"] = json!({ "name": life.key, "labels": { "life": life.key } });
        if self.subject.kind.namespaced && rng.chance(50) {
            object["metadata"]["namespace"] = NAMESPACE.into();
        }
        if rng.chance(20) {
            let manager = *rng.pick(&MANAGERS);
            self.mutate(&mut object, rng, false);
            life.intents.insert(manager, object.clone());
            let path = format!("{}?fieldManager={manager}", life.key);
            return Ok((
                self.request("apply", "PATCH", &path, APPLY, Some(object)),
                Effect::Writes,
            ));
        }
        self.mutate(&mut object, rng, false);
        if rng.chance(10) {
            let metadata = object["metadata"].as_object_mut();
            metadata.and_then(|metadata| metadata.remove("name"));
            object["metadata"]["generateName"] = format!("{}-", life.key).into();
        }
        let (query, effect) = Self::options(rng);
        Ok((
            self.request("create", "POST", &query, JSON, Some(object)),
            effect,
        ))
    }

    /// Query of a write, and what the write does then.
    fn options(rng: &mut Rng) -> (String, Effect) {
        match rng.below(20) {
            0 => ("?dryRun=All".into(), Effect::Nothing),
            1 => ("?fieldValidation=Strict".into(), Effect::Writes),
            2 => ("?fieldValidation=Ignore".into(), Effect::Writes),
            3..8 => (
                format!("?fieldManager={}", rng.pick(&MANAGERS)),
                Effect::Writes,
            ),
            _ => (String::new(), Effect::Writes),
        }
    }

    fn put(&mut self, life: &Life, rng: &mut Rng) -> (Request, Effect) {
        let mut object = portable(&life.known[0]);
        self.mutate(&mut object, rng, true);
        let metadata = object["metadata"].as_object_mut();
        match (rng.below(10), metadata) {
            (0..4, Some(metadata)) => {
                metadata.remove("resourceVersion");
            }
            (4, Some(metadata)) => {
                metadata.insert("resourceVersion".into(), "1".into());
            }
            (5, Some(metadata)) => {
                metadata.remove("uid");
            }
            _ => {}
        }
        let (query, effect) = Self::options(rng);
        (
            self.request(
                "update",
                "PUT",
                &format!("{NAME}{query}"),
                JSON,
                Some(object),
            ),
            effect,
        )
    }

    fn patch(
        &mut self,
        life: &Life,
        rng: &mut Rng,
        verb: &'static str,
        media_type: &'static str,
    ) -> (Request, Effect) {
        let old = portable(&life.known[0]);
        let mut new = old.clone();
        self.mutate(&mut new, rng, true);
        let body = match verb {
            "merge" => patches::merge(&old, &new),
            "json" => patches::json(&old, &new),
            _ => patches::strategic(&old, &new, self.subject.shape(), rng),
        };
        let (query, effect) = Self::options(rng);
        (
            self.request(
                verb,
                "PATCH",
                &format!("{NAME}{query}"),
                media_type,
                Some(body),
            ),
            effect,
        )
    }

    fn apply(&mut self, life: &mut Life, rng: &mut Rng) -> (Request, Effect) {
        let manager = *rng.pick(&MANAGERS);
        let kind = self.subject.kind;
        let blank = json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": NAME } });
        let mut intent = life.intents.get(manager).cloned().unwrap_or(blank);
        self.mutate(&mut intent, rng, true);
        intent["metadata"]["name"] = NAME.into();
        life.intents.insert(manager, intent.clone());
        let force = if rng.chance(40) { "&force=true" } else { "" };
        let path = format!("{NAME}?fieldManager={manager}{force}");
        (
            self.request("apply", "PATCH", &path, APPLY, Some(intent)),
            Effect::Writes,
        )
    }

    fn status(&mut self, life: &mut Life, rng: &mut Rng) -> (Request, Effect) {
        let old = portable(&life.known[0]);
        let mut new = old.clone();
        for _ in 0..=rng.below(3 + self.targets.status.len() / 50) {
            let Some(path) = self.targets.aim(Choice::Status, rng) else {
                break;
            };
            Generator { rng }.set(&mut new, self.subject.shape(), &path);
        }
        let path = format!("{NAME}/status");
        let (verb, media_type, body) = match rng.below(4) {
            0 => {
                return (
                    self.request("status update", "PUT", &path, JSON, Some(new)),
                    Effect::Writes,
                );
            }
            1 => ("status merge", MERGE, patches::merge(&old, &new)),
            2 if !self.subject.is_custom() => (
                "status strategic",
                STRATEGIC,
                patches::strategic(&old, &new, self.subject.shape(), rng),
            ),
            _ => return self.status_apply(&new, rng),
        };
        (
            self.request(verb, "PATCH", &path, media_type, Some(body)),
            Effect::Writes,
        )
    }

    fn status_apply(&self, new: &Value, rng: &mut Rng) -> (Request, Effect) {
        let kind = self.subject.kind;
        let body = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind,
            "metadata": { "name": NAME }, "status": new["status"],
        });
        let path = format!(
            "{NAME}/status?fieldManager={}&force=true",
            rng.pick(&MANAGERS)
        );
        (
            self.request("status apply", "PATCH", &path, APPLY, Some(body)),
            Effect::Writes,
        )
    }

    fn scale(&self, life: &Life, rng: &mut Rng) -> (Request, Effect) {
        let path = format!("{NAME}/scale");
        let replicas = rng.pick(&[0, 1, 2, 5, -1]);
        let namespace = &life.known[0]["metadata"]["namespace"];
        match rng.below(3) {
            0 => (
                self.request("scale get", "GET", &path, JSON, None),
                Effect::Nothing,
            ),
            1 => {
                let body = json!({ "spec": { "replicas": replicas } });
                (
                    self.request("scale merge", "PATCH", &path, MERGE, Some(body)),
                    Effect::Nothing,
                )
            }
            _ => {
                let body = json!({
                    "apiVersion": "autoscaling/v1", "kind": "Scale",
                    "metadata": { "name": NAME, "namespace": namespace }, "spec": { "replicas": replicas },
                });
                (
                    self.request("scale update", "PUT", &path, JSON, Some(body)),
                    Effect::Nothing,
                )
            }
        }
    }

    fn list(&self, rng: &mut Rng) -> Request {
        let query = *rng.pick(&[
            "?labelSelector=app%3Dweb",
            "?labelSelector=tier%20in%20(front,back)",
            "?labelSelector=!tier,life",
            "?fieldSelector=metadata.name%3D{{/metadata/name}}",
            "?labelSelector=life&limit=1",
            "?labelSelector=life&limit=2",
            "?labelSelector=%3D%3D",
        ]);
        self.request("list", "GET", query, JSON, None)
    }

    fn delete(&self, rng: &mut Rng) -> (Request, Effect) {
        let (query, body) = match rng.below(8) {
            0 => ("?propagationPolicy=Foreground", None),
            1 => ("?propagationPolicy=Orphan", None),
            2 => ("?gracePeriodSeconds=0", None),
            3 => ("?dryRun=All", None),
            4 => (
                "",
                Some(json!({ "preconditions": { "uid": "{{/metadata/uid}}" } })),
            ),
            5 => ("", Some(json!({ "preconditions": { "uid": "another" } }))),
            6 => (
                "",
                Some(
                    json!({ "preconditions": { "resourceVersion": "{{/metadata/resourceVersion}}" } }),
                ),
            ),
            _ => ("", None),
        };
        let body = body.map(|mut body| {
            body["kind"] = "DeleteOptions".into();
            body["apiVersion"] = "v1".into();
            body
        });
        (
            self.request("delete", "DELETE", &format!("{NAME}{query}"), JSON, body),
            Effect::Deletes,
        )
    }

    /// What lets any object go for good.
    pub(crate) fn last(&self) -> Vec<(Request, Effect)> {
        let free = json!({ "metadata": { "finalizers": null } });
        let delete = format!("{NAME}?gracePeriodSeconds=0");
        let mut requests = vec![
            (
                self.request("merge", "PATCH", NAME, MERGE, Some(free)),
                Effect::Writes,
            ),
            (
                self.request("delete", "DELETE", &delete, JSON, None),
                Effect::Deletes,
            ),
        ];
        if self.subject.kind.plural == "namespaces" {
            let body = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": { "name": NAME }, "spec": { "finalizers": [] },
            });
            let path = format!("{NAME}/finalize");
            requests.push((
                self.request("finalize", "PUT", &path, JSON, Some(body)),
                Effect::Deletes,
            ));
        }
        requests
    }

    fn delete_collection(&self, life: &Life) -> (Request, Effect) {
        let query = format!("?labelSelector=life%3D{}", life.key);
        (
            self.request("deletecollection", "DELETE", &query, JSON, None),
            Effect::Deletes,
        )
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the one constructor of all requests"
    )]
    pub(crate) fn request(
        &self,
        verb: &'static str,
        method: &'static str,
        place: &str,
        media_type: &'static str,
        body: Option<Value>,
    ) -> Request {
        let slash = if place.is_empty() || place.starts_with('?') {
            ""
        } else {
            "/"
        };
        let path = format!("{}{slash}{place}", self.subject.kind.path());
        Request {
            verb,
            method,
            path,
            media_type,
            body,
        }
    }

    /// Sets, changes or takes away a few fields, now and then wrongly.
    fn mutate(&mut self, object: &mut Value, rng: &mut Rng, exists: bool) {
        let most = if exists {
            3
        } else {
            4 + self.targets.fields.len() / 100
        };
        for _ in 0..rng.below(most) {
            let choice = if exists && rng.chance(85) {
                Choice::Changeable
            } else {
                Choice::Any
            };
            let Some(path) = self.targets.aim(choice, rng) else {
                break;
            };
            Generator { rng }.set(object, self.subject.shape(), &path);
        }
        if exists && rng.chance(15) {
            Generator { rng }.remove(object);
        }
        if rng.chance(6) {
            Generator { rng }.spoil(object);
        }
    }
}
