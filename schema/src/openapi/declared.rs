//! The published schemas of a declared kind ([`Declaration`]), as v3 has them.

use kindom_api::declaration::Declaration;
use kindom_api::decode::{Field, Items, Patched, Shape, Struct};
use kindom_api::meta::OBJECT_META;
use kindom_api::names::split_api_version;
use kindom_api::{Map, Value, json, object};

use super::{Form, GroupVersionDoc, INT_OR_STRING, META, MICRO_TIME, QUANTITY, RAW, gvk, published};

/// The schemas of a declared kind and of the structs in it, by their whole names.
pub(super) fn schemas(declaration: &Declaration) -> Map {
    let (group, version) = split_api_version(declaration.api_version).unwrap_or_default();
    let mut out = Map::new();
    let mut writer = Writer { nested: Nested::Named(declaration), found: vec![declaration.shape], done: 0 };
    while let Some(of) = writer.found.get(writer.done).copied() {
        writer.done += 1;
        let mut schema = writer.of_struct(of);
        if has_type_meta(of) {
            published::add_type_meta(&mut schema);
        }
        if std::ptr::eq(of, declaration.shape) {
            let gv = GroupVersionDoc { group, version };
            schema.insert("x-kubernetes-group-version-kind", vec![gvk(&gv, declaration.kind)]);
        }
        out.insert(declaration.schema_name(of), schema);
    }
    out
}

/// The schema of a declared kind with the structs in it where they stand, by which its values merge.
pub(crate) fn whole(declaration: &Declaration) -> Value {
    let mut writer = Writer { nested: Nested::Inline, found: Vec::new(), done: 0 };
    writer.of_struct(declaration.shape).into()
}

/// The place of the schema of a struct within another.
enum Nested<'a> {
    /// Where the struct stands.
    Inline,
    /// Under its name in a declaration.
    Named(&'a Declaration),
}

struct Writer<'a> {
    nested: Nested<'a>,
    /// The structs that have a schema under a name.
    found: Vec<&'static Struct>,
    /// The number of them that are written.
    done: usize,
}

fn shared(name: &str) -> Value {
    Form::V3.reference(&format!("{META}.{name}"))
}

