//! The audit log of a server, and the record of a request on its way.

use std::sync::Arc;

use kindom_audit::{AuditLog, Level, Policy, Record};
use kindom_resource_actor::AuditTrail;

/// The audit log of a server, and its policy.
pub struct Auditing {
    /// Says how much of a request is recorded.
    pub policy: Policy,
    /// Takes the events.
    pub log: Arc<AuditLog>,
}

/// The record of a request, and the stages that its answer has.
#[derive(Debug)]
pub(crate) struct Audit {
    pub(crate) record: Arc<Record>,
    pub(crate) course: Course,
}

/// The record of a request, as its writes see it.
pub(crate) struct Trail(pub(crate) Arc<Record>);

impl AuditTrail for Trail {
    fn annotate(&self, key: &str, value: &str) {
        self.0.annotate(key, value);
    }

    fn takes_patches(&self) -> bool {
        self.0.level() >= Level::Request
    }
}

/// The course of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// Its answer ends.
    Ends,
    /// Its answer may have no end, and begins with a stage of its own.
    MayNotEnd,
    /// No credentials hold: it has one stage.
    Unauthenticated,
}
