//! The listening server: TLS, HTTP/1.1 and HTTP/2, and an end in phases.
//!
//! # Flow
//! actix-server accepts connections and hands them to its workers, each of which has one thread. A worker ends TLS with the
//! configuration that is in force, identifies the client, and speaks the protocol that was agreed on. Connections of the process
//! itself come to the workers by a [`Loopback`]. [`StopHandle`] walks the server through the phases of its end ([`Phase`]), which
//! every connection follows by itself.

mod attended;
mod http2;
mod inflow;
mod loopback;
mod paced;
mod places;

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::ready;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_http::body::{BodySize, BoxBody, MessageBody};
use actix_http::error::DispatchError;
use actix_http::{HttpService, Request};
use actix_server::ServerHandle;
use actix_service::{IntoServiceFactory as _, Service, ServiceFactory, fn_factory, fn_service};
use actix_web::dev::{AppConfig, ServiceResponse};
use actix_web::rt::net::{TcpStream, UnixStream};
use actix_web::rt::spawn;
use actix_web::web;
use arc_swap::ArcSwap;
use bytes::Bytes;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::app::{App, Config};
use crate::authn::{Authenticator, CurrentAuthenticator, Peer};
use crate::dispatch::serve as handle;
use crate::phase::{Connections, Phase};
use crate::state::State;
use crate::turns::Turns;
use inflow::{Heads, Inflow};
pub use loopback::Loopback;
use loopback::{Receivers, Taken};
use paced::Paced;
use places::{Addresses, Guest, Place, Places};

/// The reason why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address can't be listened on.
    #[error("listening on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
}

/// The most connections that are open in one worker; more wait to be accepted.
const CONNECTIONS_MAX: usize = 25_000;
/// The time that a client has for its TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// The time that a client has for the head of its first request, or for HTTP/2's preface.
const HEAD: Duration = Duration::from_secs(5);
/// The time that a connection stays open between requests.
const IDLE: Duration = Duration::from_secs(90);
/// The time that a client has to confirm the end of a connection of HTTP/1.1.
const DISCONNECT: Duration = Duration::from_secs(1);

/// An answer of so many bytes is not handed to the connection at once.
const LARGE_BYTES: u64 = 32 << 10;

/// A running server.
pub struct Running {
    /// The address at which it listens.
    pub address: SocketAddr,
    stop: StopHandle,
    credentials: Credentials,
    loopback: Loopback,
    server: actix_server::Server,
    /// Closed when the last worker's thread has ended.
    workers: mpsc::Receiver<Infallible>,
}

impl Running {
    /// Runs until stopped through a [`StopHandle`].
    ///
    /// # Errors
    /// Passes on errors of the server's own threads.
    pub async fn run(self) -> std::io::Result<()> {
        let mut phase = self.stop.phase.subscribe();
        tokio::select! {
            biased;
            // actix-server looks once a second if its connections are gone; dropping it ends its workers now.
            _ = phase.wait_for(|phase| *phase == Phase::Ended) => Ok(()),
            ended = self.server => ended,
        }
    }

    /// Runs until [`StopHandle::cut`] ends it, and returns when nothing of it is left: no thread, no connection, no listener.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn run_to_the_last_thread(self) -> std::io::Result<()> {
        let Self { server, mut workers, .. } = self;
        // The server has senders too, and they go with it.
        let ended = server.await;
        while workers.recv().await.is_some() {}
        ended
    }

    /// To stop it.
    #[must_use]
    pub fn handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// To reach it from within the process.
    #[must_use]
    pub fn loopback(&self) -> Loopback {
        self.loopback.clone()
    }

    /// To replace its certificate, and the credentials that it takes, while it runs.
    #[must_use]
    pub fn credentials(&self) -> Credentials {
        self.credentials.clone()
    }
}

/// Replaces the certificates with which a [`Running`] server identifies itself, and the authorities and tokens that it
/// trusts.
#[derive(Clone)]
pub struct Credentials {
    tls: Arc<ArcSwap<ServerConfig>>,
    authenticator: Arc<CurrentAuthenticator>,
}

