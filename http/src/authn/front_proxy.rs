//! Front proxies: who they are, and for whom they ask.
//!
//! A cluster's aggregator authenticates a user and forwards the request over a connection of its own, with the user's name,
//! uid, groups and other attributes in headers. The headers count only on a connection whose certificate is by the proxies'
//! own authority and of an allowed name: anybody can write a header (apiserver
//! `pkg/authentication/request/headerrequest/requestheader.go` and `x509/verify_options.go`, 1.37; requirement B-02).

use std::collections::BTreeMap;
use std::sync::Arc;

use kindom_api::user::User;
use percent_encoding::percent_decode_str;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;

use super::{TlsError, common_name, not_after, tls, verified};

/// The proxies that may say for whom they ask, and the headers in which they do. The names of headers are in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrontProxies {
    /// The authorities of their certificates; not those of users.
    pub authorities: Vec<CertificateDer<'static>>,
    /// The common names that they may have; empty for any.
    pub allowed_names: Vec<String>,
    /// The headers of the user's name; the first one that a request has counts.
    pub username_headers: Vec<String>,
    /// The headers of the user's uid, likewise.
    pub uid_headers: Vec<String>,
    /// The headers of the user's groups; all count.
    pub group_headers: Vec<String>,
    /// The beginnings of the headers of other attributes.
    pub extra_prefixes: Vec<String>,
}

/// The proxy at the other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Proxy {
    /// No certificate, or no proxies are known.
    None,
    /// Its certificate is no proxy's. The text is for the log.
    Refused(String),
    /// A proxy, until its certificate ends, in seconds since the Unix epoch.
    Allowed { not_after: u64 },
}

/// Judges [`FrontProxies`].
#[derive(Debug)]
pub(super) struct Verifier {
    certificates: Arc<dyn ClientCertVerifier>,
    proxies: FrontProxies,
}

impl Verifier {
    pub(super) fn new(proxies: FrontProxies) -> Result<Self, TlsError> {
        Ok(Self { certificates: tls::verifier(&proxies.authorities)?, proxies })
    }

    /// `true` for a header in which a proxy says something of a user; its name is in lower case.
    pub(super) fn reads(&self, header: &str) -> bool {
        let FrontProxies { username_headers, uid_headers, group_headers, extra_prefixes, .. } = &self.proxies;
        [username_headers, uid_headers, group_headers].into_iter().flatten().any(|name| name == header)
            || extra_prefixes.iter().any(|prefix| header.starts_with(prefix.as_str()))
    }

