//! The types of expressions.

use std::fmt;
use std::sync::Arc;

use crate::decl::Object;

/// A type. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub enum Type {
    /// Any, checked when it is evaluated.
    #[default]
    Dyn,
    /// Of `null`.
    Null,
    /// `bool`
    Bool,
    /// `int`: 64 bits.
    Int,
    /// `uint`: 64 bits.
    Uint,
    /// `double`
    Double,
    /// `string`
    String,
    /// `bytes`
    Bytes,
    /// `google.protobuf.Duration`
    Duration,
    /// `google.protobuf.Timestamp`
    Timestamp,
    /// The type of an expression that has none because of an error.
    Error,
    /// `list(T)`
    List(Arc<Type>),
    /// `map(K, V)`
    Map(Arc<(Type, Type)>),
    /// `optional_type(T)`
    Optional(Arc<Type>),
    /// The type of a type: `type(T)`.
    Type(Arc<Type>),
    /// One that only functions know, by its name: `kubernetes.Quantity`.
    Opaque(&'static str),
    /// That of a schema's object, equal by name.
    Object(Arc<Object>),
    /// That of a message that expressions make, by its name: `Object.spec`, of which any field may be given.
    Message(Arc<str>),
    /// A type parameter of a function, by its name: `A`.
    Param(&'static str),
    /// A type that the checker has yet to find.
    Var(u32),
}

impl Type {
    /// `list(item)`
    #[must_use]
    pub fn list(item: Type) -> Self {
        Self::List(Arc::new(item))
    }

    /// `map(key, value)`
    #[must_use]
    pub fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    /// `optional_type(of)`
    #[must_use]
    pub fn optional(of: Type) -> Self {
        Self::Optional(Arc::new(of))
    }

    /// `type(of)`
    #[must_use]
    pub fn type_of(of: Type) -> Self {
        Self::Type(Arc::new(of))
    }
}

/// As messages show it (cel-go `checker.FormatCELType`).
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Error => f.write_str("!error!"),
            Self::List(item) => write!(f, "list({item})"),
            Self::Map(parts) => write!(f, "map({}, {})", parts.0, parts.1),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Type(of) => write!(f, "type({of})"),
            Self::Opaque(name) | Self::Param(name) => f.write_str(name),
            Self::Object(object) => f.write_str(&object.name),
            Self::Message(name) => f.write_str(name),
            Self::Var(var) => write!(f, "_var{var}"),
        }
    }
}
