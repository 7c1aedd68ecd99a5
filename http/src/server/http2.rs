//! HTTP/2 of one connection.
//!
//! actix-http's own dispatcher never announces the server's end to a client, so that every idle connection delays the end.
//! This one sends GOAWAY, answers requests under way, and closes.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, UNIX_EPOCH};

use actix_http::body::{BodySize, BoxBody, MessageBody as _};
use actix_http::error::PayloadError;
use actix_http::header::{HeaderValue, HttpDate, TryIntoHeaderValue as _};
use actix_http::{HttpMessage as _, Payload, Request, Response, ResponseHead};
use actix_service::Service;
use actix_web::dev::ServiceResponse;
use actix_web::http::header;
use actix_web::rt::spawn;
use bytes::Bytes;
use futures::stream;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Ping, PingPong, Reason, RecvStream};
use kindom_actor_kit::Clock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::inflow::{Heads, Inflow, Stop};
use super::paced::{Pace, Paced};
use super::places::{self, Place};
use super::{HEAD, IDLE};
use crate::authn::Peer;
use crate::phase::Phase;
use crate::turns::Turns;

/// The bytes of a body that a client may send before they are read, for one stream and for the connection (as actix-http's).
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 2 << 20;
/// The largest headers that h2 accepts, each with 32 bytes more than it has; beyond that it answers 431 itself, without a
/// Status. As many headers as fit have to fit into `http`'s map, which panics beyond 24,576 (ADR 25).
const HEAD_LIST_BYTES_MAX: u32 = 768 << 10;
/// The most bytes of an answer that are handed to the connection at once.
const CHUNK_BYTES: usize = 16_384;
/// The time that a client has to take the next byte, or to confirm the GOAWAY, when the server ends and every request is
/// answered (as Go's `net/http`).
const UNANSWERED: Duration = Duration::from_secs(1);

