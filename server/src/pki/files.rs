//! Files of certificates and keys: read, and written in full or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{PkiError, unusable};

pub(super) const KEY_MODE: u32 = 0o600;
pub(super) const CERTIFICATE_MODE: u32 = 0o644;

/// The largest file of certificates or keys; a larger one is a mistake.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The content of a file.
pub(crate) fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than a file may have: enough to refuse it, however large it is.
    if File::open(file)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)? as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("it is larger than 16 MiB"));
    }
    Ok(bytes)
}

/// The text of a regular file, which is read again while the server runs.
pub(crate) fn read_regular(file: &Path) -> io::Result<String> {
    may_be_read(file)?;
    String::from_utf8(read(file)?).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Refuses a pipe, a socket or a device: a read of it might wait for ever, and nothing would be read again after it.
pub(crate) fn may_be_read(file: &Path) -> io::Result<()> {
    match fs::metadata(file) {
        Ok(found) if !found.is_file() && !found.is_dir() => Err(io::Error::other("it is no regular file")),
        // The read says better what is wrong.
        _ => Ok(()),
    }
}

/// The certificates of a PEM file, for `--tls-cert-file` (the server's own first) and
/// `--client-ca-file`; at least one.
pub(crate) fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    let text = read(file).map_err(|error| PkiError::Read { file: file.to_owned(), error })?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = found.map_err(|error| unusable(file, error))?;
    if certificates.is_empty() {
        return Err(unusable(file, "it holds no certificate"));
    }
    for certificate in &certificates {
        parse(file, certificate)?;
    }
    Ok(certificates)
}

/// The first private key of a PEM file (PKCS #8, PKCS #1 or SEC 1), for `--tls-private-key-file`.
pub(crate) fn read_private_key(file: &Path) -> Result<PrivateKeyDer<'static>, PkiError> {
    let text = read(file).map_err(|error| PkiError::Read { file: file.to_owned(), error })?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| unusable(file, error))
}

/// The certificate of a file.
pub(super) fn parse<'a>(
    file: &Path,
    certificate: &'a CertificateDer<'_>,
) -> Result<X509Certificate<'a>, PkiError> {
    X509Certificate::from_der(certificate).map(|(_, x509)| x509).map_err(|error| unusable(file, error))
}

/// Writes a file so that it is there in full or not at all, also after a power cut.
pub(super) fn write(file: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    Unfinished::write(file, text, mode)?.take_place()
}

/// A file that is written in full beside the one that it will replace; removed if it does not come to that.
pub(super) struct Unfinished {
    unfinished: PathBuf,
    file: PathBuf,
}

impl Unfinished {
    pub(super) fn write(file: &Path, text: &str, mode: u32) -> Result<Self, PkiError> {
        let wrong = |error| PkiError::Write { file: file.to_owned(), error };
        let mut unfinished = file.as_os_str().to_owned();
        unfinished.push(".unfinished");
        let unfinished = PathBuf::from(unfinished);
        // One left by an earlier start could have another mode.
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(wrong(error)),
            _ => {}
        }
        let this = Self { unfinished, file: file.to_owned() };
        let create = || {
            let mut out =
                OpenOptions::new().write(true).create_new(true).mode(mode).open(&this.unfinished)?;
            out.write_all(text.as_bytes())?;
            out.sync_all()
        };
        create().map_err(wrong)?;
        Ok(this)
    }

    pub(super) fn take_place(self) -> Result<(), PkiError> {
        let take = || {
            fs::rename(&self.unfinished, &self.file)?;
            match self.file.parent() {
                Some(dir) if dir != Path::new("") => File::open(dir)?.sync_all(),
                _ => File::open(".")?.sync_all(),
            }
        };
        take().map_err(|error| PkiError::Write { file: self.file.clone(), error })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Gone already if it has taken its place.
        let _ = fs::remove_file(&self.unfinished);
    }
}
