//! A client that has to stay for its answer.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::places::Guest;

/// The time that a request has left when its client has closed its side: a short answer still reaches one that reads on.
pub(super) const LEFT: Duration = Duration::from_secs(1);

/// Breaks a connection of HTTP/1.1 whose client closes its side in order while a request is under way, as net/http cancels that
/// request. actix-http takes such an end for one that concerns later requests only, and a watch would go on until it has something
/// to send.
pub(super) struct Attended {
    guest: Rc<Guest>,
    /// The client has closed its side.
    left: Option<Pin<Box<Sleep>>>,
}

impl Attended {
    pub(super) fn new(guest: &Rc<Guest>) -> Self {
        Self { guest: Rc::clone(guest), left: None }
    }

    /// Reads from the connection.
    pub(super) fn poll_read(
        &mut self,
        io: Pin<&mut impl AsyncRead>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left.is_none() {
            let before = buf.remaining();
            ready!(io.poll_read(cx, buf))?;
            if before == 0 || buf.remaining() < before {
                return Poll::Ready(Ok(()));
            }
        }
        if !self.guest.is_under_way() {
            return Poll::Ready(Ok(()));
        }
        let left = self.left.get_or_insert_with(|| Box::pin(sleep(LEFT)));
        left.as_mut().poll(cx).map(|()| Err(io::ErrorKind::ConnectionAborted.into()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::Instant;

    use super::super::paced::Paced;
    use super::super::places::Places;
    use super::*;

    /// In virtual time.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_closes_its_side_has_left_in_a_moment() {
        let place = Rc::new(Places::new(10)).enter();
        let (server, mut client) = duplex(64);
        let mut server = Paced::new(server, None, ()).attended(place.guest());
        client.write_all(b"asks").await.unwrap();
        let mut buf = [0; 8];
        assert_eq!(server.read(&mut buf).await.unwrap(), 4);
        let request = place.begin();
        client.shutdown().await.unwrap();
        let began = Instant::now();
        let read = server.read(&mut buf).await.map_err(|error| error.kind());
        assert_eq!((read, began.elapsed()), (Err(io::ErrorKind::ConnectionAborted), LEFT));
        // What was answered meanwhile ends as ever.
        drop(request);
        assert_eq!(server.read(&mut buf).await.unwrap(), 0);
    }
}
