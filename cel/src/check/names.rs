//! The names that every expression may refer to (cel-go `common/stdlib`, `common/types/provider.go`, and
//! `apiserver/pkg/cel/types.go`, `DeclTypeProvider`).

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use crate::decl::Object;
use crate::library::Functions;
use crate::types::Type;

/// The only constant that is a name.
pub(super) const NULL_VALUE: &str = "google.protobuf.NullValue.NULL_VALUE";

/// The first parts of the type names that have several.
pub(super) const NAMESPACES: [&str; 2] = ["google", "net"];

/// The type of a name.
pub(super) fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" | "google.protobuf.BoolValue" => Type::Bool,
        "bytes" | "google.protobuf.BytesValue" => Type::Bytes,
        "double" | "google.protobuf.DoubleValue" | "google.protobuf.FloatValue" => Type::Double,
        "int" | "google.protobuf.Int64Value" | "google.protobuf.Int32Value" => Type::Int,
        "uint" | "google.protobuf.UInt64Value" | "google.protobuf.UInt32Value" => Type::Uint,
        "string" | "google.protobuf.StringValue" => Type::String,
        "duration" | "google.protobuf.Duration" => Type::Duration,
        "timestamp" | "google.protobuf.Timestamp" => Type::Timestamp,
        "null_type" => Type::Null,
        "list" | "google.protobuf.ListValue" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "google.protobuf.Struct" => Type::map(Type::String, Type::Dyn),
        "google.protobuf.Value" | "google.protobuf.Any" => Type::Dyn,
        "type" => Type::Opaque("type"),
        "optional_type" => Type::optional(Type::Dyn),
        "net.IP" => Type::Opaque("net.IP"),
        "net.CIDR" => Type::Opaque("net.CIDR"),
        _ => return None,
    })
}

/// Returns true if cel-go takes an opaque type for a message type, although it has no fields.
pub(super) fn is_message(name: &str) -> bool {
    name.starts_with("kubernetes.")
}

/// The type of an object's field. Names that are words of the language are escaped in declarations, and need not be in
/// expressions (`DeclTypeProvider.FindStructFieldType`).
pub(super) fn field(object: &Arc<Object>, name: &str) -> Option<Type> {
    let found = object.fields.get(name).or_else(|| {
        let reserved = crate::parse::reserved(name) && !matches!(name, "true" | "false" | "null" | "in");
        reserved.then(|| object.fields.get(format!("__{name}__").as_str())).flatten()
    });
    found.map(crate::decl::Decl::to_type)
}

/// Returns true if a function is there only where patches are made (`library.JSONPatch`).
pub(super) fn is_of_patches(function: &str) -> bool {
    function.starts_with("jsonpatch.")
}

/// Returns true if there are functions whose names begin with this namespace and a dot.
pub(super) fn has_functions(namespace: &str) -> bool {
    static NAMESPACES: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
        let names = Functions::all().iter().map(|function| function.name);
        names.filter_map(|name| name.split_once('.')).map(|(namespace, _)| namespace).collect()
    });
    NAMESPACES.contains(namespace)
}
