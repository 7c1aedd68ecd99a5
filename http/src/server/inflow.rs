//! The heads that connections of HTTP/2 send, before anybody answers for them.
//!
//! h2 decodes everything that a socket holds before it hands out the first request, and a byte of a header block may stand for a
//! whole header. So a connection reads a little in each turn, and waits while the worker has many heads whose requests have not
//! begun: each of those is judged in the worker's next turn. A header block that does not end has to grow in little time, and its
//! bytes have a bound for all connections of the worker.

use std::cell::{Cell, RefCell};
use std::future::Future as _;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::HEAD;
use crate::cost::HEADER_BYTES;

/// The bytes that a connection reads in one turn.
const TURN_BYTES: usize = 16 << 10;
/// A header block that has begun grows by so much, or ends, within [`HEAD`]. The time in which the server itself was busy is in it,
/// so that bytes which had come meanwhile count before it is over.
const GROWTH_BYTES_MIN: usize = 1 << 10;
/// The memory of the heads of one worker whose requests have not begun; beyond it nothing is read.
pub(super) const HEADS_BYTES_MAX: usize = 8 << 20;
/// The bytes of the header blocks of one worker that have not ended; beyond it the connection that adds to them ends.
const BLOCKS_BYTES_MAX: usize = 16 << 20;

/// The heads of one worker.
#[derive(Default)]
pub(super) struct Heads {
    /// The memory of those whose requests have not begun.
    waiting: Cell<usize>,
    /// The bytes of header blocks that have not ended.
    unfinished: Cell<usize>,
    /// The connections that wait until requests have begun, since they were last woken.
    stopped: RefCell<Vec<Waker>>,
    /// Counts the times that they were woken.
    woken: Cell<u64>,
}

/// The last time that a connection entered the list of those that wait.
#[derive(Default)]
pub(super) struct Stop(Option<u64>);

impl Heads {
    /// Pending while there are so many that requests have to begin before more is read.
    /// `stop` is the connection's own.
    pub(super) fn poll_few(&self, stop: &mut Stop, cx: &mut Context<'_>) -> Poll<()> {
        if self.waiting.get() <= HEADS_BYTES_MAX {
            return Poll::Ready(());
        }
        let now = Some(self.woken.get());
        if stop.0 != now {
            stop.0 = now;
            self.stopped.borrow_mut().push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// The memory of the heads whose requests have not begun.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.get()
    }

    /// A head of so many headers has come; its request has not begun until this is dropped.
    pub(super) fn come(self: &Rc<Self>, headers: usize) -> Waiting {
        let bytes = headers.saturating_mul(HEADER_BYTES);
        self.waiting.set(self.waiting.get() + bytes);
        Waiting { heads: Rc::clone(self), bytes }
    }
}

/// A head whose request has not begun.
pub(super) struct Waiting {
    heads: Rc<Heads>,
    bytes: usize,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let waiting = self.heads.waiting.get() - self.bytes;
        self.heads.waiting.set(waiting);
        if waiting <= HEADS_BYTES_MAX {
            self.heads.woken.set(self.heads.woken.get() + 1);
            self.heads.stopped.take().into_iter().for_each(Waker::wake);
        }
    }
}

/// The bytes that a connection may still read in this turn.
#[derive(Clone)]
pub(super) struct Turn(Rc<Cell<usize>>);

impl Turn {
    /// The connection's next turn begins.
    pub(super) fn begin(&self) {
        self.0.set(TURN_BYTES);
    }
}

/// A connection whose client sends a little in each turn, and ends its header blocks.
pub(super) struct Inflow<T> {
    io: T,
    address: Option<SocketAddr>,
    turn: Turn,
    heads: Rc<Heads>,
    frames: FrameHeads,
    /// The bytes that have come.
    received: Rc<Cell<u64>>,
    /// The end of the time in which the header block that has begun ends or grows.
    ends: Option<Pin<Box<Sleep>>>,
}

