//! Values as expressions see them: through the compiled nodes (`apiserver/pkg/cel/common/values.go`, `UnstructuredToVal`).

use kindom_cel::shape::{Shape, ShapeKind};
use kindom_formats::Format;

use crate::node::{Additional, ListKind, Node, Types};

impl Shape for Node {
    fn kind(&self) -> ShapeKind {
        match self.types {
            Types::INT_OR_STRING => ShapeKind::IntOrString,
            Types::OBJECT => match self.additional() {
                Additional::Schema(_) if self.properties().next().is_none() && !self.embedded => {
                    ShapeKind::Map
                }
                _ => ShapeKind::Object,
            },
            Types::ARRAY => match self.list {
                ListKind::Atomic => ShapeKind::List,
                ListKind::Set => ShapeKind::Set,
                ListKind::Map => ShapeKind::ListMap,
            },
            Types::STRING => match self.format {
                Some(Format::Byte) => ShapeKind::Bytes,
                Some(Format::Date) => ShapeKind::Date,
                Some(Format::DateTime) => ShapeKind::DateTime,
                Some(Format::Duration) => ShapeKind::Duration,
                _ => ShapeKind::String,
            },
            Types::NUMBER => ShapeKind::Double,
            Types::INTEGER => ShapeKind::Int,
            Types::BOOLEAN => ShapeKind::Bool,
            _ => ShapeKind::Dyn,
        }
    }

    fn field(&self, name: &str) -> Option<&dyn Shape> {
        if self.embedded {
            return field_of_resource(self, name);
        }
        self.field(name).map(|node| node as &dyn Shape)
    }

    fn items(&self) -> Option<&dyn Shape> {
        self.items.as_deref().map(|node| node as &dyn Shape)
    }

    fn map_keys(&self) -> &[Box<str>] {
        self.map_keys()
    }
}

/// The root of a resource, whose type and names are there for expressions whatever its schema says.
#[derive(Debug)]
pub(crate) struct Resource<'a>(pub(crate) &'a Node);

impl Shape for Resource<'_> {
    fn kind(&self) -> ShapeKind {
        ShapeKind::Object
    }

    fn field(&self, name: &str) -> Option<&dyn Shape> {
        field_of_resource(self.0, name)
    }

    fn items(&self) -> Option<&dyn Shape> {
        None
    }

    fn map_keys(&self) -> &[Box<str>] {
        &[]
    }
}

fn field_of_resource<'a>(node: &'a Node, name: &str) -> Option<&'a dyn Shape> {
    match name {
        "apiVersion" | "kind" if !describes_itself(node) => Some(&Implied::String),
        "metadata" if !describes_itself(node) => Some(&Implied::Metadata),
        _ => node.field(name).map(|node| node as &dyn Shape),
    }
}

/// `model.WithTypeAndObjectMeta`
fn describes_itself(node: &Node) -> bool {
    let is = |node: Option<&Node>, types: Types| node.is_some_and(|node| node.types == types);
    let metadata = node.property("metadata");
    is(node.property("kind"), Types::STRING)
        && is(node.property("apiVersion"), Types::STRING)
        && is(metadata, Types::OBJECT)
        && ["name", "generateName"]
            .iter()
            .all(|name| is(metadata.and_then(|m| m.property(name)), Types::STRING))
}

/// The shapes of fields that need no schema.
#[derive(Debug)]
enum Implied {
    String,
    Metadata,
}

impl Shape for Implied {
    fn kind(&self) -> ShapeKind {
        match self {
            Self::String => ShapeKind::String,
            Self::Metadata => ShapeKind::Object,
        }
    }

    fn field(&self, name: &str) -> Option<&dyn Shape> {
        let known = matches!(self, Self::Metadata) && matches!(name, "name" | "generateName");
        known.then_some(&Self::String as &dyn Shape)
    }

    fn items(&self) -> Option<&dyn Shape> {
        None
    }

    fn map_keys(&self) -> &[Box<str>] {
        &[]
    }
}
