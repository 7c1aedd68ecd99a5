//! The tokens of service accounts: keys, claims and signatures, and the documents that publish the keys.
//!
//! A token is a JSON Web Token (RFC 7519) in the compact form of a JSON Web Signature (RFC 7515), signed with ES256, ES384 or
//! RS256. The crate knows nothing of a store: that an account is still there is for others to find out.
//!
//! **Sources.** `pkg/serviceaccount/{jwt,claims,legacy,openidmetadata}.go` (Kubernetes 1.37).
//!
//! **Guarantees.** A key verifies tokens of its own algorithm alone, whatever their headers say. Nothing of a token is
//! believed before its signature holds.

mod claims;
pub mod der;
mod documents;
mod keys;
mod tokens;

pub use claims::{Claims, Reference, user_name};
pub use documents::Documents;
pub use keys::{KeyError, SigningKey, VerifyingKey};
pub use tokens::{LEGACY_ISSUER, Rejected, Settings, Tokens};

#[cfg(test)]
mod tests;
