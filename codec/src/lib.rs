//! Bytes to trees and back: JSON and YAML with the texts and limits of upstream's decoders, and protobuf.
//!
//! **Owns** bodies ([`object`]), apply patches ([`configuration`]), manifests ([`documents`], [`manifests`]), what strict decoding finds,
//! YAML in and out ([`yaml`]), the words in which Go's decoder refuses JSON ([`go_json`]), JSON patches ([`json_patch`]), and [`protobuf`]: its one wire
//! format, and the table of upstream's types. **Deliberately absent:** HTTP, schemas, and any knowledge of what an object is
//! for. JSON itself, with the tree, is `kindom_api`'s.

mod body;
mod configuration;
mod documents;
pub mod go_json;
pub mod json_patch;
pub mod manifests;
pub mod protobuf;
mod strict;
pub mod yaml;

pub use body::{Decoded, SCHEME, any, cannot_be_handled, object, strict_error, type_of};
pub use configuration::{Configuration, configuration};
pub use documents::{DocumentError, documents};
pub use strict::{
    FieldValidation, STRICT_ERRORS_MAX, duplicate_fields, strict_text, strict_warnings, unknown_field,
};

/// The encoding of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

/// The error of a body that does not decode, in upstream's words; the text of a 400.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);
