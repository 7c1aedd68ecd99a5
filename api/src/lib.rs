//! Wire types and names of the Kubernetes resource model.
//!
//! **Owns** the object tree ([`json`]), names of groups, versions, kinds and resources ([`names`]), field errors
//! ([`field`]), selectors ([`selector`]), the answer to a failed request ([`status`]), metadata ([`meta`]), users ([`user`]), amounts of resources ([`quantity`]), the
//! built-in types ([`crd`] and its [`faces`], [`namespace`]) and how upstream decodes them ([`decode`]). **Deliberately absent:** I/O, async, and
//! any knowledge of how objects are stored or served.

pub mod crd;
pub mod declaration;
pub mod decode;
pub mod faces;
pub mod field;
pub mod json;
pub mod meta;
pub mod names;
pub mod quantity;
pub mod scale;
pub mod selector;
pub mod status;
pub mod user;

pub use json::{List, Map, Value};
pub use names::{GroupKind, GroupResource, GroupVersionKind, GroupVersionResource};
pub use user::User;
