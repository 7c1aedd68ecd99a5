//! What expressions evaluate to.

use kindom_api::Value as Json;
use std::sync::Arc;

use crate::shape::Shape;
use crate::types::Type;

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
    /// In the object; items are seen as their shape says.
    Tree(&'a [Json], &'a dyn Shape),
    /// Made by the expression.
    Owned(Arc<[Value<'a>]>),
}

/// A map.
#[derive(Debug, Clone)]
pub enum Map<'a> {
    /// In the object; values are seen as their shape says.
    Tree(&'a kindom_api::Map, &'a dyn Shape),
    /// Made by the expression, in the order of making; keys are unique.
    Owned(Arc<[(Value<'a>, Value<'a>)]>),
}

/// A span of time (`google.protobuf.Duration`): nanoseconds, as Go's `time.Duration`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub i64);

/// An instant (`google.protobuf.Timestamp`) in UTC, from year 1 to 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Since 1970.
    pub seconds: i64,
    /// Less than a second's.
    pub nanos: u32,
}

/// A value of a type that only functions know.
pub trait Opaque: std::fmt::Debug + Send + Sync + std::any::Any {
    /// The type's name: `kubernetes.Quantity`.
    fn type_name(&self) -> &'static str;
    /// Whether another value is the same; none where upstream says `no such overload`, as it does for every value of
    /// another type: `1 == dyn(ip('::1'))` is false, `ip('::1') == dyn(1)` is an error.
    fn equals(&self, other: &dyn Opaque) -> Option<bool>;
    /// What it counts as for the cost of a call.
    fn size(&self) -> u64 {
        1
    }
    /// For finding the library's own type again.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// Why an expression has no value. Errors are values to `&&`, `||` and the macros made of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvalError {
    /// `no such key: x`
    NoSuchKey(String),
    /// `no such overload`
    NoSuchOverload,
    /// What a function says: `division by zero`.
    Message(String),
    /// The budget is used up: nothing absorbs it.
    CostExceeded,
}