    /// Judges the certificates that a peer sent, its own first.
    pub(super) fn judge(&self, certificates: &[CertificateDer<'_>], now: UnixTime) -> Proxy {
        let certificate = match verified(&*self.certificates, certificates, now) {
            Ok(Some(certificate)) => certificate,
            Ok(None) => return Proxy::None,
            Err(why) => return Proxy::Refused(why),
        };
        let name = common_name(&certificate).unwrap_or_default();
        let allowed = &self.proxies.allowed_names;
        if !allowed.is_empty() && !allowed.iter().any(|allowed| allowed == name) {
            return Proxy::Refused(format!("x509: subject with cn={name} is not in the allowed list"));
        }
        Proxy::Allowed { not_after: not_after(&certificate) }
    }

    /// The user that a proxy names in a request's headers; `None` if it names none.
    ///
    /// # Errors
    /// Names a header that is no UTF-8: two users whose names differ in such bytes would be one.
    pub(super) fn user<'a>(
        &self,
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Option<User>, String> {
        let lines: Vec<(&str, &[u8])> = headers.into_iter().collect();
        let text = |(header, value): (&str, &'a [u8])| {
            std::str::from_utf8(value).map_err(|_| format!("the header {header} is no UTF-8"))
        };
        let of = |name: &str| lines.iter().copied().find(|(header, _)| *header == name);
        // Of a header that comes more than once, the first line counts, and an empty one as none.
        let first = |names: &[String]| {
            let mut firsts = names.iter().filter_map(|name| of(name));
            firsts.find(|(_, value)| !value.is_empty()).map_or(Ok(""), text)
        };
        let FrontProxies { username_headers, uid_headers, group_headers, extra_prefixes, .. } = &self.proxies;
        let name = first(username_headers)?.to_owned();
        if name.is_empty() {
            return Ok(None);
        }
        let uid = first(uid_headers)?.to_owned();
        let mut groups = Vec::new();
        for name in group_headers {
            for line in lines.iter().filter(|(header, value)| header == name && !value.is_empty()) {
                groups.push(text(*line)?.to_owned());
            }
        }
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in extra_prefixes {
            for (header, value) in &lines {
                let Some(key) = header.strip_prefix(prefix.as_str()) else { continue };
                extra.entry(unescaped(key)).or_default().push(text((header, value))?.to_owned());
            }
        }
        Ok(Some(User { name, uid, groups, extra, by_proxy: true }.authenticated()))
    }
}

/// A key of an attribute, which is percent-encoded since headers have fewer characters; one that is encoded wrongly stays.
pub(super) fn unescaped(key: &str) -> String {
    let mut rest = key;
    while let Some((_, after)) = rest.split_once('%') {
        if !after.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            return key.to_owned();
        }
        rest = after;
    }
    percent_decode_str(key).decode_utf8().map_or_else(|_| key.to_owned(), std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Authority, ClientCert};
    use super::super::{Authenticator, CurrentAuthenticator, Presented, Tokens};
    use super::*;
    use kindom_api::user::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED};

    fn proxies(ca: &Authority, allowed: &[&str]) -> FrontProxies {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        FrontProxies {
            authorities: vec![ca.der()],
            allowed_names: names(allowed),
            username_headers: names(&["x-remote-user", "x-user"]),
            uid_headers: names(&["x-remote-uid"]),
            group_headers: names(&["x-remote-group", "x-group"]),
            extra_prefixes: names(&["x-remote-extra-"]),
        }
    }

    fn verifier() -> Verifier {
        Verifier::new(proxies(&Authority::new("proxies"), &[])).unwrap()
    }

    fn asked(headers: &[(&str, &str)]) -> Option<User> {
        verifier().user(headers.iter().map(|(name, value)| (*name, value.as_bytes()))).unwrap()
    }

    #[test]
    fn headers_name_the_user() {
        let user = asked(&[
            ("accept", "application/json"),
            ("x-group", "late"),
            ("x-remote-extra-scopes", "a"),
            ("x-remote-user", "jane"),
            ("x-remote-user", "second"),
            ("x-user", "other"),
            ("x-remote-uid", "42"),
            ("x-remote-group", "dev"),
            ("x-remote-group", ""),
            ("x-remote-group", "ops"),
            ("x-remote-extra-scopes", "b"),
            ("x-remote-extra-acme.com%2fproject", "p"),
            ("x-remote-extra-50%", "half"),
        ])
        .unwrap();
        let (one, many) = (|text: &str| vec![text.to_owned()], vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!((user.name.as_str(), user.uid.as_str(), user.by_proxy), ("jane", "42", true));
        assert_eq!(user.groups, ["dev", "ops", "late", AUTHENTICATED]);
        let extra = [
            ("50%".to_owned(), one("half")),
            ("acme.com/project".to_owned(), one("p")),
            ("scopes".to_owned(), many),
        ];
        assert_eq!(user.extra, BTreeMap::from(extra));
    }

    #[test]
    fn an_empty_name_is_none() {
        assert_eq!(asked(&[("x-remote-group", MASTERS)]), None);
        assert_eq!(asked(&[("x-remote-user", ""), ("x-remote-group", MASTERS)]), None);
        assert_eq!(asked(&[("x-remote-user", ""), ("x-user", "other")]).unwrap().name, "other");
    }

    #[test]
    fn who_the_host_does_not_know_stays_unknown() {
        let anonymous = asked(&[("x-remote-user", ANONYMOUS), ("x-remote-group", UNAUTHENTICATED)]).unwrap();
        assert_eq!(anonymous.groups, [UNAUTHENTICATED]);
        assert!(asked(&[("x-remote-user", ANONYMOUS)]).unwrap().groups.is_empty());
    }

    #[test]
    fn bytes_that_are_no_text_name_nobody() {
        for header in ["x-remote-user", "x-remote-uid", "x-remote-group", "x-remote-extra-scopes"] {
            let lines = [("x-user", b"jane".as_slice()), (header, b"j\xffne".as_slice())];
            assert_eq!(verifier().user(lines), Err(format!("the header {header} is no UTF-8")));
        }
    }

    #[test]
    fn keys_are_unescaped() {
        let keys = [("a%2fb", "a/b"), ("a%2", "a%2"), ("%zz%41", "%zz%41"), ("%ff", "%ff"), ("%c3%a9", "é")];
        for (key, text) in keys {
            assert_eq!(unescaped(key), text);
        }
    }

    /// Headers count on a proxy's connection alone.
    #[test]
    fn only_proxies_may_say_for_whom_they_ask() {
        let (users, of_proxies) = (Authority::new("users"), Authority::new("proxies"));
        let tokens = Tokens::parse("abc,alice,42\n", "tokens.csv").unwrap();
        let authenticator = Authenticator::new(&[users.der()], tokens).unwrap();
        let authenticator = authenticator.trusting(proxies(&of_proxies, &["aggregator"])).unwrap();
        let current = CurrentAuthenticator::new(authenticator);
        let cert = |of: &Authority, name| vec![of.issue(&ClientCert { name, ..ClientCert::default() }).der];
        let ask = |certificates, token: Option<&str>, headers: &[(&'static str, &'static [u8])]| {
            let peer = current.peer(certificates);
            let found = current.authenticate(Some(&peer), Presented::new(token), headers.iter().copied());
            found.map(|(user, _)| user.name.clone()).ok()
        };
        let jane = &[("x-remote-user", b"jane".as_slice()), ("x-remote-group", b"system:masters")];
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(ask(cert(&of_proxies, "aggregator"), None, jane), name("jane"));
        assert_eq!(ask(cert(&of_proxies, "aggregator"), Some("Bearer abc"), jane), name("jane"));
        // Without a user, the proxy is nobody.
        assert_eq!(ask(cert(&of_proxies, "aggregator"), None, &[]), None);
        assert_eq!(ask(cert(&of_proxies, "aggregator"), Some("Bearer abc"), &[]), name("alice"));
        assert_eq!(ask(cert(&of_proxies, "somebody"), None, jane), None);
        assert_eq!(ask(cert(&Authority::new("proxies"), "aggregator"), None, jane), None);
        let broken = &[("x-remote-user", b"j\xff".as_slice())];
        assert_eq!(ask(cert(&of_proxies, "aggregator"), None, broken), None);
        // A user's own certificate or token says who he is, whatever he writes.
        assert_eq!(ask(cert(&users, "bob"), None, jane), name("bob"));
        assert_eq!(ask(cert(&users, "aggregator"), None, jane), name("aggregator"));
        assert_eq!(ask(Vec::new(), Some("Bearer abc"), jane), name("alice"));
        assert_eq!(ask(Vec::new(), None, jane), name(ANONYMOUS));
    }

    #[test]
    fn a_proxy_does_not_outlive_its_certificate() {
        let ca = Authority::new("proxies");
        let verifier = Verifier::new(proxies(&ca, &[])).unwrap();
        let der = ca.issue(&ClientCert { days: -1..2, ..ClientCert::default() }).der;
        let now = UnixTime::now();
        let Proxy::Allowed { not_after } = verifier.judge(std::slice::from_ref(&der), now) else {
            panic!("refused")
        };
        assert!(not_after > now.as_secs() + 86_400 && not_after < now.as_secs() + 3 * 86_400);
        let expired = ca.issue(&ClientCert { days: -30..-1, ..ClientCert::default() }).der;
        assert!(matches!(verifier.judge(&[expired], now), Proxy::Refused(_)));
        assert_eq!(verifier.judge(&[], now), Proxy::None);
    }
}