/// Serves a connection until the client closes it, or the server ends and every request of it is answered.
pub(super) async fn serve<T, S>(
    io: Paced<Inflow<T>, Rc<Place>>,
    app: Rc<S>,
    peer: Rc<Peer>,
    address: Option<SocketAddr>,
    mut phase: watch::Receiver<Phase>,
    streams_max: u32,
    turns: Turns,
) where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error> + 'static,
    S::Future: 'static,
{
    let (written, place) = (io.written(), Rc::clone(&io.data));
    let (turn, heads, received) = (io.io.turn(), io.io.heads(), io.io.received());
    let mut builder = Builder::new();
    builder.initial_window_size(STREAM_WINDOW_BYTES).initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    builder.max_header_list_size(HEAD_LIST_BYTES_MAX).max_concurrent_streams(streams_max);
    let handshake = tokio::select! {
        biased;
        _ = phase.wait_for(Phase::is_ending) => return,
        () = place.guest().told_to_leave() => return,
        done = timeout(HEAD, builder.handshake(io)) => done,
    };
    let Ok(Ok(mut connection)) = handshake else { return };
    let mut keep_alive = connection.ping_pong().map(KeepAlive::new);
    let guest = Rc::clone(place.guest());
    let mut ending = pin!(async move {
        tokio::select! {
            // A server that is gone without a word ends too.
            _ = phase.wait_for(Phase::is_ending) => {}
            () = guest.told_to_leave() => {}
        }
    });
    let (mut drain, mut stop): (Option<Drain>, _) = (None, Stop::default());
    let open = Rc::new(Cell::new(0_usize));
    let place_of_requests = Rc::clone(&place);
    let requests = Requests {
        app,
        peer,
        address,
        place: place_of_requests,
        open: Rc::clone(&open),
        heads: Rc::clone(&heads),
        turns,
    };
    poll_fn(|cx| {
        // The requests of the heads that have come begin first.
        ready!(heads.poll_few(&mut stop, cx));
        turn.begin();
        if drain.is_none() && ending.as_mut().poll(cx).is_ready() {
            connection.graceful_shutdown();
            drain = Some(Drain::new(written.get()));
        }
        if requests.accept(&mut connection, cx).is_ready() {
            return Poll::Ready(());
        }
        if let Some(drain) = &mut drain {
            return drain.poll_given_up(cx, open.get(), written.get());
        }
        let Some(alive) = &mut keep_alive else { return Poll::Pending };
        match ready!(alive.poll_lost(cx, place.guest().is_idle_for(IDLE), received.get())) {
            Lost::Gone => Poll::Ready(()),
            Lost::Idle => {
                connection.graceful_shutdown();
                drain = Some(Drain::new(written.get()));
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    })
    .await;
}

/// The parts that every request of a connection needs.
struct Requests<S> {
    app: Rc<S>,
    peer: Rc<Peer>,
    address: Option<SocketAddr>,
    place: Rc<Place>,
    open: Rc<Cell<usize>>,
    heads: Rc<Heads>,
    turns: Turns,
}

impl<S> Requests<S>
where
    S: Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error> + 'static,
    S::Future: 'static,
{
    /// Takes the requests that have come, each into a task of its own. Ready when the connection is closed.
    fn accept<T>(&self, connection: &mut Connection<T, Bytes>, cx: &mut Context<'_>) -> Poll<()>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        // Every turn takes a request off the connection, which h2 bounds.
        while let Some(accepted) = ready!(connection.poll_accept(cx)) {
            let Ok((request, respond)) = accepted else { return Poll::Ready(()) };
            let (parts, body) = request.into_parts();
            let head_waits = self.heads.come(parts.headers.len());
            let is_head = parts.method == actix_http::Method::HEAD;
            let (under_way, address) = (OpenRequest::begin(&self.open, &self.place), self.address);
            let (app, peer) = (Rc::clone(&self.app), Rc::clone(&self.peer));
            spawn(self.turns.take(async move {
                let _under_way = under_way;
                // Made when it is its turn: of thousands that wait, one at a time is in the processor's cache.
                let mut request = Request::with_payload(payload(body));
                let head = request.head_mut();
                head.uri = parts.uri;
                head.method = parts.method;
                head.version = parts.version;
                head.headers = parts.headers.into();
                head.peer_addr = address;
                request.extensions_mut().insert(peer);
                let answer = app.call(request);
                // The request begins without a pause.
                drop(head_waits);
                let response = match answer.await {
                    Ok(response) => response.into(),
                    Err(error) => Response::from(error),
                };
                // An error here means that the client has given up its connection or stream.
                if let Err(error) = send(response, respond, is_head, address).await {
                    tracing::trace!(%error, "an answer was not taken");
                }
            }));
        }
        Poll::Ready(())
    }
}

fn payload(body: RecvStream) -> Payload {
    if body.is_end_stream() {
        return Payload::None;
    }
    let chunks = stream::unfold(body, |mut body| async move {
        let chunk = body.data().await?;
        let chunk = chunk.and_then(|chunk| {
            // Bytes that were read make room for as many.
            body.flow_control().release_capacity(chunk.len())?;
            Ok(chunk)
        });
        Some((chunk.map_err(PayloadError::Http2Payload), body))
    });
    Payload::Stream { payload: Box::pin(chunks) }
}

/// A request that is not answered yet.
struct OpenRequest {
    open: Rc<Cell<usize>>,
    _of_place: places::UnderWay,
}

impl OpenRequest {
    fn begin(open: &Rc<Cell<usize>>, place: &Place) -> Self {
        open.set(open.get() + 1);
        Self { open: Rc::clone(open), _of_place: place.begin() }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.open.set(self.open.get() - 1);
    }
}

/// The reason why a connection has to end.
enum Lost {
    /// The client does not answer.
    Gone,
    /// It has asked for nothing.
    Idle,
}

/// Notices a client that is gone without a word: it has to answer a ping from time to time.
struct KeepAlive {
    pings: PingPong,
    timer: Pin<Box<Sleep>>,
    /// The bytes that had come when a ping was sent that is not answered.
    sent: Option<u64>,
}

impl KeepAlive {
    fn new(pings: PingPong) -> Self {
        Self { pings, timer: Box::pin(sleep(IDLE)), sent: None }
    }

    /// Ready when a ping was not answered in time and nothing else came either (the answer may be behind what a slow client
    /// sends), or instead of a ping if the connection is idle.
    fn poll_lost(&mut self, cx: &mut Context<'_>, is_idle: bool, received: u64) -> Poll<Lost> {
        loop {
            if let Some(before) = self.sent {
                match self.pings.poll_pong(cx) {
                    Poll::Ready(Ok(_)) => {
                        self.sent = None;
                        self.timer.as_mut().reset(Instant::now() + IDLE);
                    }
                    Poll::Ready(Err(_)) => return Poll::Ready(Lost::Gone),
                    Poll::Pending => {
                        ready!(self.timer.as_mut().poll(cx));
                        if received == before {
                            return Poll::Ready(Lost::Gone);
                        }
                        self.sent = Some(received);
                        self.timer.as_mut().reset(Instant::now() + IDLE);
                    }
                }
            } else {
                ready!(self.timer.as_mut().poll(cx));
                if is_idle {
                    return Poll::Ready(Lost::Idle);
                }
                if self.pings.send_ping(Ping::opaque()).is_err() {
                    return Poll::Ready(Lost::Gone);
                }
                self.sent = Some(received);
                self.timer.as_mut().reset(Instant::now() + IDLE);
            }
        }
    }
}

/// Disconnects a client that neither takes the rest of its answers nor confirms the GOAWAY.
struct Drain {
    timer: Option<Pin<Box<Sleep>>>,
    /// The bytes that had been written when the timer was set.
    written: u64,
}

impl Drain {
    fn new(written: u64) -> Self {
        Self { timer: None, written }
    }

    /// Ready when every request is answered and the client has taken nothing for too long.
    fn poll_given_up(&mut self, cx: &mut Context<'_>, open: usize, written: u64) -> Poll<()> {
        if open > 0 {
            self.timer = None;
            return Poll::Pending;
        }
        if self.written != written {
            self.written = written;
            self.timer = None;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(UNANSWERED)));
        timer.as_mut().poll(cx)
    }
}

/// Sends an answer; returns when all of it is handed to the connection, or the client has cancelled it.
async fn send(
    response: Response<BoxBody>,
    mut respond: SendResponse<Bytes>,
    is_head: bool,
    address: Option<SocketAddr>,
) -> Result<(), h2::Error> {
    let (response, body) = response.into_parts();
    let (head, size) = head(response.head(), body.size());
    let ends = is_head || size.is_eof();
    let mut stream = respond.send_response(head, ends)?;
    if ends {
        return Ok(());
    }
    let (mut body, mut pace) = (pin!(body), Pace::default());
    loop {
        let chunk = poll_fn(|cx| match body.as_mut().poll_next(cx) {
            Poll::Ready(chunk) => Poll::Ready(Ok(chunk)),
            // A watch may have nothing to say for long: its client's going away ends it.
            Poll::Pending => stream.poll_reset(cx).map(Err),
        });
        let mut chunk = match chunk.await {
            Ok(Some(Ok(chunk))) => chunk,
            Ok(Some(Err(error))) => {
                tracing::error!("the body of an answer: {error}");
                return Ok(());
            }
            Ok(None) => break,
            Err(_) => return Ok(()),
        };
        while !chunk.is_empty() {
            stream.reserve_capacity(chunk.len().min(CHUNK_BYTES));
            let capacity = poll_fn(|cx| match stream.poll_capacity(cx) {
                Poll::Ready(capacity) => Poll::Ready(Ok(capacity)),
                Poll::Pending => pace.poll_stalled(cx).map(Err),
            });
            let capacity = match capacity.await {
                Ok(Some(capacity)) => capacity?,
                Ok(None) => return Ok(()),
                Err(()) => {
                    let peer = address.map(tracing::field::display);
                    tracing::info!(peer, "an answer is given up: its client does not take it");
                    stream.send_reset(Reason::CANCEL);
                    return Ok(());
                }
            };
            let piece = chunk.split_to(capacity.min(chunk.len()));
            pace.took(piece.len() as u64);
            stream.send_data(piece, false)?;
        }
        pace.rest();
    }
    stream.send_data(Bytes::new(), true)
}

/// The head in HTTP/2's form, and the size of the body that follows.
fn head(from: &ResponseHead, size: BodySize) -> (::http::Response<()>, BodySize) {
    let mut head = ::http::Response::new(());
    *head.status_mut() = from.status;
    *head.version_mut() = actix_http::Version::HTTP_2;
    let size = if from.status == actix_http::StatusCode::NO_CONTENT { BodySize::None } else { size };
    let headers = head.headers_mut();
    headers.reserve(from.headers.len() + 2);
    if let BodySize::Sized(length) = size {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    for (name, value) in from.headers.iter() {
        // HTTP/1's connection headers are not allowed here (RFC 9113, 8.2.2).
        let of_http1 = matches!(
            name.as_str(),
            "connection" | "transfer-encoding" | "upgrade" | "keep-alive" | "proxy-connection"
        );
        if !of_http1 && (*name != header::CONTENT_LENGTH || size == BodySize::Stream) {
            headers.append(name, value.clone());
        }
    }
    if !headers.contains_key(header::DATE)
        && let Some(date) = date()
    {
        headers.insert(header::DATE, date);
    }
    (head, size)
}

/// The Date header; made once a second in each thread.
fn date() -> Option<HeaderValue> {
    thread_local! {
        static LAST: RefCell<Option<(u64, HeaderValue)>> = const { RefCell::new(None) };
    }
    let second = u64::try_from(Clock::system().unix_seconds()).ok()?;
    LAST.with_borrow_mut(|last| match last {
        Some((of, value)) if *of == second => Some(value.clone()),
        _ => {
            let value = HttpDate::from(UNIX_EPOCH + Duration::from_secs(second)).try_into_value().ok()?;
            *last = Some((second, value.clone()));
            Some(value)
        }
    })
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use actix_service::fn_service;
    use actix_web::HttpResponse;
    use actix_web::test::TestRequest;
    use rcgen::{CertificateParams, KeyPair};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::task::LocalSet;

    use super::super::inflow::HEADS_BYTES_MAX;
    use super::super::places::Places;
    use super::*;
    use crate::authn::{Authenticator, CurrentAuthenticator, Tokens};
    use crate::cost::HEADER_BYTES;

    fn peer() -> Rc<Peer> {
        let key = KeyPair::generate().unwrap();
        let ca = CertificateParams::default().self_signed(&key).unwrap();
        let authenticator = Authenticator::new(&[ca.der().clone()], Tokens::default()).unwrap();
        Rc::new(CurrentAuthenticator::new(authenticator).peer(Vec::new()))
    }

    /// A connection whose requests call `begun`, and are answered when its future is ready; the client's side of it.
    fn connection<F: Future<Output = ()> + 'static>(
        heads: &Rc<Heads>,
        begun: impl Fn() -> F + Clone + 'static,
    ) -> DuplexStream {
        let (io, client) = duplex(1 << 20);
        let app = Rc::new(fn_service(move |_: Request| {
            let begun = begun.clone();
            async move {
                begun().await;
                let request = TestRequest::default().to_http_request();
                Ok::<_, actix_web::Error>(ServiceResponse::new(request, HttpResponse::Ok().finish()))
            }
        }));
        let place = Rc::new(Rc::new(Places::new(10)).enter());
        let io = Paced::new(Inflow::new(io, None, Rc::clone(heads)), None, place);
        let (phase, of_server) = watch::channel(Phase::Serving);
        spawn(async move {
            let _serving = phase;
            serve(io, app, peer(), None, of_server, 100, Turns::new()).await;
        });
        client
    }

    /// The bytes of a client that asks so many times, each with so many headers of a byte each.
    fn asked(requests: u32, headers: usize) -> Vec<u8> {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
        for n in 0..requests {
            // GET https://h/, and `x: y`, which enters the table; from then on a byte names it.
            let mut block = vec![0x82, 0x87, 0x84, 0x01, 1, b'h', 0x40, 1, b'x', 1, b'y'];
            block.resize(block.len() + headers, 0xbe);
            bytes.extend(&u32::try_from(block.len()).unwrap().to_be_bytes()[1..]);
            bytes.extend([1, 5]);
            bytes.extend((2 * n + 1).to_be_bytes());
            bytes.extend(block);
        }
        bytes
    }

    #[tokio::test]
    async fn requests_begin_before_more_is_read() {
        LocalSet::new()
            .run_until(async {
                let heads = Rc::<Heads>::default();
                let others = heads.come(HEADS_BYTES_MAX / HEADER_BYTES + 1);
                let begun = Rc::new(Cell::new(0));
                let counted = Rc::clone(&begun);
                let mut client = connection(&heads, move || {
                    counted.set(counted.get() + 1);
                    ready(())
                });
                client.write_all(&asked(1, 1)).await.unwrap();
                for _ in 0..1_000 {
                    tokio::task::yield_now().await;
                }
                assert_eq!(begun.get(), 0);
                drop(others);
                while begun.get() == 0 {
                    tokio::task::yield_now().await;
                }
                assert_eq!((begun.get(), heads.waiting()), (1, 0));
            })
            .await;
    }

    /// All of it is in the socket at once, and h2 would decode all of it before the first request.
    #[tokio::test]
    async fn the_heads_of_one_connection_wait_in_bounds() {
        const REQUESTS: u32 = 60;
        LocalSet::new()
            .run_until(async {
                let heads = Rc::<Heads>::default();
                let (begun, most) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
                let (counted, largest, of_worker) = (Rc::clone(&begun), Rc::clone(&most), Rc::clone(&heads));
                let mut client = connection(&heads, move || {
                    counted.set(counted.get() + 1);
                    largest.set(largest.get().max(of_worker.waiting()));
                    ready(())
                });
                client.write_all(&asked(REQUESTS, 1_000)).await.unwrap();
                let mut answers = vec![0; 1 << 16];
                while begun.get() < REQUESTS {
                    tokio::select! {
                        read = client.read(&mut answers) => assert!(read.unwrap() > 0, "it ended"),
                        () = tokio::task::yield_now() => {}
                    }
                }
                assert!((1..=HEADS_BYTES_MAX).contains(&most.get()), "{}", most.get());
            })
            .await;
    }

    /// A client that answers no ping, with a request under way. Of a slow one the answer is behind what it sends.
    #[tokio::test(start_paused = true)]
    async fn a_client_is_lost_once_nothing_comes_from_it() {
        const WINDOW_UPDATE: [u8; 13] = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        LocalSet::new()
            .run_until(async {
                let mut client = connection(&Rc::default(), pending::<()>);
                client.write_all(&asked(1, 1)).await.unwrap();
                let mut received = vec![0; 1 << 16];
                let began = Instant::now();
                let mut ended = None;
                while ended.is_none() && began.elapsed() < 20 * IDLE {
                    if began.elapsed() < 10 * IDLE {
                        client.write_all(&WINDOW_UPDATE).await.unwrap();
                    }
                    if let Ok(Ok(0) | Err(_)) = timeout(IDLE / 3, client.read(&mut received)).await {
                        ended = Some(began.elapsed());
                    }
                }
                let ended = ended.expect("it is held for ever");
                assert!((10 * IDLE..13 * IDLE).contains(&ended), "{ended:?}");
            })
            .await;
    }
}
