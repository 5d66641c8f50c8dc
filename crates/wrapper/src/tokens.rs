//! Bearer tokens: verified against the cluster's public keys, which are kept for when it cannot be
//! asked, and confirmed by it while it can.
//!
//! ```text
//! token ─► signature, times, audience against the known keys ─► cluster reachable? ─► TokenReview
//! ```

use crate::identity::Identity;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Request;
use kube::Client;
use parking_lot::Mutex;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A confirmation counts this long.
const CONFIRMED_FOR: Duration = Duration::from_mins(1);
/// How long the cluster may take to confirm; then what the keys say counts.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(3);
/// So many confirmations are remembered at most.
const MAX_CONFIRMED: usize = 256;

/// The cluster's issuer and its public keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Keys {
    pub(crate) issuer: String,
    pub(crate) keys: Vec<Value>,
}

/// Why a token does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("it is no token of a service account")]
    Malformed,
    #[error("no key of the cluster fits it")]
    UnknownKey,
    #[error("its signature is wrong")]
    Forged,
    #[error("it is not valid at this time")]
    Untimely,
    #[error("it is meant for somebody else")]
    Audience,
    #[error("the cluster does not know it any more")]
    Revoked,
}

/// Verifies tokens.
pub(crate) struct Tokens {
    client: Client,
    confirmed: Mutex<BTreeMap<[u8; 32], (Instant, bool)>>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: String,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    #[serde(default)]
    aud: Value,
    exp: i64,
    #[serde(default)]
    nbf: i64,
}

impl Tokens {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            confirmed: Mutex::default(),
        }
    }

    /// Who shows a token.
    pub(crate) async fn identify(
        &self,
        token: &str,
        keys: &Keys,
        now: i64,
    ) -> Result<Identity, Refused> {
        let who = keys.verify(token, now)?;
        if self.is_revoked(token).await {
            return Err(Refused::Revoked);
        }
        Ok(who)
    }

    /// The cluster's keys, if it can be asked.
    pub(crate) async fn fetch(&self) -> Option<Keys> {
        let get = async |path: &str| -> Option<Value> {
            let request = Request::get(path).body(Vec::new()).ok()?;
            timeout(REVIEW_TIMEOUT, self.client.request(request))
                .await
                .ok()?
                .ok()
        };
        let issuer = get("/.well-known/openid-configuration").await?["issuer"]
            .as_str()?
            .to_owned();
        let keys = get("/openid/v1/jwks").await?["keys"].as_array()?.clone();
        Some(Keys { issuer, keys })
    }

    /// Whether the cluster says no; silence says nothing.
    async fn is_revoked(&self, token: &str) -> bool {
        let id: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some((at, revoked)) = self.confirmed.lock().get(&id)
            && at.elapsed() < CONFIRMED_FOR
        {
            return *revoked;
        }
        let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": { "token": token } });
        let request = Request::post("/apis/authentication.k8s.io/v1/tokenreviews")
            .header("content-type", "application/json")
            .body(review.to_string().into_bytes());
        let Ok(request) = request else { return true };
        let Ok(Ok(answer)) = timeout(REVIEW_TIMEOUT, self.client.request::<Value>(request)).await
        else {
            return false;
        };
        let revoked = answer["status"]["authenticated"] != true;
        let mut confirmed = self.confirmed.lock();
        confirmed.retain(|_, (at, _)| at.elapsed() < CONFIRMED_FOR);
        if confirmed.len() < MAX_CONFIRMED {
            confirmed.insert(id, (Instant::now(), revoked));
        }
        revoked
    }
}

impl Keys {
    /// Verifies a token without asking anybody.
    pub(crate) fn verify(&self, token: &str, now: i64) -> Result<Identity, Refused> {
        let mut parts = token.split('.');
        let (Some(head), Some(body), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(Refused::Malformed);
        };
        let header: Header = json_of(head)?;
        let claims: Claims = json_of(body)?;
        let signature = bytes_of(signature)?;
        let signed = token
            .as_bytes()
            .get(..head.len() + 1 + body.len())
            .ok_or(Refused::Malformed)?;
        let fits = |key: &&Value| key["kid"].as_str().unwrap_or_default() == header.kid;
        let mut keys = self.keys.iter().filter(fits).peekable();
        keys.peek().ok_or(Refused::UnknownKey)?;
        if !keys.any(|key| is_signed(&header.alg, key, signed, &signature)) {
            return Err(Refused::Forged);
        }
        if now >= claims.exp || now < claims.nbf {
            return Err(Refused::Untimely);
        }
        let is_for_us = match &claims.aud {
            Value::String(audience) => *audience == self.issuer,
            Value::Array(audiences) => audiences
                .iter()
                .any(|audience| *audience == self.issuer.as_str()),
            _ => false,
        };
        if !is_for_us || claims.iss != self.issuer {
            return Err(Refused::Audience);
        }
        service_account(claims.sub)
    }
}

