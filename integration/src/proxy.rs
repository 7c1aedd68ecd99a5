//! A TCP proxy on loopback whose network can be taken away.
//!
//! # Examples
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use kindom_integration::Proxy;
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//!
//! let there = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
//! let proxy = Proxy::start(&[there.local_addr().unwrap()]).await.unwrap();
//! let mut near = tokio::net::TcpStream::connect(proxy.address()).await.unwrap();
//! let (mut far, _) = there.accept().await.unwrap();
//! near.write_all(b"hello").await.unwrap();
//! let mut heard = [0; 5];
//! far.read_exact(&mut heard).await.unwrap();
//!
//! proxy.cut();
//! assert_eq!(far.read(&mut heard).await.unwrap_or_default(), 0, "an end or a reset");
//! # });
//! ```

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::HarnessError;

const CHUNK_BYTES: usize = 64 << 10;

/// The present state of the network.
#[derive(Debug, Clone, Default)]
struct Weather {
    /// The targets of new connections, in turn.
    targets: Vec<SocketAddr>,
    /// Connections of an earlier age are gone.
    age: u64,
    /// No byte passes, and no connection ends.
    stalled: bool,
    /// New connections are closed at once.
    refusing: bool,
}

/// A proxy of TCP connections. Dropping it closes them all.
///
/// Its work is done by tasks of the runtime that it was started on.
pub struct Proxy {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    accepting: AbortHandle,
}

