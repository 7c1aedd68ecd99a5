//! What waits for the writer, bounded in number and bytes.

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::{Limits, Revision, StorageError, Txn, TxnOutcome};

pub(super) type Reply<T> = oneshot::Sender<Result<T, StorageError>>;

pub(super) enum Request {
    Txn {
        txn: Txn,
        bytes: usize,
        reply: Reply<TxnOutcome>,
    },
    Compact {
        revision: Revision,
        reply: Reply<()>,
    },
    /// The last one; nothing comes after it.
    Close {
        reply: Reply<()>,
    },
}

impl Request {
    fn bytes(&self) -> usize {
        match self {
            Self::Txn { bytes, .. } => *bytes,
            Self::Compact { .. } | Self::Close { .. } => 0,
        }
    }
}

#[derive(Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    ready: Condvar,
}

#[derive(Default)]
struct Inner {
    requests: VecDeque<Request>,
    bytes: usize,
    closing: bool,
    waiting: bool,
}

impl Queue {
    /// Queues a request.
    pub(super) fn push(&self, request: Request, limits: &Limits) -> Result<(), StorageError> {
        let mut inner = self.inner.lock();
        if inner.closing {
            return Err(StorageError::closed());
        }
        let closes = matches!(request, Request::Close { .. });
        let full = inner.requests.len() >= limits.queue_txns_max
            || (inner.bytes > 0 && inner.bytes + request.bytes() > limits.queue_bytes_max);
        if full && !closes {
            return Err(StorageError::Busy);
        }
        inner.closing = closes;
        inner.bytes += request.bytes();
        inner.requests.push_back(request);
        if inner.waiting {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// Takes what waits, in order, up to so many requests and bytes but at least one; waits for one until `deadline`
    /// (`None`: for ever).
    pub(super) fn take(
        &self,
        requests_max: usize,
        bytes_max: usize,
        deadline: Option<Instant>,
    ) -> Vec<Request> {
        let mut inner = self.inner.lock();
        while inner.requests.is_empty() {
            inner.waiting = true;
            let late = match deadline {
                Some(deadline) => self.ready.wait_until(&mut inner, deadline).timed_out(),
                None => {
                    self.ready.wait(&mut inner);
                    false
                }
            };
            inner.waiting = false;
            if late && inner.requests.is_empty() {
                return Vec::new();
            }
        }
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(request) = inner.requests.front()
            && taken.len() < requests_max
            && (taken.is_empty() || bytes + request.bytes() <= bytes_max)
        {
            bytes += request.bytes();
            taken.extend(inner.requests.pop_front());
        }
        inner.bytes -= bytes;
        taken
    }
}