impl Credentials {
    /// Begins with these.
    #[must_use]
    pub fn new(tls: ServerConfig, authenticator: Arc<CurrentAuthenticator>) -> Self {
        Self { tls: Arc::new(ArcSwap::from_pointee(tls)), authenticator }
    }

    /// The configuration that new connections begin with.
    #[must_use]
    pub fn tls(&self) -> Arc<ServerConfig> {
        self.tls.load_full()
    }

    /// Serves new connections with `tls`; open ones stay as they are.
    pub fn replace_tls(&self, tls: Arc<ServerConfig>) {
        self.tls.store(tls);
    }

    /// Judges every request from now on by `authenticator`, on open connections too.
    pub fn replace_authenticator(&self, authenticator: Authenticator) {
        self.authenticator.replace(authenticator);
    }
}

/// Stops a [`Running`] server.
#[derive(Clone)]
pub struct StopHandle {
    server: ServerHandle,
    phase: watch::Sender<Phase>,
    connections: Arc<Connections>,
}

impl StopHandle {
    /// Makes `/readyz` fail; everything else goes on, so that load balancers have time to notice.
    pub fn announce(&self) {
        self.phase.send_if_modified(|phase| {
            let serving = *phase == Phase::Serving;
            if serving {
                *phase = Phase::Announced;
            }
            serving
        });
    }

    /// Takes no new connection, answers the requests under way, closes idle connections (HTTP/2 with GOAWAY) and ends
    /// every watch as if its time were up: all at once, or at most 200 a second if `watches` is not zero, the last one
    /// after `watches` at the latest. Returns when all connections are gone, or `within` has passed, with the number of
    /// connections that were cut off.
    ///
    /// Not cancel-safe: a call that is dropped leaves the server without an end.
    pub async fn stop(&self, within: Duration, watches: Duration) -> usize {
        self.phase.send_replace(Phase::Ending { watches });
        // Creating the future sends the order to stop. The next line waits for its effect.
        drop(self.server.stop(true));
        let _ = timeout(within, self.connections.all_gone()).await;
        let cut = self.connections.count();
        self.phase.send_replace(Phase::Ended);
        cut
    }

    /// Cuts every connection off, whatever is under way. Returns when the listener is closed; see
    /// [`Running::run_to_the_last_thread`].
    pub async fn cut(&self) {
        self.phase.send_replace(Phase::Ending { watches: Duration::ZERO });
        self.server.stop(false).await;
    }
}

/// Listens on `address` (port 0: any free one) with TLS.
///
/// # Errors
/// [`ServeError`]
pub fn serve(
    address: SocketAddr,
    tls: ServerConfig,
    workers: usize,
    config: Config,
) -> Result<Running, ServeError> {
    let listen = |error| ServeError::Listen { address, error };
    let listener = TcpListener::bind(address).map_err(listen)?;
    let bound = listener.local_addr().map_err(listen)?;
    let connections_max = (config.connections_max / workers.max(1)).clamp(1, CONNECTIONS_MAX);
    let addresses = config.connections_per_address_max.map(Addresses::new);
    // Who has to leave still has a place for a moment.
    let (places, streams_max) = (connections_max - connections_max / 16, config.http2_streams_max);
    let app = web::Data::new(App::new(config));
    let state = Arc::clone(&app.state);
    let credentials = Credentials::new(tls, Arc::clone(&state.authenticator));
    let tls = Arc::clone(&credentials.tls);
    let phase = state.phase.clone();
    let connections = Arc::new(Connections::default());
    let (alive, workers_ended) = mpsc::channel(1);
    let (loopback, opened) = Loopback::new(workers);
    let shared = Shared {
        app,
        state,
        tls,
        opened,
        connections: Arc::clone(&connections),
        places,
        addresses,
        streams_max,
    };
    let server = actix_server::Server::build()
        .workers(workers)
        .max_concurrent_connections(connections_max)
        .disable_signals()
        // [`StopHandle::stop`] says how long connections have; actix-server would cut them off after 30 seconds.
        .shutdown_timeout(u64::MAX)
        .listen("kindom", listener, move || {
            let (shared, alive) = (shared.clone(), alive.clone());
            fn_factory(move || {
                ALIVE.set(Some(alive.clone()));
                worker(shared.clone())
            })
        })
        .map_err(listen)?
        .run();
    let stop = StopHandle { server: server.handle(), phase, connections };
    Ok(Running { address: bound, stop, credentials, loopback, server, workers: workers_ended })
}

