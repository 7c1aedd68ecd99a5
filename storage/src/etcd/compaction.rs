//! Compaction, agreed on with every other replica, and with any kube-apiserver on the same cluster.
//!
//! The key `compact_rev_key` counts the rounds by its version. The replica that raises it from the version that it saw last
//! has the round, and compacts to the revision that it saw an interval ago; the others see that they were late, and wait for
//! another interval. So history is kept for one to two intervals (apiserver `pkg/storage/etcd3/compact.go`, `compactor`;
//! 1.37).

use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use super::Core;
use super::status::Trouble;
use super::wire::{Compare, CompareOp, Operation, RangeRequest, Rpc, Target, TxnRequest, TxnResponse};
use crate::{Revision, StorageError};

/// Beside all prefixes, so that all that use the cluster share it.
const KEY: Bytes = Bytes::from_static(b"compact_rev_key");

/// The state of the rounds that one replica knows.
#[derive(Debug, Default)]
struct Rounds {
    version: i64,
    /// The revision of the last round, which is compacted in the next.
    seen: Revision,
}

/// Takes part in the rounds for ever.
pub(super) async fn keep(core: Weak<Core>, every: Duration) {
    let mut rounds = Rounds::default();
    // An unreachable cluster is logged once.
    let mut is_logged = false;
    loop {
        sleep(every).await;
        let Some(core) = core.upgrade() else { return };
        if core.hub.check_open().is_err() {
            return;
        }
        let failed = core.round(&mut rounds).await.err();
        if let Some(error) = failed.as_ref().filter(|_| !is_logged) {
            tracing::warn!(%error, "etcd: history is not compacted");
        }
        is_logged = failed.is_some();
    }
}

impl Core {
    async fn round(self: &std::sync::Arc<Self>, rounds: &mut Rounds) -> Result<(), StorageError> {
        let request = rounds.request();
        let call = |rpc: Rpc| {
            let request = request.clone();
            async move { rpc.txn(request).await }
        };
        let answer = self.clients.write(call).await.map_err(|trouble: Trouble| trouble.into_error(false))?;
        match rounds.after(&answer) {
            Round::Ours(to) => self.compact(to).await,
            Round::Theirs(to) => {
                self.has_compacted(to);
                Ok(())
            }
        }
    }
}

/// The owner of a round.
#[derive(Debug, PartialEq, Eq)]
enum Round {
    /// To be compacted by us; 0 in the first round.
    Ours(Revision),
    /// Compacted by another process, to the revision that it wrote, if any.
    Theirs(Revision),
}

impl Rounds {
    fn request(&self) -> TxnRequest {
        let target = Target::Version(self.version);
        let compare = Compare { result: CompareOp::Equal, target, key: KEY, range_end: Bytes::new() };
        let raise = Operation::Put(KEY, self.seen.to_string().into());
        let look = RangeRequest { key: KEY, ..RangeRequest::default() };
        TxnRequest { compare: vec![compare], success: vec![raise], failure: vec![look] }
    }

    fn after(&mut self, answer: &TxnResponse) -> Round {
        let due = std::mem::replace(&mut self.seen, answer.revision);
        if answer.succeeded {
            self.version += 1;
            return Round::Ours(due);
        }
        let found = answer.read.first().and_then(|range| range.kvs.first());
        self.version = found.map_or(0, |kv| kv.version);
        let text = found.and_then(|kv| std::str::from_utf8(&kv.value).ok());
        Round::Theirs(Revision(text.and_then(|text| text.parse().ok()).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{KeyValue, RangeResponse};
    use super::*;

    /// The key as etcd has it.
    #[derive(Default)]
    struct Key {
        version: i64,
        value: Bytes,
    }

    impl Key {
        fn round(&mut self, rounds: &mut Rounds, now: u64) -> Round {
            let (request, revision) = (rounds.request(), Revision(now));
            let succeeded = request.compare[0].target == Target::Version(self.version);
            let mut answer = TxnResponse { cluster: 0, revision, succeeded, read: Vec::new() };
            if succeeded {
                let Operation::Put(_, value) = &request.success[0] else { panic!("no put") };
                *self = Self { version: self.version + 1, value: value.clone() };
            } else {
                let kv = KeyValue {
                    key: KEY.to_vec(),
                    create_revision: revision,
                    mod_revision: revision,
                    version: self.version,
                    value: self.value.to_vec(),
                };
                answer.read.push(RangeResponse {
                    revision,
                    kvs: vec![kv],
                    more: false,
                    count: 1,
                    cluster: 0,
                });
            }
            rounds.after(&answer)
        }
    }

    #[test]
    fn one_compacts_to_what_it_saw_an_interval_ago() {
        let (mut key, mut a, mut b) = (Key::default(), Rounds::default(), Rounds::default());
        assert_eq!(key.round(&mut a, 10), Round::Ours(Revision(0)));
        assert_eq!(key.round(&mut b, 12), Round::Theirs(Revision(0)));
        assert_eq!(key.round(&mut a, 20), Round::Ours(Revision(10)));
        assert_eq!(key.round(&mut b, 22), Round::Theirs(Revision(10)));
        // The first is gone: the second takes over, an interval later.
        assert_eq!(key.round(&mut b, 32), Round::Ours(Revision(22)));
        assert_eq!(key.round(&mut a, 33), Round::Theirs(Revision(22)));
    }
}
