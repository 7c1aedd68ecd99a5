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
//! Several servers may share a directory (`--cert-dir`): who looks or writes here holds a lock on it, so the first one makes
//! what all serve with and trust.

mod sec1;

use std::{
    cell::RefCell,
    collections::BTreeSet,
    fmt,
    fmt::Write as _,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData as _,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

const AUTHORITY: &str = "ca";
const SERVING: &str = "apiserver";
const ADMIN: &str = "admin";

/// Ten years, as kubeadm's.
const AUTHORITY_LIFE: Duration = Duration::days(3650);
/// Below the 825 days that some platforms take for a server's certificate.
const LIFE: Duration = Duration::days(800);
/// Half of a life, so that a server which is started once a year still renews at a start.
const RENEWED_BEFORE_END: Duration = Duration::days(400);
/// How many names a certificate that several servers share may be for.
const SHARED_NAMES_MAX: usize = 100;
/// For clients whose clocks are behind.
const BACKDATED: Duration = Duration::hours(1);

const KEY_MODE: u32 = 0o600;
const CERTIFICATE_MODE: u32 = 0o644;

/// Why there are no certificates to serve with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PkiError {
    /// A file, or the directory, cannot be read.
    #[error("cannot read {}: {error}", file.display())]
    Read { file: PathBuf, error: io::Error },
    /// A file, or the directory, cannot be written.
    #[error("cannot write {}: {error}", file.display())]
    Write { file: PathBuf, error: io::Error },
    /// A file is not what it should be.
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
    /// Loads the certificates from `dir`, making what is missing or due at `now`. `names` are the names and
    /// addresses that the serving certificate is for; see [`serving_names`]. Waits for others who are at work in `dir`.
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

    /// The same while serving: none if somebody else is at work in `dir`, and the authority is never made anew. Everybody
    /// who trusts it would be locked out, and a clock that is set wrong for a moment would be enough for that.
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

    /// The pairs that `authority` has signed, making what is missing or due.
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

    /// Why certificates that are still valid could not be made anew.
    pub(crate) fn overdue(&self) -> &[String] {
        &self.overdue
    }

    /// `true` if a certificate of `self` is another than that of `other`.
    pub(crate) fn differs(&self, other: &Self) -> bool {
        let all =
            |pki: &Self| [&pki.authority, &pki.serving, &pki.admin].map(|pair| pair.certificate.clone());
        all(self) != all(other)
    }

    /// When the authority ends, in seconds since the Unix epoch.
    pub(crate) fn authority_ends(&self) -> Option<i64> {
        self.authority.x509().map(|x509| x509.validity().not_after.timestamp())
    }

    /// When the administrator's certificate ends, in seconds since the Unix epoch.
    pub(crate) fn admin_ends(&self) -> Option<i64> {
        self.admin.x509().map(|x509| x509.validity().not_after.timestamp())
    }

    /// Who vouches for the serving certificate made here.
    pub(crate) fn trust(&self) -> Trust {
        Trust { authorities_pem: Some(self.authority.certificate_pem.clone()), server_name: None }
    }

    /// The authority that client certificates are verified with.
    pub(crate) fn authority(&self) -> CertificateDer<'static> {
        self.authority.certificate.clone()
    }

    /// What to serve with.
    pub(crate) fn serving(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        (
            vec![self.serving.certificate.clone()],
            PrivateKeyDer::Pkcs8(self.serving.key.serialize_der().into()),
        )
    }

    /// The administrator's kubeconfig for the server at `url` (see [`server_url`]).
    pub(crate) fn kubeconfig(&self, url: &str, trust: &Trust) -> String {
        kubeconfig(url, trust, &self.admin.certificate_pem, &self.admin.key_pem)
    }

    /// Writes a kubeconfig, unless it is there already. Mode 0600: it holds a key.
    pub(crate) fn write_kubeconfig(file: &Path, text: &str) -> Result<(), PkiError> {
        if fs::read_to_string(file).is_ok_and(|there| there == text) {
            return Ok(());
        }
        write(file, text, KEY_MODE)
    }
}

