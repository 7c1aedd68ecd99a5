//! Clients that watch: what they get is the history, in order, whole, each event once.

use std::rc::Rc;
use std::time::Duration;

use futures::future::{Either, select};
use kindom_actor_kit::{Deadline, Entropy};
use kindom_resource_actor::WatchError;
use kindom_resource_actor::{Freshness, ResourceHandle, WatchCursor};
use kindom_storage::Revision;
use tokio::time::sleep;

use super::client::guarded;
use super::world::{Replica, World};

pub(super) struct Watcher {
    world: Rc<World>,
    seat: usize,
    registrations: bool,
    chance: Entropy,
}

impl Watcher {
    pub(super) fn new(world: &Rc<World>, seat: usize, registrations: bool, chance: Entropy) -> Self {
        Self { world: Rc::clone(world), seat, registrations, chance }
    }

    /// Watches, and lists and watches again whenever that ends.
    pub(super) async fn run(self) {
        let mut ended = self.world.ended.subscribe();
        loop {
            let replica = self.world.replica(self.seat);
            let watch = self.watch(&replica);
            let over = ended.wait_for(|ended| *ended);
            futures::pin_mut!(watch, over);
            if let Either::Left(_) = select(over, watch).await {
                return;
            }
            sleep(Duration::from_millis(1 + self.chance.below(500))).await;
        }
    }

    fn handle(&self, replica: &Replica) -> Option<ResourceHandle> {
        if self.registrations {
            return Some(replica.registrations.clone());
        }
        replica.some_type(&self.chance)
    }

    async fn watch(&self, replica: &Replica) {
        let Some(handle) = self.handle(replica) else { return };
        let truth = &self.world.truth;
        let asked = truth.revision();
        let deadline = Deadline::after(Duration::from_secs(10));
        let listed = guarded(&self.world, replica, handle.snapshot(Freshness::Latest, deadline)).await;
        let Some(Ok((snapshot, at))) = listed else { return };
        truth.demand(&replica.who, |judge| judge.listed(handle.prefix(), &snapshot, at, asked));
        let Ok(mut cursor) = handle.watch(at) else { return };
        let mut position = at;
        truth.note(&replica.who, format_args!("watches {} from r{at}", handle.prefix()));
        loop {
            let most = 1 + usize::try_from(self.chance.below(4)).unwrap();
            let Some(next) = guarded(&self.world, replica, cursor.next(most)).await else { return };
            match next {
                Ok(events) => {
                    for event in &events {
                        truth.demand(&replica.who, |judge| judge.delivered(handle.prefix(), position, event));
                        position = event.revision;
                    }
                    self.bookmark(replica, &handle, &mut cursor, &mut position);
                }
                Err(WatchError::Gone) => {
                    if let Some(end) = handle.ended() {
                        let last = Revision(end.0 - 1);
                        truth.demand(&replica.who, |judge| judge.complete(handle.prefix(), position, last));
                    }
                    return;
                }
                Err(WatchError::Expired { .. } | WatchError::Storage(_)) => return,
            }
            // A slow reader falls behind the log.
            if self.chance.below(8) == 0 {
                sleep(Duration::from_millis(self.chance.below(2000))).await;
            }
        }
    }

    fn bookmark(
        &self,
        replica: &Replica,
        handle: &ResourceHandle,
        cursor: &mut WatchCursor,
        at: &mut Revision,
    ) {
        if let Some(revision) = cursor.advance() {
            self.world.truth.demand(&replica.who, |judge| judge.complete(handle.prefix(), *at, revision));
            *at = revision.max(*at);
        }
    }
}
