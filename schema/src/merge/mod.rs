//! The merging of values: the types of structured-merge-diff, by which server-side apply and managedFields work.
//!
//! A [`MergeType`] is a view of a place in a compiled schema: it copies nothing, and asking it allocates nothing. It gives
//! the results of upstream's type converter, which is made of the published schema (apiextensions-apiserver
//! `buildOpenAPIModelsForApply`, then kube-openapi `pkg/schemaconv`, 1.37), of registered types and of built-in ones alike.
//!
//! ```
//! use kindom_schema::{Schema, merge::{ListRelation, Scalar}};
//! let schema = kindom_api::json::parse(br#"{"type":"object","properties":{"ports":{"type":"array",
//!     "x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["port"],"items":{"type":"object","properties":{
//!         "port":{"type":"integer","default":80}}}}}}"#).unwrap();
//! let schema = Schema::compile(Some(&schema), false).unwrap();
//!
//! let object = schema.merge_type().map().unwrap();
//! let ports = object.field("ports").unwrap().list().unwrap();
//! assert!(matches!(ports.relation(), ListRelation::Keys(keys) if *keys == ["port".into()]));
//! assert_eq!(ports.key_default("port"), Some(&80.into()));
//! let port = ports.element().map().unwrap().field("port").unwrap();
//! assert_eq!(port.scalar(), Some(Scalar::Numeric));
//! assert!(object.field("other").is_none() && object.element().is_none());
//! // Every object has metadata, whose types are Kubernetes'.
//! let metadata = object.field("metadata").unwrap().map().unwrap();
//! let finalizers = metadata.field("finalizers").unwrap().list().unwrap();
//! assert!(matches!(finalizers.relation(), ListRelation::Set));
//! ```

mod built_in;
#[cfg(test)]
mod tests;

use kindom_api::Value;

use crate::node::{Additional, Atom, Fields, ListKind, Node};

pub use built_in::{Declared, built_in};

/// The type of a value at some place, and its way of merging (structured-merge-diff's `TypeRef`, resolved).
#[derive(Debug, Clone, Copy)]
pub struct MergeType<'a>(Type<'a>);

#[derive(Debug, Clone, Copy)]
enum Type<'a> {
    /// `__untyped_deduced_`: the kind of the value decides how it merges.
    Deduced,
    /// `__untyped_atomic_`: anything, of one owner.
    Untyped,
    /// An object of which nothing is known: its fields are deduced.
    Open,
    /// A string.
    Text,
    Node(View<'a>),
}

/// A node, and the settings that it has from above.
#[derive(Debug, Clone, Copy)]
struct View<'a> {
    node: &'a Node,
    /// `true` if unknown fields are kept: here, above, or everywhere.
    open: bool,
    /// `true` if they are kept everywhere: in metadata, too, whose own schema does not demand it.
    open_everywhere: bool,
    /// `true` for the object or an embedded one: it has `apiVersion`, `kind` and `metadata` even if the schema does not list
    /// them.
    resource: bool,
    /// `true` if a name refers to it here: it is a built-in schema.
    named: bool,
}

/// A kind of scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// An integer or a float.
    Numeric,
    /// A string.
    String,
    /// A boolean.
    Boolean,
    /// Any of them.
    Untyped,
}

/// A list's items to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListRelation<'a> {
    /// The list has one owner.
    Atomic,
    /// Each item has its own owners, and is identified by its value.
    Set,
    /// Each item has its owners, known by these fields of it; never empty, in the schema's order.
    Keys(&'a [Box<str>]),
}

