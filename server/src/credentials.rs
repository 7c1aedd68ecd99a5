//! The server's certificate, and the authorities and tokens that it trusts: read at the start, kept up to date while it
//! serves.
//!
//! **Flow.** [`Keeper::load`] reads everything and refuses unusable files. [`keep`] reads them again each minute (as
//! upstream's `dynamic_serving_content.go` and `dynamic_cafile_content.go` do) and at once on SIGHUP: it renews its own
//! certificates near their end, and takes over files that have changed. Open connections stay.
//!
//! **Guarantees.** A file that cannot be read, does not parse or does not fit the others changes nothing: the log reports
//! it, and the former credentials stay in force. Tokens are read again on SIGHUP alone: half a token file is a token file.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kindom_actor_kit::Clock;
use kindom_http::Credentials;
use kindom_http::authn::{Authenticator, FrontProxies, TlsError, Tokens, server_config};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Error, InconsistentKeys, ServerConfig};
use time::OffsetDateTime;
use tokio::sync::{oneshot, watch};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::BoxError;
use crate::flags::{FrontProxyFlags, Serve};
use crate::host::authentication::Known;
use crate::pki::{
    Names, Pki, Trust, host_name, may_be_read, read_certificates, read_private_key, serving_names,
};

/// The time between two looks at files (apiserver `pkg/server/dynamiccertificates`: once a minute).
const EVERY: Duration = Duration::from_secs(60);
/// SIGHUPs that come faster than this are one.
const HANGUPS_AT_MOST_EVERY: Duration = Duration::from_millis(100);
/// A certificate of somebody else that ends so soon is warned of.
const ENDS_SOON: time::Duration = time::Duration::days(30);
/// The time until the same warning is repeated.
const WARN_EVERY: time::Duration = time::Duration::days(1);

