//! TLS as a client of a server under test sees it: its authorities, and perhaps a certificate of one's own.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::HarnessError;

/// The settings of a client that trusts these authorities and shows this certificate with its key, all PEM.
pub(crate) fn client_config(
    authorities: &[u8],
    pair: Option<(&[u8], &[u8])>,
) -> Result<rustls::ClientConfig, HarnessError> {
    let bad = |what: &str, cause: &(dyn std::error::Error + 'static)| HarnessError::transport(what, cause);
    let mut roots = rustls::RootCertStore::empty();
    for der in CertificateDer::pem_slice_iter(authorities) {
        roots.add(der.map_err(|e| bad("the CA", &e))?).map_err(|e| bad("the CA", &e))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| bad("TLS versions", &e))?
        .with_root_certificates(roots);
    let Some((certificate, key)) = pair else { return Ok(builder.with_no_client_auth()) };
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| bad("the client certificate", &e))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| bad("the client key", &e))?;
    builder.with_client_auth_cert(chain, key).map_err(|e| bad("the client certificate", &e))
}