impl<T> Inflow<T> {
    pub(super) fn new(io: T, address: Option<SocketAddr>, heads: Rc<Heads>) -> Self {
        let turn = Turn(Rc::new(Cell::new(TURN_BYTES)));
        Self { io, address, turn, heads, frames: FrameHeads::new(), received: Rc::default(), ends: None }
    }

    pub(super) fn turn(&self) -> Turn {
        self.turn.clone()
    }

    /// The bytes that have come so far.
    pub(super) fn received(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.received)
    }

    pub(super) fn heads(&self) -> Rc<Heads> {
        Rc::clone(&self.heads)
    }

    /// Follows bytes that were read.
    fn follow(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.turn.0.set(self.turn.0.get().saturating_sub(bytes.len()));
        self.received.set(self.received.get() + bytes.len() as u64);
        let before = self.frames.unfinished;
        // A block that has begun in the same bytes as another ended has its own time.
        if self.frames.read(bytes) || bytes.len() >= GROWTH_BYTES_MIN {
            self.ends = None;
        }
        let now = self.frames.unfinished;
        if now == before {
            return Ok(());
        }
        let all = self.heads.unfinished.get() - before + now;
        self.heads.unfinished.set(all);
        if now > before && all > BLOCKS_BYTES_MAX { Err(self.broken("too many do not end")) } else { Ok(()) }
    }

    fn broken(&self, why: &str) -> io::Error {
        let peer = self.address.map(tracing::field::display);
        tracing::info!(peer, "a connection is closed: it has begun a header block, and {why}");
        io::ErrorKind::TimedOut.into()
    }
}

