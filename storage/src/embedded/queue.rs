//! The requests that wait for the writer, bounded in number and bytes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::clock::now;
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

/// When several callers write at once, a batch waits for as long as they keep coming: until nothing was queued for `PAUSE`,
/// but no longer than `LINGER`. A caller that just misses a batch waits for two syncs, and every sync costs CPU.
const PAUSE: Duration = Duration::from_micros(200);
const LINGER: Duration = Duration::from_millis(1);

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
        if inner.waiting || closes {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// Takes what waits, in order, up to so many requests and bytes but at least one; waits for one until `deadline`
    /// (`None`: for ever). With `company`, what follows within a moment is taken too.
    pub(super) fn take(
        &self,
        requests_max: usize,
        bytes_max: usize,
        deadline: Option<Instant>,
        company: bool,
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
        let patience = now() + LINGER;
        while company && !inner.closing && inner.requests.len() < requests_max && inner.bytes < bytes_max {
            let seen = inner.requests.len();
            // Only a close wakes it, as `waiting` is not set: a wake-up for each write would cost more than it brings.
            let pause = (now() + PAUSE).min(patience);
            let late = self.ready.wait_until(&mut inner, pause).timed_out();
            if late && (inner.requests.len() == seen || pause == patience) {
                break;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Op};

    fn txn(bytes: usize) -> Request {
        let ops = vec![Op::Delete(Key::from("k"))];
        Request::Txn { txn: Txn { compares: vec![], ops }, bytes, reply: oneshot::channel().0 }
    }

    #[test]
    fn it_is_bounded_in_number_and_in_bytes() {
        let limits = Limits { queue_txns_max: 3, queue_bytes_max: 100, ..Limits::default() };
        let queue = Queue::default();
        // One always fits.
        queue.push(txn(500), &limits).unwrap();
        assert_eq!(queue.push(txn(1), &limits), Err(StorageError::Busy));
        assert_eq!(queue.take(10, 10, None, false).len(), 1);
        for _ in 0..3 {
            queue.push(txn(10), &limits).unwrap();
        }
        assert_eq!(queue.push(txn(1), &limits), Err(StorageError::Busy));
        assert_eq!(queue.take(2, 100, None, false).len(), 2);
        queue.push(txn(10), &limits).unwrap();
        assert_eq!(queue.take(10, 15, None, false).len(), 1);
    }

    #[test]
    fn nothing_comes_after_the_close_which_always_fits() {
        let limits = Limits { queue_txns_max: 1, ..Limits::default() };
        let queue = Queue::default();
        queue.push(txn(1), &limits).unwrap();
        queue.push(Request::Close { reply: oneshot::channel().0 }, &limits).unwrap();
        assert!(matches!(queue.push(txn(1), &limits), Err(StorageError::Unavailable { .. })));
        assert!(matches!(queue.take(10, 10, None, false)[..], [Request::Txn { .. }, Request::Close { .. }]));
        assert!(queue.take(10, 10, Some(now()), false).is_empty());
    }

    #[test]
    fn in_company_a_batch_takes_what_follows() {
        let queue = Queue::default();
        let limits = Limits::default();
        queue.push(txn(1), &limits).unwrap();
        // Nobody comes: it does not wait for ever.
        assert_eq!(queue.take(10, 100, None, true).len(), 1);
        // Full: it does not wait at all; and a close is not kept waiting.
        queue.push(txn(1), &limits).unwrap();
        queue.push(txn(1), &limits).unwrap();
        assert_eq!(queue.take(2, 100, None, true).len(), 2);
        queue.push(Request::Close { reply: oneshot::channel().0 }, &limits).unwrap();
        assert!(matches!(queue.take(10, 100, None, true)[..], [Request::Close { .. }]));
    }
}