fn service_account(user: String) -> Result<Identity, Refused> {
    let account = user
        .strip_prefix("system:serviceaccount:")
        .ok_or(Refused::Malformed)?;
    let (namespace, _) = account.split_once(':').ok_or(Refused::Malformed)?;
    let groups = vec![
        "system:authenticated".to_owned(),
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
    ];
    Ok(Identity { user, groups })
}

fn is_signed(algorithm: &str, key: &Value, signed: &[u8], signature: &[u8]) -> bool {
    let part = |name: &str| key[name].as_str().and_then(|text| bytes_of(text).ok());
    match (algorithm, key["kty"].as_str()) {
        ("RS256", Some("RSA")) => match (part("n"), part("e")) {
            (Some(n), Some(e)) => {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
                    .is_ok()
            }
            _ => false,
        },
        ("ES256", Some("EC")) => match (part("x"), part("y")) {
            (Some(x), Some(y)) => {
                let point = [&[4][..], &x, &y].concat();
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
                key.verify(signed, signature).is_ok()
            }
            _ => false,
        },
        // Others, and above all none, are nobody's signature.
        _ => false,
    }
}

fn bytes_of(text: &str) -> Result<Vec<u8>, Refused> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| Refused::Malformed)
}

fn json_of<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, Refused> {
    serde_json::from_slice(&bytes_of(text)?).map_err(|_| Refused::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

    const ISSUER: &str = "https://kubernetes.default.svc";

    struct Issuer(EcdsaKeyPair);

    impl Issuer {
        fn new() -> Self {
            let random = SystemRandom::new();
            let document =
                EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
            Self(
                EcdsaKeyPair::from_pkcs8(
                    &ECDSA_P256_SHA256_FIXED_SIGNING,
                    document.as_ref(),
                    &random,
                )
                .unwrap(),
            )
        }

        fn keys(&self) -> Keys {
            let point = self.0.public_key().as_ref();
            let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
            let key = json!({ "kty": "EC", "kid": "k", "x": text(&point[1..33]), "y": text(&point[33..]) });
            Keys {
                issuer: ISSUER.to_owned(),
                keys: vec![key],
            }
        }

        fn token(&self, header: &Value, claims: &Value) -> String {
            let text = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
            let signed = format!("{}.{}", text(header), text(claims));
            let signature = self
                .0
                .sign(&SystemRandom::new(), signed.as_bytes())
                .unwrap();
            format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
        }
    }

    fn claims() -> Value {
        json!({ "iss": ISSUER, "aud": [ISSUER], "exp": 200, "nbf": 100,
            "sub": "system:serviceaccount:kube-system:coredns" })
    }

    #[test]
    fn only_a_timely_token_of_the_clusters_own_key_counts() {
        let (issuer, header) = (Issuer::new(), json!({ "alg": "ES256", "kid": "k" }));
        let keys = issuer.keys();
        let who = keys.verify(&issuer.token(&header, &claims()), 150).unwrap();
        assert_eq!(who.user, "system:serviceaccount:kube-system:coredns");
        assert!(
            who.groups
                .contains(&"system:serviceaccounts:kube-system".to_owned())
        );

        let token = issuer.token(&header, &claims());
        assert_eq!(keys.verify(&token, 99), Err(Refused::Untimely));
        assert_eq!(keys.verify(&token, 200), Err(Refused::Untimely));
        assert_eq!(
            Keys::default().verify(&token, 150),
            Err(Refused::UnknownKey)
        );
        let forged = Issuer::new().token(&header, &claims());
        assert_eq!(keys.verify(&forged, 150), Err(Refused::Forged));
        let unsigned = json!({ "alg": "none", "kid": "k" });
        assert_eq!(
            keys.verify(&issuer.token(&unsigned, &claims()), 150),
            Err(Refused::Forged)
        );
        for (field, value, refused) in [
            ("aud", json!(["other"]), Refused::Audience),
            ("aud", json!(null), Refused::Audience),
            ("iss", json!("other"), Refused::Audience),
            ("sub", json!("admin"), Refused::Malformed),
        ] {
            let mut claims = claims();
            claims[field] = value;
            assert_eq!(
                keys.verify(&issuer.token(&header, &claims), 150),
                Err(refused),
                "{field}"
            );
        }
        for token in ["", "a.b", "a.b.c", "....", "e30.e30.", "\u{0}.\u{0}.\u{0}"] {
            assert!(keys.verify(token, 150).is_err(), "{token}");
        }
    }
}