/// The state that all workers share.
#[derive(Clone)]
struct Shared {
    app: web::Data<App>,
    state: Arc<State>,
    tls: Arc<ArcSwap<ServerConfig>>,
    /// The connections of the process itself.
    opened: Receivers,
    connections: Arc<Connections>,
    /// The places of one worker.
    places: usize,
    addresses: Option<Arc<Addresses>>,
    streams_max: u32,
}

thread_local! {
    /// Of a worker's thread: dropped when it ends, after everything that ran on it.
    static ALIVE: RefCell<Option<mpsc::Sender<Infallible>>> = const { RefCell::new(None) };
}

/// Boxed, because the futures that it passes through would each keep room for it as long as the connection lives.
type Tls = Box<TlsStream<TcpStream>>;

/// A connection of HTTP/1.1, and its place in its worker.
type Connection<T> = Paced<T, Rc<Place>>;

/// Makes the service of one worker: a connection in, nothing out.
async fn worker(shared: Shared) -> Result<impl Service<TcpStream, Response = (), Error = Infallible>, ()> {
    let app = actix_web::App::new().app_data(shared.app.clone()).default_service(fn_service(handle));
    let app = Rc::new(app.into_factory().new_service(AppConfig::default()).await?);
    let http1 = Rc::new(http1(shared.clone(), Rc::clone(&app), |state, io: &Tls| peer(state, io)).await?);
    let places = Rc::new(Places::new(shared.places));
    let (heads, turns) = (Rc::new(Heads::default()), Turns::new());
    spawn(serve_loopback(shared.clone(), Rc::clone(&app), turns.clone()));
    Ok(fn_service(move |io: TcpStream| {
        let (shared, app, http1, place) =
            (shared.clone(), Rc::clone(&app), Rc::clone(&http1), Rc::new(places.enter()));
        let (heads, turns) = (Rc::clone(&heads), turns.clone());
        async move {
            let _open = shared.connections.open();
            let address = io.peer_addr().ok();
            let from = match (&shared.addresses, address) {
                (Some(addresses), Some(address)) => match addresses.enter(address.ip()) {
                    Some(from) => Some(from),
                    None => {
                        tracing::info!(peer = %address, "a connection is refused: its address has too many");
                        return Ok(());
                    }
                },
                _ => None,
            };
            // Each part is boxed, so that a connection holds memory for the one that it is in.
            if let Some(io) = Box::pin(handshake(&shared, io, place.guest())).await {
                if io.get_ref().1.alpn_protocol() == Some(b"h2") {
                    let peer = peer(&shared.state, &io);
                    let io = Paced::new(Inflow::new(io, address, heads), address, Rc::clone(&place));
                    let phase = shared.state.phase.subscribe();
                    let served =
                        http2::serve(io, app, peer, address, phase, shared.streams_max, turns.clone());
                    turns.take(served).await;
                } else {
                    let io = Paced::new(io, address, Rc::clone(&place)).attended(place.guest());
                    let served = async {
                        tokio::select! {
                            biased;
                            () = place.guest().told_to_leave() => {}
                            served = http1.call((io, address)) => if let Err(error) = served {
                                tracing::trace!(%error, "a connection of HTTP/1.1 broke off");
                            },
                        }
                    };
                    turns.take(served).await;
                }
            }
            drop(from);
            Ok(())
        }
    }))
}

/// Serves HTTP/1.1 on the connections of a worker, whose clients `peer` knows.
async fn http1<T, S>(
    shared: Shared,
    app: Rc<S>,
    peer: impl Fn(&State, &T) -> Rc<Peer> + 'static,
) -> Result<impl Service<(Connection<T>, Option<SocketAddr>), Response = (), Error = DispatchError>, ()>
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
    S: Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error> + 'static,
    S::Future: 'static,
{
    let phase = shared.state.phase.subscribe();
    HttpService::build()
        .keep_alive(IDLE)
        .client_request_timeout(HEAD)
        .client_disconnect_timeout(DISCONNECT)
        // Hidden from the documentation, but how actix-web itself has connections end in order.
        .graceful_shutdown_signal(move || {
            let mut phase = phase.clone();
            async move {
                let _ = phase.wait_for(Phase::is_ending).await;
            }
        })
        .on_connect_ext(move |io: &Connection<T>, data| {
            data.insert(peer(&shared.state, &io.io));
            data.insert(Rc::clone(&io.data));
        })
        .h1(fn_factory(move || ready(Ok::<_, ()>(counted(Rc::clone(&app))))))
        .new_service(())
        .await
}

