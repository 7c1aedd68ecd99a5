//! YAML: read as `sigs.k8s.io/yaml` reads it, written for people and, in another layout, for OpenAPI's protobuf.

pub(crate) mod read;
pub mod v3;
mod write;

pub use write::{Writer, to_yaml};

pub(crate) use read::{documents, parse};
