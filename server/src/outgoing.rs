//! Connections to other servers over TLS, of which each request or answer may be anybody's.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use kube::Config;
use kube::client::ConfigExt as _;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
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
        let mut vouched = Vec::new();
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
            vouched = authorities;
        }
        if let Some((certificate, key)) = self.own {
            config.auth_info.client_certificate_data = Some(STANDARD.encode(certificate));
            config.auth_info.client_key_data = Some(STANDARD.encode(key).into());
        }
        let mut config = config.rustls_client_config()?;
        if !vouched.is_empty() && !self.skips_verification {
            let verifier = OwnAuthority::new(vouched)?;
            config.dangerous().set_certificate_verifier(Arc::new(verifier));
        }
        Ok(config)
    }
}

/// Verifies as webpki does, but that a server may show a certificate that is itself one of its authorities. Who signs a webhook's
/// certificate with `openssl req -x509` has one that is marked as an authority's, and Go takes it (crypto/x509,
/// `Certificate.Verify`).
#[derive(Debug)]
struct OwnAuthority {
    webpki: Arc<WebPkiServerVerifier>,
    authorities: Vec<CertificateDer<'static>>,
}

impl OwnAuthority {
    fn new(authorities: Vec<CertificateDer<'static>>) -> Result<Self, BoxError> {
        let mut roots = RootCertStore::empty();
        for authority in &authorities {
            roots.add(authority.clone())?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        Ok(Self { webpki, authorities })
    }
}

/// Returns true if all that is wrong with a certificate, which is valid now, is that it is an authority's.
fn is_authority(error: &rustls::Error) -> bool {
    let rustls::Error::InvalidCertificate(CertificateError::Other(why)) = error else { return false };
    why.0.to_string() == "CaUsedAsEndEntity"
}

impl ServerCertVerifier for OwnAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified =
            self.webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(error) if is_authority(&error) && self.authorities.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
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

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;

    fn signed_by_itself(name: &str, until: i32) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn a_server_may_be_its_own_authority_and_no_others() {
        let verify = |authorities: &[&CertificateDer<'static>], shown: &CertificateDer<'_>| {
            let verifier = OwnAuthority::new(authorities.iter().map(|of| (*of).clone()).collect()).unwrap();
            let now = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
            let name = ServerName::try_from("hook.example.com").unwrap();
            verifier.verify_server_cert(shown, &[], &name, &[], now).map(drop)
        };
        let own = signed_by_itself("hook.example.com", 2050);
        let (another, same_name) =
            (signed_by_itself("other.example.com", 2050), signed_by_itself("hook.example.com", 2050));
        assert_eq!(verify(&[&another, &own], &own), Ok(()));
        assert!(verify(&[&another], &own).is_err());
        assert!(verify(&[&own], &same_name).is_err());
        assert!(verify(&[&another], &another).is_err(), "its name is another");
        let over = signed_by_itself("hook.example.com", 2026);
        assert!(verify(&[&over], &over).is_err(), "its time is over");
    }
}
