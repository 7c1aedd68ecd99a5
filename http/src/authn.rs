//! Authentication and authorization: client certificates, bearer tokens, anonymous callers.
//!
//! Knows TLS but no HTTP framework: the caller hands in the connection's certificates and the value
//! of the Authorization header.
//!
//! # Flow
//!
//! Once a connection: [`server_config`] asks the client for a certificate and accepts any whose key the client proves to
//! hold, so that a certificate which does not verify is answered 401 instead of breaking the handshake;
//! [`Authenticator::peer`] verifies it. Once a request: [`Authenticator::authenticate`] puts the peer, the bearer token and
//! the headers of a front proxy together, then [`authorize`] decides.
//!
//! # Sources
//!
//! apiserver `pkg/authentication/request/{x509,bearertoken,union,anonymous,headerrequest}`,
//! `pkg/authentication/{group,token/tokenfile}`, `pkg/endpoints/handlers/responsewriters/errors.go`; those of `delegate` are there.

mod authorize;
mod current;
mod delegate;
mod front_proxy;
mod impersonate;
mod roles;
#[cfg(test)]
mod testing;
mod tls;
mod tokens;

use std::sync::Arc;

use kindom_api::user::User;
use rustls::{
    pki_types::{CertificateDer, UnixTime},
    server::danger::ClientCertVerifier,
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

pub(crate) use authorize::sanitized;
pub use authorize::{Attributes, Denial, authorize, deny};
pub use current::{CurrentAuthenticator, Peer};
pub(crate) use delegate::Refused;
pub use delegate::{
    AccessQuestion, AccessReviewer, AlwaysAllowPaths, Authorization, Decision, Delegation, Review,
    TokenReviewer, Unreviewed,
};
pub use front_proxy::FrontProxies;
use front_proxy::Proxy;
pub(crate) use impersonate::{Impersonation, LastModes, NotWanted, Requested};
pub use roles::by_roles;
pub use tls::{TlsError, server_config};
pub use tokens::{TokenError, Tokens};

/// The verdict on the certificates of a connection: the user whom they prove, and whether they are a front proxy's; see
/// [`Authenticator::peer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerVerdict {
    identity: PeerIdentity,
    proxy: Proxy,
}

/// The identity in a connection's client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerIdentity {
    /// No certificate was sent, or one that names nobody.
    None,
    /// One that does not verify. The text is for the log.
    Invalid(String),
    /// One that verifies.
    Verified {
        /// Shared by all requests of the connection.
        user: Arc<User>,
        /// Seconds since the Unix epoch. A connection may outlive its certificate.
        not_after: u64,
    },
}

/// The credentials do not hold: 401.
///
/// Never says why to the client; the text is for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unauthorized: {0}")]
pub struct Unauthorized(String);

/// Decides who sends a request.
#[derive(Debug)]
pub struct Authenticator {
    certificates: Arc<dyn ClientCertVerifier>,
    proxies: Option<front_proxy::Verifier>,
    tokens: Tokens,
    anonymous: Arc<User>,
}

/// The credentials that a request carries.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    /// The value of the Authorization header; a scheme other than Bearer is no credential.
    pub authorization: Option<&'a str>,
    /// The token among the subprotocols of a WebSocket, or the reason why it can't be one.
    pub in_protocol: Result<Option<&'a str>, &'static str>,
}

impl<'a> Presented<'a> {
    /// Those of a request that is no WebSocket's.
    #[must_use]
    pub fn new(authorization: Option<&'a str>) -> Self {
        Self { authorization, in_protocol: Ok(None) }
    }

    /// The tokens, or why one cannot be, in the order in which they count; each with `true` if it is a WebSocket's
    /// subprotocol.
    pub(crate) fn tokens(self) -> impl Iterator<Item = (Result<&'a str, &'static str>, bool)> {
        let in_header = self.authorization.and_then(bearer).map(Ok);
        let credentials = [(in_header, false), (self.in_protocol.transpose(), true)];
        credentials.into_iter().filter_map(|(token, by_protocol)| Some((token?, by_protocol)))
    }
}

