//! Certificates of authorities that the server did not make, and the files that flags name.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

/// A folder for the files that flags name.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn arg(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }
}

/// An authority of the test's own.
pub(crate) struct Authority {
    pub(crate) certificate: rcgen::Certificate,
    pub(crate) key: KeyPair,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { certificate: params.self_signed(&key).unwrap(), key }
    }

    /// Takes connections of TLS for a server of this name, from clients with and without a certificate of this authority.
    pub(crate) fn acceptor(&self, name: &str) -> TlsAcceptor {
        let (certificate, key) = self.issue(name, ExtendedKeyUsagePurpose::ServerAuth);
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let clients = rustls::server::WebPkiClientVerifier::builder(Arc::new(roots));
        let clients = clients.allow_unauthenticated().build().unwrap();
        let config = rustls::ServerConfig::builder().with_client_cert_verifier(clients).with_single_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        );
        TlsAcceptor::from(Arc::new(config.unwrap()))
    }

    /// Its certificate, as a caBundle has it.
    pub(crate) fn bundle(&self) -> String {
        STANDARD.encode(self.certificate.pem())
    }

    /// A certificate for a server or a client of this name, and its key, both PEM.
    pub(crate) fn issue(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> (String, String) {
        let issuer = Issuer::from_ca_cert_der(self.certificate.der(), &self.key).unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
    }
}
