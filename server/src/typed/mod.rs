//! Kinds that a program is compiled with.
//!
//! A typed kind is a registration that the program keeps, with the schema of a Rust type, and rules of that type's: [`Version`]
//! and [`Strategy`]. So it goes through the same pipeline, actors and storage as kinds that are registered at run time, beside
//! them, and everything that is true of those is true of it (`docs/decisions/0033-typed-kinds.md`).
//!
//! ```no_run
//! # use std::process::ExitCode;
//! use kindom_server::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
//! use kindom_server::{Context, Errors, Group, Resource, Server, Strategy, Version};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Resource, Clone, Serialize, Deserialize, JsonSchema)]
//! #[resource(group = "sails.example.com", version = "v1beta1", short = "sl", namespaced)]
//! struct Sloop {
//!     metadata: ObjectMeta,
//!     spec: SloopSpec,
//! }
//!
//! #[derive(Clone, Serialize, Deserialize, JsonSchema)]
//! struct SloopSpec {
//!     crew: Option<u32>,
//! }
//!
//! impl Version for Sloop {
//!     fn apply_defaults(&mut self) {
//!         self.spec.crew.get_or_insert(2);
//!     }
//! }
//!
//! impl Strategy for Sloop {
//!     fn validate(&self, _: &Context<'_>) -> Errors {
//!         let mut errors = Errors::none();
//!         if self.spec.crew == Some(0) {
//!             errors.invalid("spec.crew", self.spec.crew, "a sloop does not sail itself");
//!         }
//!         errors
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     Server::from_args().group(Group::new().kind::<Sloop>()).run()
//! }
//! ```

mod absent;
mod changes;
mod definition;
mod errors;
mod form;
mod hooks;
mod keep;
mod kind;
mod read;
mod registration;
mod round_trip;
mod strategy;
mod subresource;

pub use definition::{Column, Definition, Resource, Scale};
pub use errors::Errors;
pub use kind::{Group, Versions};
pub use round_trip::Loss;
pub use strategy::{Context, Strategy, Version};
pub use subresource::{SubresourceAnswer, SubresourceError, SubresourceRequest};

pub(crate) use keep::{Kinds, keep};