impl<T> Drop for Inflow<T> {
    fn drop(&mut self) {
        self.heads.unfinished.set(self.heads.unfinished.get() - self.frames.unfinished);
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Inflow<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.turn.0.get() == 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let filled = buf.filled().len();
        match Pin::new(&mut this.io).poll_read(cx, buf) {
            Poll::Ready(Ok(())) => Poll::Ready(this.follow(buf.filled().get(filled..).unwrap_or_default())),
            Poll::Pending if this.frames.unfinished > 0 => {
                let ends = this.ends.get_or_insert_with(|| Box::pin(sleep(HEAD)));
                ends.as_mut().poll(cx).map(|()| Err(this.broken("its time is over")))
            }
            other => other,
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Inflow<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

/// The client's first bytes (RFC 9113, 3.4), which are no frame.
const PREFACE_BYTES: usize = 24;
/// The bytes before a frame's payload: length, type, flags, stream (RFC 9113, 4.1).
const FRAME_HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// The heads of a connection's frames, read along to know whether a header block has begun and not ended.
struct FrameHeads {
    /// The bytes up to the next frame's head.
    skip: usize,
    head: [u8; FRAME_HEAD_BYTES],
    /// The part of the head that has come.
    have: usize,
    /// The bytes of the header block that has not ended; 0 if there is none.
    unfinished: usize,
}

impl FrameHeads {
    fn new() -> Self {
        Self { skip: PREFACE_BYTES, head: [0; FRAME_HEAD_BYTES], have: 0, unfinished: 0 }
    }

    /// Follows bytes. Returns true if a header block ended in them.
    fn read(&mut self, mut bytes: &[u8]) -> bool {
        let mut ended = false;
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                bytes = bytes.get(skipped..).unwrap_or_default();
                continue;
            }
            let missing = self.head.iter_mut().skip(self.have);
            let taken = missing.zip(bytes).map(|(to, from)| *to = *from).count();
            self.have += taken;
            bytes = bytes.get(taken..).unwrap_or_default();
            if self.have == FRAME_HEAD_BYTES {
                self.have = 0;
                ended |= self.frame();
            }
        }
        ended
    }

    /// Follows the head of a frame. Returns true if it is the last of a header block.
    fn frame(&mut self) -> bool {
        let [high, middle, low, kind, flags, ..] = self.head;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.skip = length;
        if !matches!(kind, HEADERS | CONTINUATION) {
            return false;
        }
        let ends = flags & END_HEADERS != 0;
        // An empty one counts too.
        self.unfinished = if ends { 0 } else { self.unfinished + length.max(FRAME_HEAD_BYTES) };
        ends
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::Instant;

    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], &vec![0; payload][..]].concat()
    }

    /// The unfinished bytes after all of it, however it was cut.
    fn unfinished(frames: &[Vec<u8>]) -> usize {
        let bytes = [&[0; PREFACE_BYTES][..], &frames.concat()].concat();
        let read = |size: usize| {
            let mut heads = FrameHeads::new();
            for chunk in bytes.chunks(size) {
                heads.read(chunk);
            }
            heads.unfinished
        };
        let whole = read(bytes.len());
        assert!((1..40).all(|size| read(size) == whole), "{frames:?}");
        whole
    }

    #[test]
    fn a_header_block_ends_with_its_flag() {
        let (settings, data) = (frame(4, 0, 12), frame(0, 1, 300));
        assert_eq!(unfinished(&[settings.clone(), frame(HEADERS, END_HEADERS | 1, 40), data.clone()]), 0);
        assert_eq!(unfinished(&[settings.clone(), frame(HEADERS, 1, 40)]), 40);
        let begun = [frame(HEADERS, 1, 40), frame(CONTINUATION, 0, 60), frame(CONTINUATION, 0, 0)];
        assert_eq!(unfinished(&begun), 109);
        assert_eq!(unfinished(&[begun.concat(), frame(CONTINUATION, END_HEADERS, 5), data]), 0);
    }

    /// Sends bytes in so many pieces, a second apart, and waits for the end.
    async fn send(heads: &Rc<Heads>, pieces: &[Vec<u8>]) -> (Option<io::ErrorKind>, usize, f64) {
        let (server, mut client) = duplex(1 << 20);
        let mut server = Inflow::new(server, None, Rc::clone(heads));
        let turn = server.turn();
        let began = Instant::now();
        let reading = async {
            let (mut buf, mut taken) = (vec![0; 4096], 0);
            loop {
                turn.begin();
                match server.read(&mut buf).await {
                    Ok(0) => return (None, taken),
                    Ok(read) => taken += read,
                    Err(error) => return (Some(error.kind()), taken),
                }
            }
        };
        let sending = async {
            for piece in pieces {
                client.write_all(piece).await.unwrap();
                sleep(std::time::Duration::from_secs(1)).await;
            }
            sleep(2 * HEAD).await;
            drop(client);
        };
        tokio::select! {
            (end, taken) = reading => (end, taken, began.elapsed().as_secs_f64()),
            () = async { sending.await; std::future::pending().await } => unreachable!(),
        }
    }

    /// In virtual time.
    #[tokio::test(start_paused = true)]
    async fn a_header_block_has_little_time() {
        let heads = Rc::new(Heads::default());
        let preface = vec![0; PREFACE_BYTES];
        let begun = frame(HEADERS, 0, 100);
        let (end, _, after) =
            send(&heads, &[preface.clone(), begun.clone(), frame(CONTINUATION, 0, 1)]).await;
        assert_eq!(end, Some(io::ErrorKind::TimedOut));
        assert!((5.0..8.0).contains(&after), "{after}");
        let (end, ..) = send(&heads, &[preface, begun, frame(CONTINUATION, END_HEADERS, 1)]).await;
        assert_eq!((end, heads.unfinished.get()), (None, 0));
    }

    /// In virtual time. The last piece is a part that is too small to go on for.
    #[tokio::test(start_paused = true)]
    async fn a_header_block_that_grows_has_more_time() {
        let heads = Rc::new(Heads::default());
        let grows = frame(CONTINUATION, 0, GROWTH_BYTES_MIN);
        let mut pieces = vec![[vec![0; PREFACE_BYTES], frame(HEADERS, 0, 100)].concat()];
        pieces.extend(std::iter::repeat_n(grows, 20));
        pieces.extend(std::iter::repeat_n(frame(CONTINUATION, 0, 1), 20));
        let (end, _, after) = send(&heads, &pieces).await;
        assert_eq!(end, Some(io::ErrorKind::TimedOut));
        assert!((24.0..28.0).contains(&after), "{after}");
    }

    /// In virtual time. Each block begins in the bytes that end the one before it.
    #[tokio::test(start_paused = true)]
    async fn each_header_block_has_its_own_time() {
        let heads = Rc::new(Heads::default());
        let (begin, finish) = (frame(HEADERS, 0, 100), frame(CONTINUATION, END_HEADERS, 1));
        let mut pieces = vec![[vec![0; PREFACE_BYTES], begin.clone()].concat()];
        pieces.extend(std::iter::repeat_n([finish.clone(), begin].concat(), 20));
        pieces.push(finish);
        assert_eq!(send(&heads, &pieces).await.0, None);
    }

    /// In virtual time.
    #[tokio::test(start_paused = true)]
    async fn header_blocks_without_an_end_have_a_bound_together() {
        let heads = Rc::new(Heads::default());
        heads.unfinished.set(BLOCKS_BYTES_MAX - 250);
        let pieces = [vec![0; PREFACE_BYTES], frame(HEADERS, 0, 100), frame(CONTINUATION, 0, 100)];
        let (end, ..) = send(&heads, &[&pieces[..], &[frame(CONTINUATION, 0, 100)]].concat()).await;
        assert_eq!((end, heads.unfinished.get()), (Some(io::ErrorKind::TimedOut), BLOCKS_BYTES_MAX - 250));
        let ended = [&pieces[..], &[frame(CONTINUATION, END_HEADERS, 100)]].concat();
        assert_eq!(send(&heads, &ended).await.0, None);
    }

    #[tokio::test]
    async fn a_turn_is_short() {
        let (server, mut client) = duplex(1 << 20);
        client.write_all(&vec![0; 100_000]).await.unwrap();
        let mut server = Inflow::new(server, None, Rc::default());
        let turn = server.turn();
        let mut buf = vec![0; 8 << 10];
        for _ in 0..3 {
            turn.begin();
            assert_eq!(server.read(&mut buf).await.unwrap(), 8 << 10);
            assert_eq!(server.read(&mut buf).await.unwrap(), 8 << 10);
            let mut waits = std::pin::pin!(server.read(&mut buf));
            assert!(futures::poll!(waits.as_mut()).is_pending());
        }
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn heads_wait_until_their_requests_begin() {
        let heads = Rc::new(Heads::default());
        let mut waiting: Vec<Waiting> =
            (0..3).map(|_| heads.come(HEADS_BYTES_MAX / HEADER_BYTES / 2)).collect();
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut cx = Context::from_waker(&waker);
        let mut stops = [Stop::default(), Stop::default()];
        for _ in 0..5 {
            for stop in &mut stops {
                assert!(heads.poll_few(stop, &mut cx).is_pending());
            }
        }
        assert_eq!(wakes.0.load(Ordering::SeqCst), 0, "nobody looks again before a request has begun");
        waiting.pop();
        assert_eq!(wakes.0.load(Ordering::SeqCst), 2, "each is woken once, however often it was polled");
        assert!(heads.poll_few(&mut stops[0], &mut cx).is_ready());
        waiting.push(heads.come(HEADS_BYTES_MAX));
        assert!(heads.poll_few(&mut stops[0], &mut cx).is_pending(), "and is listed again");
        drop(waiting);
        assert_eq!((wakes.0.load(Ordering::SeqCst), heads.waiting.get()), (3, 0));
    }
}