impl<'a> MergeType<'a> {
    /// Any scalar, maps by their fields, atomic lists: the type of values without a schema.
    #[must_use]
    pub fn deduced() -> MergeType<'static> {
        MergeType(Type::Deduced)
    }

    /// The objects of a registered type. `root` is `None` if no schema is published: then their fields are deduced, metadata
    /// too.
    pub(crate) fn of_object(root: Option<&'a Node>, open_everywhere: bool) -> Self {
        Self(root.map_or(Type::Open, |node| {
            let open = open_everywhere || node.preserve;
            Type::Node(View { node, open, open_everywhere, resource: true, named: false })
        }))
    }

    /// The kind of scalar that may stand here; `None` if no scalar may.
    #[must_use]
    pub fn scalar(self) -> Option<Scalar> {
        match self.0 {
            Type::Deduced | Type::Untyped => Some(Scalar::Untyped),
            Type::Open => None,
            Type::Text => Some(Scalar::String),
            Type::Node(View { node, .. }) => match node.atom {
                Atom::Any | Atom::Formatted => Some(Scalar::Untyped),
                Atom::Numeric => Some(Scalar::Numeric),
                Atom::String => Some(Scalar::String),
                Atom::Boolean => Some(Scalar::Boolean),
                Atom::Map | Atom::List => None,
            },
        }
    }

    /// The list that may be here, if one may.
    #[must_use]
    pub fn list(self) -> Option<ListType<'a>> {
        match self.0 {
            Type::Deduced | Type::Untyped => Some(ListType(None)),
            Type::Node(view) if matches!(view.node.atom, Atom::Any | Atom::List) => {
                Some(ListType(Some(view)))
            }
            Type::Open | Type::Text | Type::Node(_) => None,
        }
    }

    /// The map that may be here, if one may.
    #[must_use]
    pub fn map(self) -> Option<MapType<'a>> {
        match self.0 {
            Type::Deduced | Type::Open => Some(MapType(Map::Deduced)),
            Type::Untyped => Some(MapType(Map::Untyped)),
            Type::Node(view) if matches!(view.node.atom, Atom::Any | Atom::Map) => {
                Some(MapType(Map::Node(view)))
            }
            Type::Text | Type::Node(_) => None,
        }
    }

    /// Returns true for the type of a value that no schema describes, or for a scalar of any kind that a schema describes
    /// (`isUntypedDeducedRef` in structured-merge-diff's `typed/reconcile_schema.go`).
    fn is_deduced(self) -> bool {
        match self.0 {
            Type::Deduced => true,
            Type::Node(View { node, named, .. }) => {
                !named && matches!(node.atom, Atom::Any | Atom::Formatted)
            }
            Type::Untyped | Type::Open | Type::Text => false,
        }
    }
}

/// A list that may be somewhere.
#[derive(Debug, Clone, Copy)]
pub struct ListType<'a>(
    /// None for an atomic list of anything.
    Option<View<'a>>,
);

impl<'a> ListType<'a> {
    /// The relation of the list's items.
    #[must_use]
    pub fn relation(self) -> ListRelation<'a> {
        let Some(View { node, .. }) = self.0 else { return ListRelation::Atomic };
        match (node.list, node.map_keys()) {
            (ListKind::Set, _) => ListRelation::Set,
            // A registration's validation lets no list in that has items by keys, and no keys.
            (ListKind::Atomic, _) | (ListKind::Map, []) => ListRelation::Atomic,
            (ListKind::Map, keys) => ListRelation::Keys(keys),
        }
    }

    /// The type of its items.
    #[must_use]
    pub fn element(self) -> MergeType<'a> {
        let element = self.0.and_then(|view| Some(view.child(view.node.items.as_deref()?)));
        MergeType(element.unwrap_or(Type::Untyped))
    }

    /// The default of a field of its items, for an item without the field; `None` if it has no default. The caller reports
    /// an error for items that may be no map ([`Self::element`]) (`getAssociativeKeyDefault` in structured-merge-diff's
    /// `typed/helpers.go`).
    #[must_use]
    pub fn key_default(self, key: &str) -> Option<&'a Value> {
        let Map::Node(view) = self.element().map()?.0 else { return None };
        match view.of_resource(key) {
            Some(_) => None,
            None => view.node.property(key)?.default.as_deref(),
        }
    }
}

/// A map that may be somewhere.
#[derive(Debug, Clone, Copy)]
pub struct MapType<'a>(Map<'a>);

