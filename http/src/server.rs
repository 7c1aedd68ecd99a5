//! The listening server.

use std::any::Any;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use actix_web::dev::{Extensions, ServerHandle};
use actix_web::{App, HttpServer, web};
use rustls::ServerConfig;
use tokio::sync::watch;

use crate::authn::Authenticator;
use crate::dispatch::{IDLE, serve as handle};
use crate::state::{Config, State};

/// Why the server did not start.
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

/// How long open requests may take to end when the server stops, in seconds.
const SHUTDOWN_SECONDS: u64 = 2;
/// How many connections may be open in one worker; more wait to be accepted.
const CONNECTIONS_MAX: usize = 25_000;

/// A running server.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// To stop it.
    stop: StopHandle,
    server: actix_web::dev::Server,
}

impl Running {
    /// Runs until stopped through a [`StopHandle`].
    ///
    /// # Errors
    /// What the server's own threads fail with.
    pub async fn run(self) -> std::io::Result<()> {
        self.server.await
    }

    /// To stop it.
    #[must_use]
    pub fn handle(&self) -> StopHandle {
        self.stop.clone()
    }
}

/// Stops a [`Running`] server.
#[derive(Clone)]
pub struct StopHandle {
    server: ServerHandle,
    stopping: watch::Sender<bool>,
}

impl StopHandle {
    /// Ends every watch stream as if its time were up and takes no new connection. If `gracefully`, open requests have
    /// two seconds to be answered. Returns when all connections are gone.
    pub async fn stop(&self, gracefully: bool) {
        self.stopping.send_replace(true);
        self.server.stop(gracefully).await;
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
    let state = web::Data::new(State::new(config));
    let authenticator = Arc::clone(&state.authenticator);
    let stopping = state.stopping.clone();
    let server = HttpServer::new(move || App::new().app_data(state.clone()).default_service(web::to(handle)))
        .on_connect(move |io, data| identify(&authenticator, io, data))
        .workers(workers)
        .max_connections(CONNECTIONS_MAX)
        .keep_alive(IDLE)
        .shutdown_timeout(SHUTDOWN_SECONDS)
        .disable_signals()
        // HTTP/2 with one stream a connection is forty times slower without it (design, "HTTP").
        .tcp_nodelay(true)
        .listen_rustls_0_23(listener, tls)
        .map_err(listen)?
        .run();
    let stop = StopHandle { server: server.handle(), stopping };
    Ok(Running { address: bound, stop, server })
}

/// Verifies the client's certificate, once a connection.
fn identify(authenticator: &Authenticator, io: &dyn Any, data: &mut Extensions) {
    type Tls = actix_tls::accept::rustls_0_23::TlsStream<actix_web::rt::net::TcpStream>;
    if let Some(tls) = io.downcast_ref::<Tls>() {
        let certificates = tls.get_ref().1.peer_certificates().unwrap_or_default();
        data.insert(authenticator.peer(certificates));
    }
}
