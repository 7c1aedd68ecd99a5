//! The way of a request to another server and back (kube-aggregator `pkg/apiserver/handler_proxy.go`, apimachinery
//! `pkg/util/proxy/upgradeaware.go`, 0.37).

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::unfold;
use http_body_util::BodyExt as _;
use hyper::header::{CONTENT_LENGTH, LOCATION, UPGRADE};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use kindom_http::{DelegatedAnswer, Forwarded, Pieces};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::backend::{Answered, Backend, Body, NoAnswer, Way, body};
use super::headers::{Client, Refused, drop_hop, forwarded};
use super::{Owned, Route};

/// The longest wait for the head of an answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// The same for discovery, which every client waits for (`aggregatedDiscoveryTimeout`).
const DISCOVERY_LIMIT: Duration = Duration::from_secs(5);
/// The most bytes that are read of an upgraded connection at a time.
const READ_BYTES: usize = 16 << 10;

/// The settings of the way.
pub(super) struct Forwarding {
    pub(super) own_name: String,
    pub(super) passes_redirects: bool,
    pub(super) runtime: Handle,
}

/// An answer of this server itself, as Go's `http.Error` writes one.
fn plain(status: StatusCode, text: &str) -> DelegatedAnswer {
    let headers = vec![
        ("content-type".to_owned(), b"text/plain; charset=utf-8".to_vec()),
        ("x-content-type-options".to_owned(), b"nosniff".to_vec()),
    ];
    let text = Bytes::from(format!("{text}\n"));
    DelegatedAnswer { status: status.as_u16(), headers, body: futures::stream::iter([Ok(text)]).boxed() }
}

pub(super) fn unreachable(why: &str) -> DelegatedAnswer {
    plain(StatusCode::SERVICE_UNAVAILABLE, &format!("error trying to reach service: {why}"))
}

