//! Takes the steps of a plan: the only place with effects on pods, claims and revisions.
//!
//! Steps name the object they mean by uid or revision, so that a step decided on an old view changes
//! nothing it did not mean.

mod claims;

use std::sync::Arc;

use edgegrid_runtime::Fence;
use futures::{FutureExt, StreamExt, stream};
use kube::Client;
use kube::api::Patch;
use serde_json::{Value, json};

use crate::calls::{Calls, Error};
use crate::entries;
use crate::events::Events;
use crate::rules::{
    self, ClaimStep, Pace, Plan, Purpose, Revision, Set, Stage, Status, Step, Verb, of_pod,
};
use crate::written::{Caches, Kind, Writes};

/// Steps of a parallel set that are under way at once.
const CONCURRENCY: usize = 64;
const LARGEST_BATCH: usize = 500;

/// What became of a plan.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The name of the new revision is taken by another template.
    Collided,
    /// Nothing was done about pods.
    Stopped(Error),
    /// All that could be done was done.
    Acted {
        /// Pods deleted for a rollout.
        rolled: i64,
        /// Why not everything.
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

/// Why steps stopped.
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
    /// Takes the steps in their order.
    pub(crate) async fn run(&self, plan: &Plan) -> Outcome {
        let (mut rolled, mut failure) = (0, None);
        if let Err(error) = self.check_adoption(plan).await {
            return Outcome::Stopped(error);
        }
        for stage in &plan.stages {
            let (taken, result) = self.take(stage).await;
            if stage.purpose == Purpose::Rollout {
                rolled = taken;
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
            if let Err(Halt::Failure(error)) = self.step(step).await {
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
                    .note(self.caches, &self.set.uid, Kind::Sets, written.version());
                Ok(())
            }
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether a revision is the set's template but for defaults that are newer than the revision.
    pub(crate) async fn is_equivalent(&self, revision: &Revision) -> bool {
        let tried = self
            .calls()
            .try_patch(&entries::sets(), &self.set.name, &revision.data)
            .await;
        match tried {
            Ok(object) => rules::is_template_of(self.set, &object.data["spec"]["template"]),
            Err(error) => {
                tracing::info!(set = self.set.name, %error, "cannot ask for defaults: the revision counts as another one");
                false
            }
        }
    }

    /// Adopting on an old view of the set would give pods to a set that is gone.
    async fn check_adoption(&self, plan: &Plan) -> Result<(), Error> {
        let adopts =
            |step: &Step| matches!(step, Step::AdoptPod { .. } | Step::AdoptRevision { .. });
        if !plan.steps().any(adopts) {
            return Ok(());
        }
        let set = self.set;
        let live = self.calls().live(&entries::sets(), &set.name).await?;
        let is_same = live.metadata.uid.as_deref() == Some(&set.uid);
        if is_same && live.metadata.deletion_timestamp.is_none() {
            return Ok(());
        }
        Err(Error::CannotAdopt {
            name: set.name.clone(),
        })
    }

    async fn take(&self, stage: &Stage) -> (i64, Result<(), Halt>) {
        let largest = match stage.pace {
            Pace::OneByOne => 1,
            Pace::SlowStart => LARGEST_BATCH,
        };
        let (mut taken, mut size, mut rest) = (0, 1, stage.steps.as_slice());
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(size.min(rest.len()));
            let calls: Vec<_> = batch.iter().map(|step| self.step(step).boxed()).collect();
            let results = stream::iter(calls).buffer_unordered(CONCURRENCY);
            let results: Vec<Result<(), Halt>> = results.collect().await;
            taken += results.iter().filter(|result| result.is_ok()).count();
            if let Some(halt) = results.into_iter().find_map(Result::err) {
                return (count(taken), Err(halt));
            }
            rest = later;
            size = (2 * size).min(largest);
        }
        (count(taken), Ok(()))
    }

    async fn step(&self, step: &Step) -> Result<(), Halt> {
        match step {
            Step::AdoptRevision { name, uid } => {
                let revisions = (&entries::revisions(), Kind::Revisions);
                self.adopt(revisions, name, uid).await?;
            }
            Step::AdoptPod { name, uid } => {
                self.adopt((&entries::pods(), Kind::Pods), name, uid)
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
            Step::MendClaims { pod, claims } => {
                let mended = self.mend_claims(pod, claims).await;
                self.tell_failure(Verb::Update, pod, mended)?;
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
        (kind, written): (&kube::api::ApiResource, Kind),
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
                self.note(written, answer.version());
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
                self.note(Kind::Pods, answer.version());
                Ok(())
            }
            Err(error) if error.is_not_found() || error.is_conflict() || error.is_invalid() => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The API server keeps a revision's data byte by byte and refuses any change of it, also the one that
    /// comes of reading and writing it again: so it is told as Go would write it.
    async fn create_revision(&self, name: &str, body: &Value) -> Result<(), Halt> {
        let (revisions, text) = (entries::revisions(), rules::canonical_text(body));
        match self.calls().create_as_written(&revisions, name, text).await {
            Ok(written) => {
                self.note(Kind::Revisions, written.version());
                Ok(())
            }
            Err(error) if error.is_already_exists() => {
                let there = Revision::new(self.calls().live(&entries::revisions(), name).await?);
                if there.data == body["data"] {
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
        self.note(Kind::Revisions, patched.await?.version());
        Ok(())
    }

    async fn create_pod(
        &self,
        name: &str,
        body: &Value,
        claims: &[ClaimStep],
    ) -> Result<(), Error> {
        let made = self.create_claims(name, claims).await;
        self.tell_failure(Verb::Create, name, made)?;
        let made = self.calls().create(&entries::pods(), name, body).await;
        let written = match made {
            // Our cache is behind, or somebody else was faster: nothing to tell.
            Err(error) if error.is_already_exists() => return Err(error),
            other => self.tell_failure(Verb::Create, name, other)?,
        };
        self.note(Kind::Pods, written.version());
        let owned = self.own_claims(claims).await;
        self.tell_failure(Verb::Update, name, owned)?;
        self.tell(of_pod(self.set, Verb::Create, name, None));
        Ok(())
    }

    async fn update_pod(
        &self,
        name: &str,
        patch: Option<&Value>,
        claims: &[ClaimStep],
    ) -> Result<(), Error> {
        let updated = self.mend_pod(name, patch, claims).await;
        self.tell_outcome(Verb::Update, name, updated)
    }

    async fn mend_pod(
        &self,
        name: &str,
        patch: Option<&Value>,
        claims: &[ClaimStep],
    ) -> Result<(), Error> {
        self.mend_claims(name, claims).await?;
        if let Some(patch) = patch {
            let pods = entries::pods();
            let calls = self.calls();
            let patched = calls.patch(&pods, name, Patch::Strategic(patch));
            self.note(Kind::Pods, patched.await?.version());
        }
        Ok(())
    }

    async fn delete_pod(&self, name: &str, uid: &str) -> Result<(), Error> {
        let deleted = self.calls().delete(&entries::pods(), name, uid).await;
        self.tell_outcome(Verb::Delete, name, deleted)?;
        self.writes.note_deleted(&self.set.uid, (name, uid));
        Ok(())
    }

    /// Tells how it went with a pod.
    fn tell_outcome(&self, verb: Verb, pod: &str, result: Result<(), Error>) -> Result<(), Error> {
        if result.is_ok() {
            self.tell(of_pod(self.set, verb, pod, None));
        }
        self.tell_failure(verb, pod, result)
    }

    /// Tells only what went wrong with a pod.
    fn tell_failure<T>(&self, verb: Verb, pod: &str, result: Result<T, Error>) -> Result<T, Error> {
        result.inspect_err(|error| {
            self.tell(of_pod(self.set, verb, pod, Some(&error.for_users())));
        })
    }

    fn calls(&self) -> Calls<'_> {
        Calls {
            client: self.client,
            fence: self.fence,
            namespace: &self.set.namespace,
        }
    }

    fn note(&self, kind: Kind, version: u64) {
        self.writes.note(self.caches, &self.set.uid, kind, version);
    }

    fn tell(&self, notice: rules::Notice) {
        self.events.tell(self.set, notice);
    }
}

fn count(taken: usize) -> i64 {
    i64::try_from(taken).unwrap_or(i64::MAX)
}
