//! The connections to one other server.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioTimer;
use kindom_http::Pieces;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::target::Target;
use crate::BoxError;
use crate::outgoing::{Executor, IDLE, PING, Trust, connector, with_causes};

/// The requests at a time over one connection of HTTP/2; servers of Kubernetes allow 100.
const STREAMS: usize = 90;
/// As many as streams.
const CONNECTION_WINDOWS: u32 = 90;
/// The most connections of HTTP/2 to one server.
const LANES: usize = 12;
/// The most upgraded connections to one server.
const UPGRADES_MAX: usize = 256;
/// The bytes of one answer that may be on their way. All answers of a connection together have room for as many each: one that
/// its client does not read holds up no other.
const WINDOW_BYTES: u32 = 128 << 10;
/// A request's body.
pub(super) type Body = UnsyncBoxBody<Bytes, std::io::Error>;
type Client = legacy::Client<HttpsConnector<HttpConnector>, Body>;

/// A body of the pieces of a stream; an empty one without.
pub(super) fn body(pieces: Option<Pieces>) -> Body {
    use futures::StreamExt as _;
    match pieces {
        None => Empty::new().map_err(|never| match never {}).boxed_unsync(),
        Some(pieces) => StreamBody::new(pieces.map(|piece| piece.map(Frame::data))).boxed_unsync(),
    }
}

/// The files of this proxy's certificate, as they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ClientCertificate {
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
}

impl ClientCertificate {
    /// # Errors
    /// They are no certificate and key, or do not fit each other.
    pub(super) fn check(&self) -> Result<(), BoxError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&self.certificate).collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)?;
        let provider = rustls::crypto::ring::default_provider();
        rustls::sign::CertifiedKey::from_der(chain, key, &provider)?;
        Ok(())
    }
}

/// The connections to the server of one APIService, which open when they are needed.
#[derive(Clone)]
pub(super) struct Backend {
    authority: Arc<str>,
    lanes: Arc<[Lane]>,
    upgrading: Client,
    upgrades: Arc<Semaphore>,
    /// However much is asked over the others, the server can be probed.
    probing: Client,
}

/// The connections that a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// One of HTTP/2.
    Shared,
    /// One of HTTP/1.1, which becomes another.
    Upgrade,
    /// That of probes.
    Probe,
}

struct Lane {
    client: Client,
    free: Arc<Semaphore>,
}

/// The place of a request among those under way; `None` for a probe.
pub(super) type Place = Option<Arc<OwnedSemaphorePermit>>;

/// An answer, and the place that it and its request's body take while they last.
pub(super) struct Answered {
    pub(super) response: Response<Incoming>,
    pub(super) place: Place,
}

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    /// As many requests as may be are under way.
    #[error("too many requests to the server are under way")]
    Busy,
    /// The server could not be reached, or broke off.
    #[error("{0}")]
    Failed(String),
    /// The client's body broke off, or was none.
    #[error("the body of the request cannot be read: {0}")]
    Body(String),
}

/// Returns true if the body of a request is at fault.
fn is_of_body(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |cause| cause.source());
    causes.filter_map(|cause| cause.downcast_ref::<hyper::Error>()).any(hyper::Error::is_user)
}

impl Backend {
    /// Nothing is connected yet.
    ///
    /// # Errors
    /// Certificates that cannot be used.
    pub(super) fn new(target: &Target, own: &ClientCertificate, runtime: &Handle) -> Result<Self, BoxError> {
        let own = (!own.certificate.is_empty()).then_some((own.certificate.as_slice(), own.key.as_slice()));
        let trust =
            Trust { authorities: &target.authorities, skips_verification: target.skips_verification, own };
        let tls = trust.tls()?;
        let name = ServerName::try_from(target.server_name.clone())?;
        let client = |with_http2| {
            legacy::Client::builder(Executor(runtime.clone()))
                .timer(TokioTimer::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE)
                .http2_initial_stream_window_size(WINDOW_BYTES)
                .http2_initial_connection_window_size(WINDOW_BYTES * CONNECTION_WINDOWS)
                .http2_keep_alive_interval(PING)
                .http2_keep_alive_timeout(PING / 2)
                .build(connector(tls.clone(), Some(name.clone()), with_http2))
        };
        let lane = |_| Lane { client: client(true), free: Arc::new(Semaphore::new(STREAMS)) };
        Ok(Self {
            authority: target.address.as_str().into(),
            lanes: (0..LANES).map(lane).collect(),
            upgrading: client(false),
            upgrades: Arc::new(Semaphore::new(UPGRADES_MAX)),
            probing: client(true),
        })
    }

    /// `https://host:port` and a path.
    pub(super) fn url(&self, path_and_query: &str) -> String {
        format!("https://{}{path_and_query}", self.authority)
    }

    /// Sends a request whose URL is of this server.
    pub(super) fn send(
        &self,
        request: Request<Body>,
        way: Way,
    ) -> BoxFuture<'static, Result<Answered, NoAnswer>> {
        let found: Option<(Client, Place)> = match way {
            Way::Probe => Some((self.probing.clone(), None)),
            Way::Upgrade => {
                let place = Arc::clone(&self.upgrades).try_acquire_owned();
                place.ok().map(|place| (self.upgrading.clone(), Some(Arc::new(place))))
            }
            Way::Shared => self.lanes.iter().find_map(|lane| {
                let place = Arc::clone(&lane.free).try_acquire_owned().ok()?;
                Some((lane.client.clone(), Some(Arc::new(place))))
            }),
        };
        Box::pin(async move {
            let (client, place) = found.ok_or(NoAnswer::Busy)?;
            // A server may answer and leave the body unread for as long as the connection lasts.
            let sent = place.clone();
            let request = request.map(|body| {
                body.map_frame(move |frame| {
                    let _held = &sent;
                    frame
                })
                .boxed_unsync()
            });
            let response = client.request(request).await.map_err(|error| match is_of_body(&error) {
                true => NoAnswer::Body(with_causes(&error)),
                false => NoAnswer::Failed(with_causes(&error)),
            })?;
            Ok(Answered { response, place })
        })
    }
}
