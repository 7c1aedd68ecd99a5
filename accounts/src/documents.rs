//! The documents by which others verify tokens: OpenID Connect's discovery document and the set of keys.

use serde::Serialize;

use crate::VerifyingKey;
use crate::keys::Jwk;

/// The documents of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Documents {
    issuer: String,
    algorithms: Vec<&'static str>,
    /// `/openid/v1/jwks`, encoded.
    pub keys: Vec<u8>,
}

#[derive(Serialize)]
struct Configuration<'a> {
    issuer: &'a str,
    jwks_uri: &'a str,
    response_types_supported: [&'static str; 1],
    subject_types_supported: [&'static str; 1],
    id_token_signing_alg_values_supported: &'a [&'static str],
}

#[derive(Serialize)]
struct KeySet {
    keys: Vec<Jwk>,
}

impl Documents {
    /// The documents of an issuer; `None` if it is no `https` URL (`NewOpenIDMetadataProvider`).
    pub(crate) fn new(issuer: &str, keys: &[VerifyingKey]) -> Option<Self> {
        if !issuer.starts_with("https://") || issuer.contains(['?', '#']) {
            return None;
        }
        let mut algorithms: Vec<&'static str> = keys.iter().map(VerifyingKey::algorithm).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        let set = KeySet { keys: keys.iter().map(VerifyingKey::jwk).collect() };
        Some(Self { issuer: issuer.to_owned(), algorithms, keys: serde_json::to_vec(&set).ok()? })
    }

    /// `/.well-known/openid-configuration`, encoded, where the keys are found at this URL.
    #[must_use]
    pub fn configuration(&self, keys_at: &str) -> Vec<u8> {
        let configuration = Configuration {
            issuer: &self.issuer,
            jwks_uri: keys_at,
            response_types_supported: ["id_token"],
            subject_types_supported: ["public"],
            id_token_signing_alg_values_supported: &self.algorithms,
        };
        serde_json::to_vec(&configuration).unwrap_or_default()
    }
}
