//! Controllers of kinds: what is declared becomes what is, again and again.
//!
//! A [`Controller`] gets each object of its kind whenever something about it may have changed, and brings the world closer to what
//! the object says. A [`Manager`] runs controllers against any API server: as a process of their own, or in a test beside a server.
//!
//! # Guarantees
//! - Level, not edge (B-07, B-41): a controller sees the object as it is now. What it was before, and which event led here, it does
//!   not learn; several changes may come as one.
//! - Deletion is a change (B-42): with a [finalizer](Controller::FINALIZER), an object that is to go stays until
//!   [`Controller::finalize`] has succeeded (B-43).
//! - An object is in one call at a time. A call that failed is repeated, later each time, until one succeeds.
//! - Of several managers with one Lease ([`Manager::elected`]), one acts at a time.
//! - Calls are counted under controller-runtime's names ([`Manager::monitored`]).
//! - When the manager is told to end, no call begins, and those under way are waited for.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//!
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kindom_controller::{Action, Context, Controller, Error, Manager};
//!
//! struct Counter;
//!
//! impl Controller for Counter {
//!     type Resource = ConfigMap;
//!
//!     async fn init(_: &Context) -> Result<Self, Error> {
//!         Ok(Self)
//!     }
//!
//!     async fn reconcile(&self, object: Arc<ConfigMap>) -> Result<Action, Error> {
//!         println!("{} keys", object.data.as_ref().map_or(0, |data| data.len()));
//!         Ok(Action::await_change())
//!     }
//! }
//!
//! # async fn run(client: kube::Client) -> Result<(), Error> {
//! let end = async { /* a signal, for instance */ };
//! Manager::new("counters", client).controller::<Counter>().run(end).await
//! # }
//! ```

mod context;
mod controller;
mod delays;
mod election;
mod finalizers;
mod manager;
mod metrics;
mod monitor;
mod termination;

pub use context::Context;
pub use controller::Controller;
pub use kube::runtime::controller::Action;
pub use manager::Manager;
pub use metrics::Metrics;
pub use termination::termination;

/// The failure of a call; anything that says why.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The failure of a call, as an error with a type.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Failed(Error);
