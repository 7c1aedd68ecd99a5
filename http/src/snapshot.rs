//! `GET /debug/snapshot`: everything that is stored, as of one revision, in the form of [`kindom_storage::snapshot`], for
//! members of system:masters.
//!
//! What was sent of a snapshot that could not be finished lacks its end, which whoever reads it finds.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::poll_fn;
use kindom_api::GroupResource;
use kindom_resource_actor::ReadError;
use kindom_storage::StorageError;
use kindom_storage::snapshot::{Cut, Holds, stream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use crate::RequestError;
use crate::authn::{Attributes, MASTERS, User, deny};
use crate::respond::start;
use crate::server::Phase;
use crate::state::State;
use crate::status::Failure;

/// So many are sent at once; more are 429.
const AT_ONCE: usize = 2;
/// Who takes nothing for so long is given up: history is held back for it.
const STALLED: Duration = Duration::from_secs(60);
/// The media type of a snapshot.
const MEDIA_TYPE: &str = "application/vnd.kindom.snapshot";

/// What snapshots are of, and who hears of those that are being taken.
pub struct Snapshots {
    /// What the keys of a snapshot start with.
    pub prefixes: Vec<Bytes>,
    /// Whoever compacts the store asks them.
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
    request: &HttpRequest,
    user: &User,
) -> Result<HttpResponse, Failure> {
    let method = request.method().as_str().to_ascii_lowercase();
    if !user.is_in(MASTERS) {
        let attributes = Attributes::Path { verb: &method, path: request.uri().path() };
        return Err(Failure::Denied(deny(user, &attributes)));
    }
    let Some(sender) = &state.snapshots else { return Err(RequestError::NotFound.into()) };
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
        let mut snapshot = Box::pin(stream(cut));
        let send = async {
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
        };
        tokio::select! {
            () = send => {}
            _ = phase.wait_for(Phase::is_ending) => {}
        }
    });
    let mut builder = start(200);
    builder.insert_header((header::CONTENT_TYPE, MEDIA_TYPE));
    Ok(builder.streaming(poll_fn(move |cx| body.poll_recv(cx))))
}
