//! Objects as protobuf: read into the tree that JSON would give, and written from it, by one table for all types.
//!
//! Generated clients send protobuf for built-in types without a fallback to JSON: kubectl's `create namespace`, and the Go
//! clientset of registrations since 0.32. A body is the four bytes `k8s\0` and a `runtime.Unknown`, whose `raw` is the
//! object by the field numbers of its type's `generated.proto` (apimachinery `pkg/runtime/serializer/protobuf`, 1.37). Other
//! API servers store their objects so too.
//!
//! `catalogue.rs` is the table. `go run ./protobuf` in `integration/oracle` writes it by reflection over upstream's Go
//! types, and beside it the samples that hold both directions to the byte. A [`Message`] lists its fields: number, Go's name
//! (for errors), JSON's name, the type of its value, the number of its values, and if JSON leaves it out while it is empty.
//! Upstream's encoder writes every field that is no pointer, list or map, even if it is empty; so does this one. The messages
//! of a kind that is declared in one place ([`kindom_api::declaration`]) are derived from there ([`Messages`]).
//!
//! Fields that the table does not list are skipped, as upstream skips them; [`decode_telling`] names them, for callers that
//! must not lose any.
//!
//! Worked example: `0a 01 61` is field 1 (`0a` = 1 << 3 | 2: bytes follow) of one byte, `a`; in an ObjectMeta that is
//! `{"name":"a"}`.

#[rustfmt::skip]
mod catalogue;
mod declared;
mod list;
mod read;
pub mod wire;
mod write;

#[cfg(test)]
mod tests;

use std::fmt;

use kindom_api::Value;

pub use declared::Messages;
pub use list::List;
pub use read::{Envelope, decode, decode_telling};
pub use write::{encode, encode_as, watch_event};

/// The media type of such bodies.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The first bytes of every body.
const MAGIC: &[u8] = b"k8s\0";

/// A message type: its name, and its fields by number. It may hold itself, as schemas do.
pub struct Message(&'static str, &'static [Field]);

/// The name alone.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A field: its number, its name in Go and in JSON, its type, the number of its values, and the rule for empty ones. One without
/// a name in JSON is a message whose fields stand in its place there.
#[derive(Debug)]
struct Field(u32, &'static str, &'static str, Kind, Many, Presence);

/// The type of a field's value, or of each value if there are several.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Bool,
    Int32,
    Int64,
    Double,
    /// Base64 in JSON.
    Bytes,
    /// `metav1.Time`: seconds since the epoch, in a message of its own.
    Time,
    /// `metav1.MicroTime`: with nanoseconds, of which the last three digits are dropped.
    MicroTime,
    /// `resource.Quantity`: its text, in a message of its own.
    Quantity,
    /// `intstr.IntOrString`
    IntOrString,
    /// Any JSON, as text in a message of its own: `FieldsV1`, `RawExtension`, the `JSON` of schemas.
    Json,
    /// A list of strings that may be null, in a message of its own.
    Texts,
    /// A string that no version has any more. It was always written, and was always empty.
    Gone,
    /// Another message.
    Of(&'static Message),
    /// A schema, or a list of them.
    SchemaOrArray(&'static Message),
    /// A schema, or a bool.
    SchemaOrBool(&'static Message),
    /// A schema, or a list of strings.
    SchemaOrTexts(&'static Message),
}

/// The number of values that a field may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Many {
    /// Once, and always written.
    One,
    /// Once or not at all.
    Pointer,
    /// Any number of times.
    Several,
    /// Any number of times, each with a key.
    Map,
}

/// The rule that decides if JSON shows an empty field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// No: `omitempty`.
    Omit,
    /// Yes.
    Keep,
}

/// `runtime.TypeMeta`
static TYPE_META: Message = Message(
    "TypeMeta",
    &[
        Field(1, "APIVersion", "apiVersion", Kind::Text, Many::One, Presence::Omit),
        Field(2, "Kind", "kind", Kind::Text, Many::One, Presence::Omit),
    ],
);

/// The fields of `runtime.Unknown`.
const UNKNOWN_TYPE_META: u32 = 1;
const UNKNOWN_RAW: u32 = 2;
const UNKNOWN_CONTENT_ENCODING: u32 = 3;
const UNKNOWN_CONTENT_TYPE: u32 = 4;

/// The message of a kind; none for a kind that upstream does not have as protobuf, or that is not served here.
///
/// ```
/// assert!(kindom_codec::protobuf::message("v1", "Status").is_some());
/// assert!(kindom_codec::protobuf::message("example.com/v1", "Widget").is_none());
/// ```
#[must_use]
pub fn message(api_version: &str, kind: &str) -> Option<&'static Message> {
    let key = |(version, kind, _): &(&'static str, &'static str, _)| (*version, *kind);
    let at = catalogue::KINDS.binary_search_by(|entry| key(entry).cmp(&(api_version, kind))).ok()?;
    catalogue::KINDS.get(at).map(|(_, _, message)| *message)
}

/// The kinds that have a message: apiVersion and kind, sorted.
pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    catalogue::KINDS.iter().map(|(api_version, kind, _)| (*api_version, *kind))
}

/// The message of an object by its own apiVersion and kind.
#[must_use]
pub fn message_of(object: &Value) -> Option<&'static Message> {
    let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default();
    message(text("apiVersion"), text("kind"))
}

/// Returns true if bytes are such a body, and not JSON.
#[must_use]
pub fn is_protobuf(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The reason why bytes are not such an object; prints as upstream's decoder does if upstream has that error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// There are no bytes.
    #[error("empty data")]
    Empty,
    /// They do not begin as such a body does.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoPrefix,
    /// There is nothing behind the prefix.
    #[error("empty body")]
    EmptyBody,
    /// They end too early.
    #[error("unexpected EOF")]
    UnexpectedEnd,
    /// A number has more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A length has 64 bits.
    #[error("proto: negative length found during unmarshaling")]
    NegativeLength,
    /// A group ends that did not begin.
    #[error("proto: unexpected end of group")]
    EndOfGroup,
    /// The same, between the fields of a message.
    #[error("proto: {0}: wiretype end group for non-group")]
    NoGroup(&'static str),
    /// A field without a number.
    #[error("proto: {message}: illegal tag {number} (wire type {wire})")]
    IllegalTag {
        /// In which message.
        message: &'static str,
        /// Not a number of a field.
        number: i32,
        /// The tag as a whole.
        wire: u64,
    },
    /// A wire type that there is not.
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u64),
    /// A field of another wire type than it has.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WrongWireType {
        /// The wire type found.
        wire: u64,
        /// The field, as Go names it.
        field: &'static str,
    },
    /// Bytes that upstream accepts and this server does not.
    #[error("proto: {0}")]
    Malformed(&'static str),
}
