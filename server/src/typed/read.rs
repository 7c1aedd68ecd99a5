//! The reading of a value from a tree, without the part that no hook has a use for: `metadata.managedFields`, which is as long as the
//! rest of many objects.

use kindom_api::json::TypeError;
use kindom_api::{Map, Value};
use serde::de::value::MapDeserializer;
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};

/// Reads a value from an object.
///
/// # Errors
/// The object does not have the type's shape.
pub(super) fn read<T: DeserializeOwned>(object: &Value) -> Result<T, TypeError> {
    T::deserialize(Part { value: object, place: Place::Root })
}

/// A part of an object.
#[derive(Clone, Copy)]
struct Part<'a> {
    value: &'a Value,
    place: Place,
}

/// The map of an object that a field is in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Root,
    Metadata,
    Elsewhere,
}

impl Place {
    /// The place of the fields of a field.
    pub(super) fn inside(self, field: &str) -> Self {
        if self == Self::Root && field == "metadata" { Self::Metadata } else { Self::Elsewhere }
    }
}

impl<'a> Part<'a> {
    fn fields(map: &'a Map, place: Place) -> impl Iterator<Item = (&'a str, Self)> {
        let shown = map.iter().filter(move |(name, _)| place != Place::Metadata || *name != "managedFields");
        shown.map(move |(name, value)| (name, Part { value, place: place.inside(name) }))
    }
}

impl<'de> Deserializer<'de> for Part<'de> {
    type Error = TypeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        match self.value {
            Value::Object(map) if self.place != Place::Elsewhere => {
                visitor.visit_map(MapDeserializer::new(Self::fields(map, self.place)))
            }
            value => value.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
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
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypeError> {
        self.value.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

impl<'de> IntoDeserializer<'de, TypeError> for Part<'de> {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::json;

    use super::*;

    #[test]
    fn everything_is_read_but_the_managers_of_the_object() {
        let tree = |managers: &str| {
            let text = format!(
                r#"{{"metadata":{{"name":"a",{managers}"labels":{{"managedFields":"x"}}}},
                "spec":{{"managedFields":[1],"metadata":{{"managedFields":null}},"list":[true,1.5,"t"]}}}}"#
            );
            json::parse(text.as_bytes()).unwrap()
        };
        let read: serde_json::Value = read(&tree(r#""managedFields":[{"manager":"m"}],"#)).unwrap();
        let rest = tree("");
        assert_eq!(json::parse(read.to_string().as_bytes()).unwrap(), rest);
    }
}