impl Authenticator {
    /// `client_ca`: the authorities whose client certificates count.
    ///
    /// # Errors
    /// [`TlsError`], if there is none or one cannot be used.
    pub fn new(client_ca: &[CertificateDer<'_>], tokens: Tokens) -> Result<Self, TlsError> {
        let certificates = tls::verifier(client_ca)?;
        Ok(Self { certificates, proxies: None, tokens, anonymous: Arc::new(User::anonymous()) })
    }

    /// Trusts these proxies too.
    ///
    /// # Errors
    /// [`TlsError`], if they have no authority or one that cannot be used.
    pub fn trusting(mut self, proxies: FrontProxies) -> Result<Self, TlsError> {
        self.proxies = Some(front_proxy::Verifier::new(proxies)?);
        Ok(self)
    }

    /// `true` for a header in which a front proxy that is trusted says something of a user; its name is in lower case.
    #[must_use]
    pub fn is_of_a_proxy(&self, header: &str) -> bool {
        self.proxies.as_ref().is_some_and(|proxies| proxies.reads(header))
    }

    /// Verifies the certificates that a client sent, its own first. To be called once a connection:
    /// it costs a signature check for each link of the chain.
    #[must_use]
    pub fn peer(&self, certificates: &[CertificateDer<'_>]) -> PeerVerdict {
        let now = UnixTime::now();
        let proxy = self.proxies.as_ref().map_or(Proxy::None, |proxies| proxies.judge(certificates, now));
        PeerVerdict { identity: self.identity_at(certificates, now), proxy }
    }

    fn identity_at(&self, certificates: &[CertificateDer<'_>], now: UnixTime) -> PeerIdentity {
        let certificate = match verified(&*self.certificates, certificates, now) {
            Ok(Some(certificate)) => certificate,
            Ok(None) => return PeerIdentity::None,
            Err(why) => return PeerIdentity::Invalid(why),
        };
        let Some(name) = common_name(&certificate).filter(|name| !name.is_empty()) else {
            return PeerIdentity::None;
        };
        let organizations = certificate.subject().iter_organization();
        let groups = organizations.filter_map(|o| o.as_str().ok()).map(str::to_owned).collect();
        let user = User { name: name.to_owned(), groups, ..User::default() }.authenticated();
        PeerIdentity::Verified { user: Arc::new(user), not_after: not_after(&certificate) }
    }

    /// The user who sends a request: the one that a front proxy names in its headers, else the certificate's, else the
    /// token's, else anonymous. Also returns true if the token of a WebSocket's subprotocol identified the user.
    ///
    /// A credential that fails matters only if no other one succeeds, as in upstream's union of authenticators. `headers` are
    /// looked at only for a proxy; their names are in lower case.
    ///
    /// # Errors
    /// There are credentials and none of them holds.
    pub fn authenticate<'a>(
        &self,
        peer: &PeerVerdict,
        presented: Presented<'_>,
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<(Arc<User>, bool), Unauthorized> {
        self.authenticate_at(peer, presented, headers, UnixTime::now())
    }

    fn authenticate_at<'a>(
        &self,
        peer: &PeerVerdict,
        presented: Presented<'_>,
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        now: UnixTime,
    ) -> Result<(Arc<User>, bool), Unauthorized> {
        let mut broken = None;
        if let (Proxy::Allowed { not_after }, Some(proxies)) = (&peer.proxy, &self.proxies)
            && now.as_secs() <= *not_after
        {
            match proxies.user(headers) {
                Ok(Some(user)) => return Ok((Arc::new(user), false)),
                Ok(None) => {}
                Err(why) => broken = Some(why),
            }
        }
        let refused = match &peer.identity {
            PeerIdentity::None => None,
            PeerIdentity::Verified { user, not_after } if now.as_secs() <= *not_after => {
                return Ok((user.clone(), false));
            }
            PeerIdentity::Verified { .. } => Some("the client certificate has expired"),
            PeerIdentity::Invalid(why) => Some(why.as_str()),
        };
        let mut refused = broken.as_deref().or(refused);
        for (token, by_protocol) in presented.tokens() {
            match token.map(|token| self.tokens.get(token)) {
                Ok(Some(user)) => return Ok((user, by_protocol)),
                Ok(None) => refused = refused.or(Some("invalid bearer token")),
                Err(why) => refused = refused.or(Some(why)),
            }
        }
        match refused {
            Some(why) => Err(Unauthorized(why.to_owned())),
            None => Ok((self.anonymous.clone(), false)),
        }
    }
}

/// The certificate that a peer sent first, if it verifies with the ones behind it; `None` if it sent none.
fn verified<'a>(
    verifier: &dyn ClientCertVerifier,
    certificates: &'a [CertificateDer<'_>],
    now: UnixTime,
) -> Result<Option<X509Certificate<'a>>, String> {
    let Some((own, intermediates)) = certificates.split_first() else { return Ok(None) };
    verifier.verify_client_cert(own, intermediates, now).map_err(|error| error.to_string())?;
    let parsed = X509Certificate::from_der(own);
    parsed.map(|(_, own)| Some(own)).map_err(|_| "the certificate cannot be parsed".to_owned())
}

