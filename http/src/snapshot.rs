//! `GET /debug/snapshot`: everything that is stored, as of one revision, in the form of [`kindom_storage::snapshot`], for
//! members of system:masters.
//!
//! A snapshot that could not be finished lacks its end, so that its reader rejects it.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header;
use bytes::Bytes;
use futures::stream::poll_fn;
use futures::{Stream, StreamExt as _};
use kindom_api::GroupResource;
use kindom_api::user::{MASTERS, User};
use kindom_resource_actor::ReadError;
use kindom_storage::StorageError;
use kindom_storage::snapshot::{Cut, Holds, stream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use crate::RequestError;
use crate::authn::{Attributes, deny};
use crate::head::Head;
use crate::phase::Phase;
use crate::respond::start;
use crate::response::Response;
use crate::state::State;
use crate::status::Failure;

/// So many are sent at once; more are 429.
const AT_ONCE: usize = 2;
/// A client that takes nothing for so long is disconnected: the snapshot keeps history from compaction.
const STALLED: Duration = Duration::from_secs(60);
/// A client that has not got everything after so long is disconnected too, however steadily it reads.
const LASTS_MAX: Duration = Duration::from_secs(30 * 60);
/// The media type of a snapshot.
const MEDIA_TYPE: &str = "application/vnd.kindom.snapshot";

/// The content of snapshots, and the register of those being taken.
pub struct Snapshots {
    /// The prefixes of a snapshot's keys.
    pub prefixes: Vec<Bytes>,
    /// The register of running snapshots, which compaction asks.
    pub holds: Holds,
}

/// [`Snapshots`], and how many more may be sent now.
pub(crate) struct Sender {
    snapshots: Snapshots,
    permits: Arc<Semaphore>,
}

impl Sender {
    pub(crate) fn new(snapshots: Snapshots) -> Self {
        Self { snapshots, permits: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

pub(crate) async fn serve(
    state: &State,
    sender: Option<&Sender>,
    request: &Head,
    user: &User,
) -> Result<Response, Failure> {
    let method = request.method().as_str().to_ascii_lowercase();
    if !user.is_in(MASTERS) {
        let attributes = Attributes::Path { verb: &method, path: request.uri().path() };
        return Err(Failure::Denied(deny(user, &attributes)));
    }
    let Some(sender) = sender else { return Err(RequestError::NotFound.into()) };
    if method != "get" {
        let resource = GroupResource::default();
        return Err(RequestError::MethodNotSupported { resource, verb: "" }.into());
    }
    let failed = |error| Failure::Read(ReadError::Storage(error), GroupResource::default());
    let permit = Arc::clone(&sender.permits).try_acquire_owned();
    let permit = permit.map_err(|_| failed(StorageError::Busy))?;
    let Snapshots { prefixes, holds } = &sender.snapshots;
    let storage = Arc::clone(&state.registry.deps().storage);
    let cut = Cut::begin(storage, prefixes.clone(), Some(holds)).await.map_err(failed)?;
    let mut phase = state.phase.subscribe();
    let (chunks, mut body) = mpsc::channel(1);
    // A task of its own, so that a client that takes nothing is noticed.
    actix_web::rt::spawn(async move {
        let _permit = permit;
        tokio::select! {
            () = send(Box::pin(stream(cut)), &chunks) => {}
            _ = phase.wait_for(Phase::is_ending) => {}
        }
    });
    let mut builder = start(200);
    builder.insert_header((header::CONTENT_TYPE, MEDIA_TYPE));
    let chunks = poll_fn(move |cx| body.poll_recv(cx));
    Ok(builder.streaming(chunks.map(|chunk| chunk.map_err(std::io::Error::other))))
}

type Chunk = Result<Bytes, StorageError>;

/// Sends a snapshot through a channel, as long as its reader keeps up. When it returns, the snapshot is dropped, and holds
/// no history any more.
async fn send(snapshot: impl Stream<Item = Chunk> + Unpin, chunks: &mpsc::Sender<Chunk>) {
    match timeout(LASTS_MAX, send_all(snapshot, chunks)).await {
        Ok(()) => {}
        Err(_) => tracing::warn!(
            "a snapshot was given up: after {} minutes its reader has not got all of it",
            LASTS_MAX.as_secs() / 60
        ),
    }
}

async fn send_all(mut snapshot: impl Stream<Item = Chunk> + Unpin, chunks: &mpsc::Sender<Chunk>) {
    while let Some(chunk) = snapshot.next().await {
        if let Err(error) = &chunk {
            tracing::warn!(%error, "a snapshot could not be finished");
        }
        match timeout(STALLED, chunks.send(chunk)).await {
            Ok(Ok(())) => {}
            // Nobody reads any more.
            Ok(Err(_)) => return,
            Err(_) => {
                tracing::warn!("a snapshot was given up: its reader has stalled");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream::{iter, repeat};
    use kindom_storage::Revision;
    use tokio::time::{Instant, sleep};

    use super::*;

    /// A snapshot without an end, which holds history as long as it is sent.
    fn endless(holds: &Holds) -> impl Stream<Item = Chunk> + Unpin + use<> {
        let hold = holds.hold(Revision(5));
        repeat(()).map(move |()| {
            let _held = &hold;
            Ok(Bytes::from_static(b"chunk"))
        })
    }

    async fn sent_to_a_reader_that_rests(rest: Duration) -> Duration {
        let holds = Holds::default();
        let (chunks, mut body) = mpsc::channel(1);
        let begun = Instant::now();
        let snapshot = endless(&holds);
        assert_eq!(holds.allow(Revision(9)), Revision(5));
        let reading = async {
            while body.recv().await.is_some() {
                sleep(rest).await;
            }
        };
        let sending = async {
            send(snapshot, &chunks).await;
            let lasted = begun.elapsed();
            drop(chunks);
            lasted
        };
        let (lasted, ()) = tokio::join!(sending, reading);
        assert_eq!(holds.allow(Revision(9)), Revision(9), "history is held no more");
        lasted
    }

    /// In virtual time.
    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_holds_history_for_a_bounded_time() {
        // It never stalls, and never gets to the end.
        assert_eq!(sent_to_a_reader_that_rests(Duration::from_secs(50)).await, LASTS_MAX);
        assert!(sent_to_a_reader_that_rests(Duration::from_secs(500)).await < 3 * STALLED);
        // A reader in time is not disturbed.
        let (chunks, mut body) = mpsc::channel(1);
        let few = iter((0..9).map(|_| Ok(Bytes::new())));
        let (received, ()) = tokio::join!(
            async {
                let mut received = 0;
                while received < 9 && body.recv().await.is_some() {
                    received += 1;
                    sleep(Duration::from_secs(50)).await;
                }
                received
            },
            send(few, &chunks)
        );
        assert_eq!(received, 9);
    }
}
