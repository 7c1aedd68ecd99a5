//! The values of expressions.

mod compare;
mod entries;
pub mod message;
mod print;
pub mod time;
mod tree;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use kindom_api::Value as Json;

use crate::shape::Shape;
use crate::types::Type;

pub(crate) use compare::{PATTERNS_MAX, Work, whole, whole_unsigned};
pub use entries::Entries;
pub use message::Message;
pub(crate) use tree::{Hint, field, item_shape, member, member_by};
pub use tree::{escape, unescape};

/// A value: borrowed from the object where it stands there, else owned. Cloning is cheap.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// A bool.
    Bool(bool),
    /// An int.
    Int(i64),
    /// A uint.
    Uint(u64),
    /// A double.
    Double(f64),
    /// A string.
    String(Text<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// Seconds and nanoseconds.
    Duration(Duration),
    /// An instant.
    Timestamp(Timestamp),
    /// A list.
    List(List<'a>),
    /// A map, or a schema's object.
    Map(Map<'a>),
    /// A type.
    Type(Type),
    /// An optional value.
    Optional(Option<Arc<Value<'a>>>),
    /// A value of a library's own type.
    Opaque(Arc<dyn Opaque>),
    /// A message that the expression made.
    Message(Arc<Message<'a>>),
}

/// A string.
#[derive(Debug, Clone)]
pub enum Text<'a> {
    /// In the object or in the expression.
    Borrowed(&'a str),
    /// Made by the expression.
    Owned(Arc<str>),
}

/// A list.
#[derive(Debug, Clone)]
pub enum List<'a> {
    /// In the object; items are seen as their shape says. (A slice would make every value larger by its length.)
    Tree(&'a Vec<Json>, &'a dyn Shape),
    /// Made by the expression.
    Owned(Arc<Vec<Value<'a>>>),
    /// A list of type set or map in the object with something added: it keeps the equality of its type.
    Added(Arc<Vec<Value<'a>>>, &'a dyn Shape),
}

/// A map.
#[derive(Debug, Clone)]
pub enum Map<'a> {
    /// In the object; values are seen as their shape says.
    Tree(&'a kindom_api::Map, &'a dyn Shape),
    /// Made by the expression.
    Owned(Arc<Entries<'a>>),
}

/// A span of time (`google.protobuf.Duration`): nanoseconds, as Go's `time.Duration`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub i64);

/// An instant (`google.protobuf.Timestamp`), from year 1 to 9999. The offset is for printing only: two instants are
/// compared without it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timestamp {
    /// Since 1970.
    pub seconds: i64,
    /// Less than a second's.
    pub nanos: u32,
    /// The offset of the zone that it was written in, in seconds east of UTC.
    pub offset: i32,
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }
}

impl Hash for Timestamp {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.seconds, self.nanos).hash(state);
    }
}

/// A value of a type that only functions know.
pub trait Opaque: std::fmt::Debug + Send + Sync + std::any::Any {
    /// The type's name: `kubernetes.Quantity`.
    fn type_name(&self) -> &'static str;
    /// The name that it has in upstream's code, which messages about a wrong use show: `cel.Quantity`.
    fn go_type(&self) -> &'static str;
    /// `true` if another value is the same; none where upstream says `no such overload`, as it does for every value of
    /// another type: `1 == dyn(ip('::1'))` is false, `ip('::1') == dyn(1)` is an error.
    fn equals(&self, other: &dyn Opaque) -> Option<bool>;
    /// The size that a call's cost counts.
    fn size(&self) -> u64 {
        1
    }
    /// For finding the library's own type again.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// The reason why an expression has no value. Errors are values to `&&`, `||` and the macros made of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvalError {
    /// `no such key: x`
    NoSuchKey(Box<str>),
    /// `no such overload`
    NoSuchOverload,
    /// The error of a function: `division by zero`.
    Message(String),
    /// The budget is used up: nothing absorbs it.
    CostExceeded,
    /// A value that has to be asked for first is not there yet: nothing absorbs it.
    Pending,
}

impl EvalError {
    /// The error of a function.
    pub fn message(text: impl Into<String>) -> Self {
        Self::Message(text.into())
    }

    /// Returns true if it ends the evaluation: nothing absorbs it.
    #[must_use]
    pub fn ends(&self) -> bool {
        matches!(self, Self::CostExceeded | Self::Pending)
    }
}

impl std::fmt::Display for EvalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSuchKey(key) => write!(f, "no such key: {key}"),
            Self::NoSuchOverload => f.write_str("no such overload"),
            Self::Message(text) => f.write_str(text),
            Self::CostExceeded => f.write_str("operation cancelled: actual cost limit exceeded"),
            Self::Pending => f.write_str("a value is not known yet"),
        }
    }
}

