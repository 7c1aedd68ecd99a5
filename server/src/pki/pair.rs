//! A certificate and its key, in two files.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PublicKeyData as _,
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::files::{CERTIFICATE_MODE, KEY_MODE, Unfinished, parse, read_regular};
use super::names::{Names, names_of};
use super::{PkiError, sec1, unusable};

/// Ten years, as kubeadm's.
const AUTHORITY_LIFE: Duration = Duration::days(3650);
/// Below the 825 days that some platforms take for a server's certificate.
const LIFE: Duration = Duration::days(800);
/// Half of a life, so that a server which is started once a year still renews at a start.
const RENEWED_BEFORE_END: Duration = Duration::days(400);
/// For clients whose clocks are behind.
const BACKDATED: Duration = Duration::hours(1);

/// A certificate and its key.
#[derive(Clone)]
pub(super) struct Pair {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) certificate_pem: String,
    pub(super) key: Arc<KeyPair>,
    pub(super) key_pem: String,
}

impl Pair {
    /// Nothing if there is no certificate; whether it still holds is for the caller to judge.
    pub(super) fn load(dir: &Path, name: &str) -> Result<Option<Self>, PkiError> {
        let (certificate_file, key_file) = files(dir, name);
        let certificate_pem = match read_regular(&certificate_file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(PkiError::Read { file: certificate_file, error }),
        };
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .map_err(|error| unusable(&certificate_file, error))?;
        let parsed = parse(&certificate_file, &certificate)?;
        let key_pem = read_regular(&key_file).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                unusable(&key_file, format!("it is missing; without it, remove {name}.crt as well"))
            }
            _ => PkiError::Read { file: key_file.clone(), error },
        })?;
        let key = sec1::from_pem(&key_pem).map_err(|error| unusable(&key_file, error))?;
        if key.subject_public_key_info() != parsed.public_key().raw {
            return Err(unusable(&key_file, format!("it is not the key of {name}.crt")));
        }
        // A folder of before may hold it as PKCS #8, which not every client reads.
        let key_pem = sec1::to_pem(&key);
        Ok(Some(Self { certificate, certificate_pem, key: Arc::new(key), key_pem }))
    }

    /// A new one, in no file.
    pub(super) fn new(
        sign: impl FnOnce(&KeyPair) -> Result<rcgen::Certificate, rcgen::Error>,
    ) -> Result<Self, PkiError> {
        let key = KeyPair::generate()?;
        let certificate = sign(&key)?;
        let (certificate_pem, key_pem) = (certificate.pem(), sec1::to_pem(&key));
        Ok(Self { certificate: certificate.into(), certificate_pem, key: Arc::new(key), key_pem })
    }

    pub(super) fn make(
        dir: &Path,
        name: &str,
        sign: impl FnOnce(&KeyPair) -> Result<rcgen::Certificate, rcgen::Error>,
    ) -> Result<Self, PkiError> {
        let pair = Self::new(sign)?;
        let (certificate_file, key_file) = files(dir, name);
        let new_key = Unfinished::write(&key_file, &pair.key_pem, KEY_MODE)?;
        let new_certificate = Unfinished::write(&certificate_file, &pair.certificate_pem, CERTIFICATE_MODE)?;
        match fs::remove_file(&certificate_file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(PkiError::Write { file: certificate_file, error });
            }
            _ => {}
        }
        new_key.take_place()?;
        new_certificate.take_place()?;
        tracing::info!(file = %certificate_file.display(), "made a certificate");
        Ok(pair)
    }

    pub(super) fn ends_after(&self, time: OffsetDateTime) -> bool {
        self.x509().is_some_and(|x509| x509.validity().not_after.timestamp() > time.unix_timestamp())
    }

    /// `true` if it can go on serving: signed by `authority`, for exactly these names, and with enough of
    /// its life left.
    pub(super) fn holds(&self, authority: &Self, names: &Names, now: OffsetDateTime) -> bool {
        let fits = self.x509().is_some_and(|own| names.fit(&names_of(&own)));
        fits && self.is_valid(authority, now) && self.ends_after(now.saturating_add(RENEWED_BEFORE_END))
    }

    /// `true` if clients that trust `authority` take it at `now`.
    pub(super) fn is_valid(&self, authority: &Self, now: OffsetDateTime) -> bool {
        let (Some(own), Some(authority)) = (self.x509(), authority.x509()) else { return false };
        let begun = own.validity().not_before.timestamp() <= now.unix_timestamp();
        let signed =
            own.issuer() == authority.subject() && own.verify_signature(Some(authority.public_key())).is_ok();
        begun && self.ends_after(now) && signed
    }

    /// It was parsed when it was loaded, or made here.
    pub(super) fn x509(&self) -> Option<X509Certificate<'_>> {
        X509Certificate::from_der(&self.certificate).ok().map(|(_, x509)| x509)
    }
}

/// The files of a certificate and its key.
pub(super) fn files(dir: &Path, name: &str) -> (PathBuf, PathBuf) {
    (dir.join(format!("{name}.crt")), dir.join(format!("{name}.key")))
}

pub(super) fn authority_params(now: OffsetDateTime) -> CertificateParams {
    let mut params = params("kindom-ca", now, AUTHORITY_LIFE);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

pub(super) fn serving_params(
    names: &BTreeSet<String>,
    now: OffsetDateTime,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = params("kube-apiserver", now, LIFE);
    let names: Vec<String> = names.iter().cloned().collect();
    params.subject_alt_names = CertificateParams::new(names)?.subject_alt_names;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

pub(super) fn admin_params(now: OffsetDateTime) -> CertificateParams {
    let mut params = params("kubernetes-admin", now, LIFE);
    params.distinguished_name.push(DnType::OrganizationName, kindom_api::user::MASTERS);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn params(common_name: &str, now: OffsetDateTime, life: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = now.saturating_sub(BACKDATED);
    params.not_after = now.saturating_add(life);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    params
}
