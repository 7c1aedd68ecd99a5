//! The compiled tree.
//!
//! One node for each subschema, small because most have only a type: what few have sits behind a box. The tree serves
//! both of upstream's: the structural one (pruning, defaulting, lists) and the validator's. In a node below a junctor
//! only the validator's part means anything.

use std::num::NonZeroU8;
use std::sync::Arc;

use kindom_api::Value;

use kindom_formats::{Format, Pattern};

use crate::choices::Choices;
pub(crate) use crate::fields::{Additional, Cursor, Fields};
use crate::rules::Expressions;

/// A set of JSON types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Types(u8);

impl Types {
    pub(crate) const OBJECT: Self = Self(1);
    pub(crate) const ARRAY: Self = Self(2);
    pub(crate) const STRING: Self = Self(4);
    pub(crate) const INTEGER: Self = Self(8);
    pub(crate) const NUMBER: Self = Self(16);
    pub(crate) const BOOLEAN: Self = Self(32);
    /// A word that is no type, which no value has: v1 refuses it in a schema, v1beta1 took any.
    pub(crate) const UNKNOWN: Self = Self(64);
    /// The types that `x-kubernetes-int-or-string` allows, whatever `type` is.
    pub(crate) const INT_OR_STRING: Self = Self(8 | 4);

    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "object" => Some(Self::OBJECT),
            "array" => Some(Self::ARRAY),
            "string" => Some(Self::STRING),
            "integer" => Some(Self::INTEGER),
            "number" => Some(Self::NUMBER),
            "boolean" => Some(Self::BOOLEAN),
            _ => None,
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns true if a schema of these types may carry a format; on other types a format has no meaning.
    pub(crate) fn may_have(self, format: Format) -> bool {
        match format {
            Format::Int32 | Format::Int64 => self == Self::INTEGER,
            Format::Float | Format::Double => self == Self::NUMBER,
            // Several types count as none.
            _ => self.is_empty() || self == Self::STRING || self == Self::INT_OR_STRING,
        }
    }

    /// As messages name it; see also [`Node::type_text`].
    fn text(self) -> &'static str {
        match self {
            Self::OBJECT => "object",
            Self::ARRAY => "array",
            Self::STRING => "string",
            Self::INTEGER => "integer",
            Self::NUMBER => "number",
            Self::BOOLEAN => "boolean",
            Self::INT_OR_STRING => "integer,string",
            _ => "",
        }
    }
}

/// A subschema. Most are leaves, so what only objects and lists have is behind boxes.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) types: Types,
    pub(crate) format: Option<Format>,
    pub(crate) list: ListKind,
    /// The field manager's reading of `type` and `format`.
    pub(crate) atom: Atom,
    /// `x-kubernetes-map-type: atomic`.
    pub(crate) atomic_map: bool,
    /// The built-in schema that stands here: see [`crate::merge`]. Only built-in schemas have references.
    pub(crate) reference: Option<NonZeroU8>,
    pub(crate) nullable: bool,
    pub(crate) preserve: bool,
    pub(crate) embedded: bool,
    /// `true` for a required property.
    pub(crate) required: bool,
    /// The parts that walks may skip.
    pub(crate) below: Below,
    /// `None` if the schema describes no fields.
    pub(crate) fields: Option<Box<Fields>>,
    pub(crate) items: Option<Box<Node>>,
    pub(crate) default: Option<Box<Value>>,
    pub(crate) rules: Option<Box<Rules>>,
}

/// The things that stand in a node or anywhere in its items, properties and additional properties.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Below {
    /// A default.
    pub(crate) defaults: bool,
    /// A list type of set or map.
    pub(crate) lists: bool,
    /// An embedded resource.
    pub(crate) embedded: bool,
    /// A `not` or `oneOf` whose branches look at fields or items, here or below any junctor. Only without one does a valid
    /// object stay valid if a part of it is not checked.
    pub(crate) negations: bool,
    /// A rule of `x-kubernetes-validations`.
    pub(crate) expressions: bool,
}

