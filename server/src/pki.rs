//! The certificates that a server makes for itself on its first start.
//!
//! `DATA_DIR/pki` holds three pairs, each `NAME.crt` and `NAME.key` (PEM, ECDSA P-256, keys as SEC 1): the authority
//! `ca`, the serving certificate `apiserver` and the administrator's client certificate `admin` (user
//! `kubernetes-admin`, group `system:masters`, as kubeadm has it).
//!
//! - What is there and holds is used; the serving and the client certificate are made anew when their
//!   end comes near, the names to serve have changed or the authority is another one. If they cannot be written, those that
//!   are there go on as long as they are valid.
//! - Both files are written in full before either takes its place, so a full disk takes nothing away. The certificate is
//!   removed before its key is replaced, so a start that was cut off leaves a key alone and the next one makes both anew.
//! - What is there and cannot be used is never overwritten: the start ends with an error that names the
//!   file.
//!
//! Several servers may share a directory (`--cert-dir`): a server that reads or writes here holds a lock on it, so the first
//! one makes the certificates that all serve with and trust.

mod files;
mod kubeconfig;
mod names;
mod pair;
mod sec1;
#[cfg(test)]
mod tests;

use std::{
    cell::RefCell,
    collections::BTreeSet,
    fs::{DirBuilder, File, TryLockError},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use rcgen::Issuer;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use time::OffsetDateTime;

use files::{KEY_MODE, write};
pub(crate) use files::{may_be_read, read, read_certificates, read_private_key, read_regular};
use kubeconfig::kubeconfig;
pub(crate) use kubeconfig::{Trust, certificate_pem};
use names::names_of;
pub(crate) use names::{Names, host_name, server_url, serving_names};
use pair::{Pair, admin_params, authority_params, files, serving_params};
pub(crate) use sec1::to_pkcs8 as pkcs8_of_sec1;

const AUTHORITY: &str = "ca";
const SERVING: &str = "apiserver";
const ADMIN: &str = "admin";

/// The reason why there are no certificates to serve with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PkiError {
    /// A file, or the directory, cannot be read.
    #[error("cannot read {}: {error}", file.display())]
    Read { file: PathBuf, error: io::Error },
    /// A file, or the directory, cannot be written.
    #[error("cannot write {}: {error}", file.display())]
    Write { file: PathBuf, error: io::Error },
    /// A file has the wrong content.
    #[error("{} cannot be used: {reason}", file.display())]
    Unusable { file: PathBuf, reason: String },
    /// The certificate library refuses.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// The certificates of a server.
pub(crate) struct Pki {
    authority: Pair,
    serving: Pair,
    admin: Pair,
    overdue: Vec<String>,
}

impl Pki {
    /// Loads the certificates from `dir`, making those that are missing or due at `now`. `names` are the names and addresses
    /// that the serving certificate is for; see [`serving_names`]. Waits for other processes that have the lock on `dir`.
    pub(crate) fn load_or_create(dir: &Path, names: &Names, now: OffsetDateTime) -> Result<Self, PkiError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|error| PkiError::Write { file: dir.to_owned(), error })?;
        // Held until this function ends.
        let locked = File::open(dir).and_then(|folder| folder.lock().map(|()| folder));
        let _locked = locked.map_err(|error| PkiError::Read { file: dir.to_owned(), error })?;
        let authority = match Pair::load(dir, AUTHORITY)? {
            Some(pair) if pair.ends_after(now) => pair,
            _ => Pair::make(dir, AUTHORITY, |key| authority_params(now).self_signed(key))?,
        };
        Self::of(authority, dir, names, now)
    }

    /// New ones, in no file: they end with the process, and are not renewed.
    pub(crate) fn in_memory(names: &Names, now: OffsetDateTime) -> Result<Self, PkiError> {
        let authority = Pair::new(|key| authority_params(now).self_signed(key))?;
        let issuer = Issuer::from_ca_cert_der(&authority.certificate, &*authority.key)?;
        let serving = serving_params(&names.of_new(BTreeSet::new()), now)?;
        let serving = Pair::new(|key| serving.signed_by(key, &issuer))?;
        let admin = Pair::new(|key| admin_params(now).signed_by(key, &issuer))?;
        Ok(Self { authority, serving, admin, overdue: Vec::new() })
    }

    /// The same while serving: `None` if another process has the lock on `dir`. The authority is never renewed: every client
    /// that trusts it would be locked out, and a clock that is wrong for a moment would be enough for that.
    pub(crate) fn reload(dir: &Path, names: &Names, now: OffsetDateTime) -> Result<Option<Self>, PkiError> {
        let read = |error| PkiError::Read { file: dir.to_owned(), error };
        let folder = File::open(dir).map_err(read)?;
        match folder.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(read(error)),
        }
        let file = files(dir, AUTHORITY).0;
        match Pair::load(dir, AUTHORITY)? {
            Some(pair) if pair.ends_after(now) => Self::of(pair, dir, names, now).map(Some),
            Some(_) => Err(unusable(
                &file,
                "it has expired; a start makes another one, which clients have to be given",
            )),
            None => Err(unusable(
                &file,
                "it is missing; a start makes another one, which clients have to be given",
            )),
        }
    }

    /// The pairs that `authority` has signed, making those that are missing or due.
    fn of(authority: Pair, dir: &Path, names: &Names, now: OffsetDateTime) -> Result<Self, PkiError> {
        let issuer = Issuer::from_ca_cert_der(&authority.certificate, &*authority.key)?;
        let overdue = RefCell::new(Vec::new());
        let or_make = |name, names: &Names| {
            let there = Pair::load(dir, name)?;
            if let Some(pair) = there.as_ref().filter(|pair| pair.holds(&authority, names, now)) {
                return Ok(pair.clone());
            }
            let had = there.as_ref().and_then(Pair::x509).map(|x509| names_of(&x509)).unwrap_or_default();
            let params =
                if name == ADMIN { admin_params(now) } else { serving_params(&names.of_new(had), now)? };
            match (Pair::make(dir, name, |key| params.signed_by(key, &issuer)), there) {
                (Err(error @ PkiError::Write { .. }), Some(there)) if there.is_valid(&authority, now) => {
                    overdue.borrow_mut().push(format!("{name}.crt is due to be made anew: {error}"));
                    Ok(there)
                }
                (made, _) => made,
            }
        };
        let serving = or_make(SERVING, names)?;
        let admin = or_make(ADMIN, &Names::Exactly(BTreeSet::new()))?;
        Ok(Self { authority, serving, admin, overdue: overdue.into_inner() })
    }

    /// The reasons why certificates that are still valid could not be renewed.
    pub(crate) fn overdue(&self) -> &[String] {
        &self.overdue
    }

    /// `true` if a certificate of `self` is another than that of `other`.
    pub(crate) fn differs(&self, other: &Self) -> bool {
        let all =
            |pki: &Self| [&pki.authority, &pki.serving, &pki.admin].map(|pair| pair.certificate.clone());
        all(self) != all(other)
    }

    /// The end of the authority's certificate, in seconds since the Unix epoch.
    pub(crate) fn authority_ends(&self) -> Option<i64> {
        self.authority.x509().map(|x509| x509.validity().not_after.timestamp())
    }

    /// The end of the administrator's certificate, in seconds since the Unix epoch.
    pub(crate) fn admin_ends(&self) -> Option<i64> {
        self.admin.x509().map(|x509| x509.validity().not_after.timestamp())
    }

    /// The authorities that vouch for the serving certificate made here.
    pub(crate) fn trust(&self) -> Trust {
        Trust { authorities_pem: Some(self.authority.certificate_pem.clone()), server_name: None }
    }

    /// The authority that client certificates are verified with.
    pub(crate) fn authority(&self) -> CertificateDer<'static> {
        self.authority.certificate.clone()
    }

    /// The certificate chain and the key to serve with.
    pub(crate) fn serving(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        (
            vec![self.serving.certificate.clone()],
            PrivateKeyDer::Pkcs8(self.serving.key.serialize_der().into()),
        )
    }

    /// The administrator's certificate and key.
    pub(crate) fn admin_pem(&self) -> (String, String) {
        (self.admin.certificate_pem.clone(), self.admin.key_pem.clone())
    }

    /// The administrator's kubeconfig for the server at `url` (see [`server_url`]).
    pub(crate) fn kubeconfig(&self, url: &str, trust: &Trust) -> String {
        kubeconfig(url, trust, &self.admin.certificate_pem, &self.admin.key_pem)
    }

    /// Writes a kubeconfig, unless it is there already. Mode 0600: it holds a key.
    pub(crate) fn write_kubeconfig(file: &Path, text: &str) -> Result<(), PkiError> {
        if read_regular(file).is_ok_and(|there| there == text) {
            return Ok(());
        }
        write(file, text, KEY_MODE)
    }
}

fn unusable(file: &Path, reason: impl ToString) -> PkiError {
    PkiError::Unusable { file: file.to_owned(), reason: reason.to_string() }
}
