//! The HTTP face: URLs to handle calls, and what comes back to bytes.
//!
//! **Owns** paths, options, content negotiation, bodies, watch streams, discovery, OpenAPI, health, metrics, and who may
//! ask. The only crate that knows HTTP; `status` turns failures into a Status, but for a few that `read`,
//! `scale`, `write` and `watch` build themselves.
//!
//! # Flow
//! `dispatch` reads the path ([`request_info`]), authenticates and authorizes ([`authn`]), finds the type in the routes,
//! and hands over to `read`, `watch`, `write`, `scale`, or `documents` and `openapi` for paths that name no
//! resource.
//!
//! # Invariants
//! - A read enters no mailbox.
//! - Every body, answer, list and stream has a bound, in bytes or in time.
//!
//! # Sources
//! apiserver `pkg/endpoints` and `pkg/server` (1.37), for behaviour.

mod apply;
pub mod authn;
pub mod discovery;
mod dispatch;
mod documents;
mod error;
mod fallback;
mod filter;
mod framing;
#[cfg(test)]
mod fuzz;
mod identity;
mod metrics;
pub mod negotiate;
mod openapi;
mod owner_references;
pub mod patch;
pub mod query;
mod read;
pub mod request_info;
mod respond;
mod scale;
mod server;
mod snapshot;
mod state;
mod status;
pub mod table;
pub mod version;
mod wait_for;
pub mod warning;
mod watch;
mod websocket;
mod write;

pub use error::RequestError;
pub use fallback::{Delegated, DelegatedAnswer, Fallback};
pub use server::{Credentials, Running, ServeError, StopHandle, serve};
pub use snapshot::Snapshots;
pub use state::{CertificateEnds, Config};
