//! The requests in flight, as kube-apiserver bounds them (apiserver `pkg/server/filters/maxinflight.go`, 1.37).
//!
//! Watches do not count. Members of system:masters, probes and metrics are let through, however many there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kindom_api::user::{MASTERS, User};

use crate::request_info::{RequestInfo, Verb};
use crate::status::Failure;

/// The bounds; 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlightMax {
    /// Of requests that change nothing (`--max-requests-inflight`).
    pub reading: usize,
    /// Of all others (`--max-mutating-requests-inflight`).
    pub mutating: usize,
}

/// Two lanes of requests.
pub(crate) struct InFlight {
    reading: Arc<Lane>,
    mutating: Arc<Lane>,
}

struct Lane {
    most: usize,
    now: AtomicUsize,
}

/// A request that is in flight until this is dropped.
pub(crate) struct Permit(Arc<Lane>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

impl InFlight {
    pub(crate) fn new(most: InFlightMax) -> Self {
        let lane = |most| Arc::new(Lane { most, now: AtomicUsize::new(0) });
        Self { reading: lane(most.reading), mutating: lane(most.mutating) }
    }

    /// Counts a request; `None` for one that does not count.
    ///
    /// # Errors
    /// [`Failure::InFlight`] if its lane is full.
    pub(crate) fn enter(
        &self,
        user: &User,
        info: &RequestInfo,
        method: &str,
    ) -> Result<Option<Permit>, Failure> {
        let reads = match info {
            RequestInfo::Resource(info) if info.verb == Verb::Watch => return Ok(None),
            RequestInfo::Resource(info) => matches!(info.verb, Verb::Get | Verb::List),
            RequestInfo::Path(_) if info.is_probe() => return Ok(None),
            RequestInfo::Path(_) => matches!(method, "GET" | "HEAD"),
        };
        if user.is_in(MASTERS) {
            return Ok(None);
        }
        let lane = if reads { &self.reading } else { &self.mutating };
        if lane.most == 0 {
            return Ok(None);
        }
        let entered = lane
            .now
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| (now < lane.most).then_some(now + 1));
        match entered {
            Ok(_) => Ok(Some(Permit(Arc::clone(lane)))),
            Err(_) => Err(Failure::InFlight),
        }
    }
}