impl std::error::Error for EvalError {}

impl Text<'_> {
    /// The characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Owned(text) => text,
        }
    }
}

impl<'a> Value<'a> {
    /// A string that stands in the object or in the expression.
    #[must_use]
    pub fn borrowed(text: &'a str) -> Self {
        Self::String(Text::Borrowed(text))
    }

    /// A string that is made.
    #[must_use]
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Owned(text.into()))
    }

    /// A list that is made.
    #[must_use]
    pub fn list(items: Vec<Value<'a>>) -> Self {
        Self::List(List::Owned(Arc::new(items)))
    }

    /// A map that is made.
    #[must_use]
    pub fn map(entries: Entries<'a>) -> Self {
        Self::Map(Map::Owned(Arc::new(entries)))
    }

    /// An optional value that is there.
    #[must_use]
    pub fn optional(value: Value<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// The string, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text.as_str()) } else { None }
    }

    /// The type at run time, without the types of items or entries (`ref.Type`). Objects are maps.
    #[must_use]
    pub fn to_type(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Duration(_) => Type::Duration,
            Self::Timestamp(_) => Type::Timestamp,
            Self::List(_) => Type::list(Type::Dyn),
            Self::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Self::Type(_) => Type::type_of(Type::Dyn),
            Self::Optional(_) => Type::optional(Type::Dyn),
            Self::Opaque(opaque) => Type::Opaque(opaque.type_name()),
            Self::Message(message) => Type::Message(Arc::clone(&message.name)),
        }
    }

    /// The name of its type at run time.
    #[must_use]
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Opaque(opaque) => opaque.type_name(),
            Self::Message(message) => &message.name,
        }
    }

    /// The number of code points, bytes, items or entries; `None` for a value without a size (`traits.Sizer`).
    #[must_use]
    pub fn size(&self) -> Option<usize> {
        match self {
            Self::String(text) => Some(code_points(text.as_str())),
            Self::Bytes(bytes) => Some(bytes.len()),
            Self::List(list) => Some(list.len()),
            Self::Map(map) => Some(map.len()),
            _ => None,
        }
    }

    /// The size that a call's cost counts (`interpreter.actualSize`).
    #[must_use]
    pub fn cost_size(&self) -> u64 {
        match self {
            Self::Optional(Some(value)) => value.cost_size(),
            Self::Opaque(opaque) => opaque.size(),
            other => other.size().map_or(1, |len| len as u64),
        }
    }

    /// `true` if it is what its type has when nothing is set (`traits.Zeroer`); lists, maps and objects of the tree never are.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(b) => !b,
            Self::Int(n) => *n == 0,
            Self::Uint(n) => *n == 0,
            Self::Double(x) => *x == 0.0,
            Self::String(text) => text.as_str().is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Duration(span) => span.0 == 0,
            Self::Timestamp(at) => at.seconds == time::SECONDS_MIN && at.nanos == 0,
            Self::List(List::Owned(items)) => items.is_empty(),
            Self::Map(Map::Owned(entries)) => entries.is_empty(),
            Self::Message(message) => !message.is_patch() && message.fields.is_empty(),
            Self::List(_) | Self::Map(_) | Self::Type(_) | Self::Optional(_) | Self::Opaque(_) => false,
        }
    }
}

/// The number of code points of a text. Nearly all texts are ASCII, where it is their length.
fn code_points(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// The name of a type at run time.
#[must_use]
pub(crate) fn runtime_name(of: &Type) -> &str {
    match of {
        Type::Dyn | Type::Param(_) | Type::Var(_) => "dyn",
        Type::Null => "null_type",
        Type::Bool => "bool",
        Type::Int => "int",
        Type::Uint => "uint",
        Type::Double => "double",
        Type::String => "string",
        Type::Bytes => "bytes",
        Type::Duration => "google.protobuf.Duration",
        Type::Timestamp => "google.protobuf.Timestamp",
        Type::Error => "error",
        Type::List(_) => "list",
        Type::Map(_) => "map",
        Type::Optional(_) => "optional_type",
        Type::Type(_) => "type",
        Type::Opaque(name) => name,
        Type::Object(object) => &object.name,
        Type::Message(name) => name,
    }
}

#[cfg(test)]
mod tests {
    use super::{EvalError, Value};

    #[test]
    fn values_are_no_larger_than_half_a_cache_line() {
        assert_eq!(size_of::<Value<'_>>(), 32);
        assert_eq!(size_of::<Result<Value<'_>, EvalError>>(), 32);
    }
}