#[derive(Debug, Clone, Copy)]
enum Map<'a> {
    /// Its fields are deduced.
    Deduced,
    /// An atomic one of anything.
    Untyped,
    Node(View<'a>),
}

impl<'a> MapType<'a> {
    /// Returns true if the map has one owner, not one for each of its fields.
    #[must_use]
    pub fn is_atomic(self) -> bool {
        match self.0 {
            Map::Deduced => false,
            Map::Untyped => true,
            Map::Node(View { node, .. }) => node.atomic_map,
        }
    }

    /// The type of a field that the schema names; see [`Self::element`] for others.
    #[must_use]
    pub fn field(self, name: &str) -> Option<MergeType<'a>> {
        let Map::Node(view) = self.0 else { return None };
        view.of_resource(name).or_else(|| Some(view.child(view.node.property(name)?))).map(MergeType)
    }

    /// The fields that the schema names, in no order.
    pub fn fields(self) -> impl Iterator<Item = (&'a str, MergeType<'a>)> {
        let view = if let Map::Node(view) = self.0 { Some(view) } else { None };
        let of_resource = ["apiVersion", "kind", "metadata"]
            .into_iter()
            .filter_map(move |name| Some((name, MergeType(view?.of_resource(name)?))));
        let named = view.into_iter().flat_map(|view| {
            let own = view.node.properties().filter(move |(name, _)| view.of_resource(name).is_none());
            own.map(move |(name, node)| (name, MergeType(view.child(node))))
        });
        of_resource.chain(named)
    }

    /// The type of the fields that the schema does not name; none if there may be none
    /// (`field not declared in schema`).
    #[must_use]
    pub fn element(self) -> Option<MergeType<'a>> {
        let view = match self.0 {
            Map::Deduced => return Some(MergeType(Type::Deduced)),
            Map::Untyped => return Some(MergeType(Type::Untyped)),
            Map::Node(view) => view,
        };
        match view.node.additional() {
            Additional::Unset => (view.open || !view.has_fields()).then_some(MergeType(Type::Deduced)),
            Additional::Any => Some(MergeType(Type::Deduced)),
            Additional::No => None,
            Additional::Schema(node) => Some(MergeType(view.child(node))),
        }
    }

    /// Returns true if nothing is known of the map but that its fields may be anything; the owned fields then tell if it was
    /// one value (`isUntypedDeducedMap` in structured-merge-diff's `typed/reconcile_schema.go`).
    #[must_use]
    pub fn is_deduced(self) -> bool {
        let has_fields = matches!(self.0, Map::Node(view) if view.has_fields());
        !has_fields && self.element().is_some_and(MergeType::is_deduced)
    }
}

impl<'a> View<'a> {
    /// The type of a node below this one.
    fn child(self, node: &'a Node) -> Type<'a> {
        let named = node.reference.and_then(built_in::named);
        let (node, open) = match named {
            // A schema that is referred to by name takes no settings from above.
            Some(node) => (node, self.open_everywhere),
            None => (node, self.open),
        };
        Type::Node(View {
            node,
            open: open || node.preserve,
            open_everywhere: self.open_everywhere,
            resource: node.embedded,
            named: named.is_some(),
        })
    }

    /// The fields that every object has, and every embedded one (`addEmbeddedProperties` and `addTypeMetaProperties` in
    /// apiextensions-apiserver's `pkg/controller/openapi/builder`).
    fn of_resource(self, name: &str) -> Option<Type<'a>> {
        match name {
            "apiVersion" | "kind" if self.resource => Some(Type::Text),
            "metadata" if self.resource => Some(built_in::object_meta().map_or(Type::Open, |node| {
                let open_everywhere = self.open_everywhere;
                Type::Node(View {
                    node,
                    open: open_everywhere,
                    open_everywhere,
                    resource: false,
                    named: true,
                })
            })),
            _ => None,
        }
    }

    fn has_fields(self) -> bool {
        self.resource || !self.node.fields.as_deref().is_none_or(Fields::is_empty)
    }
}
