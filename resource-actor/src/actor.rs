//! The actor of one type: folds the type's commits into snapshot and log, and admits its writes.

use std::sync::Arc;

use actix::{Actor, AsyncContext as _, Context, Handler, Message, StreamHandler};
use futures::future::join;
use kindom_actor_kit::{BoxError, Company, Incarnation};
use kindom_storage::{Change, KeyRange, Revision, Storage, StorageError, Watch};

use crate::feed::{Batch, Batches};
use crate::limits::{FOLD_BYTES_PER_TURN_MAX, FOLD_PER_TURN_MAX};
use crate::live::Live;
use tracing::Instrument as _;

use crate::messages::{Admitted, CommitObject};
use crate::{ObjectEvent, Pages, Snapshot};
use kindom_objects::{StoredObject, Strategy};

/// One incarnation. Beyond `live` it only knows the source of its state.
pub(crate) struct ResourceActor {
    storage: Arc<dyn Storage>,
    live: Arc<Live>,
    prefix: Arc<str>,
    strategy: Arc<dyn Strategy>,
    commits: Option<Batches>,
    incarnation: Incarnation,
}

impl ResourceActor {
    /// Loads the type from storage and watches what follows.
    pub(crate) async fn load(
        storage: Arc<dyn Storage>,
        live: Arc<Live>,
        prefix: Arc<str>,
        strategy: Arc<dyn Strategy>,
        incarnation: Incarnation,
    ) -> Result<Self, BoxError> {
        let mut pages = Pages::as_of_first(&prefix);
        let mut objects = Vec::new();
        let mut at = Revision::ZERO;
        let mut next = pages.next(&*storage).await?;
        while let Some(page) = next {
            at = page.revision;
            let parse = async {
                objects.extend(page.kvs.into_iter().filter_map(|kv| {
                    let key = suffix(&prefix, kv.key.as_bytes())?;
                    Some(Arc::new(StoredObject::read(key, kv.value, kv.mod_revision, |bytes| {
                        strategy.translate(bytes)
                    })))
                }));
                // Others on this thread have their turn between two pages.
                tokio::task::yield_now().await;
            };
            // The store reads the next page meanwhile.
            let (read, ()) = join(pages.next(&*storage), parse).await;
            next = read?;
        }
        let snapshot = Snapshot::from_sorted(objects, at);
        let Watch { commits, progress } =
            storage.watch(KeyRange::prefix(prefix.as_bytes()), Some(at.next())).await?;
        let feed = Arc::clone(&live.feed);
        let commits = Batches::new(feed, commits, FOLD_PER_TURN_MAX, FOLD_BYTES_PER_TURN_MAX);
        live.install(snapshot, progress);
        Ok(Self { storage, live, prefix, strategy, commits: Some(commits), incarnation })
    }

    fn fold(&self, commits: &Batch) -> Result<(), StorageError> {
        let mut snapshot = Snapshot::clone(&self.live.snapshot());
        let mut events = Vec::with_capacity(commits.len());
        let mut end = Ok(());
        for commit in commits {
            let commit = match commit {
                Ok(commit) => commit,
                Err(error) => {
                    end = Err(error.clone());
                    break;
                }
            };
            for event in &commit.events {
                let Some(key) = suffix(&self.prefix, event.key.as_bytes()) else { continue };
                let (object, previous) = match &event.change {
                    Change::Put { value, .. } => {
                        let (value, revision) = (value.clone(), commit.revision);
                        let object = Arc::new(StoredObject::read(key, value, revision, |bytes| {
                            self.strategy.translate(bytes)
                        }));
                        (Some(Arc::clone(&object)), snapshot.put(object))
                    }
                    Change::Delete => (None, snapshot.remove(key)),
                };
                events.push(Arc::new(ObjectEvent { revision: commit.revision, object, previous }));
            }
            snapshot.advance(commit.revision);
        }
        // The log first: who sees the snapshot's revision finds its events.
        self.live.log.append(events);
        self.live.publish(snapshot);
        end
    }
}

/// The part of a key behind the type's prefix. A key that is no text is no object.
fn suffix<'a>(prefix: &str, key: &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(key.strip_prefix(prefix.as_bytes())?).ok()
}

impl Actor for ResourceActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if let Some(commits) = self.commits.take() {
            ctx.add_stream(commits);
        }
    }
}

impl StreamHandler<Batch> for ResourceActor {
    fn handle(&mut self, commits: Batch, _: &mut Self::Context) {
        if let Err(error) = self.fold(&commits) {
            self.incarnation.reload(format!("the commit stream of {} ended: {error}", self.prefix));
        }
    }

    fn finished(&mut self, _: &mut Self::Context) {
        self.incarnation.reload(format!("the commit stream of {} ended", self.prefix));
    }
}

impl Message for CommitObject {
    type Result = ();
}

impl Handler<CommitObject> for ResourceActor {
    type Result = ();

    fn handle(&mut self, CommitObject { txn, span, reply }: CommitObject, _: &mut Self::Context) {
        span.in_scope(|| tracing::trace!("admit the commit"));
        let storage = Arc::clone(&self.storage);
        let admitted = Admitted::new(reply);
        // Detached: an admitted commit outlives its client and its actor.
        let company = Company::join();
        let commit = async move {
            let _company = company;
            admitted.answer(storage.txn(txn).await);
        };
        actix::spawn(commit.instrument(span));
    }
}
