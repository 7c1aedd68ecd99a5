//! Keys that sign tokens, and keys that verify them.

use crate::der::tagged;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use ring::rand::SystemRandom;
use ring::rsa;
use ring::signature::{self, EcdsaKeyPair, KeyPair as _, RsaKeyPair, UnparsedPublicKey};
use serde::Serialize;
use x509_parser::prelude::{FromDer as _, SubjectPublicKeyInfo};

const BITS: u8 = 0x03;
const SEQUENCE: u8 = 0x30;
/// `rsaEncryption`, with its empty parameters.
const RSA: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
/// `id-ecPublicKey` on `prime256v1`.
const P256: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07,
];
/// `id-ecPublicKey` on `secp384r1`.
const P384: &[u8] = &[
    0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00,
    0x22,
];

/// The reason why a key cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Its kind is none of those that are served.
    #[error("it is no key of RSA with at least 2048 bits, and none on the curves P-256 and P-384")]
    Unsupported,
    /// The system gave no random numbers.
    #[error("the system gives no random numbers")]
    NoRandomness,
}

/// The algorithms, by the kind of key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Es256,
    Es384,
    Rs256,
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Rs256 => "RS256",
        }
    }

    /// The AlgorithmIdentifier of its public keys.
    fn identifier(self) -> &'static [u8] {
        match self {
            Self::Es256 => P256,
            Self::Es384 => P384,
            Self::Rs256 => RSA,
        }
    }
}

/// A key that signs.
pub struct SigningKey {
    pair: Pair,
    public: VerifyingKey,
    random: SystemRandom,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl SigningKey {
    /// A new key on P-256, as PKCS #8.
    ///
    /// # Errors
    /// [`KeyError::NoRandomness`].
    pub fn generate() -> Result<Vec<u8>, KeyError> {
        let algorithm = &signature::ECDSA_P256_SHA256_FIXED_SIGNING;
        let made = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new());
        Ok(made.map_err(|_| KeyError::NoRandomness)?.as_ref().to_vec())
    }

    /// Reads a key in PKCS #8.
    ///
    /// # Errors
    /// [`KeyError::Unsupported`].
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        let curves = [
            (&signature::ECDSA_P256_SHA256_FIXED_SIGNING, Algorithm::Es256),
            (&signature::ECDSA_P384_SHA384_FIXED_SIGNING, Algorithm::Es384),
        ];
        for (curve, algorithm) in curves {
            if let Ok(pair) = EcdsaKeyPair::from_pkcs8(curve, der, &random) {
                let public = VerifyingKey::new(algorithm, pair.public_key().as_ref().to_vec());
                return Ok(Self { pair: Pair::Ecdsa(pair), public, random });
            }
        }
        RsaKeyPair::from_pkcs8(der).map(Self::of_rsa).map_err(|_| KeyError::Unsupported)
    }

    /// Reads an RSA key in PKCS #1, the form of `BEGIN RSA PRIVATE KEY`.
    ///
    /// # Errors
    /// [`KeyError::Unsupported`].
    pub fn from_pkcs1(der: &[u8]) -> Result<Self, KeyError> {
        RsaKeyPair::from_der(der).map(Self::of_rsa).map_err(|_| KeyError::Unsupported)
    }

    fn of_rsa(pair: RsaKeyPair) -> Self {
        let public = VerifyingKey::new(Algorithm::Rs256, pair.public_key().as_ref().to_vec());
        Self { pair: Pair::Rsa(pair), public, random: SystemRandom::new() }
    }

    /// The key that verifies what this one signs.
    #[must_use]
    pub fn public(&self) -> &VerifyingKey {
        &self.public
    }

    /// The signature over a message.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        match &self.pair {
            Pair::Ecdsa(pair) => {
                let signature = pair.sign(&self.random, message).map_err(|_| KeyError::NoRandomness)?;
                Ok(signature.as_ref().to_vec())
            }
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &self.random, message, &mut signature)
                    .map_err(|_| KeyError::NoRandomness)?;
                Ok(signature)
            }
        }
    }
}

/// Shows the public half alone.
impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey({})", self.public.id)
    }
}

/// A key that verifies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyingKey {
    algorithm: Algorithm,
    /// A point, uncompressed, or an RSAPublicKey (RFC 8017).
    public: Vec<u8>,
    id: String,
}

