//! WebSockets, as far as watches need them (RFC 6455; apiserver `pkg/endpoints/handlers/watch.go` `HandleWS`,
//! `pkg/authentication/request/websocket`, golang.org/x/net `websocket`, 1.37).
//!
//! A watch only sends. The server reads the client's frames to answer pings and to see its close, and drops all others. It
//! reads only while the client takes events: from a client that does not read, the server reads nothing either, and keeps at
//! most the frame that it has begun.

use std::convert::Infallible;

use actix_http::ws::{CloseCode, CloseReason, OpCode, Parser, hash_key};
use actix_web::HttpResponse;
use actix_web::dev::Payload;
use actix_web::http::{StatusCode, Uri, Version, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{Bytes, BytesMut};
use futures::stream::{Stream, StreamExt as _, select, unfold};

use crate::head::{Head, header_of};

/// The prefix of a subprotocol that carries a bearer token.
const BEARER: &str = "base64url.bearer.authorization.k8s.io.";
/// The largest frame that a client may send. It has nothing to say.
const FRAME_BYTES_MAX: usize = 64 << 10;
/// The longest head of a frame.
const HEAD_BYTES_MAX: usize = 14;

/// Returns true if a request wants its connection to become a WebSocket (`wsstream.IsWebSocketRequest`). HTTP/2 has no
/// upgrades.
pub(crate) fn is_wanted(request: &Head) -> bool {
    request.version() == Version::HTTP_11
        && header_of(request, header::UPGRADE).eq_ignore_ascii_case("websocket")
        && request.upgrades()
}

/// The subprotocols that a request offers.
fn protocols(request: &Head) -> impl Iterator<Item = &str> {
    let headers = request.headers().get_all(header::SEC_WEBSOCKET_PROTOCOL);
    let offered = headers.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    offered.map(str::trim).filter(|protocol| !protocol.is_empty())
}

/// The bearer token that a request for a WebSocket offers among its subprotocols, as browsers can send no header; `None` if
/// there is none (`ProtocolAuthenticator`).
///
/// # Errors
/// The reason why it is no token, for the log: 401.
pub(crate) fn bearer_token(request: &Head) -> Result<Option<String>, &'static str> {
    if !is_wanted(request) {
        return Ok(None);
    }
    let (mut found, mut others) = (None, false);
    for protocol in protocols(request) {
        let Some(encoded) = protocol.strip_prefix(BEARER) else {
            others = true;
            continue;
        };
        if found.is_some() {
            return Err("multiple base64.bearer.authorization tokens specified");
        }
        let decoded = URL_SAFE_NO_PAD.decode(encoded);
        let decoded = decoded.map_err(|_| "invalid base64.bearer.authorization token encoding")?;
        found = Some(String::from_utf8(decoded).map_err(|_| "invalid base64.bearer.authorization token")?);
    }
    match found.filter(|token| !token.is_empty()) {
        Some(_) if !others => Err("missing additional subprotocol"),
        token => Ok(token),
    }
}

/// The head of the 101, or the refusal: as golang.org/x/net's `websocket.Handler` has it, which wants an Origin and at
/// most one subprotocol; one that carries the token which was accepted does not count.
pub(crate) fn accept(request: &Head, by_protocol: bool) -> Result<header::HeaderMap, Box<HttpResponse>> {
    let refuse = |code: StatusCode, why: &'static str| Box::new(HttpResponse::build(code).body(why));
    if header_of(request, header::SEC_WEBSOCKET_VERSION) != "13" {
        let mut refusal = refuse(StatusCode::BAD_REQUEST, "missing or bad WebSocket Version");
        let version = header::HeaderValue::from_static("13");
        refusal.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, version);
        return Err(refusal);
    }
    let key = header_of(request, header::SEC_WEBSOCKET_KEY);
    if key.is_empty() {
        return Err(refuse(StatusCode::BAD_REQUEST, "mismatch challenge/response"));
    }
    if !is_origin(header_of(request, header::ORIGIN)) {
        return Err(refuse(StatusCode::FORBIDDEN, ""));
    }
    let mut chosen = protocols(request).filter(|p| !(by_protocol && p.starts_with(BEARER)));
    let protocol = chosen.next();
    if chosen.next().is_some() {
        return Err(refuse(StatusCode::BAD_REQUEST, ""));
    }
    let mut headers = header::HeaderMap::new();
    let accept = hash_key(key.as_bytes());
    if let Ok(accept) = header::HeaderValue::from_bytes(&accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    if let Some(protocol) = protocol.and_then(|protocol| header::HeaderValue::from_str(protocol).ok()) {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    Ok(headers)
}

/// Returns true if a text is a URI with a scheme or a path (`url.ParseRequestURI`).
fn is_origin(text: &str) -> bool {
    text.parse::<Uri>().is_ok_and(|uri| uri.scheme().is_some() || text.starts_with('/'))
}

/// Frames of watch events, with the answers to the client's frames between them. The stream ends with a close frame: when
/// the events end, or when the client closes, breaks the protocol or is gone.
pub(crate) fn stream(
    events: impl Stream<Item = Bytes> + 'static,
    payload: Payload,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let events = events.map(Sent::Frames).chain(once(Sent::Close(Some(CloseCode::Normal))));
    let peer = ClientFrames { payload, received: BytesMut::new(), ended: false };
    let answers = unfold(peer, |mut peer| async move { Some((peer.next().await?, peer)) });
    let both = select(events, answers);
    unfold(Some(Box::pin(both)), |both| async move {
        let mut both = both?;
        Some(match both.next().await? {
            Sent::Frames(frames) => (Ok(frames), Some(both)),
            Sent::Close(code) => {
                let mut frame = BytesMut::new();
                Parser::write_close(&mut frame, code.map(CloseReason::from), false);
                (Ok(frame.freeze()), None)
            }
        })
    })
}

fn once<T>(item: T) -> impl Stream<Item = T> {
    futures::stream::iter([item])
}

enum Sent {
    Frames(Bytes),
    Close(Option<CloseCode>),
}

/// The frames that the client sends.
struct ClientFrames {
    payload: Payload,
    received: BytesMut,
    ended: bool,
}

impl ClientFrames {
    /// The answer to the next thing that wants one.
    async fn next(&mut self) -> Option<Sent> {
        if self.ended {
            return None;
        }
        loop {
            match Parser::parse(&mut self.received, true, FRAME_BYTES_MAX) {
                Ok(Some((_, OpCode::Ping, payload))) => {
                    let mut frame = BytesMut::new();
                    Parser::write_message(&mut frame, payload.unwrap_or_default(), OpCode::Pong, true, false);
                    return Some(Sent::Frames(frame.freeze()));
                }
                Ok(Some((_, OpCode::Close, _))) => return Some(self.close(CloseCode::Normal)),
                Ok(Some((_, OpCode::Bad, _))) | Err(_) => return Some(self.close(CloseCode::Protocol)),
                Ok(Some(_)) => {}
                Ok(None) if self.received.len() > FRAME_BYTES_MAX + HEAD_BYTES_MAX => {
                    return Some(self.close(CloseCode::Size));
                }
                Ok(None) => match self.payload.next().await {
                    Some(Ok(bytes)) => self.received.extend_from_slice(&bytes),
                    Some(Err(_)) | None => return Some(self.close(CloseCode::Normal)),
                },
            }
        }
    }

    fn close(&mut self, code: CloseCode) -> Sent {
        self.ended = true;
        Sent::Close(Some(code))
    }
}
