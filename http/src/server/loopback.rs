//! Connections from within the process, for programs that a server is a part of. They need no port and no TLS, and nobody else can
//! open one, so they need no credentials: their requests are the server's own (apiserver `pkg/server/config_selfclient.go`).

use std::io;
use std::os::unix::net::UnixStream as Socket;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix_web::rt::net::UnixStream;
use parking_lot::Mutex;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most connections of the process itself. Each has two descriptors.
const CONNECTIONS_MAX: usize = 1024;

/// Opens connections to a [`Running`](super::Running) server from within its process; on them it speaks HTTP/1.1 in the clear, with
/// the user `system:apiserver`, who may do everything. Cheap to clone, and usable from any thread.
#[derive(Clone, Debug)]
pub struct Loopback(Arc<Workers>);

#[derive(Debug)]
struct Workers {
    senders: Vec<UnboundedSender<Opened>>,
    next: AtomicUsize,
    places: Arc<Semaphore>,
}

/// The server's end of a connection, with its place among them.
#[derive(Debug)]
pub(super) struct Opened {
    socket: Socket,
    place: OwnedSemaphorePermit,
}

/// The connections of each worker, until it takes them.
pub(super) type Receivers = Arc<Mutex<Vec<UnboundedReceiver<Opened>>>>;

impl Loopback {
    pub(super) fn new(workers: usize) -> (Self, Receivers) {
        let (senders, receivers) = (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let workers = Workers { senders, next: AtomicUsize::new(0), places };
        (Self(Arc::new(workers)), Arc::new(Mutex::new(receivers)))
    }

    /// Opens a connection, which belongs to the runtime that calls this. Waits while there are as many as there may be.
    ///
    /// # Errors
    /// The server ends, or the process has no descriptors left.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O.
    pub async fn connect(&self) -> io::Result<UnixStream> {
        let refused = || io::Error::new(io::ErrorKind::ConnectionRefused, "the server ends");
        let Workers { senders, next, places } = &*self.0;
        let place = Arc::clone(places).acquire_owned().await.map_err(|_| refused())?;
        let (ours, theirs) = Socket::pair()?;
        for end in [&ours, &theirs] {
            end.set_nonblocking(true)?;
        }
        let mut opened = Opened { socket: theirs, place };
        let first = next.fetch_add(1, Ordering::Relaxed) % senders.len().max(1);
        // A worker that has ended takes none.
        for worker in senders.iter().skip(first).chain(senders.iter().take(first)) {
            match worker.send(opened) {
                Ok(()) => return UnixStream::from_std(ours),
                Err(back) => opened = back.0,
            }
        }
        Err(refused())
    }
}

/// The connections that come to one worker. Dropped, they come to its successor.
pub(super) struct Taken {
    receivers: Receivers,
    receiver: Option<UnboundedReceiver<Opened>>,
}

impl Taken {
    /// None if each worker has its own.
    pub(super) fn of(receivers: &Receivers) -> Option<Self> {
        let receiver = receivers.lock().pop()?;
        Some(Self { receivers: Arc::clone(receivers), receiver: Some(receiver) })
    }

    pub(super) async fn next(&mut self) -> Option<Opened> {
        self.receiver.as_mut()?.recv().await
    }

    /// There will be no successor.
    pub(super) fn close(mut self) {
        self.receiver = None;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.receivers.lock().extend(self.receiver.take());
    }
}

impl Opened {
    /// The connection, for the runtime that calls this, and its place, which is free once that is dropped.
    pub(super) fn into_parts(self) -> io::Result<(UnixStream, OwnedSemaphorePermit)> {
        Ok((UnixStream::from_std(self.socket)?, self.place))
    }
}
