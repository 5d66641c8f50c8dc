//! The claims of a pod: made before it, and given to whom the policy says.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::Patch;
use serde_json::{Value, json};

use super::Actor;
use crate::calls::Error;
use crate::entries;
use crate::rules::{ClaimStep, of_claim};
use crate::written::Kind;

impl Actor<'_> {
    pub(super) async fn mend_claims(&self, pod: &str, claims: &[ClaimStep]) -> Result<(), Error> {
        self.create_claims(pod, claims).await?;
        self.own_claims(claims).await
    }

    /// Makes what is missing; one that cannot be made does not keep the others from it.
    pub(super) async fn create_claims(&self, pod: &str, claims: &[ClaimStep]) -> Result<(), Error> {
        let mut errors = Vec::new();
        for claim in claims {
            let result = match claim {
                ClaimStep::Create { name, body } => self.create_claim(pod, name, body).await,
                ClaimStep::Await { name } => Err(Error::ClaimLeaving { name: name.clone() }),
                ClaimStep::Own { .. } => Ok(()),
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
                self.note(Kind::Claims, written.version());
                self.tell(of_claim(self.set, name, pod, None));
                return Ok(());
            }
            Err(error) => error,
        };
        if !error.is_already_exists() {
            self.tell(of_claim(self.set, name, pod, Some(&error.for_users())));
        }
        Err(error)
    }

    pub(super) async fn own_claims(&self, claims: &[ClaimStep]) -> Result<(), Error> {
        for claim in claims {
            if let ClaimStep::Own {
                name,
                resource_version,
                owners,
            } = claim
            {
                self.own_claim(name, resource_version, owners).await?;
            }
        }
        Ok(())
    }

    async fn own_claim(
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
                self.note(Kind::Claims, written.version());
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }
}