impl Below {
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            defaults: self.defaults || other.defaults,
            lists: self.lists || other.lists,
            embedded: self.embedded || other.embedded,
            negations: self.negations || other.negations,
            expressions: self.expressions || other.expressions,
        }
    }
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ListKind {
    /// None, or atomic.
    #[default]
    Atomic,
    Set,
    /// By the keys in [`Rules::map_keys`].
    Map,
}

/// The kind of value, as the field manager sees it: it reads `x-kubernetes-int-or-string` and unknown formats differently
/// from the validator (kube-openapi `pkg/schemaconv`, `parseSchema` and `convertPrimitive`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Atom {
    /// No type: a scalar of any kind, a list or a map.
    #[default]
    Any,
    Map,
    List,
    Numeric,
    String,
    Boolean,
    /// A string with a format: a scalar of any kind.
    Formatted,
}

/// The keywords that only some nodes have.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) choices: Choices,
    pub(crate) numbers: Option<Box<Numbers>>,
    pub(crate) text: Option<Box<Text>>,
    pub(crate) sizes: Option<Box<Sizes>>,
    pub(crate) junctors: Option<Box<Junctors>>,
    pub(crate) map_keys: Box<[Box<str>]>,
    /// Put there once the tree is complete: see [`crate::rules`].
    pub(crate) expressions: Option<Box<Expressions>>,
    /// The word that stands where [`Types::UNKNOWN`] is.
    pub(crate) unknown_type: Option<Box<str>>,
}

#[derive(Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) multiple_of: Option<f64>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Text {
    pub(crate) max_length: Option<i64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) pattern: Option<Arc<Pattern>>,
}

#[derive(Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) max_items: Option<i64>,
    pub(crate) min_items: Option<i64>,
    pub(crate) unique_items: bool,
    pub(crate) max_properties: Option<i64>,
    pub(crate) min_properties: Option<i64>,
}

#[derive(Debug, Default)]
pub(crate) struct Junctors {
    pub(crate) all_of: Box<[Node]>,
    pub(crate) any_of: Box<[Node]>,
    pub(crate) one_of: Box<[Node]>,
    pub(crate) not: Option<Box<Node>>,
}

impl Node {
    /// The types as messages name them.
    pub(crate) fn type_text(&self) -> &str {
        let word = self.rules.as_deref().and_then(|rules| rules.unknown_type.as_deref());
        word.unwrap_or_else(|| self.types.text())
    }

    pub(crate) fn property(&self, name: &str) -> Option<&Node> {
        self.fields.as_deref()?.property(name)
    }

    /// The schema of a field: that of its name, else that of additional properties (`getSchemaForField`).
    pub(crate) fn field(&self, name: &str) -> Option<&Node> {
        let fields = self.fields.as_deref()?;
        fields.property(name).or(fields.additional().schema())
    }

    /// For walks that look at all fields of an object.
    pub(crate) fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self.fields.as_deref())
    }

    /// The properties, by name.
    pub(crate) fn properties(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.fields.iter().flat_map(|fields| fields.properties())
    }

    pub(crate) fn additional(&self) -> &Additional {
        self.fields.as_deref().map_or(&Additional::Unset, Fields::additional)
    }

    pub(crate) fn map_keys(&self) -> &[Box<str>] {
        self.rules.as_deref().map_or(&[], |rules| &rules.map_keys)
    }
}

#[cfg(test)]
mod tests {
    use kindom_formats::Format;

    use super::{Node, Types};

    #[test]
    fn a_format_belongs_to_its_type() {
        assert!(Types::INTEGER.may_have(Format::Int32) && !Types::STRING.may_have(Format::Int32));
        assert!(Types::INT_OR_STRING.may_have(Format::Date) && !Types::INTEGER.may_have(Format::Date));
        assert!(Types::default().may_have(Format::DateTime));
    }

    #[test]
    fn a_plain_node_stays_small() {
        assert!(size_of::<Node>() <= 48, "{}", size_of::<Node>());
    }
}