/// The ends of the certificates in use, for metrics: names and seconds since the Unix epoch.
pub(crate) type Ends = Arc<Mutex<Vec<(&'static str, i64)>>>;

/// The sources of credentials.
struct Sources {
    /// The folder of the server's own; `None` if they are in memory.
    pki: Option<PathBuf>,
    names: Names,
    /// `--tls-cert-file` and `--tls-private-key-file`.
    given: Option<(PathBuf, PathBuf)>,
    client_ca: Option<PathBuf>,
    front_proxies: FrontProxyFlags,
    tokens: Option<PathBuf>,
    /// The host's word for whatever no flag names.
    host: Option<Arc<Known>>,
}

/// The certificate to serve with, and its key.
struct Serving {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// Those whose client certificates count.
#[derive(PartialEq)]
struct Authorities {
    of_users: Vec<CertificateDer<'static>>,
    /// With the names of the headers that they write.
    of_proxies: Option<FrontProxies>,
}

impl Authorities {
    /// All of them: a client looks among those that the server names for one that has issued its certificate.
    fn all(&self) -> Vec<CertificateDer<'static>> {
        let of_proxies = self.of_proxies.iter().flat_map(|proxies| &proxies.authorities);
        self.of_users.iter().chain(of_proxies).cloned().collect()
    }

    /// # Errors
    /// An authority issues certificates for users and for proxies, and nothing but a name tells them apart.
    fn refuse_users_as_proxies(&self) -> Result<(), BoxError> {
        let Some(proxies) = &self.of_proxies else { return Ok(()) };
        let both = proxies.authorities.iter().any(|authority| self.of_users.contains(authority));
        if both && proxies.allowed_names.is_empty() {
            return Err("--requestheader-client-ca-file, or the host's ConfigMap, has an authority of users' certificates, \
                        and no allowed names: every user could ask in the name of any other"
                .into());
        }
        Ok(())
    }
}

/// The credentials in force.
pub(crate) struct Keeper {
    sources: Sources,
    pki: Pki,
    serving: Serving,
    authorities: Authorities,
    tokens: Tokens,
    kubeconfig: Option<Kubeconfig>,
    told: Option<(String, watch::Sender<Option<String>>)>,
    ends: Ends,
    /// The last complaints, so that each is logged once and not every minute.
    complaints: BTreeSet<String>,
    warned: Option<OffsetDateTime>,
}

/// The administrator's kubeconfig.
struct Kubeconfig {
    file: PathBuf,
    url: String,
    /// The text that was last written.
    written: String,
}

impl Keeper {
    /// Reads the files that the flags name, and makes the server's own.
    ///
    /// # Errors
    /// Names the file that cannot be used.
    pub(crate) fn load(options: &Serve, clock: &Clock) -> Result<Self, BoxError> {
        let names = serving_names(options.bind_address, host_name().as_deref(), &options.tls_san);
        let (pki, names) = match &options.cert_dir {
            Some(folder) => (Some(folder.clone()), Names::AtLeast(names)),
            None => (options.folder().map(|folder| folder.join("pki")), Names::Exactly(names)),
        };
        let given = options.tls_cert_file.clone().zip(options.tls_private_key_file.clone());
        let client_ca = options.client_ca_file.clone();
        let (front_proxies, tokens) = (options.front_proxies.clone(), options.token_auth_file.clone());
        let sources = Sources { pki, names, given, client_ca, front_proxies, tokens, host: None };
        let now = now(clock);
        let pki = match &sources.pki {
            Some(folder) => Pki::load_or_create(folder, &sources.names, now)?,
            None => Pki::in_memory(&sources.names, now)?,
        };
        for why in pki.overdue() {
            tracing::error!("{why}; the former credentials stay in use");
        }
        let serving = sources.serving(&pki)?;
        let authorities = sources.authorities(&pki)?;
        // Before the store is opened: the server cannot serve with files that do not fit together.
        sources.tls(&serving, &authorities)?;
        let tokens = sources.tokens()?;
        let mut keeper = Self {
            sources,
            pki,
            serving,
            authorities,
            tokens,
            kubeconfig: None,
            told: None,
            ends: Ends::default(),
            complaints: BTreeSet::new(),
            warned: None,
        };
        keeper.note_ends(now);
        Ok(keeper)
    }

    /// Follows a host: its authorities and proxies count where no flag names others.
    ///
    /// # Errors
    /// The host's present word cannot be used; the keeper goes on with the one before.
    pub(crate) fn follow(&mut self, host: Arc<Known>) -> Result<(), BoxError> {
        self.sources.host = Some(host);
        let authorities = self.sources.authorities(&self.pki)?;
        self.sources.tls(&self.serving, &authorities)?;
        self.authorities = authorities;
        Ok(())
    }

    /// The configuration that connections begin with.
    ///
    /// # Errors
    /// Says which file does not fit.
    pub(crate) fn tls(&self) -> Result<Arc<ServerConfig>, BoxError> {
        self.sources.tls(&self.serving, &self.authorities)
    }

    /// The authenticator that judges requests.
    ///
    /// # Errors
    /// An authority cannot be used.
    pub(crate) fn authenticator(&self) -> Result<Authenticator, TlsError> {
        let authenticator = Authenticator::new(&self.authorities.of_users, self.tokens.clone())?;
        match self.authorities.of_proxies.clone() {
            Some(proxies) => authenticator.trusting(proxies),
            None => Ok(authenticator),
        }
    }

    /// The authorities of users' certificates.
    pub(crate) fn of_users(&self) -> &[CertificateDer<'static>] {
        &self.authorities.of_users
    }

    /// The ends of the certificates in use, kept up to date.
    pub(crate) fn ends(&self) -> Ends {
        Arc::clone(&self.ends)
    }

    /// The administrator's kubeconfig for the server at `url`.
    pub(crate) fn kubeconfig(&self, url: &str) -> String {
        self.pki.kubeconfig(url, &self.trust(url))
    }

    /// Writes the administrator's kubeconfig for the server at `url`, from now on whenever it changes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write_kubeconfig(&mut self, file: PathBuf, url: String) -> Result<(), BoxError> {
        let trust = self.trust(&url);
        if self.sources.given.is_some() {
            tracing::info!("{}: {trust}", file.display());
        }
        let text = self.kubeconfig(&url);
        Pki::write_kubeconfig(&file, &text)?;
        self.kubeconfig = Some(Kubeconfig { file, url, written: text });
        Ok(())
    }

    /// Tells of the authorities that vouch for the certificate that is served at `url`, PEM in base 64, whenever they change.
    pub(crate) fn tell_authorities(&mut self, url: String) -> watch::Receiver<Option<String>> {
        let (to, from) = watch::channel(self.bundle(&url));
        self.told = Some((url, to));
        from
    }

    /// The authorities that vouch for the server's certificate, PEM; `None` if only those of the client's system do.
    pub(crate) fn authorities_pem(&self) -> Option<String> {
        self.trust("").authorities_pem
    }

    /// The administrator's certificate and key, PEM.
    pub(crate) fn admin_pem(&self) -> (String, String) {
        self.pki.admin_pem()
    }

    fn bundle(&self, url: &str) -> Option<String> {
        self.trust(url).authorities_pem.map(|pem| STANDARD.encode(pem))
    }

    fn trust(&self, url: &str) -> Trust {
        match self.sources.given {
            Some(_) => Trust::of_chain(&self.serving.chain, url),
            None => self.pki.trust(),
        }
    }

    /// `true` if there is anything to keep up to date.
    pub(crate) fn can_change(&self) -> bool {
        let Sources { pki, names: _, given, client_ca, front_proxies, tokens, host } = &self.sources;
        let files = [pki, client_ca, tokens, &front_proxies.requestheader_client_ca_file];
        files.into_iter().any(Option::is_some) || given.is_some() || host.is_some() || self.told.is_some()
    }

    /// Reads everything again, tokens only if `asked`, and takes over usable changes.
    pub(crate) fn check(&mut self, now: OffsetDateTime, asked: bool, to: &Credentials) {
        let before = std::mem::take(&mut self.complaints);
        let changed = self.renew(now, asked, to, &before);
        if asked && changed.is_empty() && self.complaints.is_empty() {
            tracing::info!("SIGHUP: no credentials have changed");
        } else if !changed.is_empty() {
            tracing::info!("credentials: {}", changed.join(", "));
        }
        if let Some((url, to)) = &self.told {
            let bundle = self.bundle(url);
            to.send_if_modified(|told| std::mem::replace(told, bundle) != *told);
        }
        self.note_ends(now);
    }

    fn renew(
        &mut self,
        now: OffsetDateTime,
        asked: bool,
        to: &Credentials,
        before: &BTreeSet<String>,
    ) -> Vec<&'static str> {
        let mut changed = Vec::new();
        let complain = |complaints: &mut BTreeSet<String>, error: BoxError| {
            let text = format!("{error}; what was in force stays");
            if asked || !before.contains(&text) {
                tracing::error!("{text}");
            }
            complaints.insert(text);
        };
        let own = self.sources.pki.as_ref().map(|folder| Pki::reload(folder, &self.sources.names, now));
        match own.unwrap_or(Ok(None)) {
            Ok(Some(pki)) => {
                for why in pki.overdue() {
                    complain(&mut self.complaints, why.clone().into());
                }
                if pki.differs(&self.pki) {
                    changed.push("own certificates are new");
                }
                self.pki = pki;
            }
            // There is no folder, or somebody else who shares it is at work in it.
            Ok(None) => {}
            Err(error) => complain(&mut self.complaints, error.into()),
        }
        let sources = &self.sources;
        let given = sources.given.iter().flat_map(|(chain, key)| [chain, key]);
        let serving = may_be_read_again(given).and_then(|()| sources.serving(&self.pki));
        let given = sources.client_ca.iter().chain(&sources.front_proxies.requestheader_client_ca_file);
        let authorities = may_be_read_again(given).and_then(|()| sources.authorities(&self.pki));
        let tokens = if asked {
            may_be_read_again(&sources.tokens).and_then(|()| sources.tokens()).map(Some)
        } else {
            Ok(None)
        };
        let (mut new_tls, mut new_authenticator) = (None, false);
        match authorities {
            Ok(authorities) if authorities != self.authorities => {
                // Judged as a whole before it is taken over.
                match self.sources.tls(&self.serving, &authorities) {
                    Ok(tls) => {
                        new_tls = Some(tls);
                        new_authenticator = true;
                        self.authorities = authorities;
                        changed.push("client authorities are new");
                    }
                    Err(error) => complain(&mut self.complaints, error),
                }
            }
            Ok(_) => {}
            Err(error) => complain(&mut self.complaints, error),
        }
        match serving {
            // A certificate has one key, in whatever form that is written.
            Ok(serving) if serving.chain != self.serving.chain => {
                match self.sources.tls(&serving, &self.authorities) {
                    Ok(tls) => {
                        new_tls = Some(tls);
                        self.serving = serving;
                        changed.push("the serving certificate is new");
                    }
                    Err(error) => complain(&mut self.complaints, error),
                }
            }
            Ok(_) => {}
            Err(error) => complain(&mut self.complaints, error),
        }
        match tokens {
            Ok(Some(tokens)) if tokens != self.tokens => {
                self.tokens = tokens;
                new_authenticator = true;
                changed.push("tokens are new");
            }
            Ok(_) => {}
            Err(error) => complain(&mut self.complaints, error),
        }
        if let Some(tls) = new_tls {
            to.replace_tls(tls);
        }
        if new_authenticator {
            match self.authenticator() {
                Ok(authenticator) => to.replace_authenticator(authenticator),
                Err(error) => complain(&mut self.complaints, error.into()),
            }
        }
        if let Some(last) = &self.kubeconfig {
            let text = self.kubeconfig(&last.url);
            if text != last.written {
                match Pki::write_kubeconfig(&last.file, &text) {
                    Ok(()) => {
                        changed.push("admin.kubeconfig is new");
                        self.kubeconfig =
                            self.kubeconfig.take().map(|last| Kubeconfig { written: text, ..last });
                    }
                    Err(error) => complain(&mut self.complaints, error.into()),
                }
            }
        }
        changed
    }

    /// Tells the metrics of the ends of all certificates, and the log, once a day, of those that nobody renews.
    fn note_ends(&mut self, now: OffsetDateTime) {
        let serving = self.serving.chain.first().and_then(validity);
        let ends = [
            ("ca", self.pki.authority_ends()),
            ("admin", self.pki.admin_ends()),
            ("serving", serving.map(|(_, ends)| ends)),
        ];
        let known = ends.into_iter().filter_map(|(name, ends)| Some((name, ends?))).collect();
        *self.ends.lock().unwrap_or_else(PoisonError::into_inner) = known;
        if self.warned.is_some_and(|warned| now - warned < WARN_EVERY && now >= warned) {
            return;
        }
        let mut warnings = Vec::new();
        if let (Some((begins, ends)), Some((file, _))) = (serving, &self.sources.given) {
            let file = format!("--tls-cert-file {}", file.display());
            warnings.extend(unfit(&file, begins, ends, now));
        }
        if let Some(ends) = self.pki.authority_ends() {
            let file = self.sources.pki.as_ref().map(|folder| folder.join("ca.crt").display().to_string());
            let file = file.unwrap_or_else(|| "the server's own authority".to_owned());
            warnings.extend(unfit(&file, i64::MIN, ends, now));
        }
        if !warnings.is_empty() {
            self.warned = Some(now);
        }
        for warning in warnings {
            tracing::warn!("{warning}");
        }
    }
}