impl Writer<'_> {
    fn of_struct(&mut self, of: &'static Struct) -> Map {
        let fields = of.fields.iter().filter(|field| !field.is_type_meta());
        let properties: Map = fields.map(|field| (field.name, self.of_field(field))).collect();
        let mut out = Map::new();
        out.insert("description", of.text);
        out.insert("type", "object");
        let required: Vec<Value> =
            of.fields.iter().filter(|f| is_required(f)).map(|f| f.name.into()).collect();
        if !required.is_empty() {
            out.insert("required", required);
        }
        if !properties.is_empty() {
            out.insert("properties", properties);
        }
        if of.is_atomic {
            out.insert("x-kubernetes-map-type", "atomic");
        }
        out
    }

    fn of_field(&mut self, field: &'static Field) -> Value {
        let value = self.of_shape(&field.shape);
        let mut out = Map::new();
        out.insert("description", field.text);
        match value {
            // A reference stands alone, and so gets wrapped to be described.
            Value::Object(map) if map.contains_key("$ref") => {
                if matches!(field.shape, Shape::Struct(_)) {
                    out.insert("default", Value::Object(Map::new()));
                }
                out.insert("allOf", vec![Value::Object(map)]);
            }
            Value::Object(map) => {
                for (keyword, value) in map.iter() {
                    if keyword != "description" {
                        out.insert(keyword, value.clone());
                    }
                }
            }
            _ => {}
        }
        if let Some(zero) = default(field) {
            out.insert("default", zero);
        }
        match field.items {
            Some(Items::Atomic) => drop(out.insert("x-kubernetes-list-type", "atomic")),
            Some(Items::Set) => drop(out.insert("x-kubernetes-list-type", "set")),
            Some(Items::Keys(keys)) => {
                let keys: Vec<Value> = keys.iter().map(|key| (*key).into()).collect();
                out.insert("x-kubernetes-list-map-keys", keys);
                out.insert("x-kubernetes-list-type", "map");
            }
            Some(Items::AtomicMap) => drop(out.insert("x-kubernetes-map-type", "atomic")),
            Some(Items::GranularMap) => drop(out.insert("x-kubernetes-map-type", "granular")),
            None => {}
        }
        if let Patched::MergesBy(key) = field.patched {
            out.insert("x-kubernetes-patch-merge-key", key);
        }
        let strategy = match (field.patched, field.retains_keys) {
            (Patched::Replaces, false) => None,
            (Patched::Replaces | Patched::ReplacesAny, true) => Some("retainKeys"),
            (Patched::ReplacesAny, false) => Some("replace"),
            (Patched::Adds | Patched::MergesBy(_), false) => Some("merge"),
            (Patched::Adds | Patched::MergesBy(_), true) => Some("merge,retainKeys"),
        };
        if let Some(strategy) = strategy {
            out.insert("x-kubernetes-patch-strategy", strategy);
        }
        out.into()
    }

    fn of_shape(&mut self, shape: &'static Shape) -> Value {
        match shape {
            Shape::String(_) => object! { "type": "string" },
            Shape::Bool => object! { "type": "boolean" },
            Shape::Int32 => object! { "type": "integer", "format": "int32" },
            Shape::Int64 => object! { "type": "integer", "format": "int64" },
            Shape::Float => object! { "type": "number", "format": "double" },
            Shape::Bytes => object! { "type": "string", "format": "byte" },
            Shape::Time => shared("Time"),
            Shape::MicroTime => Form::V3.reference(MICRO_TIME),
            Shape::Quantity => Form::V3.reference(QUANTITY),
            Shape::IntOrString => Form::V3.reference(INT_OR_STRING),
            Shape::Json | Shape::Custom(..) => object! { "type": "object" },
            Shape::List(item) => object! { "type": "array", "items": self.of_shape(item) },
            Shape::Map(value) => object! { "type": "object", "additionalProperties": self.of_shape(value) },
            // The only type with a name of its own that is any JSON is `runtime.RawExtension`.
            Shape::Named(_, Shape::Json) => Form::V3.reference(RAW),
            Shape::Pointer(of) | Shape::Named(_, of) => self.of_shape(of),
            Shape::Struct(of) if std::ptr::eq(*of, &OBJECT_META) => shared("ObjectMeta"),
            Shape::Struct(of) => match self.nested {
                Nested::Inline => {
                    let mut schema = self.of_struct(of);
                    if has_type_meta(of) {
                        published::add_type_meta(&mut schema);
                    }
                    schema.into()
                }
                Nested::Named(declaration) => {
                    if !self.found.iter().any(|found| std::ptr::eq(*found, *of)) {
                        self.found.push(of);
                    }
                    Form::V3.reference(&declaration.schema_name(of))
                }
            },
        }
    }
}

/// `true` for a kind, which may also stand within another one.
fn has_type_meta(of: &Struct) -> bool {
    of.fields.iter().any(Field::is_type_meta)
}

/// `true` for a field that is always written, but for structs, which Go cannot leave out, unless they are said to be.
fn is_required(field: &Field) -> bool {
    field.required.unwrap_or(!field.omit_empty && !field.shape.is_go_struct())
}

/// The zero value of a required field, which upstream publishes as its default.
fn default(field: &Field) -> Option<Value> {
    match field.shape {
        _ if !field.preset.is_empty() => json::parse(field.preset.as_bytes()).ok(),
        _ if field.omit_empty => None,
        Shape::String(_) => Some("".into()),
        Shape::Bool => Some(false.into()),
        Shape::Int32 | Shape::Int64 | Shape::Float => Some(Value::Int(0)),
        _ => None,
    }
}
