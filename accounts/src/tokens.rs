//! Signs tokens and verifies them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use kindom_api::{Value, json};

use crate::{Claims, Documents, KeyError, SigningKey, VerifyingKey};

/// The issuer of tokens that secrets hold.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// A longer text is no token of an account.
const BYTES_MAX: usize = 64 * 1024;

/// The flags about tokens.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The issuers whose tokens hold; the first one signs (`--service-account-issuer`). There is at least one.
    pub issuers: Vec<String>,
    /// The server's own audiences (`--api-audiences`); by default, the issuers.
    pub audiences: Vec<String>,
    /// The longest life of a token, in seconds; 0: any (`--service-account-max-token-expiration`).
    pub life_max: i64,
    /// The URL at which others find the keys; empty: at this server (`--service-account-jwks-uri`).
    pub keys_at: String,
}

/// Signs and verifies.
#[derive(Debug)]
pub struct Tokens {
    settings: Settings,
    signer: SigningKey,
    /// All that verify, the signer's first.
    keys: Vec<VerifyingKey>,
    documents: Option<Documents>,
}

/// The reason why a token does not hold. The text may be told to whoever reviews tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Rejected(pub String);

impl Tokens {
    /// `others` are keys that verify beside the signer's own.
    #[must_use]
    pub fn new(mut settings: Settings, signer: SigningKey, others: Vec<VerifyingKey>) -> Self {
        if settings.audiences.is_empty() {
            settings.audiences.clone_from(&settings.issuers);
        }
        let mut keys = vec![signer.public().clone()];
        for key in others {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let issuer = settings.issuers.first().map(String::as_str).unwrap_or_default();
        let documents = Documents::new(issuer, &keys);
        Self { settings, signer, keys, documents }
    }

    /// The flags.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The documents that publish the keys, if the issuer can have any.
    #[must_use]
    pub fn documents(&self) -> Option<&Documents> {
        self.documents.as_ref()
    }

    /// Signs claims.
    ///
    /// # Errors
    /// [`KeyError::NoRandomness`].
    pub fn sign(&self, claims: &Claims) -> Result<String, KeyError> {
        let issuer = match claims.is_of_secret {
            true => LEGACY_ISSUER,
            false => self.settings.issuers.first().map(String::as_str).unwrap_or_default(),
        };
        let key = self.signer.public();
        let header = kindom_api::object! { "alg": key.algorithm(), "kid": key.id() };
        let part = |value: &Value| BASE64URL.encode(value.to_vec());
        let mut token = format!("{}.{}", part(&header), part(&claims.payload(issuer)));
        let signature = self.signer.sign(token.as_bytes())?;
        token.push('.');
        token.push_str(&BASE64URL.encode(signature));
        Ok(token)
    }

    /// The claims of a token whose signature holds; `None` if it is no token of the issuers that are served here.
    ///
    /// # Errors
    /// It is one of theirs by its own account, and its signature or its shape says otherwise.
    pub fn verify(&self, token: &str) -> Result<Option<Claims>, Rejected> {
        let Some((signed, header, payload, signature)) = parts(token) else { return Ok(None) };
        let issuer = payload.get("iss").and_then(Value::as_str).unwrap_or_default();
        let is_of_secret = issuer == LEGACY_ISSUER;
        if !is_of_secret && !self.settings.issuers.iter().any(|known| known == issuer) {
            return Ok(None);
        }
        let algorithm = header.get("alg").and_then(Value::as_str).unwrap_or_default();
        let id = header.get("kid").and_then(Value::as_str).unwrap_or_default();
        let mut named = self.keys.iter().filter(|key| id.is_empty() || key.id() == id).peekable();
        if named.peek().is_none() {
            return Err(Rejected("invalid signature, no keys found".to_owned()));
        }
        if !named.any(|key| key.algorithm() == algorithm && key.verifies(signed.as_bytes(), &signature)) {
            return Err(Rejected("go-jose/go-jose: error in cryptographic primitive".to_owned()));
        }
        let claims = Claims::read(&payload, is_of_secret);
        claims
            .map(Some)
            .ok_or_else(|| Rejected("service account token claims could not be validated".to_owned()))
    }

    /// Checks claims against the clock and those for whom the token has to be meant, by default this server. Returns the
    /// audiences that they have in common (`jwtTokenAuthenticator.AuthenticateToken`).
    ///
    /// # Errors
    /// The token is not for them, or not for now.
    pub fn check(
        &self,
        claims: &Claims,
        wanted: Option<&[String]>,
        now: i64,
    ) -> Result<Vec<String>, Rejected> {
        let own = &self.settings.audiences;
        let of_token = if claims.audiences.is_empty() { own } else { &claims.audiences };
        let wanted = wanted.filter(|wanted| !wanted.is_empty()).unwrap_or(own);
        let common: Vec<String> = wanted.iter().filter(|one| of_token.contains(one)).cloned().collect();
        if common.is_empty() {
            let list = |all: &[String]| {
                let quoted: Vec<String> = all.iter().map(|one| kindom_api::field::go_quote(one)).collect();
                format!("[{}]", quoted.join(" "))
            };
            let (has, wants) = (list(of_token), list(wanted));
            return Err(Rejected(format!(
                "token audiences {has} is invalid for the target audiences {wants}"
            )));
        }
        match claims.wrong_at(now) {
            None => Ok(common),
            Some(why) => Err(Rejected(why.to_owned())),
        }
    }
}

/// The signed text, header, payload and signature of a token in the compact form.
fn parts(token: &str) -> Option<(&str, Value, Value, Vec<u8>)> {
    if token.len() > BYTES_MAX {
        return None;
    }
    let (signed, signature) = token.rsplit_once('.')?;
    let (header, payload) = signed.split_once('.')?;
    let decoded = |part: &str| json::parse(&BASE64URL.decode(part).ok()?).ok();
    // What is no signature verifies as none.
    let signature = BASE64URL.decode(signature).unwrap_or_default();
    Some((signed, decoded(header)?, decoded(payload)?, signature))
}
