//! A connection whose client has to take what it asked for.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::attended::Attended;
use super::places::Guest;

/// The time in which a client has to take [`PACE_BYTES`] of what waits for it, or all of it.
pub(super) const PACE: Duration = Duration::from_secs(30);
/// So much that a line which is merely slow manages it, and no more than a socket holds.
pub(super) const PACE_BYTES: u64 = 16 << 10;

/// The bytes that a client has taken while others wait for it, and the time that it has for the next ones.
///
/// The clock runs only while something waits, so that a watch without events costs nothing and may last.
#[derive(Default)]
pub(super) struct Pace {
    clock: Option<Pin<Box<Sleep>>>,
    taken: u64,
}

impl Pace {
    /// Counts what the client has taken.
    pub(super) fn took(&mut self, bytes: u64) {
        if let Some(clock) = &mut self.clock {
            self.taken += bytes;
            if self.taken >= PACE_BYTES {
                self.taken = 0;
                clock.as_mut().reset(Instant::now() + PACE);
            }
        }
    }

    /// Nothing waits.
    pub(super) fn rest(&mut self) {
        (self.clock, self.taken) = (None, 0);
    }

    /// Ready when the client has taken too little for too long. To be asked while something waits.
    pub(super) fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock.get_or_insert_with(|| Box::pin(sleep(PACE)));
        clock.as_mut().poll(cx)
    }
}

/// A connection that breaks if its client does not keep pace, and counts the bytes that the client's side has taken.
pub(super) struct Paced<T, D = ()> {
    pub(super) io: T,
    /// What belongs to the connection.
    pub(super) data: D,
    address: Option<SocketAddr>,
    written: Rc<Cell<u64>>,
    pace: Pace,
    attended: Option<Attended>,
}

impl<T, D> Paced<T, D> {
    pub(super) fn new(io: T, address: Option<SocketAddr>, data: D) -> Self {
        Self { io, data, address, written: Rc::default(), pace: Pace::default(), attended: None }
    }

    /// Breaks if the client closes its side in order while it has a request under way.
    pub(super) fn attended(self, guest: &Rc<Guest>) -> Self {
        Self { attended: Some(Attended::new(guest)), ..self }
    }

    /// The counter of the bytes that were taken.
    pub(super) fn written(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.written)
    }

    fn took(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.written.set(self.written.get() + bytes as u64);
            self.pace.took(bytes as u64);
        }
        self.or_stalled(written, cx)
    }

    fn or_stalled<R>(&mut self, outcome: Poll<io::Result<R>>, cx: &mut Context<'_>) -> Poll<io::Result<R>> {
        if outcome.is_pending() && self.pace.poll_stalled(cx).is_ready() {
            let peer = self.address.map(tracing::field::display);
            tracing::info!(peer, "a connection is closed: its client does not take its answers");
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        outcome
    }
}

impl<T: AsyncRead + Unpin, D: Unpin> AsyncRead for Paced<T, D> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let io = Pin::new(&mut this.io);
        match &mut this.attended {
            Some(attended) => attended.poll_read(io, cx, buf),
            None => io.poll_read(cx, buf),
        }
    }
}

impl<T: AsyncWrite + Unpin, D: Unpin> AsyncWrite for Paced<T, D> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.io).poll_write(cx, buf);
        this.took(written, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.io).poll_write_vectored(cx, bufs);
        this.took(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.io).poll_flush(cx);
        if flushed.is_ready() {
            this.pace.rest();
        }
        this.or_stalled(flushed, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    /// Sends a megabyte to a client that takes some bytes after each rest.
    async fn sent_to(bytes: usize, rest: Duration) -> (io::Result<()>, Duration) {
        let (server, mut client) = duplex(4 << 10);
        let mut server = Paced::new(server, None, ());
        let began = Instant::now();
        let sending = async {
            let sent = server.write_all(&vec![0; 1 << 20]).await;
            drop(server);
            (sent, began.elapsed())
        };
        let reading = async {
            let mut buf = vec![0; bytes];
            while client.read(&mut buf).await.is_ok_and(|read| read > 0) {
                sleep(rest).await;
            }
        };
        let (sent, ()) = tokio::join!(sending, reading);
        sent
    }

    /// In virtual time.
    #[tokio::test(start_paused = true)]
    async fn a_client_has_to_keep_pace() {
        let (sent, _) = sent_to(4 << 10, Duration::from_secs(5)).await;
        assert!(sent.is_ok(), "16 KiB in 20 s");
        let (sent, after) = sent_to(1, Duration::from_secs(1)).await;
        assert_eq!(sent.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut), "a byte a second");
        assert!(after >= PACE && after < 2 * PACE, "{after:?}");
        let (sent, after) = sent_to(4 << 10, Duration::from_secs(500)).await;
        assert_eq!(sent.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
        assert!(after >= PACE && after < 2 * PACE, "{after:?}");
    }

    /// In virtual time.
    #[tokio::test(start_paused = true)]
    async fn a_connection_without_anything_to_send_lasts() {
        let (server, mut client) = duplex(64);
        let mut server = Paced::new(server, None, ());
        let mut buf = [0; 5];
        for _ in 0..3 {
            server.write_all(b"event").await.unwrap();
            server.flush().await.unwrap();
            client.read_exact(&mut buf).await.unwrap();
            sleep(20 * PACE).await;
        }
    }
}