/// The names and addresses that a serving certificate is for.
pub(crate) enum Names {
    /// These and no others.
    Exactly(BTreeSet<String>),
    /// These, beside those of others who share the folder and serve with the same certificate.
    AtLeast(BTreeSet<String>),
}

impl Names {
    fn fit(&self, there: &BTreeSet<String>) -> bool {
        match self {
            Self::Exactly(names) => names == there,
            Self::AtLeast(names) => names.is_subset(there),
        }
    }

    /// The names of a new certificate in place of one that is for `had`. Machines that come and go under ever new names
    /// do not make it grow for ever: beyond a bound, names are forgotten, and whoever misses his makes it anew.
    fn of_new(&self, had: BTreeSet<String>) -> BTreeSet<String> {
        match self {
            Self::AtLeast(names) if had.len() + names.len() <= SHARED_NAMES_MAX => {
                had.union(names).cloned().collect()
            }
            Self::Exactly(names) | Self::AtLeast(names) => names.clone(),
        }
    }
}

/// How clients can know the server for what it is.
pub(crate) struct Trust {
    /// The certificates that vouch for it; none leaves that to those that the client's system trusts.
    authorities_pem: Option<String>,
    /// The name that its certificate is for, if the URL's is none of them.
    server_name: Option<String>,
}

