//! The loop that gets the lease, keeps it, and informs the registry.

use bytes::Bytes;
use kindom_actor_kit::BoxError;
use kindom_storage::{Compare, Op, Revision, StorageError, Txn, TxnOutcome};
use tokio::time::{Instant, timeout};

use super::handle::Lease;
use super::{EXPIRES, LOOKS, RENEWS, STEP};

/// One incarnation. It finds out by itself if it leads.
pub(super) struct Keeper {
    lease: Lease,
    /// The revision of the lease that was found last, and since when.
    seen: Option<(Revision, Instant)>,
}

impl Keeper {
    pub(super) fn new(lease: Lease) -> Self {
        Self { lease, seen: None }
    }

    pub(super) async fn run(mut self) -> BoxError {
        let mut renewed = Instant::now();
        // An unreachable store is logged once.
        let mut is_logged = false;
        loop {
            let asked = Instant::now();
            let trouble = match timeout(STEP, self.step()).await {
                Ok(Ok(leads)) => {
                    renewed = asked;
                    self.lease.registry.lead(leads);
                    None
                }
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("it takes too long".to_owned()),
            };
            if let Some(why) = trouble.as_ref().filter(|_| !is_logged) {
                tracing::warn!(why, "the lease cannot be read");
            }
            is_logged = trouble.is_some();
            // Others may have it by now.
            if renewed.elapsed() >= EXPIRES {
                self.lease.registry.lead(false);
            }
            let pause = if self.lease.registry.is_leader() { RENEWS } else { LOOKS };
            self.lease.registry.deps().clock.sleep(pause).await;
        }
    }

    /// Renews the lease, or takes it if nobody holds it; says whether it is ours.
    async fn step(&mut self) -> Result<bool, StorageError> {
        let found = self.lease.storage().range(self.lease.request()).await?;
        let held = found.kvs.first();
        let at = held.map_or(Revision::ZERO, |kv| kv.mod_revision);
        let ours = held.is_some_and(|kv| self.lease.is_ours(kv));
        let since = match self.seen {
            Some((seen, since)) if seen == at => since,
            _ => Instant::now(),
        };
        self.seen = Some((at, since));
        if held.is_some() && !ours && since.elapsed() < EXPIRES {
            return Ok(false);
        }
        let value = Bytes::copy_from_slice(self.lease.identity.as_bytes());
        let compares = vec![Compare::mod_is(&self.lease.key, at)];
        let txn = Txn { compares, ops: vec![Op::Put(self.lease.key.clone(), value)] };
        let outcome = self.lease.storage().txn(txn).await?;
        Ok(matches!(outcome, TxnOutcome::Committed { .. }))
    }
}
