//! The server's side of TLS: the handshake requests certificates, the authenticator judges them.

use std::sync::Arc;

use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, ring, verify_tls13_signature_with_raw_key},
    pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer, UnixTime},
    server::{
        VerifierBuilderError, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The reason why TLS cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No authority to verify client certificates with.
    #[error("no client certificate authority")]
    NoClientAuthority,
    /// One that is no usable certificate.
    #[error("the client certificate authority: {0}")]
    ClientAuthority(Error),
    /// The serving certificate or its key.
    #[error("the serving certificate: {0}")]
    Serving(Error),
}

/// TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1, one crypto provider (ring).
///
/// Clients are asked for a certificate by one of `client_ca`. The handshake succeeds without one and
/// with any other whose key the client proves to hold;
/// [`Authenticator::peer`](super::Authenticator::peer) judges it.
///
/// # Errors
/// See [`TlsError`].
pub fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    client_ca: &[CertificateDer<'_>],
) -> Result<Arc<ServerConfig>, TlsError> {
    let asking = Arc::new(Asking(verifier(client_ca)?));
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Serving)?
        .with_client_cert_verifier(asking)
        .with_single_cert(chain, key)
        .map_err(TlsError::Serving)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Verifies client certificates against `client_ca`, for client authentication, at a given time.
pub(super) fn verifier(client_ca: &[CertificateDer<'_>]) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in client_ca {
        roots.add(certificate.clone().into_owned()).map_err(TlsError::ClientAuthority)?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build().map_err(|e| match e {
        VerifierBuilderError::NoRootAnchors => TlsError::NoClientAuthority,
        other => TlsError::ClientAuthority(Error::General(other.to_string())),
    })
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Requests certificates like the verifier it wraps, but accepts every one.
///
/// No authority has vouched for the name yet; only the proof that the client holds the certificate's key is checked here,
/// because it cannot be checked later.
#[derive(Debug)]
struct Asking(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Asking {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verified = self.0.verify_tls13_signature(message, cert, dss);
        let Err(Error::InvalidCertificate(_)) = &verified else { return verified };
        // webpki reads version 3 certificates only, and openssl makes version 1 by default. Their key can still be proven;
        // the authenticator decides later if they count.
        match X509Certificate::from_der(cert) {
            Ok((_, old)) => verify_tls13_signature_with_raw_key(
                message,
                &SubjectPublicKeyInfoDer::from(old.public_key().raw),
                dss,
                &ring::default_provider().signature_verification_algorithms,
            ),
            Err(_) => verified,
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
