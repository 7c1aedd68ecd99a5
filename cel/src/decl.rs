//! The declarations that a schema gives to the checker and to the estimate of cost (`apiserver/pkg/cel/types.go`,
//! `DeclType`).
//!
//! Declarations live while a registration is checked; evaluation works on [`crate::shape`]s.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::Type;

/// The declared type of a value, with the bounds that its schema sets.
#[derive(Debug, Clone, Default)]
pub struct Decl {
    /// The kind of the value.
    pub kind: Kind,
    /// The most code points, bytes, items or entries that it has (`DeclType.MaxElements`).
    pub max_elements: u64,
    /// The least bytes that it takes as JSON (`DeclType.MinSerializedSize`).
    pub min_serialized_size: u64,
}

/// The kinds of declared values.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A type without parts: a scalar, or [`Type::Dyn`].
    Plain(Type),
    /// A list of items.
    List(Arc<Decl>),
    /// A map of keys to values.
    Map(Arc<(Decl, Decl)>),
    /// Fields by name.
    Object(Arc<Object>),
}

impl Default for Kind {
    fn default() -> Self {
        Self::Plain(Type::Dyn)
    }
}

/// An object's declared fields.
#[derive(Debug, Default)]
pub struct Object {
    /// Unique within an environment: `selfType.spec.items.@idx`. Messages show it.
    pub name: String,
    /// By the name that expressions use, escaped.
    pub fields: BTreeMap<Box<str>, Decl>,
}

impl Decl {
    /// Its type.
    #[must_use]
    pub fn to_type(&self) -> Type {
        match &self.kind {
            Kind::Plain(plain) => plain.clone(),
            Kind::List(item) => Type::list(item.to_type()),
            Kind::Map(parts) => Type::map(parts.0.to_type(), parts.1.to_type()),
            Kind::Object(object) => Type::Object(Arc::clone(object)),
        }
    }
}