impl Forwarding {
    /// Forwards a request. Whoever drops the future or the answer's body ends the request.
    pub(super) async fn forward(self, route: Option<Arc<Route>>, request: Forwarded) -> DelegatedAnswer {
        let route = route.filter(|route| route.is_available);
        let Some((route, backend)) = route.as_ref().and_then(|route| Some((route, route.backend.as_ref()?)))
        else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "service unavailable");
        };
        let Forwarded { path_and_query, upgrades, .. } = &request;
        let upgrades = *upgrades;
        // `/apis/group/version` without a resource.
        let path = path_and_query.split('?').next().unwrap_or_default();
        let is_discovery = path.trim_matches('/').split('/').count() == 3;
        let limit = if is_discovery { DISCOVERY_LIMIT } else { ANSWER_LIMIT };
        let (request, client_bytes) = match self.request(backend, request) {
            Ok(request) => request,
            Err(refusal) => return refusal,
        };
        // On the runtime of the connections: a thread that talks to clients has other work too.
        let way = if upgrades { Way::Upgrade } else { Way::Shared };
        let mut sent = Owned(self.runtime.spawn(backend.send(request, way)));
        let answered = match timeout(limit, &mut sent.0).await {
            Ok(Ok(Ok(answered))) => answered,
            Ok(Ok(Err(NoAnswer::Busy))) => {
                return plain(StatusCode::TOO_MANY_REQUESTS, &NoAnswer::Busy.to_string());
            }
            Ok(Ok(Err(error @ NoAnswer::Body(_)))) => {
                return plain(StatusCode::BAD_REQUEST, &error.to_string());
            }
            Ok(Ok(Err(NoAnswer::Failed(why)))) => {
                route.doubted.notify_one();
                return unreachable(&why);
            }
            Ok(Err(lost)) => return unreachable(&lost.to_string()),
            Err(_) => return unreachable("no answer in time"),
        };
        match answered.response.status() {
            StatusCode::SWITCHING_PROTOCOLS if upgrades => self.upgraded(answered, client_bytes).await,
            status if status.is_informational() => unreachable("it switched protocols unasked"),
            _ => self.answer(answered),
        }
    }

    /// The request to send, and what the client will send over an upgraded connection.
    fn request(
        &self,
        backend: &Backend,
        request: Forwarded,
    ) -> Result<(Request<Body>, Option<Pieces>), DelegatedAnswer> {
        let Forwarded {
            method,
            path_and_query,
            headers,
            body: pieces,
            user,
            address,
            audit_id,
            upgrades,
            ..
        } = request;
        let given = headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
        let (pieces, client_bytes) = if upgrades { (None, pieces) } else { (pieces, None) };
        let client = Client { user: &user, address, audit_id: audit_id.as_deref() };
        let sent = forwarded(given, &client, &self.own_name, pieces.is_some(), upgrades);
        let sent = sent.map_err(|why| match why {
            Refused::Loop => {
                plain(StatusCode::LOOP_DETECTED, "the request has passed through this server before")
            }
            Refused::User => plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the name or an attribute of the user cannot be sent in a header",
            ),
        })?;
        let built =
            Request::builder().method(method.as_str()).uri(backend.url(&path_and_query)).body(body(pieces));
        let mut built = built.map_err(|error| plain(StatusCode::BAD_REQUEST, &error.to_string()))?;
        *built.headers_mut() = sent;
        Ok((built, client_bytes))
    }

    fn answer(&self, answered: Answered) -> DelegatedAnswer {
        let Answered { response, place } = answered;
        let status = response.status();
        if status.is_redirection() && response.headers().contains_key(LOCATION) && !self.passes_redirects {
            let text = "the backend attempted to redirect this request, which is not permitted";
            return plain(StatusCode::BAD_GATEWAY, text);
        }
        let (head, body) = response.into_parts();
        let mut headers = head.headers;
        drop_hop(&mut headers);
        // The connection to the client counts the bytes by itself.
        headers.remove(CONTENT_LENGTH);
        let pieces = unfold(Some((body, place)), |state| async move {
            let (mut body, place) = state?;
            loop {
                match body.frame().await? {
                    Ok(frame) => {
                        // Trailers stay here.
                        if let Ok(data) = frame.into_data() {
                            return Some((Ok(data), Some((body, place))));
                        }
                    }
                    Err(error) => return Some((Err(std::io::Error::other(error)), None)),
                }
            }
        });
        DelegatedAnswer { status: status.as_u16(), headers: listed(&headers), body: pieces.boxed() }
    }

    /// Joins the client's connection and the other server's, until either ends.
    async fn upgraded(&self, answered: Answered, client_bytes: Option<Pieces>) -> DelegatedAnswer {
        let Answered { response, place } = answered;
        let mut headers = response.headers().clone();
        let upgrade = headers.get(UPGRADE).cloned();
        drop_hop(&mut headers);
        headers.remove(CONTENT_LENGTH);
        if let Some(upgrade) = upgrade {
            headers.insert(UPGRADE, upgrade);
        }
        let upgraded = match timeout(DISCOVERY_LIMIT, hyper::upgrade::on(response)).await {
            Ok(Ok(upgraded)) => upgraded,
            Ok(Err(error)) => return unreachable(&error.to_string()),
            Err(_) => return unreachable("no answer in time"),
        };
        let (reading, mut writing) = tokio::io::split(TokioIo::new(upgraded));
        let written = self.runtime.spawn(async move {
            let mut pieces = client_bytes.unwrap_or_else(|| futures::stream::empty().boxed());
            while let Some(Ok(bytes)) = pieces.next().await {
                if writing.write_all(&bytes).await.is_err() || writing.flush().await.is_err() {
                    return;
                }
            }
            let _ = writing.shutdown().await;
        });
        let body = read(reading, (Owned(written), place));
        DelegatedAnswer { status: 101, headers: listed(&headers), body }
    }
}

/// The bytes of a connection; `kept` lives as long.
fn read(from: impl AsyncRead + Send + Unpin + 'static, kept: impl Send + 'static) -> Pieces {
    unfold((from, kept), |(mut from, kept)| async move {
        let mut buffer = BytesMut::with_capacity(READ_BYTES);
        match from.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some((Ok(buffer.freeze()), (from, kept))),
        }
    })
    .boxed()
}

fn listed(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect()
}
