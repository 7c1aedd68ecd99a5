//! The holders of names, and the served types.
//!
//! **Owns** the claims on names, the routes, the types' handles, and the choice of the leading replica.
//!
//! **Messages:** `JudgeNames` from the conflict actor; `ListTerminating` and `ListRegistered` from the finalizer actor,
//! `ListOutdated` from the storage version actor.
//! Upward there are only wake-ups ([`RegistryHandle::changes`]).
//!
//! # Invariants
//! - Claims and routes are a fold of the commit stream of registrations; the registry writes nothing. (The leader actor
//!   writes its lease, on which nothing depends.)
//! - A name has at most one holder (T-12, T-13, T-20): a verdict carries the revision up to which claims were folded, and
//!   is written only if no claim of the group was accepted since (`conflict-actor`).
//! - Handles outlive the registry's incarnations, so that watches do; a successor checks each against the store.
//!
//! # Sources
//! apiextensions `pkg/controller/status`, `pkg/registry/customresourcedefinition` (1.37), for behaviour.

mod actor;
pub mod claims;
mod handle;
mod leader;
mod messages;
mod routes;
mod shared;
mod short_names;

pub use handle::RegistryHandle;
pub use leader::LeaderHandle;
pub use messages::{Judgement, Registered};
pub use routes::{GroupRoutes, RouteTable, Routes};
pub use shared::RegistryOptions;
