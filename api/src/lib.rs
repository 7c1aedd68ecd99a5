//! Wire types and names of the Kubernetes resource model.
//!
//! **Owns** the object tree ([`json`]), names of groups, versions, kinds and resources ([`names`]), field errors
//! ([`field`]). **Deliberately absent:** I/O, async, and any knowledge of how objects are stored or served.

pub mod field;
pub mod json;
pub mod names;

pub use json::{Map, Value};
pub use names::{GroupKind, GroupResource, GroupVersionKind, GroupVersionResource};