impl Proxy {
    /// Listens on a free loopback port. New connections go to each target in turn, past those that refuse.
    ///
    /// # Errors
    /// No port.
    pub async fn start(targets: &[SocketAddr]) -> Result<Self, HarnessError> {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), targets).await
    }

    /// The same at an address of one's choice.
    ///
    /// # Errors
    /// The address is taken.
    pub async fn start_at(address: SocketAddr, targets: &[SocketAddr]) -> Result<Self, HarnessError> {
        let listener =
            TcpListener::bind(address).await.map_err(HarnessError::io(format!("listening on {address}")))?;
        let address = listener.local_addr().map_err(HarnessError::io("the proxy's address"))?;
        let (weather, _) = watch::channel(Weather { targets: targets.to_vec(), ..Weather::default() });
        let accepting = tokio::spawn(accept(listener, weather.subscribe())).abort_handle();
        Ok(Self { address, weather, accepting })
    }

    /// The address of the proxy.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends new connections elsewhere. Existing ones stay, until they are [cut](Proxy::cut).
    pub fn aim(&self, targets: &[SocketAddr]) {
        self.weather.send_modify(|w| w.targets = targets.to_vec());
    }

    /// Ends all connections; new ones are welcome.
    pub fn cut(&self) {
        self.weather.send_modify(|w| w.age += 1);
    }

    /// Ends all connections and every new one at once, until it [goes on](Proxy::go_on).
    pub fn refuse(&self) {
        self.weather.send_modify(|w| {
            w.age += 1;
            w.refusing = true;
        });
    }

    /// Passes no more bytes and ends no connection: new connections are accepted and stay silent, until it [goes
    /// on](Proxy::go_on). Bytes under way arrive then.
    pub fn stall(&self) {
        self.weather.send_modify(|w| w.stalled = true);
    }

    /// Ends what [`Proxy::stall`] and [`Proxy::refuse`] began.
    pub fn go_on(&self) {
        self.weather.send_modify(|w| {
            w.stalled = false;
            w.refusing = false;
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, weather: watch::Receiver<Weather>) {
    // Its end ends the connections.
    let mut connections = JoinSet::new();
    let next = AtomicUsize::new(0);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        // One that is gone before it was accepted is no reason to stop.
        let Ok((near, _)) = accepted else { continue };
        let first = next.fetch_add(1, Ordering::Relaxed);
        connections.spawn(carry(near, first, weather.clone()));
    }
}

/// Carries bytes between a client and a target until one of them, or the weather, ends it.
async fn carry(near: TcpStream, first: usize, mut weather: watch::Receiver<Weather>) {
    let age = weather.borrow().age;
    let mut until_cut = weather.clone();
    let work = async move {
        let passing = weather.wait_for(|w| !w.stalled).await.ok()?.clone();
        if passing.refusing {
            return None;
        }
        let count = passing.targets.len();
        let mut far = None;
        for turn in 0..count {
            let target = *passing.targets.get((first + turn) % count)?;
            if let Ok(stream) = TcpStream::connect(target).await {
                far = Some(stream);
                break;
            }
        }
        let far = far?;
        let _ = (near.set_nodelay(true), far.set_nodelay(true));
        let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
        tokio::join!(pass(from_near, to_far, weather.clone()), pass(from_far, to_near, weather));
        Some(())
    };
    tokio::select! {
        _ = work => {}
        _ = until_cut.wait_for(|w| w.age != age) => {}
    }
}

/// Passes one direction on. Its end is passed on too, while the other side may still send.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut weather: watch::Receiver<Weather>) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(n @ 1..) = from.read(&mut chunk).await {
        if weather.wait_for(|w| !w.stalled).await.is_err() {
            return;
        }
        let Some(bytes) = chunk.get(..n) else { return };
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
    // The end does not pass a stalled network either.
    if weather.wait_for(|w| !w.stalled).await.is_ok() {
        let _ = to.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// A server that sends its name to each client, and echoes after that.
    async fn echo(name: u8) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let _ = stream.write_all(&[name]).await;
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    async fn connect(proxy: &Proxy) -> (TcpStream, u8) {
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        let name = stream.read_u8().await.unwrap();
        (stream, name)
    }

    #[tokio::test]
    async fn it_is_moved_and_cut() {
        let (a, b) = (echo(b'a').await, echo(b'b').await);
        let proxy = Proxy::start(&[a]).await.unwrap();
        let (mut first, name) = connect(&proxy).await;
        assert_eq!(name, b'a');
        proxy.aim(&[b]);
        assert_eq!(connect(&proxy).await.1, b'b');
        first.write_u8(7).await.unwrap();
        assert_eq!(first.read_u8().await.unwrap(), 7, "it stays where it is");
        proxy.cut();
        assert!(first.read_u8().await.is_err());
        assert_eq!(connect(&proxy).await.1, b'b');
    }

    #[tokio::test]
    async fn targets_take_turns_and_the_dead_are_passed_over() {
        let (a, b) = (echo(b'a').await, echo(b'b').await);
        let dead = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let proxy = Proxy::start(&[a, b, dead]).await.unwrap();
        let mut names = Vec::new();
        for _ in 0..4 {
            names.push(connect(&proxy).await.1);
        }
        assert_eq!(names, b"abaa", "the third turn is the dead one's, and passes to the first");
    }

    #[tokio::test]
    async fn a_stalled_one_passes_nothing_and_loses_nothing() {
        let proxy = Proxy::start(&[echo(b'a').await]).await.unwrap();
        let (mut stream, _) = connect(&proxy).await;
        proxy.stall();
        stream.write_u8(7).await.unwrap();
        let mut late = TcpStream::connect(proxy.address()).await.unwrap();
        // Nothing is ready, however often everybody else had a turn.
        for _ in 0..100 {
            tokio::task::yield_now().await;
            let mut nothing = [0];
            assert!(stream.try_read(&mut nothing).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock));
        }
        proxy.go_on();
        assert_eq!(stream.read_u8().await.unwrap(), 7);
        assert_eq!(late.read_u8().await.unwrap(), b'a');
    }

    #[tokio::test]
    async fn a_stalled_one_can_be_cut_and_one_that_refuses_goes_on() {
        let proxy = Proxy::start(&[echo(b'a').await]).await.unwrap();
        let (mut stream, _) = connect(&proxy).await;
        proxy.stall();
        proxy.refuse();
        assert!(stream.read_u8().await.is_err());
        proxy.go_on();
        proxy.refuse();
        let mut refused = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(refused.read_u8().await.is_err());
        proxy.go_on();
        assert_eq!(connect(&proxy).await.1, b'a');
    }
}
