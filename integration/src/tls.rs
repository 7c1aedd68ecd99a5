//! TLS as a client of a server under test sees it: its authorities, and perhaps a certificate of one's own.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

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

/// TLS with a server called localhost, and this protocol by ALPN.
pub(crate) async fn speak(
    mut config: rustls::ClientConfig,
    stream: TcpStream,
    protocol: &[u8],
) -> Result<TlsStream<TcpStream>, HarnessError> {
    config.alpn_protocols = vec![protocol.to_vec()];
    let name = ServerName::try_from("localhost").map_err(|e| HarnessError::transport("the name", &e))?;
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.map_err(HarnessError::io("TLS handshake"))
}
