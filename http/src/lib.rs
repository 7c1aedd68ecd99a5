//! The HTTP face: URLs to handle calls, and their results to bytes.
//!
//! **Owns** paths, options, content negotiation, bodies, watch streams, discovery, OpenAPI, health, metrics, authentication
//! and authorization. The only crate that knows HTTP; `status` alone turns failures into a Status.
//!
//! # Flow
//! `dispatch` reads the path ([`request_info`]), authenticates and authorizes ([`authn`]), finds the type (`route`), and
//! hands the `call` to one of the `verbs`, or to `documents`, `openapi` and `json_schemas` for paths that name no resource. A write goes
//! from its verb through `writing`, which looks the type up again if it was a guess, to its answer.
//!
//! # Invariants
//! - A read enters no mailbox.
//! - Every body, answer, list and stream has a bound, in bytes or in time.
//!
//! # Sources
//! apiserver `pkg/endpoints` and `pkg/server` (1.37), for behaviour.

pub mod access;
mod accounts;
mod aggregate;
mod ahead;
mod app;
mod audience;
mod audit;
pub mod authn;
mod body;
mod call;
mod collector;
mod cost;
mod create_permission;
mod decoding;
mod discovery;
mod dispatch;
mod documents;
mod error;
mod explained;
mod fallback;
mod filter;
mod form;
mod forward;
mod forwarded_path;
mod framing;
#[cfg(test)]
mod fuzz;
mod groups;
mod handlers;
mod head;
mod identity;
mod in_flight;
mod json_schemas;
mod layout;
mod lists;
mod metrics;
pub mod negotiate;
mod openapi;
pub mod patch;
mod per_type;
mod phase;
pub mod query;
mod recorded;
mod reply;
pub mod request_info;
mod respond;
mod response;
mod route;
mod select;
mod server;
mod snapshot;
mod state;
mod status;
pub mod table;
mod tagged;
mod turns;
mod untyped;
mod verbs;
mod version;
mod wait_for;
pub mod warning;
mod websocket;
mod writing;

pub use accounts::ServiceAccounts;
pub use aggregate::{Aggregator, Forwarded, Pieces, Priorities, RemoteVersion, RemoteVersions};
pub use app::Config;
pub use collector::Collector;
pub use error::RequestError;
pub use fallback::{Delegated, DelegatedAnswer, Fallback};
pub use handlers::{
    Handler, HandlerAnswer, HandlerContent, HandlerError, HandlerRefusal, HandlerRequest, Handlers,
};
pub use in_flight::InFlightMax;
pub use metrics::{CertificateEnds, HostMetrics, ReviewMetrics, WebhookMetrics};
pub use recorded::Auditing;
pub use server::{Credentials, Loopback, Running, ServeError, StopHandle, serve};
pub use snapshot::Snapshots;
