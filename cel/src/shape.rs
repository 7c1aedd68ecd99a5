//! A value of the server's tree as evaluation sees it (`apiserver/pkg/cel/common/values.go`, `UnstructuredToVal`).

/// A schema as evaluation asks it. The schema crate's compiled nodes are shapes; [`Untyped`] is the shape of anything.
pub trait Shape: std::fmt::Debug + Sync {
    /// The kind of the values here.
    fn kind(&self) -> ShapeKind;
    /// The shape of a field by its real, unescaped name: a property's, else that of additional properties.
    fn field(&self, name: &str) -> Option<&dyn Shape>;
    /// The shape of items.
    fn items(&self) -> Option<&dyn Shape>;
    /// The keys of a list of type map.
    fn map_keys(&self) -> &[Box<str>];
}

/// The kind of a value, as an expression sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapeKind {
    /// Whatever the tree says: unknown fields that are preserved.
    Dyn,
    /// An integer or a string.
    IntOrString,
    /// A bool.
    Bool,
    /// An integer.
    Int,
    /// A number, also where it is written whole.
    Double,
    /// A string.
    String,
    /// A string of format `byte`: bytes in base64.
    Bytes,
    /// A string of format `date`: a timestamp.
    Date,
    /// A string of format `date-time`: a timestamp.
    DateTime,
    /// A string of format `duration`.
    Duration,
    /// A list, atomic or not typed.
    List,
    /// A list of type set: equal in any order, and added to without duplicates.
    Set,
    /// A list of type map: equal in any order, and added to by key.
    ListMap,
    /// Additional properties of one shape.
    Map,
    /// Properties.
    Object,
}

/// The shape of a value that no schema describes.
#[derive(Debug)]
pub struct Untyped;

impl Shape for Untyped {
    fn kind(&self) -> ShapeKind {
        ShapeKind::Dyn
    }

    fn field(&self, _: &str) -> Option<&dyn Shape> {
        None
    }

    fn items(&self) -> Option<&dyn Shape> {
        None
    }

    fn map_keys(&self) -> &[Box<str>] {
        &[]
    }
}
