//! Strings as Go and Kubernetes read them: regular expressions, formats, URLs; and numbers as Go prints them.
//!
//! **Owns** the reading of texts that schemas, registrations and CEL expressions share: [`Pattern`] (Go's regular
//! expressions), [`Format`] (OpenAPI's `format`), [`url`], [`net`], [`duration`],
//! [`go`].
//! **Deliberately absent:** schemas, and which format may stand on which type.
//!
//! ```
//! use kindom_formats::{Format, Pattern};
//! assert_eq!(Pattern::shared(r"^\d+$").matches("42"), Ok(true));
//! assert!(Format::named("date").unwrap().accepts("2020-02-29"));
//! ```

pub mod duration;
mod format;
pub mod go;
pub mod net;
pub mod pattern;
pub mod url;

pub use format::Format;
pub use pattern::Pattern;
