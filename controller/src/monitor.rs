//! `/metrics` of a manager, and `/healthz` and `/readyz` for whoever restarts it.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::Error;
use crate::metrics::Metrics;

/// The most connections at a time; others wait.
const CONNECTIONS_MAX: usize = 256;
/// The time that a connection may last, which has one request: whoever sends nothing must not keep probes waiting.
const CONNECTION: Duration = Duration::from_secs(10);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A listener for those paths.
pub(crate) struct Monitor {
    listener: TcpListener,
}

impl Monitor {
    /// # Errors
    /// The address is none, or taken.
    pub(crate) fn listen(address: &str) -> Result<Self, Error> {
        // `:8080` is every address, as Go has it.
        let whole = if address.starts_with(':') { format!("0.0.0.0{address}") } else { address.to_owned() };
        let named = |error: &dyn std::fmt::Display| format!("cannot serve metrics at {address:?}: {error}");
        let parsed: SocketAddr = whole.parse().map_err(|error| named(&error))?;
        let listener = TcpListener::bind(parsed).map_err(|error| named(&error))?;
        Ok(Self { listener })
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Serves until it is dropped.
    ///
    /// # Errors
    /// The listener cannot be used.
    pub(crate) async fn serve(self, metrics: Metrics) -> Result<(), Error> {
        self.listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        // Ends its connections with itself.
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let place = Arc::clone(&places).acquire_owned().await?;
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection for metrics was not accepted");
                    // Without descriptors it would fail again at once.
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    continue;
                }
            };
            let metrics = metrics.clone();
            while connections.try_join_next().is_some() {}
            connections.spawn(async move {
                let answer = service_fn(move |request| std::future::ready(answer(&request, &metrics)));
                let mut http = http1::Builder::new();
                // The time of the whole connection bounds the headers', too.
                let http = http.keep_alive(false).header_read_timeout(None);
                let served = timeout(CONNECTION, http.serve_connection(TokioIo::new(stream), answer)).await;
                if let Ok(Err(error)) = served {
                    tracing::debug!(%error, "a connection for metrics ended");
                }
                drop(place);
            });
        }
    }
}

fn answer(request: &Request<Incoming>, metrics: &Metrics) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, kind, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, OPEN_METRICS, metrics.text()),
        (&Method::GET | &Method::HEAD, "/healthz" | "/readyz") => {
            (StatusCode::OK, "text/plain", "ok".to_owned())
        }
        (_, "/metrics" | "/healthz" | "/readyz") => {
            (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET is needed\n".to_owned())
        }
        _ => (StatusCode::NOT_FOUND, "text/plain", "404 page not found\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    Ok(response)
}