/// The reason why a certificate is unusable, or will soon be.
fn unfit(file: &str, begins: i64, ends: i64, now: OffsetDateTime) -> Option<String> {
    let date = |seconds| {
        OffsetDateTime::from_unix_timestamp(seconds).map_or_else(|_| seconds.to_string(), |t| t.to_string())
    };
    let at = now.unix_timestamp();
    if ends < at {
        Some(format!("{file} has expired at {}: clients will refuse it", date(ends)))
    } else if begins > at {
        Some(format!("{file} is not valid before {}: clients will refuse it until then", date(begins)))
    } else if ends < now.saturating_add(ENDS_SOON).unix_timestamp() {
        Some(format!("{file} expires at {}", date(ends)))
    } else {
        None
    }
}

/// Refuses files that only a start reads: the start waits for a pipe, such as a shell's `<(…)`, which can be read once.
fn may_be_read_again<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), BoxError> {
    files.into_iter().try_for_each(|file| {
        may_be_read(file).map_err(|error| format!("cannot read {} again: {error}", file.display()).into())
    })
}

/// From when to when a certificate is valid, in seconds since the Unix epoch.
fn validity(certificate: &CertificateDer<'_>) -> Option<(i64, i64)> {
    let (_, x509) = X509Certificate::from_der(certificate).ok()?;
    Some((x509.validity().not_before.timestamp(), x509.validity().not_after.timestamp()))
}

