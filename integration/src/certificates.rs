//! Certificates of authorities that no server made.

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use crate::HarnessError;

/// An authority of a test's own.
pub struct Authority {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

/// A certificate and its key, both PEM.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The key, as PKCS#8.
    pub key: String,
}

/// The subject of a certificate.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// A user, perhaps of a group.
    Client {
        /// The common name.
        name: &'a str,
        /// The organization.
        group: Option<&'a str>,
    },
    /// A server with these DNS names and addresses.
    Server(&'a [&'a str]),
}

fn failed(error: &rcgen::Error) -> HarnessError {
    HarnessError::transport("making a certificate", error)
}

impl Authority {
    /// Makes one of this common name.
    ///
    /// # Errors
    /// No randomness.
    pub fn new(name: &str) -> Result<Self, HarnessError> {
        let key = KeyPair::generate().map_err(|e| failed(&e))?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self { certificate: params.self_signed(&key).map_err(|e| failed(&e))?, key })
    }

    /// Its own certificate, PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Issues a certificate.
    ///
    /// # Errors
    /// A server's name is no DNS name.
    pub fn issue(&self, subject: Subject<'_>) -> Result<Pair, HarnessError> {
        let names = match subject {
            Subject::Client { .. } => Vec::new(),
            Subject::Server(names) => names.iter().map(|&name| name.to_owned()).collect(),
        };
        let mut params = CertificateParams::new(names).map_err(|e| failed(&e))?;
        let usage = match subject {
            Subject::Client { name, group } => {
                params.distinguished_name.push(DnType::CommonName, name);
                if let Some(group) = group {
                    params.distinguished_name.push(DnType::OrganizationName, group);
                }
                ExtendedKeyUsagePurpose::ClientAuth
            }
            Subject::Server(names) => {
                params
                    .distinguished_name
                    .push(DnType::CommonName, names.first().copied().unwrap_or("server"));
                ExtendedKeyUsagePurpose::ServerAuth
            }
        };
        params.extended_key_usages = vec![usage];
        let issuer = Issuer::from_ca_cert_der(self.certificate.der(), &self.key).map_err(|e| failed(&e))?;
        let key = KeyPair::generate().map_err(|e| failed(&e))?;
        let certificate = params.signed_by(&key, &issuer).map_err(|e| failed(&e))?.pem();
        Ok(Pair { certificate, key: key.serialize_pem() })
    }
}
