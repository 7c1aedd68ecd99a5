//! Connections to other servers over TLS, of which each request or answer may be anybody's.

use std::error::Error;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use kube::Config;
use kube::client::ConfigExt as _;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::BoxError;

/// The longest that a connection may take to be there.
const CONNECT: Duration = Duration::from_secs(5);
/// A connection that says nothing for so long is asked whether it lives.
pub(crate) const PING: Duration = Duration::from_secs(30);
/// A connection that nobody uses for so long is closed.
pub(crate) const IDLE: Duration = Duration::from_secs(90);

/// Those who vouch for another server, and for this one there.
#[derive(Debug, Default)]
pub(crate) struct Trust<'a> {
    /// PEM; empty for the authorities that the machine trusts.
    pub(crate) authorities: &'a [u8],
    pub(crate) skips_verification: bool,
    /// A certificate and its key, in PEM.
    pub(crate) own: Option<(&'a [u8], &'a [u8])>,
}

impl Trust<'_> {
    /// # Errors
    /// Certificates that cannot be used.
    pub(crate) fn tls(&self) -> Result<ClientConfig, BoxError> {
        let mut config = Config::new(Uri::from_static("https://server"));
        config.accept_invalid_certs = self.skips_verification;
        if self.skips_verification {
            // Otherwise the machine's authorities would be read, for nothing.
            config.root_cert = Some(Vec::new());
        }
        if !self.authorities.is_empty() {
            let authorities: Vec<_> =
                CertificateDer::pem_slice_iter(self.authorities).collect::<Result<_, _>>()?;
            if authorities.is_empty() {
                return Err("caBundle has no certificate".into());
            }
            config.root_cert = Some(authorities.iter().map(|der| der.to_vec()).collect());
        }
        if let Some((certificate, key)) = self.own {
            config.auth_info.client_certificate_data = Some(STANDARD.encode(certificate));
            config.auth_info.client_key_data = Some(STANDARD.encode(key).into());
        }
        Ok(config.rustls_client_config()?)
    }
}

/// Connects over TLS, to a server of this name wherever it is, or of the name that the URL has.
pub(crate) fn connector(
    tls: ClientConfig,
    name: Option<ServerName<'static>>,
    with_http2: bool,
) -> HttpsConnector<HttpConnector> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT));
    http.set_keepalive(Some(PING));
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_only();
    let builder = match name {
        Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name)),
        None => builder,
    };
    let builder = builder.enable_http1();
    if with_http2 { builder.enable_http2().wrap_connector(http) } else { builder.wrap_connector(http) }
}

/// Runs what a client spawns on a runtime of its own, whoever asks.
#[derive(Clone)]
pub(crate) struct Executor(pub(crate) Handle);

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}

/// An error with its causes. What a library repeats of its cause is said once.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.map(ToString::to_string).fold(error.to_string(), |text, cause| match text.contains(&cause) {
        true => text,
        false => format!("{text}: {cause}"),
    })
}

/// A task that ends with its owner.
pub(crate) struct Owned<T>(pub(crate) JoinHandle<T>);

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