impl Sources {
    fn serving(&self, pki: &Pki) -> Result<Serving, BoxError> {
        let (chain, key) = match &self.given {
            Some((chain, key)) => (read_certificates(chain)?, read_private_key(key)?),
            None => pki.serving(),
        };
        Ok(Serving { chain, key })
    }

    fn authorities(&self, pki: &Pki) -> Result<Authorities, BoxError> {
        let mut of_users = vec![pki.authority()];
        let of_host = self.host.as_ref().map(|host| host.now()).unwrap_or_default();
        match &self.client_ca {
            Some(file) => of_users.extend(read_certificates(file)?),
            None => of_users.extend(of_host.users),
        }
        let flags = &self.front_proxies;
        let of_proxies = flags.requestheader_client_ca_file.as_ref().map(|file| {
            Ok::<_, BoxError>(FrontProxies {
                authorities: read_certificates(file)?,
                allowed_names: flags.requestheader_allowed_names.clone(),
                username_headers: flags.requestheader_username_headers.clone(),
                uid_headers: flags.requestheader_uid_headers.clone(),
                group_headers: flags.requestheader_group_headers.clone(),
                extra_prefixes: flags.requestheader_extra_headers_prefix.clone(),
            })
        });
        let of_proxies = of_proxies.transpose()?.or(of_host.proxies);
        let authorities = Authorities { of_users, of_proxies };
        authorities.refuse_users_as_proxies()?;
        Ok(authorities)
    }

