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
        assert_eq!(queue.take(10, 10, None).len(), 1);
        for _ in 0..3 {
            queue.push(txn(10), &limits).unwrap();
        }
        assert_eq!(queue.push(txn(1), &limits), Err(StorageError::Busy));
        assert_eq!(queue.take(2, 100, None).len(), 2);
        queue.push(txn(10), &limits).unwrap();
        assert_eq!(queue.take(10, 15, None).len(), 1);
    }

    #[test]
    fn nothing_comes_after_the_close_which_always_fits() {
        let limits = Limits { queue_txns_max: 1, ..Limits::default() };
        let queue = Queue::default();
        queue.push(txn(1), &limits).unwrap();
        queue.push(Request::Close { reply: oneshot::channel().0 }, &limits).unwrap();
        assert!(matches!(queue.push(txn(1), &limits), Err(StorageError::Unavailable { .. })));
        assert!(matches!(queue.take(10, 10, None)[..], [Request::Txn { .. }, Request::Close { .. }]));
        assert!(queue.take(10, 10, Some(Instant::now())).is_empty());
    }
}