impl Trust {
    /// For a server at `url` with a certificate from elsewhere: what vouches for it are those of its file that are signed
    /// by themselves. An intermediate does not count: whoever trusts it has to be told when the next one comes.
    pub(crate) fn of_chain(chain: &[CertificateDer<'_>], url: &str) -> Self {
        let parsed =
            chain.iter().filter_map(|der| X509Certificate::from_der(der).ok().map(|(_, x509)| (der, x509)));
        let mut authorities_pem = String::new();
        for (der, x509) in parsed {
            if x509.issuer() == x509.subject() && x509.verify_signature(None).is_ok() {
                authorities_pem.push_str(&pem(der));
            }
        }
        let authorities_pem = Some(authorities_pem).filter(|pem| !pem.is_empty());
        let names = chain.first().and_then(|own| X509Certificate::from_der(own).ok());
        let names = names.map(|(_, own)| names_of(&own)).unwrap_or_default();
        let host: Option<SocketAddr> = url.strip_prefix("https://").and_then(|address| address.parse().ok());
        let host = host.map(|address| address.ip().to_string());
        let server_name = match host {
            Some(host) if names.contains(&host) => None,
            _ => names
                .iter()
                .find(|name| name.parse::<IpAddr>().is_err())
                // Any name under it will do.
                .map(|name| {
                    name.strip_prefix("*.").map_or_else(|| name.clone(), |rest| format!("kindom.{rest}"))
                }),
        };
        Self { authorities_pem, server_name }
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.authorities_pem {
            Some(_) => write!(f, "the server is verified with the authority in its certificate's file")?,
            None => write!(
                f,
                "the server is verified with the authorities of the client's system, as its certificate's file has none"
            )?,
        }
        self.server_name.as_ref().map_or(Ok(()), |name| write!(f, ", as {name}"))
    }
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    let encoded = BASE64.encode(certificate);
    let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = tail;
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

/// The names and addresses by which clients may call a server bound to `bind` on the machine `host`:
/// those of the local machine, of the service that a cluster would reach it by, these two, and `more`.
pub(crate) fn serving_names(bind: IpAddr, host: Option<&str>, more: &[String]) -> BTreeSet<String> {
    let mut names: BTreeSet<String> =
        ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
            .map(str::to_owned)
            .into();
    if !bind.is_unspecified() {
        names.insert(bind.to_string());
    }
    let is_name = |host: &&str| {
        (1..=253).contains(&host.len())
            && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
    };
    names.extend(host.filter(is_name).map(str::to_ascii_lowercase));
    names.extend(more.iter().cloned());
    names
}

/// The machine's name, where it can be told without asking a network.
pub(crate) fn host_name() -> Option<String> {
    let name =
        fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| fs::read_to_string("/etc/hostname"));
    Some(name.ok()?.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Where clients on this machine find a server bound to `address`.
pub(crate) fn server_url(address: SocketAddr) -> String {
    let reachable = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("https://{}", SocketAddr::new(reachable, address.port()))
}

/// The certificates of a PEM file, for `--tls-cert-file` (the server's own first) and
/// `--client-ca-file`; at least one.
pub(crate) fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    let text = fs::read(file).map_err(|error| PkiError::Read { file: file.to_owned(), error })?;
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
    let text = fs::read(file).map_err(|error| PkiError::Read { file: file.to_owned(), error })?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| unusable(file, error))
}

/// A certificate and its key.
#[derive(Clone)]
struct Pair {
    certificate: CertificateDer<'static>,
    certificate_pem: String,
    key: Arc<KeyPair>,
    key_pem: String,
}

impl Pair {
    /// Nothing if there is no certificate; whether it still holds is for the caller to judge.
    fn load(dir: &Path, name: &str) -> Result<Option<Self>, PkiError> {
        let (certificate_file, key_file) = files(dir, name);
        let certificate_pem = match fs::read_to_string(&certificate_file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(PkiError::Read { file: certificate_file, error }),
        };
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .map_err(|error| unusable(&certificate_file, error))?;
        let parsed = parse(&certificate_file, &certificate)?;
        let key_pem = fs::read_to_string(&key_file).map_err(|error| match error.kind() {
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

    fn make(
        dir: &Path,
        name: &str,
        sign: impl FnOnce(&KeyPair) -> Result<rcgen::Certificate, rcgen::Error>,
    ) -> Result<Self, PkiError> {
        let key = KeyPair::generate()?;
        let certificate = sign(&key)?;
        let (certificate_pem, key_pem) = (certificate.pem(), sec1::to_pem(&key));
        let (certificate_file, key_file) = files(dir, name);
        let new_key = Unfinished::write(&key_file, &key_pem, KEY_MODE)?;
        let new_certificate = Unfinished::write(&certificate_file, &certificate_pem, CERTIFICATE_MODE)?;
        match fs::remove_file(&certificate_file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(PkiError::Write { file: certificate_file, error });
            }
            _ => {}
        }
        new_key.take_place()?;
        new_certificate.take_place()?;
        tracing::info!(file = %certificate_file.display(), "made a certificate");
        Ok(Self { certificate: certificate.into(), certificate_pem, key: Arc::new(key), key_pem })
    }

    fn ends_after(&self, time: OffsetDateTime) -> bool {
        self.x509().is_some_and(|x509| x509.validity().not_after.timestamp() > time.unix_timestamp())
    }

    /// Whether it can go on serving: signed by `authority`, for exactly these names, and with enough of
    /// its life left.
    fn holds(&self, authority: &Self, names: &Names, now: OffsetDateTime) -> bool {
        let fits = self.x509().is_some_and(|own| names.fit(&names_of(&own)));
        fits && self.is_valid(authority, now) && self.ends_after(now.saturating_add(RENEWED_BEFORE_END))
    }

    /// `true` if clients that trust `authority` take it at `now`.
    fn is_valid(&self, authority: &Self, now: OffsetDateTime) -> bool {
        let (Some(own), Some(authority)) = (self.x509(), authority.x509()) else { return false };
        let begun = own.validity().not_before.timestamp() <= now.unix_timestamp();
        let signed =
            own.issuer() == authority.subject() && own.verify_signature(Some(authority.public_key())).is_ok();
        begun && self.ends_after(now) && signed
    }

    /// It was parsed when it was loaded, or made here.
    fn x509(&self) -> Option<X509Certificate<'_>> {
        X509Certificate::from_der(&self.certificate).ok().map(|(_, x509)| x509)
    }
}

fn files(dir: &Path, name: &str) -> (PathBuf, PathBuf) {
    (dir.join(format!("{name}.crt")), dir.join(format!("{name}.key")))
}

fn unusable(file: &Path, reason: impl ToString) -> PkiError {
    PkiError::Unusable { file: file.to_owned(), reason: reason.to_string() }
}

fn parse<'a>(file: &Path, certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, PkiError> {
    X509Certificate::from_der(certificate).map(|(_, x509)| x509).map_err(|error| unusable(file, error))
}

fn names_of(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return BTreeSet::new() };
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::IPAddress(bytes) => match (<[u8; 4]>::try_from(*bytes), <[u8; 16]>::try_from(*bytes)) {
            (Ok(v4), _) => IpAddr::from(v4).to_string(),
            (_, Ok(v6)) => IpAddr::from(v6).to_string(),
            _ => format!("{name:?}"),
        },
        GeneralName::DNSName(name) => (*name).to_owned(),
        // Never asked for, so it differs from every wanted set.
        other => format!("{other:?}"),
    };
    names.value.general_names.iter().map(text).collect()
}