    fn tokens(&self) -> Result<Tokens, BoxError> {
        Ok(self.tokens.as_deref().map(Tokens::read).transpose()?.unwrap_or_default())
    }

    fn tls(&self, serving: &Serving, authorities: &Authorities) -> Result<Arc<ServerConfig>, BoxError> {
        let made = server_config(serving.chain.clone(), serving.key.clone_key(), &authorities.all());
        made.map_err(|error| match (error, &self.given) {
            (
                TlsError::Serving(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)),
                Some((chain, key)),
            ) => format!(
                "--tls-private-key-file {} is not the key of --tls-cert-file {}",
                key.display(),
                chain.display()
            )
            .into(),
            (error @ TlsError::Serving(_), Some((chain, _))) => {
                format!("--tls-cert-file {}: {error}", chain.display()).into()
            }
            (error, _) => error.into(),
        })
    }
}

fn now(clock: &Clock) -> OffsetDateTime {
    let seconds = clock.unix_seconds();
    // A clock beyond the year 9999 is as good as at the beginning: certificates hold at neither.
    OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Keeps credentials up to date for ever: each minute, when `hangups` reports a SIGHUP, and when a host says otherwise than
/// before.
pub(crate) async fn keep(keeper: Keeper, to: Credentials, clock: Clock, mut hangups: watch::Receiver<()>) {
    let mut of_host = keeper.sources.host.as_ref().map(|host| host.changes());
    // It may have changed since the start.
    if let Some(changes) = &mut of_host {
        changes.mark_changed();
    }
    let keeper = Arc::new(Mutex::new(keeper));
    loop {
        let asked = tokio::select! {
            biased;
            heard = hangups.changed() => heard.is_ok(),
            () = changed(&mut of_host) => false,
            () = clock.sleep(EVERY) => false,
        };
        let (done, checked) = oneshot::channel::<()>();
        let check = {
            let (keeper, to, now) = (Arc::clone(&keeper), to.clone(), now(&clock));
            move || {
                keeper.lock().unwrap_or_else(PoisonError::into_inner).check(now, asked, &to);
                drop(done);
            }
        };
        // A thread of its own: a disk that does not answer holds nothing else up, not even the server's end.
        match std::thread::Builder::new().name("credentials".to_owned()).spawn(check) {
            // Dropping its end of the channel reports that the check is done.
            Ok(_) => drop(checked.await),
            Err(error) => tracing::error!(%error, "credentials cannot be checked"),
        }
        if asked {
            clock.sleep(HANGUPS_AT_MOST_EVERY).await;
        }
    }
}

async fn changed(of_host: &mut Option<watch::Receiver<()>>) {
    if let Some(changes) = of_host
        && changes.changed().await.is_ok()
    {
        return;
    }
    // Nobody is left who could report a change.
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser as _;
    use kindom_actor_kit::simulation;
    use kindom_http::authn::CurrentAuthenticator;
    use rcgen::{CertificateParams, KeyPair};
    use tempfile::TempDir;

    use super::*;
    use crate::flags::{Command, Flags};

    const NOW_MS: u64 = 1_900_000_000_000;
    const DAY_MS: u64 = 24 * 3600 * 1000;

    fn at(days: u64) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(NOW_MS + days * DAY_MS) * 1_000_000).unwrap()
    }

    fn options(dir: &TempDir, args: &[&str]) -> Serve {
        let folder = dir.path().to_string_lossy().into_owned();
        let all = ["kindom", "serve", "--data-dir", &folder].into_iter().chain(args.iter().copied());
        match Flags::try_parse_from(all).unwrap().command {
            Command::Serve(options) => *options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn users_are_no_proxies() {
        let der = |byte| CertificateDer::from(vec![byte]);
        let refused = |of_proxies: &[u8], allowed_names: &[&str]| {
            let proxies = FrontProxies {
                authorities: of_proxies.iter().map(|byte| der(*byte)).collect(),
                allowed_names: allowed_names.iter().map(|name| (*name).to_owned()).collect(),
                ..FrontProxies::default()
            };
            let authorities = Authorities { of_users: vec![der(1), der(2)], of_proxies: Some(proxies) };
            authorities.refuse_users_as_proxies().is_err()
        };
        assert!(refused(&[2], &[]) && refused(&[3, 1], &[]));
        assert!(!refused(&[3], &[]) && !refused(&[2], &["aggregator"]));
    }

    /// A keeper made at [`NOW_MS`], and the credentials that it updates.
    fn keeper(dir: &TempDir, args: &[&str]) -> (Keeper, Credentials) {
        let (send, made) = std::sync::mpsc::channel();
        let options = options(dir, args);
        simulation::run(async move {
            send.send(Keeper::load(&options, &Clock::starting_at(NOW_MS)).unwrap()).unwrap();
        })
        .unwrap();
        let mut keeper = made.recv().unwrap();
        keeper
            .write_kubeconfig(dir.path().join("admin.kubeconfig"), "https://127.0.0.1:1".to_owned())
            .unwrap();
        let authenticator = CurrentAuthenticator::new(keeper.authenticator().unwrap());
        let credentials =
            Credentials::new(ServerConfig::clone(&keeper.tls().unwrap()), Arc::new(authenticator));
        (keeper, credentials)
    }

    #[test]
    fn own_certificates_are_renewed_while_it_serves() {
        let dir = TempDir::new().unwrap();
        let (mut keeper, credentials) = keeper(&dir, &[]);
        let kubeconfig = || fs::read_to_string(dir.path().join("admin.kubeconfig")).unwrap();
        let (tls, first, ends) = (credentials.tls(), kubeconfig(), keeper.ends());
        let ends = || ends.lock().unwrap().clone();
        let before = ends();
        assert_eq!(before.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["ca", "admin", "serving"]);
        keeper.check(at(399), false, &credentials);
        assert!(Arc::ptr_eq(&tls, &credentials.tls()) && kubeconfig() == first && ends() == before);
        keeper.check(at(401), false, &credentials);
        assert!(!Arc::ptr_eq(&tls, &credentials.tls()), "it is served at once");
        assert_ne!(kubeconfig(), first);
        let after = ends();
        assert_eq!(after[0], before[0], "the authority stays");
        assert!(after[1].1 > before[1].1 && after[2].1 > before[2].1, "{after:?}");
        // A clock that was far ahead for a moment is made good.
        let ahead = credentials.tls();
        keeper.check(at(0), false, &credentials);
        assert!(!Arc::ptr_eq(&ahead, &credentials.tls()));
        assert_eq!(ends()[1..].iter().map(|(_, ends)| *ends).max(), Some(before[1].1));
    }

    #[test]
    fn it_looks_by_itself() {
        let dir = TempDir::new().unwrap();
        let (keeper, credentials) = keeper(&dir, &[]);
        let tls = credentials.tls();
        simulation::run(async move {
            let clock = Clock::starting_at(NOW_MS + 401 * DAY_MS);
            let (_hangup, hangups) = watch::channel(());
            let kept = tokio::spawn(keep(keeper, credentials.clone(), clock.clone(), hangups));
            while Arc::ptr_eq(&tls, &credentials.tls()) {
                clock.sleep(Duration::from_millis(1)).await;
            }
            kept.abort();
        })
        .unwrap();
    }

    #[test]
    fn what_does_not_fit_together_changes_nothing() {
        let dir = TempDir::new().unwrap();
        let (chain, key) = (dir.path().join("tls.crt"), dir.path().join("tls.key"));
        let make = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
        };
        let (first, second) = (make("one"), make("two"));
        let write = |certificate: &str, private: &str| {
            fs::write(&chain, certificate).unwrap();
            fs::write(&key, private).unwrap();
        };
        write(&first.0, &first.1);
        let (chain_flag, key_flag) = (chain.to_string_lossy(), key.to_string_lossy());
        let args = ["--tls-cert-file", &*chain_flag, "--tls-private-key-file", &*key_flag];
        let (mut keeper, credentials) = keeper(&dir, &args);
        let tls = credentials.tls();
        let half = second.0.split_at(second.0.len() / 2).0;
        for (certificate, private) in
            [(&*second.0, &*first.1), (half, &*second.1), ("", ""), (&*second.0, half), (&*second.0, "")]
        {
            write(certificate, private);
            for asked in [false, true] {
                keeper.check(at(0), asked, &credentials);
                assert!(Arc::ptr_eq(&tls, &credentials.tls()));
                assert_eq!(keeper.complaints.len(), 1, "{:?}", keeper.complaints);
            }
        }
        write(&second.0, &first.1);
        let error = Keeper::load(&options(&dir, &args), &Clock::system()).err().unwrap().to_string();
        assert!(
            error.ends_with(&format!("tls.key is not the key of --tls-cert-file {chain_flag}")),
            "{error}"
        );
        write(&second.0, &second.1);
        keeper.check(at(0), false, &credentials);
        assert!(!Arc::ptr_eq(&tls, &credentials.tls()) && keeper.complaints.is_empty());
    }

    #[test]
    fn tokens_are_read_again_when_asked_alone() {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("tokens.csv");
        fs::write(&file, "abc,alice,1\n").unwrap();
        let (mut keeper, credentials) = keeper(&dir, &["--token-auth-file", &file.to_string_lossy()]);
        let is_alice = |keeper: &Keeper| keeper.tokens.get("abc").is_some();
        fs::write(&file, "").unwrap();
        keeper.check(at(0), false, &credentials);
        assert!(is_alice(&keeper), "half a file is a file");
        fs::write(&file, "abc,\n").unwrap();
        keeper.check(at(0), true, &credentials);
        assert!(is_alice(&keeper) && keeper.complaints.len() == 1, "{:?}", keeper.complaints);
        fs::write(&file, "def,bob,2\n").unwrap();
        keeper.check(at(0), true, &credentials);
        assert!(!is_alice(&keeper) && keeper.tokens.get("def").is_some());
    }

    /// A device here; the read of a pipe would never return, and no SIGHUP after it would be heard.
    #[test]
    fn only_regular_files_are_read_again() {
        let dir = TempDir::new().unwrap();
        let (tokens, authorities) = (dir.path().join("tokens.csv"), dir.path().join("clients.crt"));
        fs::write(&tokens, "abc,alice,1\n").unwrap();
        let args = [
            "--token-auth-file",
            &tokens.to_string_lossy(),
            "--client-ca-file",
            &authorities.to_string_lossy(),
        ];
        let authority =
            CertificateParams::new(Vec::new()).unwrap().self_signed(&KeyPair::generate().unwrap());
        fs::write(&authorities, authority.unwrap().pem()).unwrap();
        let (mut keeper, credentials) = keeper(&dir, &args);
        let files = [tokens, authorities, dir.path().join("pki/admin.crt")];
        for file in &files {
            let there = fs::read(file).unwrap();
            fs::remove_file(file).unwrap();
            std::os::unix::fs::symlink("/dev/null", file).unwrap();
            keeper.check(at(0), true, &credentials);
            let complaints: Vec<_> = keeper.complaints.iter().collect();
            assert!(
                matches!(complaints.as_slice(), [one] if one.contains("it is no regular file")),
                "{complaints:?}"
            );
            assert!(keeper.tokens.get("abc").is_some() && keeper.authorities.of_users.len() == 2);
            fs::remove_file(file).unwrap();
            fs::write(file, there).unwrap();
        }
        keeper.check(at(0), true, &credentials);
        assert!(keeper.complaints.is_empty(), "{:?}", keeper.complaints);
    }

    #[test]
    fn certificates_of_no_use_are_told_of() {
        let unfit = |begins: i64, ends: i64| {
            unfit("a.crt", at(0).unix_timestamp() + begins, at(0).unix_timestamp() + ends, at(0))
        };
        assert!(unfit(-10, -1).unwrap().starts_with("a.crt has expired at 20"));
        assert!(unfit(10, 100).unwrap().starts_with("a.crt is not valid before 20"));
        assert!(unfit(-10, 29 * 24 * 3600).unwrap().starts_with("a.crt expires at 20"));
        assert_eq!(unfit(-10, 31 * 24 * 3600), None);
    }

    #[test]
    fn a_clock_at_the_end_of_all_years_is_no_panic() {
        let last = OffsetDateTime::from_unix_timestamp(253_402_300_799).unwrap();
        assert_eq!(unfit("a.crt", 0, last.unix_timestamp(), last), None);
    }
}
