//! Runs the steps of a plan: the only place with effects on pods, claims and revisions.
//!
//! Steps name the object they mean by uid or revision, so that a step decided on an old view changes
//! nothing it did not mean.

mod claims;

use std::sync::Arc;

use edgegrid_runtime::Fence;
use edgegrid_runtime::logging::chain;
use futures::{FutureExt, StreamExt, stream};
use kube::Client;
use kube::api::Patch;
use serde_json::{Value, json};

use crate::calls::{Calls, Error};
use crate::entries;
use crate::events::Events;
use crate::rules::{
    self, ClaimStep, Pace, Plan, Purpose, Revision, Set, Stage, Status, Step, Verb, pod_notice,
};
use crate::written::{Caches, Watched, Writes};

/// Steps of a parallel set that are under way at once.
const CONCURRENCY: usize = 64;
const MAX_BATCH: usize = 500;

/// What became of a plan.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Another template has the name of the new revision.
    Collided,
    /// Nothing was done about pods.
    Stopped(Error),
    /// All that could be done was done.
    Acted {
        /// Pods deleted for a rollout.
        rolled: i64,
        /// What stopped the rest, if something did.
        error: Option<Error>,
    },
}

/// Acts for one set.
pub(crate) struct Actor<'a> {
    pub(crate) client: &'a Client,
    pub(crate) fence: &'a Fence,
    pub(crate) set: &'a Arc<Set>,
    pub(crate) caches: &'a Caches,
    pub(crate) writes: &'a Writes,
    pub(crate) events: &'a Events,
}

enum Halt {
    Collision,
    Failure(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Halt::Failure(error)
    }
}