/// Serves the connections of the process itself that come to this worker, until the server ends. They have places of their own, which
/// nobody else can take.
async fn serve_loopback<S>(shared: Shared, app: Rc<S>, turns: Turns)
where
    S: Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error> + 'static,
    S::Future: 'static,
{
    let own = |state: &State, _: &UnixStream| Rc::new(state.authenticator.own_peer());
    let Ok(http1) = http1(shared.clone(), app, own).await else { return };
    let Some(mut opened) = Taken::of(&shared.opened) else { return };
    // `Loopback` counts them.
    let (http1, places) = (Rc::new(http1), Rc::new(Places::new(usize::MAX)));
    let mut phase = shared.state.phase.subscribe();
    loop {
        let next = tokio::select! {
            biased;
            _ = phase.wait_for(Phase::is_ending) => return opened.close(),
            next = opened.next() => next,
        };
        let Some(next) = next else { return };
        let (io, place) = match next.into_parts() {
            Ok((io, place)) => {
                let own = Rc::new(places.enter());
                let guest = Rc::clone(own.guest());
                (Paced::new(io, None, own).attended(&guest), place)
            }
            Err(error) => {
                tracing::warn!(%error, "a connection of the process itself cannot be served");
                continue;
            }
        };
        let (http1, open) = (Rc::clone(&http1), shared.connections.open());
        spawn(turns.take(async move {
            let _open = (open, place);
            if let Err(error) = http1.call((io, None)).await {
                tracing::trace!(%error, "a connection of the process itself broke off");
            }
        }));
    }
}

/// The application for HTTP/1.1, whose requests are under way until their answers were handed to the connection.
fn counted<S>(
    app: Rc<S>,
) -> impl Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error> + 'static
where
    S: Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error> + 'static,
{
    fn_service(move |request: Request| {
        let under_way = request.conn_data::<Rc<Place>>().map(|place| place.begin());
        let answer = app.call(request);
        async move {
            let response = answer.await?;
            Ok(match response.response().body().size() {
                BodySize::Stream | BodySize::Sized(LARGE_BYTES..) => {
                    response.map_body(|_, body| BoxBody::new(UnderWayBody { body, _under_way: under_way }))
                }
                BodySize::None | BodySize::Sized(_) => response,
            })
        }
    })
}

/// The body of an answer that is under way.
struct UnderWayBody {
    body: BoxBody,
    _under_way: Option<places::UnderWay>,
}

impl MessageBody for UnderWayBody {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(cx)
    }
}

/// The TLS handshake of a connection; none if it fails, takes too long, or the server ends meanwhile.
async fn handshake(shared: &Shared, io: TcpStream, guest: &Guest) -> Option<Tls> {
    // HTTP/2 with one stream a connection is forty times slower without it (design, "HTTP").
    let _ = io.set_nodelay(true);
    let mut phase = shared.state.phase.subscribe();
    let accept = TlsAcceptor::from(shared.tls.load_full()).accept(io);
    tokio::select! {
        biased;
        _ = phase.wait_for(Phase::is_ending) => None,
        () = guest.told_to_leave() => None,
        done = timeout(HANDSHAKE, accept) => done.ok()?.ok().map(Box::new),
    }
}

/// The client of a connection, and where it reached the server; its certificate is verified once, not for every request.
fn peer(state: &State, io: &TlsStream<TcpStream>) -> Rc<Peer> {
    let certificates = io.get_ref().1.peer_certificates().unwrap_or_default();
    let certificates = certificates.iter().cloned().map(CertificateDer::into_owned).collect();
    let (here, there) = (io.get_ref().0.local_addr().ok(), io.get_ref().0.peer_addr().ok());
    Rc::new(state.authenticator.peer(certificates).reaching(here, there))
}
