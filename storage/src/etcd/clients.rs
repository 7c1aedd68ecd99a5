//! The endpoints, and which of them requests go to.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tonic::Status;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::status::Trouble;
use super::wire::Rpc;
use crate::StorageError;

/// The longest that one try of a read may take: as long as an election of etcd usually does.
const READ_TRY: Duration = Duration::from_secs(2);
/// The time for which a read is tried again, on one endpoint after the other.
pub(super) const READ: Duration = Duration::from_secs(10);
/// The longest that a transaction may take. etcd itself gives up after 7 s; our giving up proves nothing about the outcome.
const WRITE: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_secs(2);
/// etcd ends connections that ping more often than every 5 s (`--grpc-keepalive-min-time`).
const PING_EVERY: Duration = Duration::from_secs(6);
const PING_PATIENCE: Duration = Duration::from_secs(2);
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// The bytes that may arrive before the reader asks for more, so that round trips do not hold up a large reply.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// The certificates by which servers with https URLs are trusted, and trust us. All in PEM.
#[derive(Debug, Clone, Default)]
pub struct EtcdTls {
    /// The authorities that the server's certificate must come from.
    pub authorities: Option<Vec<u8>>,
    /// Our certificate, intermediates after it, and its key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// One endpoint; it is connected when it is used.
pub(super) struct Member {
    pub(super) url: String,
    pub(super) rpc: Rpc,
}

/// All endpoints. One of them is current: requests go there until it fails.
pub(super) struct Clients {
    members: Vec<Member>,
    current: AtomicUsize,
    /// Raised when an endpoint is left.
    left: Notify,
}

impl Clients {
    /// Connects to none. Must be called on the runtime that is to do the work.
    pub(super) fn new(urls: &[String], tls: Option<&EtcdTls>) -> Result<Self, StorageError> {
        let mut members = Vec::new();
        for url in urls {
            let endpoint = endpoint(url, tls).map_err(|why| invalid(url, &why))?;
            let rpc = Rpc::new(endpoint.connect_lazy());
            members.push(Member { url: url.clone(), rpc });
        }
        if members.is_empty() {
            return Err(invalid("", &"no URL is given"));
        }
        Ok(Self { members, current: AtomicUsize::new(0), left: Notify::new() })
    }

    /// The number of endpoints; at least one.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn current(&self) -> usize {
        self.current.load(Ordering::Acquire) % self.members.len()
    }

    pub(super) fn member(&self, at: usize) -> Option<&Member> {
        self.members.get(at % self.members.len())
    }

    /// The current one has failed, if it is still `failed`.
    pub(super) fn leave(&self, failed: usize) {
        let next = (failed + 1) % self.members.len();
        let left = self.current.compare_exchange(failed, next, Ordering::AcqRel, Ordering::Acquire);
        if left.is_ok()
            && next != failed
            && let (Some(from), Some(to)) = (self.member(failed), self.member(next))
        {
            tracing::info!(from = from.url, to = to.url, "etcd: another endpoint");
            self.left.notify_one();
        }
    }

    /// Waits until requests have left an endpoint.
    pub(super) async fn left(&self) {
        self.left.notified().await;
    }

    /// Reads, on one endpoint after the other until one answers or none has for long.
    pub(super) async fn read<T, F>(&self, call: impl Fn(Rpc) -> F + Send) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, Status>> + Send,
    {
        self.read_within(READ, call).await
    }

    /// Reads, at least once, until `limit` has passed.
    pub(super) async fn read_within<T, F>(
        &self,
        limit: Duration,
        call: impl Fn(Rpc) -> F + Send,
    ) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, Status>> + Send,
    {
        let until = Instant::now() + limit;
        let mut pause = PAUSE_MIN;
        let (mut tries, mut untrusted) = (0_usize, None);
        loop {
            // One that is only slow may be given its time in the next round.
            let round = u32::try_from(tries / self.members.len()).unwrap_or(u32::MAX);
            let limit = READ_TRY.saturating_mul(round.saturating_add(1)).min(READ);
            let (at, answer) = self.call(limit, &call).await;
            let trouble = match answer {
                Ok(found) => return Ok(found),
                Err(trouble) if !trouble.is_passing() => return Err(trouble),
                Err(trouble) => trouble,
            };
            if matches!(trouble, Trouble::Untrusted(_)) {
                // Later ones may only say that the connection is closed.
                untrusted = Some(trouble.clone());
            }
            tries += 1;
            if trouble != Trouble::Busy {
                self.leave(at);
            }
            if Instant::now() + pause >= until {
                return Err(untrusted.unwrap_or(trouble));
            }
            // Other endpoints may be healthy: at first each is tried at once.
            if tries >= self.members.len() {
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }

    /// Writes. It is tried again elsewhere only where it certainly was not done.
    pub(super) async fn write<T, F>(&self, call: impl Fn(Rpc) -> F + Send) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, Status>> + Send,
    {
        let mut tries = 0;
        loop {
            let (at, answer) = self.call(WRITE, &call).await;
            let trouble = match answer {
                Ok(done) => return Ok(done),
                Err(trouble) => trouble,
            };
            tries += 1;
            if matches!(trouble, Trouble::NotDone(_) | Trouble::Untrusted(_) | Trouble::Lost(_)) {
                self.leave(at);
            }
            if !matches!(trouble, Trouble::NotDone(_)) || tries >= self.members.len() {
                return Err(trouble);
            }
        }
    }

    async fn call<T, F>(
        &self,
        limit: Duration,
        call: &(impl Fn(Rpc) -> F + Send),
    ) -> (usize, Result<T, Trouble>)
    where
        F: Future<Output = Result<T, Status>> + Send,
    {
        let at = self.current();
        let Some(member) = self.member(at) else { return (at, Err(Trouble::timed_out())) };
        let answer = match timeout(limit, call(member.rpc.clone())).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Trouble::timed_out()),
        };
        (at, answer)
    }
}

fn endpoint(url: &str, tls: Option<&EtcdTls>) -> Result<Endpoint, Box<dyn std::error::Error + Send + Sync>> {
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err("it starts with neither http:// nor https://".into());
    }
    let mut endpoint = Endpoint::from_shared(url.to_owned())?
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_PATIENCE)
        .keep_alive_while_idle(false)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    if url.starts_with("https://") {
        let tls = tls.cloned().unwrap_or_default();
        let mut config = ClientTlsConfig::new();
        if let Some(authorities) = tls.authorities {
            // It would be taken, and trust nobody.
            if !authorities.windows(BEGIN.len()).any(|window| window == BEGIN) {
                return Err("the authorities hold no certificate in PEM".into());
            }
            config = config.ca_certificate(Certificate::from_pem(authorities));
        }
        if let Some((chain, key)) = tls.identity {
            config = config.identity(Identity::from_pem(chain, key));
        }
        endpoint = endpoint.tls_config(config)?;
    }
    Ok(endpoint)
}

fn invalid(url: &str, why: &dyn std::fmt::Display) -> StorageError {
    StorageError::Corrupt(format!("etcd server {url:?}: {why}"))
}