impl Actor<'_> {
    /// Runs the steps in their order.
    pub(crate) async fn run(&self, plan: &Plan) -> Outcome {
        let (mut rolled, mut failure) = (0, None);
        if let Err(error) = self.check_adoption(plan).await {
            return Outcome::Stopped(error);
        }
        for stage in &plan.stages {
            let (done, result) = self.run_stage(stage).await;
            if stage.purpose == Purpose::Rollout {
                rolled = done;
            }
            let is_about_pods = matches!(stage.purpose, Purpose::Scale | Purpose::Rollout);
            match result {
                Ok(()) => {}
                Err(Halt::Collision) => return Outcome::Collided,
                Err(Halt::Failure(error)) if !is_about_pods => return Outcome::Stopped(error),
                Err(Halt::Failure(error)) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        for step in &plan.forget {
            if let Err(Halt::Failure(error)) = self.run_step(step).await {
                failure.get_or_insert(error);
            }
        }
        Outcome::Acted {
            rolled,
            error: failure,
        }
    }

    /// Writes the status; nothing, if the set has gone.
    pub(crate) async fn write_status(&self, status: &Status) -> Result<(), Error> {
        let patch = json!({ "metadata": { "uid": self.set.uid }, "status": status });
        match self
            .calls()
            .patch_status(&entries::sets(), &self.set.name, &patch)
            .await
        {
            Ok(written) => {
                self.writes
                    .note(self.caches, &self.set.uid, Watched::Sets, written.version());
                Ok(())
            }
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether a revision is the set's template but for defaults that are newer than the revision.
    pub(crate) async fn is_equivalent(&self, revision: &Revision) -> bool {
        let answer = self
            .calls()
            .dry_run_patch(&entries::sets(), &self.set.name, &revision.data)
            .await;
        match answer {
            Ok(object) => rules::is_template_of(self.set, &object.data["spec"]["template"]),
            Err(error) => {
                let (namespace, set) = (&self.set.namespace, &self.set.name);
                let (revision, error) = (&revision.name, chain(&error));
                tracing::info!(
                    namespace,
                    set,
                    revision,
                    error,
                    "dry run for defaults failed, creating a new revision"
                );
                false
            }
        }
    }

    /// Adopting on an old view of the set would give pods to a set that was deleted.
    async fn check_adoption(&self, plan: &Plan) -> Result<(), Error> {
        let adopts =
            |step: &Step| matches!(step, Step::AdoptPod { .. } | Step::AdoptRevision { .. });
        if !plan.steps().any(adopts) {
            return Ok(());
        }
        let set = self.set;
        let live = self.calls().get(&entries::sets(), &set.name).await?;
        let is_same = live.metadata.uid.as_deref() == Some(&set.uid);
        if is_same && live.metadata.deletion_timestamp.is_none() {
            return Ok(());
        }
        Err(Error::CannotAdopt {
            name: set.name.clone(),
        })
    }

    async fn run_stage(&self, stage: &Stage) -> (i64, Result<(), Halt>) {
        let max = match stage.pace {
            Pace::OneByOne => 1,
            Pace::SlowStart => MAX_BATCH,
        };
        let (mut done, mut size, mut rest) = (0, 1, stage.steps.as_slice());
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(size.min(rest.len()));
            let calls: Vec<_> = batch
                .iter()
                .map(|step| self.run_step(step).boxed())
                .collect();
            let results = stream::iter(calls).buffer_unordered(CONCURRENCY);
            let results: Vec<Result<(), Halt>> = results.collect().await;
            done += results.iter().filter(|result| result.is_ok()).count();
            if let Some(halt) = results.into_iter().find_map(Result::err) {
                return (count(done), Err(halt));
            }
            rest = later;
            size = (2 * size).min(max);
        }
        (count(done), Ok(()))
    }

    async fn run_step(&self, step: &Step) -> Result<(), Halt> {
        match step {
            Step::AdoptRevision { name, uid } => {
                let revisions = (&entries::revisions(), Watched::Revisions);
                self.adopt(revisions, name, uid).await?;
            }
            Step::AdoptPod { name, uid } => {
                self.adopt((&entries::pods(), Watched::Pods), name, uid)
                    .await?;
            }
            Step::ReleasePod { name, uid } => self.release(name, uid).await?,
            Step::CreateRevision { name, body } => return self.create_revision(name, body).await,
            Step::RenumberRevision {
                name,
                resource_version,
                number,
            } => self.renumber(name, resource_version, *number).await?,
            Step::DeleteRevision { name, uid } => {
                let revisions = entries::revisions();
                self.calls().delete(&revisions, name, uid).await?;
            }
            Step::CreatePod { name, body, claims } => self.create_pod(name, body, claims).await?,
            Step::RepairClaims { pod, claims } => {
                let repaired = self.repair_claims(pod, claims).await;
                self.record_failure(Verb::Update, pod, repaired)?;
            }
            Step::UpdatePod {
                name,
                patch,
                claims,
            } => self.update_pod(name, patch.as_ref(), claims).await?,
            Step::DeletePod { name, uid } => self.delete_pod(name, uid).await?,
        }
        Ok(())
    }

    async fn adopt(
        &self,
        (kind, watched): (&kube::api::ApiResource, Watched),
        name: &str,
        uid: &str,
    ) -> Result<(), Error> {
        let owner = rules::set_reference(self.set);
        let patch = json!({ "metadata": { "uid": uid, "ownerReferences": [owner] } });
        match self
            .calls()
            .patch(kind, name, Patch::Strategic(&patch))
            .await
        {
            Ok(answer) => {
                self.note(watched, answer.version());
                Ok(())
            }
            Err(error) if error.is_not_found() || error.is_conflict() => Err(Error::Vanished {
                name: name.to_owned(),
            }),
            Err(error) => Err(error),
        }
    }

    async fn release(&self, name: &str, uid: &str) -> Result<(), Error> {
        let owner = json!({ "$patch": "delete", "uid": self.set.uid });
        let patch = json!({ "metadata": { "uid": uid, "ownerReferences": [owner] } });
        match self
            .calls()
            .patch(&entries::pods(), name, Patch::Strategic(&patch))
            .await
        {
            Ok(answer) => {
                self.note(Watched::Pods, answer.version());
                Ok(())
            }
            Err(error) if error.is_not_found() || error.is_conflict() || error.is_invalid() => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The API server keeps a revision's data byte by byte and refuses any change of it, also the one that
    /// comes of reading and writing it again: so it is sent as Go would write it.
    async fn create_revision(&self, name: &str, body: &Value) -> Result<(), Halt> {
        let (revisions, text) = (entries::revisions(), rules::canonical_text(body));
        match self.calls().create_text(&revisions, name, text).await {
            Ok(written) => {
                self.note(Watched::Revisions, written.version());
                Ok(())
            }
            Err(error) if error.is_already_exists() => {
                let stored = Revision::new(self.calls().get(&entries::revisions(), name).await?);
                if stored.data == body["data"] {
                    Ok(())
                } else {
                    Err(Halt::Collision)
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A template that was used before becomes the newest.
    async fn renumber(&self, name: &str, resource_version: &str, number: i64) -> Result<(), Error> {
        let metadata = json!({ "resourceVersion": resource_version });
        let patch = json!({ "metadata": metadata, "revision": number });
        let revisions = entries::revisions();
        let calls = self.calls();
        let patched = calls.patch(&revisions, name, Patch::Merge(&patch));
        self.note(Watched::Revisions, patched.await?.version());
        Ok(())
    }

    async fn create_pod(
        &self,
        name: &str,
        body: &Value,
        claims: &[ClaimStep],
    ) -> Result<(), Error> {
        let created = self.create_claims(name, claims).await;
        self.record_failure(Verb::Create, name, created)?;
        let created = self.calls().create(&entries::pods(), name, body).await;
        let written = match created {
            // Our cache is behind, or somebody else was faster: no event.
            Err(error) if error.is_already_exists() => return Err(error),
            other => self.record_failure(Verb::Create, name, other)?,
        };
        self.note(Watched::Pods, written.version());
        let updated = self.update_claim_owners(claims).await;
        self.record_failure(Verb::Update, name, updated)?;
        self.record(pod_notice(self.set, Verb::Create, name, None));
        Ok(())
    }

    async fn update_pod(
        &self,
        name: &str,
        patch: Option<&Value>,
        claims: &[ClaimStep],
    ) -> Result<(), Error> {
        let updated = self.repair_pod(name, patch, claims).await;
        self.record_outcome(Verb::Update, name, updated)
    }

    async fn repair_pod(
        &self,
        name: &str,
        patch: Option<&Value>,
        claims: &[ClaimStep],
    ) -> Result<(), Error> {
        self.repair_claims(name, claims).await?;
        if let Some(patch) = patch {
            let pods = entries::pods();
            let calls = self.calls();
            let patched = calls.patch(&pods, name, Patch::Strategic(patch));
            self.note(Watched::Pods, patched.await?.version());
        }
        Ok(())
    }

    async fn delete_pod(&self, name: &str, uid: &str) -> Result<(), Error> {
        let deleted = self.calls().delete(&entries::pods(), name, uid).await;
        self.record_outcome(Verb::Delete, name, deleted)?;
        self.writes.note_deleted(&self.set.uid, (name, uid));
        Ok(())
    }

    /// Records the event about a write to a pod.
    fn record_outcome(
        &self,
        verb: Verb,
        pod: &str,
        result: Result<(), Error>,
    ) -> Result<(), Error> {
        if result.is_ok() {
            self.record(pod_notice(self.set, verb, pod, None));
        }
        self.record_failure(verb, pod, result)
    }

    /// Records an event only if a write to a pod failed.
    fn record_failure<T>(
        &self,
        verb: Verb,
        pod: &str,
        result: Result<T, Error>,
    ) -> Result<T, Error> {
        result.inspect_err(|error| {
            self.record(pod_notice(self.set, verb, pod, Some(&error.for_users())));
        })
    }

    fn calls(&self) -> Calls<'_> {
        Calls {
            client: self.client,
            fence: self.fence,
            namespace: &self.set.namespace,
        }
    }

    fn note(&self, resource: Watched, version: u64) {
        self.writes
            .note(self.caches, &self.set.uid, resource, version);
    }

    fn record(&self, notice: rules::Notice) {
        self.events.record(self.set, notice);
    }
}

fn count(done: usize) -> i64 {
    i64::try_from(done).unwrap_or(i64::MAX)
}
