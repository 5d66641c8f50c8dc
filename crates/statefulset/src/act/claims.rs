//! The claims of a pod: created before it, and owned by whom the retention policy says.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::Patch;
use serde_json::{Value, json};

use super::Actor;
use crate::calls::Error;
use crate::entries;
use crate::rules::{ClaimStep, claim_notice};
use crate::written::Watched;

impl Actor<'_> {
    pub(super) async fn repair_claims(&self, pod: &str, claims: &[ClaimStep]) -> Result<(), Error> {
        self.create_claims(pod, claims).await?;
        self.update_claim_owners(claims).await
    }

    /// Creates the missing claims; a failure of one does not stop the others.
    pub(super) async fn create_claims(&self, pod: &str, claims: &[ClaimStep]) -> Result<(), Error> {
        let mut errors = Vec::new();
        for claim in claims {
            let result = match claim {
                ClaimStep::Create { name, body } => self.create_claim(pod, name, body).await,
                ClaimStep::Await { name } => Err(Error::ClaimBeingDeleted { name: name.clone() }),
                ClaimStep::SetOwners { .. } => Ok(()),
            };
            errors.extend(result.err());
        }
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Error::Several(errors)),
        }
    }

    async fn create_claim(&self, pod: &str, name: &str, body: &Value) -> Result<(), Error> {
        let error = match self.calls().create(&entries::claims(), name, body).await {
            Ok(written) => {
                self.note(Watched::Claims, written.version());
                self.record(claim_notice(self.set, name, pod, None));
                return Ok(());
            }
            Err(error) => error,
        };
        if !error.is_already_exists() {
            self.record(claim_notice(self.set, name, pod, Some(&error.for_users())));
        }
        Err(error)
    }

    pub(super) async fn update_claim_owners(&self, claims: &[ClaimStep]) -> Result<(), Error> {
        for claim in claims {
            if let ClaimStep::SetOwners {
                name,
                resource_version,
                owners,
            } = claim
            {
                self.set_claim_owners(name, resource_version, owners)
                    .await?;
            }
        }
        Ok(())
    }

    async fn set_claim_owners(
        &self,
        name: &str,
        resource_version: &str,
        owners: &[OwnerReference],
    ) -> Result<(), Error> {
        let metadata = json!({ "resourceVersion": resource_version, "ownerReferences": owners });
        let patch = json!({ "metadata": metadata });
        match self
            .calls()
            .patch(&entries::claims(), name, Patch::Merge(&patch))
            .await
        {
            Ok(written) => {
                self.note(Watched::Claims, written.version());
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }
}