/// The name in a certificate. Go's `pkix.Name` keeps the last of several and skips values that are no strings.
fn common_name<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a str> {
    certificate.subject().iter_common_name().filter_map(|cn| cn.as_str().ok()).last()
}

/// The end of a certificate, in seconds since the Unix epoch.
fn not_after(certificate: &X509Certificate<'_>) -> u64 {
    u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0)
}

/// The token of an Authorization header, if it is one of scheme Bearer and not empty.
fn bearer(authorization: &str) -> Option<&str> {
    let mut parts = authorization.trim().split(' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, time::Duration};

    use super::{
        testing::{Authority, ClientCert, version_1},
        *,
    };
    use kindom_api::user::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED};

    fn authenticator(ca: &Authority) -> Authenticator {
        let tokens = Tokens::parse("abc,alice,42,\"dev,ops\"\n", "tokens.csv").unwrap();
        Authenticator::new(&[ca.der()], tokens).unwrap()
    }

    fn user(name: &str, groups: &[&str]) -> User {
        let groups = groups.iter().map(|g| (*g).to_owned()).collect();
        User { name: name.to_owned(), groups, ..User::default() }
    }

    fn ask(
        authn: &Authenticator,
        peer: &PeerVerdict,
        header: Option<&str>,
    ) -> Result<Arc<User>, Unauthorized> {
        authn.authenticate(peer, Presented::new(header), []).map(|(user, _)| user)
    }

    fn verified(peer: &PeerVerdict) -> &User {
        match &peer.identity {
            PeerIdentity::Verified { user, .. } => user,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_certificate_names_user_and_groups() {
        let ca = Authority::new("ca");
        let authn = authenticator(&ca);
        let admin = ca.issue(&ClientCert {
            name: "kubernetes-admin",
            groups: &[MASTERS, "team"],
            ..ClientCert::default()
        });
        let peer = authn.peer(&[admin.der]);
        assert_eq!(verified(&peer), &user("kubernetes-admin", &[MASTERS, "team", AUTHENTICATED]));
        let found = ask(&authn, &peer, None).unwrap();
        assert!(found.is_in(MASTERS));
        // The certificate wins over a token, and over one that fails.
        for header in ["Bearer abc", "Bearer wrong"] {
            assert_eq!(ask(&authn, &peer, Some(header)).unwrap(), found);
        }
    }

    #[test]
    fn a_chain_through_an_intermediate_verifies() {
        let ca = Authority::new("ca");
        let authn = authenticator(&ca);
        let middle = ca.intermediate("middle");
        let leaf = middle.issue(&ClientCert { name: "bob", ..ClientCert::default() });
        let peer = authn.peer(&[leaf.der.clone(), middle.der()]);
        assert_eq!(verified(&peer).name, "bob");
        assert!(matches!(authn.peer(&[leaf.der]).identity, PeerIdentity::Invalid(_)), "the link is missing");
    }

    #[test]
    fn certificates_that_do_not_verify_are_unauthorized() {
        let ca = Authority::new("ca");
        let authn = authenticator(&ca);
        let stranger = Authority::new("ca").issue(&ClientCert::default());
        let expired = ca.issue(&ClientCert { days: -30..-1, ..ClientCert::default() });
        let future = ca.issue(&ClientCert { days: 1..30, ..ClientCert::default() });
        let server = ca.issue(&ClientCert { for_servers: true, ..ClientCert::default() });
        let garbage = CertificateDer::from(vec![0x30, 0x03, 1, 2, 3]);
        for der in [stranger.der, expired.der, future.der, server.der, garbage] {
            let peer = authn.peer(&[der]);
            assert!(matches!(peer.identity, PeerIdentity::Invalid(_)), "{peer:?}");
            ask(&authn, &peer, None).unwrap_err();
            ask(&authn, &peer, Some("Bearer wrong")).unwrap_err();
            // A token that holds is enough.
            assert_eq!(ask(&authn, &peer, Some("Bearer abc")).unwrap().name, "alice");
        }
    }

    #[test]
    fn a_certificate_may_leave_its_usage_open_but_not_its_name() {
        let ca = Authority::new("ca");
        let authn = authenticator(&ca);
        let any_usage = ca.issue(&ClientCert { no_usage: true, ..ClientCert::default() });
        assert_eq!(verified(&authn.peer(&[any_usage.der])).name, "client");
        let nameless = ca.issue(&ClientCert { name: "", groups: &[MASTERS], ..ClientCert::default() });
        let peer = authn.peer(&[nameless.der]);
        assert_eq!(peer.identity, PeerIdentity::None);
        assert_eq!(*ask(&authn, &peer, None).unwrap(), User::anonymous());
    }

    #[test]
    fn a_connection_does_not_outlive_its_certificate() {
        let ca = Authority::new("ca");
        let authn = authenticator(&ca);
        let peer = authn.peer(&[ca.issue(&ClientCert { days: -1..2, ..ClientCert::default() }).der]);
        let at = |days: u64| {
            let now = UnixTime::now().as_secs() + days * 24 * 3600;
            let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
            authn.authenticate_at(&peer, Presented::new(None), [], now)
        };
        assert_eq!(at(0).unwrap().0.name, "client");
        assert_eq!(at(3).unwrap_err().to_string(), "unauthorized: the client certificate has expired");
    }

    #[test]
    fn tokens_and_anonymous_callers() {
        let ca = Authority::new("ca");
        let authn = authenticator(&ca);
        let ask = |header: Option<&str>| ask(&authn, &authn.peer(&[]), header);
        let alice = User { uid: "42".to_owned(), ..user("alice", &["dev", "ops", AUTHENTICATED]) };
        for header in ["Bearer abc", "bearer abc", "BEARER abc", "  Bearer abc  ", "Bearer abc trailing"] {
            assert_eq!(*ask(Some(header)).unwrap(), alice, "{header:?}");
        }
        for header in ["Bearer abcd", "Bearer ab", "Bearer ABC", "Bearer \"abc\""] {
            assert_eq!(ask(Some(header)).unwrap_err().to_string(), "unauthorized: invalid bearer token");
        }
        // Upstream takes these as no credentials at all.
        for header in ["", "Bearer", "Bearer ", "Bearer  abc", "Basic YTpi", "abc"] {
            assert_eq!(*ask(Some(header)).unwrap(), User::anonymous(), "{header:?}");
        }
        assert_eq!(*ask(None).unwrap(), user(ANONYMOUS, &[UNAUTHENTICATED]));
    }

    #[test]
    fn a_token_may_come_as_a_subprotocol() {
        let ca = Authority::new("ca");
        let authn = authenticator(&ca);
        let ask = |header: Option<&str>, token: Result<Option<&str>, &'static str>| {
            let presented = Presented { authorization: header, in_protocol: token };
            let found = authn.authenticate(&authn.peer(&[]), presented, []);
            found.map(|(user, by_protocol)| (user.name.clone(), by_protocol)).map_err(|why| why.to_string())
        };
        assert_eq!(ask(None, Ok(Some("abc"))), Ok(("alice".to_owned(), true)));
        assert_eq!(ask(Some("Bearer wrong"), Ok(Some("abc"))), Ok(("alice".to_owned(), true)));
        assert_eq!(ask(Some("Bearer abc"), Ok(Some("wrong"))), Ok(("alice".to_owned(), false)));
        assert_eq!(ask(Some("Bearer abc"), Err("why")), Ok(("alice".to_owned(), false)));
        assert_eq!(ask(None, Ok(Some("wrong"))), Err("unauthorized: invalid bearer token".to_owned()));
        assert_eq!(ask(None, Err("why")), Err("unauthorized: why".to_owned()));
        assert_eq!(ask(None, Ok(None)), Ok((ANONYMOUS.to_owned(), false)));
    }

    #[test]
    fn an_authority_is_needed() {
        assert!(matches!(Authenticator::new(&[], Tokens::default()), Err(TlsError::NoClientAuthority)));
        let garbage = CertificateDer::from(vec![1, 2, 3]);
        assert!(matches!(
            Authenticator::new(&[garbage], Tokens::default()),
            Err(TlsError::ClientAuthority(_))
        ));
    }

    mod handshakes {
        use rustls::{
            ClientConfig, ClientConnection, RootCertStore, ServerConnection, SignatureScheme,
            client::ResolvesClientCert,
            pki_types::{PrivateKeyDer, ServerName},
            sign::CertifiedKey,
        };

        use super::*;

        type Client = Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>;

        /// Offers whatever certificate it holds, also one whose key it does not have.
        #[derive(Debug)]
        struct Offer(Option<Arc<CertifiedKey>>);

        impl ResolvesClientCert for Offer {
            fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
                self.0.clone()
            }

            fn has_certs(&self) -> bool {
                self.0.is_some()
            }
        }

        /// Shakes hands in memory. Returns the server's side, or the error of the side that failed.
        fn shake(
            ca: &Authority,
            client: Client,
            version: &'static rustls::SupportedProtocolVersion,
        ) -> Result<ServerConnection, rustls::Error> {
            let local = IpAddr::from([127, 0, 0, 1]);
            let serving =
                ca.issue(&ClientCert { for_servers: true, addresses: &[local], ..ClientCert::default() });
            let config = server_config(vec![serving.der], serving.key, &[ca.der()]).unwrap();
            let mut roots = RootCertStore::empty();
            roots.add(ca.der()).unwrap();
            let offer = Offer(client.map(|(chain, key)| {
                let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
                Arc::new(CertifiedKey::new(chain, key))
            }));
            let mut offered =
                ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                    .with_protocol_versions(&[version])
                    .unwrap()
                    .with_root_certificates(roots)
                    .with_client_cert_resolver(Arc::new(offer));
            offered.alpn_protocols = vec![b"h2".to_vec()];
            let mut client = ClientConnection::new(Arc::new(offered), ServerName::from(local)).unwrap();
            let mut server = ServerConnection::new(config).unwrap();
            while client.is_handshaking() || server.is_handshaking() {
                let mut wire = Vec::new();
                client.write_tls(&mut wire).unwrap();
                server.read_tls(&mut wire.as_slice()).unwrap();
                server.process_new_packets()?;
                wire.clear();
                server.write_tls(&mut wire).unwrap();
                client.read_tls(&mut wire.as_slice()).unwrap();
                client.process_new_packets()?;
            }
            Ok(server)
        }

        const VERSIONS: [&rustls::SupportedProtocolVersion; 2] =
            [&rustls::version::TLS12, &rustls::version::TLS13];

        #[test]
        fn any_certificate_is_taken_if_its_key_is_held() {
            let ca = Authority::new("ca");
            let authn = authenticator(&ca);
            for version in VERSIONS {
                let peer = |client| {
                    let server = shake(&ca, client, version).unwrap();
                    assert_eq!(server.alpn_protocol(), Some(b"h2".as_slice()));
                    authn.peer(server.peer_certificates().unwrap_or_default())
                };
                assert_eq!(peer(None).identity, PeerIdentity::None);
                let own = ca.issue(&ClientCert::default());
                assert_eq!(verified(&peer(Some((vec![own.der], own.key)))).name, "client");
                let stranger = Authority::new("other").issue(&ClientCert::default());
                assert!(matches!(
                    peer(Some((vec![stranger.der], stranger.key))).identity,
                    PeerIdentity::Invalid(_)
                ));
                let expired = ca.issue(&ClientCert { days: -30..-1, ..ClientCert::default() });
                assert!(matches!(
                    peer(Some((vec![expired.der], expired.key))).identity,
                    PeerIdentity::Invalid(_)
                ));
            }
        }

        #[test]
        fn a_certificate_of_version_1_shakes_hands_and_is_refused_later() {
            let ca = Authority::new("ca");
            let authn = authenticator(&ca);
            let old = version_1("old");
            let (_, parsed) = X509Certificate::from_der(&old.der).unwrap();
            parsed.verify_signature(None).unwrap();
            let server = shake(&ca, Some((vec![old.der.clone()], old.key)), &rustls::version::TLS13).unwrap();
            let peer = authn.peer(server.peer_certificates().unwrap_or_default());
            assert!(matches!(peer.identity, PeerIdentity::Invalid(_)), "{peer:?}");
        }

        #[test]
        fn a_certificate_without_its_key_breaks_the_handshake() {
            let ca = Authority::new("ca");
            for version in VERSIONS {
                for victim in [ca.issue(&ClientCert::default()), version_1("old")] {
                    let thief = ca.issue(&ClientCert::default());
                    let error = shake(&ca, Some((vec![victim.der], thief.key)), version).unwrap_err();
                    assert!(matches!(error, rustls::Error::InvalidCertificate(_)), "{error}");
                }
            }
        }
    }
}