/// A JSON Web Key (RFC 7517), its members in go-jose's order.
#[derive(Debug, Serialize)]
pub(crate) struct Jwk {
    #[serde(rename = "use")]
    purpose: &'static str,
    kty: &'static str,
    kid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    crv: Option<&'static str>,
    alg: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    y: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    e: Option<String>,
}

impl VerifyingKey {
    fn new(algorithm: Algorithm, public: Vec<u8>) -> Self {
        let bits = [&[0], public.as_slice()].concat();
        let info = tagged(SEQUENCE, &[algorithm.identifier(), &tagged(BITS, &bits)].concat());
        let id = BASE64URL.encode(ring::digest::digest(&ring::digest::SHA256, &info));
        Self { algorithm, public, id }
    }

    /// Reads a SubjectPublicKeyInfo, the form of `BEGIN PUBLIC KEY`.
    ///
    /// # Errors
    /// [`KeyError::Unsupported`].
    pub fn from_public_key_info(der: &[u8]) -> Result<Self, KeyError> {
        let (rest, info) = SubjectPublicKeyInfo::from_der(der).map_err(|_| KeyError::Unsupported)?;
        let public = info.subject_public_key.data.to_vec();
        // Made again from its parts, a key is as it was read, or it is of another kind.
        let of = |algorithm: Algorithm| {
            let bits = [&[0], public.as_slice()].concat();
            tagged(SEQUENCE, &[algorithm.identifier(), &tagged(BITS, &bits)].concat()) == der
        };
        let algorithm = [Algorithm::Es256, Algorithm::Es384, Algorithm::Rs256].into_iter().find(|a| of(*a));
        let algorithm = algorithm.filter(|_| rest.is_empty()).ok_or(KeyError::Unsupported)?;
        let key = Self::new(algorithm, public);
        if algorithm == Algorithm::Rs256 && key.rsa_parts().is_none() {
            return Err(KeyError::Unsupported);
        }
        Ok(key)
    }

    /// Its name in tokens and among published keys: the digest of the key (`keyIDFromPublicKey`).
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name of its algorithm, such as `ES256`.
    #[must_use]
    pub fn algorithm(&self) -> &'static str {
        self.algorithm.name()
    }

    /// Returns true if the signature over the message is one of this key's.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &dyn signature::VerificationAlgorithm = match self.algorithm {
            Algorithm::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
            Algorithm::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
            Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        };
        UnparsedPublicKey::new(algorithm, &self.public).verify(message, signature).is_ok()
    }

    /// The modulus and the exponent of an RSA key of at least 2048 bits.
    fn rsa_parts(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let (_, key) = x509_parser::public_key::RSAPublicKey::from_der(&self.public).ok()?;
        let trimmed = |bytes: &[u8]| bytes.iter().copied().skip_while(|byte| *byte == 0).collect::<Vec<u8>>();
        let (n, e) = (trimmed(key.modulus), trimmed(key.exponent));
        let components = rsa::PublicKeyComponents { n: &n, e: &e };
        (n.len() >= 256 && !e.is_empty()).then_some((components.n.to_vec(), components.e.to_vec()))
    }

    pub(crate) fn jwk(&self) -> Jwk {
        let text = |bytes: &[u8]| Some(BASE64URL.encode(bytes));
        let mut jwk = Jwk {
            purpose: "sig",
            kty: "EC",
            kid: self.id.clone(),
            crv: None,
            alg: self.algorithm.name(),
            x: None,
            y: None,
            n: None,
            e: None,
        };
        match self.algorithm {
            Algorithm::Es256 | Algorithm::Es384 => {
                let point = self.public.get(1..).unwrap_or_default();
                let (x, y) = point.split_at(point.len() / 2);
                jwk.crv = Some(if self.algorithm == Algorithm::Es256 { "P-256" } else { "P-384" });
                (jwk.x, jwk.y) = (text(x), text(y));
            }
            Algorithm::Rs256 => {
                jwk.kty = "RSA";
                let (n, e) = self.rsa_parts().unwrap_or_default();
                (jwk.n, jwk.e) = (text(&n), text(&e));
            }
        }
        jwk
    }
}
