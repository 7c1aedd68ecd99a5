//! Between trees and typed structs.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::ser::{Error as _, Serialize, Serializer};

use super::{TooDeep, Value};

/// A tree does not fit a type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TypeError(String);

impl serde::de::Error for TypeError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// Reads a typed value out of a tree.
///
/// # Errors
/// Where the tree does not have the type's shape.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, TypeError> {
    T::deserialize(value)
}

/// The deepest tree that is serialized with serde, which recurses. Deeper than what any parser here lets through.
const SERIALIZED_DEPTH_MAX: usize = 1_000;

/// The tree of a typed value. For cold paths: it goes through JSON text.
///
/// # Panics
/// Never for types whose `Serialize` cannot fail, which all wire types are as long as no tree in them is deeper than a
/// parsed one.
#[must_use]
pub fn to_value<T: Serialize>(typed: &T) -> Value {
    let bytes = serde_json::to_vec(typed).expect("invariant: wire types serialize");
    super::parse_own(&bytes).expect("invariant: serialized JSON parses")
}

impl<'de> Deserializer<'de> for &'de Value {
    type Error = TypeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        match self {
            Value::Null => visitor.visit_unit(),
            Value::Bool(b) => visitor.visit_bool(*b),
            Value::Int(n) => visitor.visit_i64(*n),
            Value::Float(x) => visitor.visit_f64(*x),
            Value::String(s) => visitor.visit_borrowed_str(s),
            Value::Array(items) => visitor.visit_seq(SeqDeserializer::new(items.iter())),
            Value::Object(map) => visitor.visit_map(MapDeserializer::new(map.iter())),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, TypeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypeError> {
        match self {
            Value::String(s) => visitor.visit_enum(s.as_str().into_deserializer()),
            _ => Err(TypeError("expected a string".into())),
        }
    }

    /// Skips a value that the type has no field for, however deep it is.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

impl<'de> IntoDeserializer<'de, TypeError> for &'de Value {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> serde::Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        super::parse::any(input)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        At { value: self, levels: SERIALIZED_DEPTH_MAX }.serialize(out)
    }
}

/// A value, and how many levels of maps and lists it may nest.
struct At<'a> {
    value: &'a Value,
    levels: usize,
}

impl Serialize for At<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let deeper = || {
            let deep = || S::Error::custom(TooDeep(SERIALIZED_DEPTH_MAX));
            self.levels.checked_sub(1).ok_or_else(deep)
        };
        match self.value {
            Value::Null => out.serialize_unit(),
            Value::Bool(b) => out.serialize_bool(*b),
            Value::Int(n) => out.serialize_i64(*n),
            Value::Float(x) => out.serialize_f64(*x),
            Value::String(s) => out.serialize_str(s),
            Value::Array(items) => {
                let levels = deeper()?;
                out.collect_seq(items.iter().map(|value| At { value, levels }))
            }
            Value::Object(map) => {
                let levels = deeper()?;
                out.collect_map(map.iter().map(|(key, value)| (key, At { value, levels })))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{from_value, to_value};
    use crate::json::parse;

    #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
    struct Typed {
        name: String,
        #[serde(default)]
        count: Option<u32>,
        #[serde(default)]
        rest: Option<crate::Value>,
    }

    #[test]
    fn a_typed_value_goes_there_and_back() {
        let tree = parse(br#"{"name":"a","count":3,"rest":{"x":[1.5,null]}}"#).unwrap();
        let typed: Typed = from_value(&tree).unwrap();
        assert_eq!(typed.count, Some(3));
        assert_eq!(to_value(&typed), tree);
        assert!(from_value::<Typed>(&parse(br#"{"name":5}"#).unwrap()).is_err());
    }
}