fn authority_params(now: OffsetDateTime) -> CertificateParams {
    let mut params = params("kindom-ca", now, AUTHORITY_LIFE);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn serving_params(names: &BTreeSet<String>, now: OffsetDateTime) -> Result<CertificateParams, rcgen::Error> {
    let mut params = params("kube-apiserver", now, LIFE);
    let names: Vec<String> = names.iter().cloned().collect();
    params.subject_alt_names = CertificateParams::new(names)?.subject_alt_names;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

fn admin_params(now: OffsetDateTime) -> CertificateParams {
    let mut params = params("kubernetes-admin", now, LIFE);
    params.distinguished_name.push(DnType::OrganizationName, kindom_http::authn::MASTERS);
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

fn kubeconfig(url: &str, trust: &Trust, certificate_pem: &str, key_pem: &str) -> String {
    let [certificate, key] = [certificate_pem, key_pem].map(|pem| BASE64.encode(pem));
    let mut text = String::new();
    let mut cluster = String::new();
    if let Some(pem) = &trust.authorities_pem {
        let _ = write!(cluster, "\n    certificate-authority-data: {}", BASE64.encode(pem));
    }
    if let Some(name) = &trust.server_name {
        let _ = write!(cluster, "\n    tls-server-name: {name}");
    }
    let _ = write!(
        text,
        "\
apiVersion: v1
kind: Config
clusters:
- name: kindom
  cluster:
    server: {url}{cluster}
users:
- name: kubernetes-admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: kubernetes-admin@kindom
  context:
    cluster: kindom
    user: kubernetes-admin
current-context: kubernetes-admin@kindom
preferences: {{}}
"
    );
    text
}

/// Writes a file so that it is there in full or not at all, also after a power cut.
fn write(file: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    Unfinished::write(file, text, mode)?.take_place()
}

/// A file that is written in full beside the one that it will replace; removed if it does not come to that.
struct Unfinished {
    unfinished: PathBuf,
    file: PathBuf,
}

impl Unfinished {
    fn write(file: &Path, text: &str, mode: u32) -> Result<Self, PkiError> {
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

    fn take_place(self) -> Result<(), PkiError> {
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rustls::{
        RootCertStore,
        client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
        crypto::ring::default_provider,
        pki_types::{ServerName, UnixTime},
        server::WebPkiClientVerifier,
    };
    use tempfile::TempDir;

    use super::*;

    const FILES: [&str; 6] = ["admin.crt", "admin.key", "apiserver.crt", "apiserver.key", "ca.crt", "ca.key"];

    fn names() -> BTreeSet<String> {
        serving_names(IpAddr::from([192, 0, 2, 7]), Some("Box-1"), &[])
    }

    fn load(dir: &TempDir) -> Result<Pki, PkiError> {
        load_for(dir, Names::Exactly(names()), 0)
    }

    fn load_in(dir: &TempDir, days: i64) -> Pki {
        load_for(dir, Names::Exactly(names()), days).unwrap()
    }

    fn load_for(dir: &TempDir, names: Names, days: i64) -> Result<Pki, PkiError> {
        Pki::load_or_create(&dir.path().join("pki"), &names, in_days(days))
    }

    fn in_days(days: i64) -> OffsetDateTime {
        OffsetDateTime::now_utc() + Duration::days(days)
    }

    fn contents(dir: &TempDir) -> Vec<String> {
        FILES.map(|file| fs::read_to_string(dir.path().join("pki").join(file)).unwrap()).into()
    }

    /// Which of the files differ.
    fn changed(before: &[String], dir: &TempDir) -> Vec<&'static str> {
        let after = contents(dir);
        FILES
            .into_iter()
            .zip(before.iter().zip(&after))
            .filter(|(_, (a, b))| a != b)
            .map(|(file, _)| file)
            .collect()
    }

    fn roots(pki: &Pki) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(pki.authority()).unwrap();
        Arc::new(roots)
    }

    fn serves(pki: &Pki, name: &str) -> bool {
        let verifier = WebPkiServerVerifier::builder_with_provider(roots(pki), Arc::new(default_provider()))
            .build()
            .unwrap();
        let name = ServerName::try_from(name).unwrap();
        verifier.verify_server_cert(&pki.serving().0[0], &[], &name, &[], UnixTime::now()).is_ok()
    }

    #[test]
    fn a_first_start_makes_what_a_client_and_a_server_need() {
        let dir = TempDir::new().unwrap();
        let pki = load(&dir).unwrap();
        for name in [
            "localhost",
            "127.0.0.1",
            "::1",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "192.0.2.7",
            "box-1",
        ] {
            assert!(serves(&pki, name), "{name}");
        }
        assert!(!serves(&pki, "example.com"));
        let verifier = WebPkiClientVerifier::builder_with_provider(roots(&pki), Arc::new(default_provider()))
            .build()
            .unwrap();
        verifier.verify_client_cert(&pki.admin.certificate, &[], UnixTime::now()).unwrap();
        let admin = pki.admin.x509().unwrap();
        assert_eq!(admin.subject().to_string(), "CN=kubernetes-admin, O=system:masters");
        assert!(default_provider().key_provider.load_private_key(pki.serving().1).is_ok());

        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let folder = dir.path().join("pki");
        assert_eq!(mode(&folder), 0o700);
        let mut there: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        there.sort();
        assert_eq!(there, FILES);
        for file in FILES.iter().filter(|file| file.ends_with(".key")) {
            assert_eq!(mode(&folder.join(file)), 0o600, "{file}");
        }
    }

    #[test]
    fn later_starts_find_what_the_first_made() {
        let dir = TempDir::new().unwrap();
        load(&dir).unwrap();
        let first = contents(&dir);
        let pki = load(&dir).unwrap();
        assert_eq!(changed(&first, &dir), [""; 0]);
        assert!(serves(&pki, "localhost"));
    }

    /// fabric8's client reads keys on elliptic curves as SEC 1 alone.
    #[test]
    fn keys_are_written_as_sec1_and_those_of_older_folders_are_read() {
        let dir = TempDir::new().unwrap();
        let made = load(&dir).unwrap();
        for file in FILES.iter().filter(|file| file.ends_with(".key")) {
            let path = dir.path().join("pki").join(file);
            let sec1 = fs::read_to_string(&path).unwrap();
            assert!(sec1.starts_with("-----BEGIN EC PRIVATE KEY-----\n"), "{file}");
            // As every folder was written before.
            fs::write(&path, sec1::from_pem(&sec1).unwrap().serialize_pem()).unwrap();
        }
        let older = contents(&dir);
        let read = load(&dir).unwrap();
        assert_eq!(changed(&older, &dir), [""; 0]);
        assert_eq!(read.admin.certificate, made.admin.certificate);
        let config = dir.path().join("config");
        Pki::write_kubeconfig(&config, &read.kubeconfig("https://127.0.0.1:6443", &read.trust())).unwrap();
        let key = BASE64.encode(&made.admin.key_pem);
        assert!(fs::read_to_string(&config).unwrap().contains(&key), "the kubeconfig's key is SEC 1");
    }

    #[test]
    fn many_that_start_at_once_have_one_authority() {
        let dir = TempDir::new().unwrap();
        let all = std::thread::scope(|scope| {
            let start = || load(&dir).unwrap();
            let started: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            started.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        for pki in &all {
            assert_eq!(pki.authority(), all[0].authority());
            assert_eq!(pki.serving().0, all[0].serving().0);
            assert_eq!(pki.admin.certificate, all[0].admin.certificate);
        }
    }

    #[test]
    fn other_names_make_only_the_serving_certificate_anew() {
        let dir = TempDir::new().unwrap();
        load(&dir).unwrap();
        let first = contents(&dir);
        let other = serving_names(IpAddr::from([192, 0, 2, 8]), None, &[]);
        let pki = load_for(&dir, Names::Exactly(other), 0).unwrap();
        assert_eq!(changed(&first, &dir), ["apiserver.crt", "apiserver.key"]);
        assert!(serves(&pki, "192.0.2.8") && !serves(&pki, "192.0.2.7"));
    }

    fn at_least(names: &[&str]) -> Names {
        Names::AtLeast(names.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn servers_that_share_a_folder_come_to_serve_one_certificate() {
        let dir = TempDir::new().unwrap();
        let (one, other) = (at_least(&["a", "all"]), at_least(&["b", "all"]));
        load_for(&dir, one, 0).unwrap();
        let both = load_for(&dir, other, 0).unwrap();
        assert!(serves(&both, "a") && serves(&both, "b") && serves(&both, "all"));
        let settled = contents(&dir);
        for names in [at_least(&["a", "all"]), at_least(&["b", "all"])] {
            let again = Pki::reload(&dir.path().join("pki"), &names, in_days(0)).unwrap().unwrap();
            assert!(!again.differs(&both));
        }
        assert_eq!(changed(&settled, &dir), [""; 0]);
    }

    #[test]
    fn machines_that_come_and_go_do_not_make_a_shared_certificate_grow_for_ever() {
        let mut had = BTreeSet::new();
        for machine in 0..1000 {
            let name = format!("machine-{machine}");
            had = at_least(&[&name]).of_new(had);
            assert!(had.contains(&name) && had.len() <= SHARED_NAMES_MAX, "{machine}");
        }
    }

    #[test]
    fn a_folder_that_takes_nothing_goes_on_as_long_as_its_certificates_are_valid() {
        let dir = TempDir::new().unwrap();
        let first = load(&dir).unwrap();
        let before = contents(&dir);
        let in_the_way = |name: &str| dir.path().join("pki").join(format!("{name}.unfinished/in the way"));
        // Both orders of what may fail: the key, and the certificate once its key is written.
        for file in ["apiserver.key", "admin.crt"] {
            fs::create_dir_all(in_the_way(file)).unwrap();
        }
        let there = load_in(&dir, 401);
        assert!(!there.differs(&first));
        assert_eq!(there.overdue().len(), 2, "{:?}", there.overdue());
        assert_eq!(changed(&before, &dir), [""; 0], "nothing was taken away");
        let reloaded = Pki::reload(&dir.path().join("pki"), &Names::Exactly(names()), in_days(401)).unwrap();
        assert!(!reloaded.unwrap().differs(&first));
        assert!(load_for(&dir, Names::Exactly(names()), 801).is_err(), "an expired one is not served");
    }

    #[test]
    fn the_authority_is_never_made_anew_while_it_serves() {
        let dir = TempDir::new().unwrap();
        load(&dir).unwrap();
        let before = contents(&dir);
        let reload = |days| Pki::reload(&dir.path().join("pki"), &Names::Exactly(names()), in_days(days));
        let error = reload(3651).err().unwrap().to_string();
        assert!(error.contains("ca.crt cannot be used: it has expired"), "{error}");
        fs::rename(dir.path().join("pki/ca.crt"), dir.path().join("pki/away")).unwrap();
        assert!(reload(0).err().unwrap().to_string().contains("ca.crt cannot be used: it is missing"));
        fs::rename(dir.path().join("pki/away"), dir.path().join("pki/ca.crt")).unwrap();
        assert_eq!(changed(&before, &dir), [""; 0]);
        // Who is at work in the folder is not waited for.
        let folder = File::open(dir.path().join("pki")).unwrap();
        folder.lock().unwrap();
        assert!(reload(401).unwrap().is_none());
        folder.unlock().unwrap();
        assert!(reload(401).unwrap().is_some());
    }

    #[test]
    fn what_vouches_for_a_certificate_from_elsewhere_is_found_in_its_file() {
        let key = KeyPair::generate().unwrap();
        let root = authority_params(in_days(0)).self_signed(&key).unwrap();
        let issuer = Issuer::from_ca_cert_der(root.der(), &key).unwrap();
        let leaf = |names: &[&str]| {
            let names = names.iter().map(|&name| name.to_owned()).collect();
            serving_params(&names, in_days(0))
                .unwrap()
                .signed_by(&KeyPair::generate().unwrap(), &issuer)
                .unwrap()
        };
        let url = "https://127.0.0.1:6443";
        let trust = |chain: &[&rcgen::Certificate]| {
            let chain: Vec<_> = chain.iter().map(|certificate| certificate.der().clone()).collect();
            let Trust { authorities_pem, server_name } = Trust::of_chain(&chain, url);
            (authorities_pem.map(|pem| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()), server_name)
        };
        let (local, named) = (leaf(&["127.0.0.1", "a.example.com"]), leaf(&["*.example.com"]));
        assert_eq!(trust(&[&local, &root]), (Some(root.der().clone()), None));
        assert_eq!(trust(&[&local]), (None, None), "the system's authorities");
        assert_eq!(trust(&[&named, &root]).1.as_deref(), Some("kindom.example.com"));
        let own = serving_params(&["b.example.com".to_owned()].into(), in_days(0)).unwrap();
        let own = own.self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert_eq!(trust(&[&own]), (Some(own.der().clone()), Some("b.example.com".to_owned())));
    }

    #[test]
    fn certificates_are_made_anew_before_they_end() {
        let dir = TempDir::new().unwrap();
        load(&dir).unwrap();
        let first = contents(&dir);
        load_in(&dir, 399);
        assert_eq!(changed(&first, &dir), [""; 0]);
        load_in(&dir, 401);
        assert_eq!(changed(&first, &dir), ["admin.crt", "admin.key", "apiserver.crt", "apiserver.key"]);
        load_in(&dir, 3649);
        assert_eq!(changed(&first, &dir), ["admin.crt", "admin.key", "apiserver.crt", "apiserver.key"]);
        load_in(&dir, 3651);
        assert_eq!(changed(&first, &dir), FILES);
        // And when a clock that was far ahead is set right again.
        let ahead = contents(&dir);
        load_in(&dir, 0);
        assert_eq!(changed(&ahead, &dir), ["admin.crt", "admin.key", "apiserver.crt", "apiserver.key"]);
    }

    #[test]
    fn another_authority_signs_everything_anew() {
        let dir = TempDir::new().unwrap();
        load(&dir).unwrap();
        let first = contents(&dir);
        fs::remove_file(dir.path().join("pki/ca.crt")).unwrap();
        let pki = load(&dir).unwrap();
        assert_eq!(changed(&first, &dir), FILES);
        assert!(serves(&pki, "localhost"));
    }

    #[test]
    fn a_start_that_was_cut_off_is_made_good() {
        let dir = TempDir::new().unwrap();
        load(&dir).unwrap();
        for left in [&["ca.key"][..], &["ca.key", "ca.crt", "apiserver.key"], &["ca.key", "ca.crt"]] {
            for file in FILES.into_iter().filter(|file| !left.contains(file)) {
                fs::remove_file(dir.path().join("pki").join(file)).unwrap();
            }
            fs::write(dir.path().join("pki/apiserver.key.unfinished"), "half a k").unwrap();
            assert!(serves(&load(&dir).unwrap(), "localhost"), "{left:?}");
        }
    }

    #[test]
    fn unusable_files_are_named_and_kept() {
        let dir = TempDir::new().unwrap();
        load(&dir).unwrap();
        let folder = dir.path().join("pki");
        for file in FILES {
            let path = folder.join(file);
            let good = fs::read(&path).unwrap();
            let half = good.split_at(good.len() / 2).0.to_vec();
            let other = if file.ends_with(".key") {
                KeyPair::generate().unwrap().serialize_pem()
            } else {
                String::new()
            };
            for bad in [b"".to_vec(), b"\xff\xfe".to_vec(), half, other.into_bytes()] {
                fs::write(&path, &bad).unwrap();
                let error = load(&dir).err().unwrap().to_string();
                assert!(error.contains(&*path.to_string_lossy()), "{file}: {error}");
                assert_eq!(fs::read(&path).unwrap(), bad, "{file}");
            }
            fs::write(&path, good).unwrap();
        }
        fs::remove_file(folder.join("ca.key")).unwrap();
        let error = load(&dir).err().unwrap().to_string();
        assert!(
            error.ends_with("ca.key cannot be used: it is missing; without it, remove ca.crt as well"),
            "{error}"
        );
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("pki"), "in the way").unwrap();
        let error = load(&dir).err().unwrap().to_string();
        assert!(error.starts_with("cannot write ") && error.contains("/pki: "), "{error}");
    }

    #[test]
    fn the_kubeconfig_carries_everything_and_is_private() {
        let dir = TempDir::new().unwrap();
        let pki = load(&dir).unwrap();
        let file = dir.path().join("admin.kubeconfig");
        for port in [6443, 6444] {
            let url = server_url(SocketAddr::from(([0, 0, 0, 0], port)));
            Pki::write_kubeconfig(&file, &pki.kubeconfig(&url, &pki.trust())).unwrap();
            let text = fs::read_to_string(&file).unwrap();
            assert!(text.contains(&format!("    server: https://127.0.0.1:{port}\n")), "{text}");
            let data = |key: &str| {
                let line = text.lines().find_map(|line| line.trim().strip_prefix(key)).unwrap();
                String::from_utf8(BASE64.decode(line.trim_start_matches(": ")).unwrap()).unwrap()
            };
            let made = contents(&dir);
            assert_eq!(data("client-certificate-data"), made[0]);
            assert_eq!(data("client-key-data"), made[1]);
            assert_eq!(data("certificate-authority-data"), made[4]);
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn urls_and_names_are_those_that_clients_can_use() {
        let url = |text: &str| server_url(text.parse().unwrap());
        assert_eq!(url("127.0.0.1:1"), "https://127.0.0.1:1");
        assert_eq!(url("[::]:6443"), "https://[::1]:6443");
        assert_eq!(url("192.0.2.1:6443"), "https://192.0.2.1:6443");
        let any = serving_names(IpAddr::from([0, 0, 0, 0]), Some("not a name"), &[]);
        assert_eq!(any.len(), 6, "{any:?}");
        assert_eq!(serving_names(Ipv6Addr::LOCALHOST.into(), Some(""), &[]), any);
    }

    #[test]
    fn files_of_ones_own_are_read_and_named() {
        let dir = TempDir::new().unwrap();
        let pki = load(&dir).unwrap();
        let bundle = dir.path().join("bundle.pem");
        let text = format!("{}\n# a comment\n{}", pki.authority.certificate_pem, pki.admin.certificate_pem);
        fs::write(&bundle, text).unwrap();
        assert_eq!(read_certificates(&bundle).unwrap(), [pki.authority(), pki.admin.certificate.clone()]);
        assert!(read_private_key(&dir.path().join("pki/admin.key")).is_ok());
        assert!(read_private_key(&bundle).unwrap_err().to_string().contains("bundle.pem cannot be used"));
        fs::write(&bundle, &pki.admin.key_pem).unwrap();
        let empty = read_certificates(&bundle).unwrap_err().to_string();
        assert!(empty.ends_with("bundle.pem cannot be used: it holds no certificate"), "{empty}");
        let missing = read_certificates(&dir.path().join("none.pem")).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read ") && missing.contains("none.pem"), "{missing}");
    }
}
