//! The authenticator in force, which can be replaced while connections are open.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use kindom_actor_kit::Share;
use kindom_api::user::User;
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{Authenticator, PeerVerdict, Presented, Unauthorized};

/// The [`Authenticator`] that requests are judged by. Every request sees one of them whole.
#[derive(Debug)]
pub struct CurrentAuthenticator {
    now: ArcSwap<Numbered>,
    replaced: AtomicU64,
}

#[derive(Debug)]
struct Numbered {
    authenticator: Authenticator,
    number: u64,
}

/// The client of one connection: its certificates, and who they prove it to be.
#[derive(Debug)]
pub struct Peer {
    certificates: Vec<CertificateDer<'static>>,
    /// The verdict on them, and the number of the authenticator whose it is.
    judged: RefCell<(u64, PeerVerdict)>,
    /// The end of its own certificate, in seconds since the Unix epoch.
    ends: Option<i64>,
    /// The server's own address, as this client reached it.
    reached: Option<SocketAddr>,
    /// The client's address.
    address: Option<SocketAddr>,
    /// The user, if the client is the server's own process.
    own: Option<Arc<User>>,
    held: Share,
    recorded_requests: Share,
    recorded_answers: Share,
}

impl Peer {
    /// The same client, which reached the server at an address of it, from one of its own.
    #[must_use]
    pub fn reaching(self, reached: Option<SocketAddr>, from: Option<SocketAddr>) -> Self {
        Self { reached, address: from, ..self }
    }

    /// The client's address.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The end of the client's certificate, in seconds since the Unix epoch; also if the certificate is invalid.
    #[must_use]
    pub fn certificate_ends(&self) -> Option<i64> {
        self.ends
    }

    /// What the requests of the connection hold.
    #[must_use]
    pub fn held(&self) -> &Share {
        &self.held
    }

    /// What the audit log's records hold of the requests' objects.
    #[must_use]
    pub fn recorded_requests(&self) -> &Share {
        &self.recorded_requests
    }

    /// What they hold of the answers' objects.
    #[must_use]
    pub fn recorded_answers(&self) -> &Share {
        &self.recorded_answers
    }

    /// The server's own address, as this client reached it.
    #[must_use]
    pub fn reached(&self) -> Option<SocketAddr> {
        self.reached
    }
}

impl CurrentAuthenticator {
    /// Begins with `authenticator`.
    #[must_use]
    pub fn new(authenticator: Authenticator) -> Self {
        let now = ArcSwap::from_pointee(Numbered { authenticator, number: 0 });
        Self { now, replaced: AtomicU64::new(0) }
    }

    /// Judges every later request by `authenticator`, those of open connections too: an authority or a token that is
    /// gone lets nobody in.
    pub fn replace(&self, authenticator: Authenticator) {
        let number = self.replaced.fetch_add(1, Ordering::Relaxed) + 1;
        self.now.store(Arc::new(Numbered { authenticator, number }));
    }

    /// Verifies the certificates of a new connection, the client's own first.
    #[must_use]
    pub fn peer(&self, certificates: Vec<CertificateDer<'static>>) -> Peer {
        let now = self.now.load();
        let verdict = now.authenticator.peer(&certificates);
        let ends = certificates.first().and_then(|own| {
            let (_, own) = X509Certificate::from_der(own).ok()?;
            Some(own.validity().not_after.timestamp())
        });
        Peer {
            certificates,
            judged: RefCell::new((now.number, verdict)),
            ends,
            reached: None,
            address: None,
            own: None,
            held: Share::default(),
            recorded_requests: Share::default(),
            recorded_answers: Share::default(),
        }
    }

    /// The server's own process as a client. Nothing that its requests carry makes it another user, but impersonation.
    #[must_use]
    pub fn own_peer(&self) -> Peer {
        Peer { own: Some(Arc::new(User::api_server().authenticated())), ..self.peer(Vec::new()) }
    }

    /// As [`Authenticator::is_of_a_proxy`].
    #[must_use]
    pub fn is_of_a_proxy(&self, header: &str) -> bool {
        self.now.load().authenticator.is_of_a_proxy(header)
    }

    /// As [`Authenticator::authenticate`]; `peer` is `None` if there is no connection.
    ///
    /// # Errors
    /// There are credentials and none of them holds.
    pub fn authenticate<'a>(
        &self,
        peer: Option<&Peer>,
        presented: Presented<'_>,
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<(Arc<User>, bool), Unauthorized> {
        let now = self.now.load();
        let Some(peer) = peer else {
            let nobody = now.authenticator.peer(&[]);
            return now.authenticator.authenticate(&nobody, presented, headers);
        };
        if let Some(own) = &peer.own {
            return Ok((Arc::clone(own), false));
        }
        let mut judged = peer.judged.borrow_mut();
        let (number, verdict) = &mut *judged;
        if *number != now.number {
            *verdict = now.authenticator.peer(&peer.certificates);
            *number = now.number;
        }
        now.authenticator.authenticate(verdict, presented, headers)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Tokens;
    use super::super::testing::{Authority, ClientCert};
    use super::*;
    use kindom_api::user::ANONYMOUS;

    #[test]
    fn what_is_replaced_holds_for_open_connections() {
        let (old, new) = (Authority::new("old"), Authority::new("new"));
        let with = |authority: &Authority, tokens: &str| {
            Authenticator::new(&[authority.der()], Tokens::parse(tokens, "tokens.csv").unwrap()).unwrap()
        };
        let current = CurrentAuthenticator::new(with(&old, "abc,alice,1\n"));
        let cert =
            |authority: &Authority| authority.issue(&ClientCert { name: "bob", ..ClientCert::default() }).der;
        let (of_old, of_new) = (current.peer(vec![cert(&old)]), current.peer(vec![cert(&new)]));
        let bare = current.peer(Vec::new());
        let name = |peer: &Peer, header: Option<&str>| {
            let found = current.authenticate(Some(peer), Presented::new(header), []);
            found.map(|(user, _)| user.name.clone()).ok()
        };
        let bob = Some("bob".to_owned());
        assert_eq!((name(&of_old, None), name(&of_new, None)), (bob.clone(), None));
        assert_eq!(name(&bare, Some("Bearer abc")).as_deref(), Some("alice"));
        current.replace(with(&new, "def,carol,1\n"));
        assert_eq!((name(&of_old, None), name(&of_new, None)), (None, bob));
        assert_eq!(name(&bare, Some("Bearer abc")), None);
        assert_eq!(name(&bare, Some("Bearer def")).as_deref(), Some("carol"));
        let nobody = current.authenticate(None, Presented::new(None), []).unwrap();
        assert_eq!(nobody.0.name, ANONYMOUS);
    }

    #[test]
    fn the_process_itself_stays_who_it_is() {
        let authority = Authority::new("old");
        let with = |tokens: &str| {
            let authenticator =
                Authenticator::new(&[authority.der()], Tokens::parse(tokens, "tokens.csv").unwrap());
            authenticator.unwrap()
        };
        let current = CurrentAuthenticator::new(with("abc,alice,1\n"));
        let own = current.own_peer();
        for header in [None, Some("Bearer abc"), Some("Bearer wrong")] {
            let headers = [("x-remote-user", &b"bob"[..])];
            let (user, _) = current.authenticate(Some(&own), Presented::new(header), headers).unwrap();
            assert_eq!(*user, User::api_server().authenticated());
            current.replace(with("def,carol,1\n"));
        }
    }
}
