//! Decoding a tree as Go's decoder fills a typed struct.
//!
//! kube-apiserver reads built-in types with `sigs.k8s.io/json` (v1.37's fork of `encoding/json`): unknown fields are dropped
//! and, under strict validation, reported by path; a value of the wrong type fails the whole decode with a text that names
//! Go's types; `null` leaves a field at its zero value; and what is written back omits what is empty. A [`Struct`] describes
//! a Go struct; [`Struct::decode`] does all of that at once and gives back the tree that Go would encode again.
//!
//! ```
//! use kindom_api::{json, meta};
//! let tree = json::parse(br#"{"name":"a","labels":{},"nmae":"b","generation":0}"#)?;
//! let decoded = meta::OBJECT_META.decode(&tree)?;
//! assert_eq!(decoded.value.to_string(), r#"{"name":"a"}"#);
//! assert_eq!(decoded.unknown_fields, ["nmae"]);
//!
//! let wrong = json::parse(br#"{"labels":{"app":5}}"#)?;
//! assert_eq!(
//!     meta::OBJECT_META.decode(&wrong).unwrap_err().to_string(),
//!     "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod unstructured;

use std::fmt;

pub use unstructured::Converted;

use crate::field::go_quote;
use crate::json::Key;
use crate::meta::time;
use crate::quantity::Quantity;
use crate::{Map, Value};

/// Unknown fields beyond this many are dropped without being named, as upstream bounds its strict errors.
const UNKNOWN_FIELDS_MAX: usize = 100;

/// The shape of a Go type, as its JSON decoder and encoder see it.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// A string; its Go type's name, `string` or for example `types.UID`.
    String(&'static str),
    /// A `bool`.
    Bool,
    /// An `int32`.
    Int32,
    /// An `int64`.
    Int64,
    /// A `float64`.
    Float,
    /// A `[]byte`, written in base64.
    Bytes,
    /// A `metav1.Time`: RFC 3339 or null.
    Time,
    /// A `metav1.MicroTime`: RFC 3339 with six digits of a second, or null.
    MicroTime,
    /// A `resource.Quantity`: a string or a number, written as its canonical text.
    Quantity,
    /// An `intstr.IntOrString`.
    IntOrString,
    /// Any JSON, kept as it is.
    Json,
    /// A slice.
    List(&'static Shape),
    /// A map from strings.
    Map(&'static Shape),
    /// A struct.
    Struct(&'static Struct),
    /// A pointer: null and absent are the same, and any other value is kept even if it is empty.
    Pointer(&'static Shape),
    /// A shape whose Go type has a name of its own.
    Named(&'static str, &'static Shape),
    /// A type with its own `UnmarshalJSON`, which sees neither strictness nor the path; the Go struct's name comes
    /// first. The tree it gives is null if it encodes as null.
    Custom(&'static str, fn(&Value) -> Result<Value, DecodeError>),
}

/// The shape of a `runtime.RawExtension`: any JSON, of one owner.
pub const RAW_EXTENSION: Shape = Shape::Named("runtime.RawExtension", &Shape::Json);

/// A Go struct.
#[derive(Debug)]
pub struct Struct {
    /// With its package, as type errors print it: `v1.ObjectMeta`.
    pub go_type: &'static str,
    /// Its fields, in Go's order: where several are wrong, [`Struct::convert`] names the first.
    pub fields: &'static [Field],
    /// Its description in published schemas; empty where another table has it.
    pub text: &'static str,
    /// The package of its Go type, under whose name it is published; empty for that of the kind that it is a part of.
    pub go_package: &'static str,
    /// `true` if one owner has all of it under server-side apply (`+structType=atomic`).
    pub is_atomic: bool,
}

/// A field of a Go struct, or of a struct embedded in it, whose fields stand in its place in JSON.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its JSON name.
    pub name: &'static str,
    /// Its name in Go where it is not that in JSON with a capital; empty otherwise.
    pub in_go: &'static str,
    /// Its type.
    pub shape: Shape,
    /// `true` if it is left out of the output while it is empty (`omitempty`).
    pub omit_empty: bool,
    /// The way in which a strategic merge patch changes this field.
    pub patched: Patched,
    /// Patches that clients compute say which keys of it stay (`retainKeys`).
    pub retains_keys: bool,
    /// The number of the field in protobuf; 0 where another table has it.
    pub number: u32,
    /// Its description in published schemas; empty where another table has it.
    pub text: &'static str,
    /// The relation of a list's items to each other under server-side apply; `None` if none is published.
    pub items: Option<Items>,
    /// Says whether published schemas require the field (`+required`, `+optional`); `None` if that follows from the rest.
    pub required: Option<bool>,
    /// The default that is published, as JSON, where it is not the zero value of a field that is always written (`+default`).
    pub preset: &'static str,
    /// The embedded structs that it stands in, the outermost first.
    pub embedded: &'static [Embedded],
}

/// A struct that is embedded in another, which is a message of its own in protobuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Embedded {
    /// Its number in the message around it.
    pub number: u32,
    /// The name of its Go type.
    pub name: &'static str,
}

/// The relation of a list's items to each other under server-side apply (`x-kubernetes-list-type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Items {
    /// The list has one owner.
    Atomic,
    /// Each item has its own owners, and is identified by its value.
    Set,
    /// Each item has its own owners, and is identified by these fields.
    Keys(&'static [&'static str]),
    /// A map or a struct, rather than a list, that has one owner (`x-kubernetes-map-type`).
    AtomicMap,
    /// The keys of a map, or the fields of a struct, each by itself, which is the rule anyway.
    GranularMap,
}

/// The way in which a strategic merge patch changes a field that is a list (the tags `patchStrategy` and `patchMergeKey`).
/// Maps and structs merge, unless the tag is `replace`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patched {
    /// It takes the list's place.
    Replaces,
    /// It takes the place of a list, map or struct (`replace`).
    ReplacesAny,
    /// It adds items that the list does not have yet.
    Adds,
    /// It merges items that have the same value at this field, and adds the others.
    MergesBy(&'static str),
}

impl Field {
    /// A field with `omitempty`.
    #[must_use]
    pub const fn new(name: &'static str, shape: Shape) -> Self {
        Self {
            name,
            in_go: "",
            shape,
            omit_empty: true,
            patched: Patched::Replaces,
            retains_keys: false,
            number: 0,
            text: "",
            items: None,
            required: None,
            preset: "",
            embedded: &[],
        }
    }

    /// A field that is always written.
    #[must_use]
    pub const fn always(name: &'static str, shape: Shape) -> Self {
        Self { omit_empty: false, ..Self::new(name, shape) }
    }

    /// The same field, with the way in which a strategic merge patch changes it.
    #[must_use]
    pub const fn patched(self, patched: Patched) -> Self {
        Self { patched, ..self }
    }

    /// The same field, with its number in protobuf and its description.
    #[must_use]
    pub const fn declared(self, number: u32, text: &'static str) -> Self {
        Self { number, text, ..self }
    }

    /// The same field, which published schemas require although Go may leave it out.
    #[must_use]
    pub const fn required(self) -> Self {
        Self { required: Some(true), ..self }
    }

    /// The same field, with the relation of its items.
    #[must_use]
    pub const fn items(self, items: Items) -> Self {
        Self { items: Some(items), ..self }
    }

    /// `true` for the apiVersion or the kind of an object, which are no part of its message in protobuf.
    #[must_use]
    pub fn is_type_meta(&self) -> bool {
        self.number == 0 && matches!(self.name, "apiVersion" | "kind")
    }

    /// Its name in Go: that in JSON, with a capital; embedded metadata goes by its type's name.
    #[must_use]
    pub fn go_name(&self) -> String {
        match self.shape {
            _ if !self.in_go.is_empty() => self.in_go.to_owned(),
            Shape::Struct(of) if self.name == "metadata" => of.name().to_owned(),
            _ => {
                let mut rest = self.name.chars();
                rest.next().into_iter().flat_map(char::to_uppercase).chain(rest).collect()
            }
        }
    }
}

/// The result of decoding a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The tree without unknown and empty fields.
    pub value: Value,
    /// The paths of unknown fields, in the order met, at most 100: `spec.versions[0].schema.openAPIV3Schema.properties.x.foo`.
    pub unknown_fields: Vec<String>,
}

/// The reason why a tree does not fit a Go type; prints Go's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct DecodeError(Reason);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Reason {
    /// `json.UnmarshalTypeError`
    Type {
        value: String,
        go_type: String,
        in_struct: String,
        field: String,
    },
    Other(String),
}

impl DecodeError {
    /// An error with a text of its own.
    #[must_use]
    pub fn other(text: impl Into<String>) -> Self {
        Self(Reason::Other(text.into()))
    }

    fn mismatch(value: &Value, go_type: impl Into<String>) -> Self {
        let value = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::Float(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        Self(Reason::Type {
            value: value.to_owned(),
            go_type: go_type.into(),
            in_struct: String::new(),
            field: String::new(),
        })
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::Other(text) => f.write_str(text),
            Reason::Type { value, go_type, in_struct, field } if in_struct.is_empty() && field.is_empty() => {
                write!(f, "json: cannot unmarshal {value} into Go value of type {go_type}")
            }
            Reason::Type { value, go_type, in_struct, field } => {
                write!(
                    f,
                    "json: cannot unmarshal {value} into Go struct field {in_struct}.{field} of type {go_type}"
                )
            }
        }
    }
}

impl Shape {
    /// As type errors print it: `map[string]string`.
    fn go_type(&self) -> String {
        match self {
            Self::String(name) => (*name).to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int32 => "int32".to_owned(),
            Self::Int64 => "int64".to_owned(),
            Self::Float => "float64".to_owned(),
            Self::Bytes => "[]uint8".to_owned(),
            Self::Time => "v1.Time".to_owned(),
            Self::MicroTime => "v1.MicroTime".to_owned(),
            Self::Quantity => "resource.Quantity".to_owned(),
            Self::IntOrString => "intstr.IntOrString".to_owned(),
            Self::Json | Self::Custom(..) => "v1.JSON".to_owned(),
            Self::Named(name, _) => (*name).to_owned(),
            Self::List(item) => format!("[]{}", item.go_type()),
            Self::Map(value) => format!("map[string]{}", value.go_type()),
            Self::Struct(of) => of.go_type.to_owned(),
            Self::Pointer(to) => to.go_type(),
        }
    }

    /// Go's name for the kind of this type (`reflect.Kind`).
    #[must_use]
    pub fn go_kind(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Bool => "bool",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float => "float64",
            Self::Bytes | Self::List(_) => "slice",
            Self::Map(_) => "map",
            Self::Time
            | Self::MicroTime
            | Self::Quantity
            | Self::IntOrString
            | Self::Json
            | Self::Struct(_)
            | Self::Custom(..) => "struct",
            Self::Pointer(_) => "ptr",
            Self::Named(_, of) => of.go_kind(),
        }
    }

    /// `true` for a Go struct that is no pointer, which `omitempty` does not leave out.
    #[must_use]
    pub fn is_go_struct(&self) -> bool {
        match self {
            Self::Struct(_) | Self::Time | Self::MicroTime | Self::Quantity | Self::IntOrString => true,
            Self::Named(_, of) => of.is_go_struct(),
            _ => false,
        }
    }

    /// The zero value, as it is written.
    fn zero(&self) -> Value {
        match self {
            Self::String(_) => Value::String(String::new()),
            Self::Bool => Value::Bool(false),
            Self::Int32 | Self::Int64 | Self::Float | Self::IntOrString => Value::Int(0),
            Self::Quantity => Value::from("0"),
            Self::Struct(of) => {
                let fields = of.fields.iter().filter(|f| !f.omit_empty);
                fields.map(|f| (f.name, f.shape.zero())).collect::<Map>().into()
            }
            Self::Named(_, of) => of.zero(),
            Self::Bytes
            | Self::Time
            | Self::MicroTime
            | Self::Json
            | Self::List(_)
            | Self::Map(_)
            | Self::Pointer(_)
            | Self::Custom(..) => Value::Null,
        }
    }

    /// Returns true if a value certainly decodes without an error to itself. `false` proves nothing.
    fn keeps(&self, value: &Value) -> bool {
        match (self, value) {
            (_, Value::Null) => false,
            (Self::Pointer(to), value) => to.keeps(value),
            (Self::Json, _) => true,
            (Self::String(_), Value::String(_))
            | (Self::Bool, Value::Bool(_))
            | (Self::Int64, Value::Int(_))
            | (Self::IntOrString, Value::String(_)) => true,
            (Self::Int32 | Self::IntOrString, Value::Int(n)) => i32::try_from(*n).is_ok(),
            (Self::Quantity, Value::String(text)) => {
                Quantity::canonical(text).is_ok_and(|canonical| canonical == *text)
            }
            (Self::Time, Value::String(text)) => {
                time::parse(text).is_ok_and(|time| time != time::ZERO && time::format(time) == *text)
            }
            (Self::List(item), Value::Array(items)) => items.iter().all(|value| item.keeps(value)),
            (Self::Map(of), Value::Object(map)) => map.values().all(|value| of.keeps(value)),
            (Self::Struct(of), Value::Object(map)) => of.keeps(map),
            _ => false,
        }
    }

    /// `true` if `omitempty` leaves out this decoded value.
    fn omits(&self, value: &Value) -> bool {
        match (self, value) {
            // A struct is never empty to Go; a pointer only if it is nil, which was seen before.
            (Self::Struct(_) | Self::Pointer(_) | Self::Custom(..) | Self::Json, _)
            | (Self::Quantity | Self::IntOrString, _) => false,
            (Self::Named(_, of), value) => of.omits(value),
            (_, Value::Null | Value::Bool(false) | Value::Int(0)) => true,
            (_, Value::Float(x)) => *x == 0.0,
            (_, Value::String(s)) => s.is_empty(),
            (_, Value::Array(items)) => items.is_empty(),
            (_, Value::Object(map)) => map.is_empty(),
            (_, Value::Bool(true) | Value::Int(_)) => false,
        }
    }
}

impl Struct {
    /// A struct of these fields.
    #[must_use]
    pub const fn new(go_type: &'static str, fields: &'static [Field]) -> Self {
        Self { go_type, fields, text: "", go_package: "", is_atomic: false }
    }

    /// The same struct, with its description.
    #[must_use]
    pub const fn described(self, text: &'static str) -> Self {
        Self { text, ..self }
    }

    /// Decodes a tree.
    ///
    /// # Errors
    /// A value somewhere in the tree that does not fit its Go type: the first one in key order, unless a type that
    /// decodes itself fails, whose error wins as in Go.
    pub fn decode(&'static self, value: &Value) -> Result<Decoded, DecodeError> {
        self.decode_at(value, "")
    }

    /// Decodes a tree whose unknown fields are named below a path: `metadata` gives `metadata.x`.
    ///
    /// # Errors
    /// As for [`Struct::decode`].
    pub fn decode_at(&'static self, value: &Value, path: &str) -> Result<Decoded, DecodeError> {
        let mut state = State { path: path.to_owned(), ..State::default() };
        let value = match state.any(&Shape::Struct(self), value) {
            Ok(value) => value,
            Err(error) => return Err(state.with_context(error)),
        };
        match state.saved {
            Some(error) => Err(error),
            None => Ok(Decoded { value, unknown_fields: state.unknown_fields }),
        }
    }

    /// Returns true if a map certainly decodes without an error to itself; found without copying the map. `false` proves
    /// nothing.
    #[must_use]
    pub fn keeps(&self, map: &Map) -> bool {
        let known = |(name, value): (&str, &Value)| {
            let field = self.fields.iter().find(|field| field.name == name);
            field.is_some_and(|field| {
                field.shape.keeps(value) && !(field.omit_empty && field.shape.omits(value))
            })
        };
        map.iter().all(known)
            && self.fields.iter().all(|field| field.omit_empty || map.contains_key(field.name))
    }

    /// Makes the empty lists null that are written even so: as protobuf has no empty list, Kubernetes' store gives them back as
    /// none.
    pub fn forget_empty(&self, value: &mut Value) {
        let Some(map) = value.as_object_mut() else { return };
        for field in self.fields {
            let mut shape = &field.shape;
            while let Shape::Named(_, of) | Shape::Pointer(of) = shape {
                shape = of;
            }
            if !matches!(shape, Shape::List(_) | Shape::Struct(_) | Shape::Map(Shape::Struct(_))) {
                continue;
            }
            let Some(value) = map.get_mut(field.name) else { continue };
            match (shape, &mut *value) {
                (Shape::List(_), Value::Array(items)) if items.is_empty() && !field.omit_empty => {
                    *value = Value::Null;
                }
                (Shape::List(Shape::Struct(of)), Value::Array(items)) => {
                    items.iter_mut().for_each(|item| of.forget_empty(item));
                }
                (Shape::Map(Shape::Struct(of)), Value::Object(map)) => {
                    map.iter_mut().for_each(|(_, value)| of.forget_empty(value));
                }
                (Shape::Struct(of), value) => of.forget_empty(value),
                _ => {}
            }
        }
    }

    /// Its name without the package.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.go_type.rsplit('.').next().unwrap_or_default()
    }
}

#[derive(Default)]
struct State {
    path: String,
    /// The struct whose field is being decoded, and the fields that led to it (not the keys of maps).
    in_struct: &'static str,
    fields: Vec<&'static str>,
    saved: Option<DecodeError>,
    unknown_fields: Vec<String>,
}

impl State {
    fn with_context(&self, error: DecodeError) -> DecodeError {
        let DecodeError(reason) = error;
        DecodeError(match reason {
            Reason::Type { value, go_type, field, .. } if !self.fields.is_empty() => {
                let mut path = self.fields.join(".");
                if !field.is_empty() {
                    path.push('.');
                    path.push_str(&field);
                }
                Reason::Type { value, go_type, in_struct: self.in_struct.to_owned(), field: path }
            }
            other => other,
        })
    }

    /// Notes an error that lets decoding go on; the first one is reported at the end.
    fn save(&mut self, error: DecodeError) {
        if self.saved.is_none() {
            self.saved = Some(self.with_context(error));
        }
    }

    /// The value that a tree decodes to, as Go would encode it again. An `Err` ends decoding; it has no context yet. Shapes
    /// that do not recurse are handled elsewhere, to keep this stack frame small: a schema of a registration passes here at
    /// every level of its nesting.
    fn any(&mut self, mut shape: &Shape, value: &Value) -> Result<Value, DecodeError> {
        loop {
            shape = match (shape, value) {
                (Shape::Pointer(_), Value::Null) => return Ok(Value::Null),
                (Shape::Pointer(to), _) => to,
                (Shape::Named(_, of @ Shape::Json), _)
                | (Shape::Named(_, of @ Shape::Map(_)), Value::Object(_))
                | (Shape::Named(_, of @ Shape::List(_)), Value::Array(_)) => of,
                (Shape::Custom(_, decode), value) => return decode(value),
                (Shape::List(item), Value::Array(items)) => return self.list(item, items),
                (Shape::Map(of), Value::Object(map)) => return self.map(of, map),
                (Shape::Struct(of), Value::Object(map)) => return self.fields_of(of, map),
                (shape, value) => return self.scalar(shape, value),
            }
        }
    }

    /// Decodes a scalar; also a map or list where the type wants none, and null.
    fn scalar(&mut self, shape: &Shape, value: &Value) -> Result<Value, DecodeError> {
        match (shape, value) {
            (Shape::Json, value) => Ok(value.clone()),
            (shape, Value::Null) => Ok(shape.zero()),
            (Shape::String(_), Value::String(_)) | (Shape::Bool, Value::Bool(_)) => Ok(value.clone()),
            (Shape::Int32, Value::Int(n)) if i32::try_from(*n).is_ok() => Ok(value.clone()),
            (Shape::Int64, Value::Int(_)) => Ok(value.clone()),
            (Shape::Int32 | Shape::Int64, Value::Int(_) | Value::Float(_)) => {
                self.save(out_of_range(value, &shape.go_type()));
                Ok(Value::Null)
            }
            (Shape::Float, Value::Int(_) | Value::Float(_)) => {
                Ok(value.as_f64().map_or(Value::Null, Value::Float))
            }
            (Shape::Bytes, Value::String(text)) => {
                match base64_error(text) {
                    Some(at) => {
                        self.save(DecodeError::other(format!("illegal base64 data at input byte {at}")))
                    }
                    None => return Ok(canonical_base64(text).map_or_else(|| value.clone(), Value::String)),
                }
                Ok(Value::Null)
            }
            (Shape::Time, Value::String(text)) => match time::parse(text) {
                Ok(time::ZERO) => Ok(Value::Null),
                Ok(seconds) => Ok(Value::String(time::format(seconds))),
                Err(error) => Err(DecodeError::other(error.to_string())),
            },
            (Shape::MicroTime, Value::String(text)) => match time::parse_micro(text) {
                Ok((time::ZERO, 0)) => Ok(Value::Null),
                Ok((seconds, micros)) => Ok(Value::String(time::format_micro(seconds, micros))),
                Err(error) => Err(DecodeError::other(error.to_string())),
            },
            // These decode themselves, through a plain string.
            (Shape::Time | Shape::MicroTime, value) => Err(DecodeError::mismatch(value, "string")),
            (Shape::Quantity, value) => {
                let text = value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_owned());
                Ok(Value::String(Quantity::canonical(&text).map_err(DecodeError::other)?))
            }
            (Shape::IntOrString, Value::String(_)) => Ok(value.clone()),
            (Shape::IntOrString, Value::Int(n)) if i32::try_from(*n).is_ok() => Ok(value.clone()),
            (Shape::IntOrString, value) => Err(out_of_range(value, "int32")),
            (shape, value) => {
                self.save(DecodeError::mismatch(value, shape.go_type()));
                Ok(shape.zero())
            }
        }
    }

    fn list(&mut self, item: &Shape, items: &[Value]) -> Result<Value, DecodeError> {
        let length = self.path.len();
        let mut out = Vec::with_capacity(items.len());
        for (i, value) in items.iter().enumerate() {
            self.path.push_str(&format!("[{i}]"));
            out.push(self.any(item, value)?);
            self.path.truncate(length);
        }
        Ok(Value::Array(out.into()))
    }

    fn map(&mut self, of: &Shape, map: &Map) -> Result<Value, DecodeError> {
        let length = self.path.len();
        let mut out = Vec::with_capacity(map.len());
        for (key, value) in map.iter() {
            self.step(key);
            out.push((key.into(), self.any(of, value)?));
            self.path.truncate(length);
        }
        Ok(Value::Object(Map::from_entries(out)))
    }

    fn fields_of(&mut self, of: &'static Struct, map: &Map) -> Result<Value, DecodeError> {
        let (length, depth, outer) = (self.path.len(), self.fields.len(), self.in_struct);
        let mut out: Vec<(Key, Value)> = Vec::with_capacity(map.len());
        for (key, value) in map.iter() {
            let Some(field) = of.fields.iter().find(|f| f.name == key) else {
                self.step(key);
                if self.unknown_fields.len() < UNKNOWN_FIELDS_MAX {
                    self.unknown_fields.push(self.path.clone());
                }
                self.path.truncate(length);
                continue;
            };
            self.in_struct = of.name();
            self.fields.push(field.name);
            self.step(key);
            let decoded = self.any(&field.shape, value)?;
            self.path.truncate(length);
            self.fields.truncate(depth);
            self.in_struct = outer;
            let absent = value.is_null() && matches!(field.shape, Shape::Pointer(_));
            let omitted = field.omit_empty && (absent || field.shape.omits(&decoded));
            if !omitted {
                out.push((field.name.into(), decoded));
            }
        }
        for field in of.fields.iter().filter(|f| !f.omit_empty && !map.contains_key(f.name)) {
            out.push((field.name.into(), field.shape.zero()));
        }
        Ok(Value::Object(Map::from_entries(out)))
    }

    fn step(&mut self, key: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(key);
    }
}

/// The error of a value that is no integer of a type, which names a number that is none.
fn out_of_range(value: &Value, go_type: &str) -> DecodeError {
    let mut error = DecodeError::mismatch(value, go_type);
    if let (Reason::Type { value: text, .. }, Value::Int(_) | Value::Float(_)) = (&mut error.0, value) {
        *text = format!("number {value}");
    }
    error
}

/// The offset of the first byte that is no standard base64 with padding; `None` if all of it is (Go's `base64.StdEncoding`,
/// which skips line ends).
fn base64_error(text: &str) -> Option<usize> {
    let end = text.len();
    let mut bytes = text.bytes().enumerate().filter(|(_, b)| !matches!(b, b'\n' | b'\r'));
    loop {
        // Groups of four; one that ends too early is reported where it began.
        for in_group in 0..4 {
            let Some((at, byte)) = bytes.next() else {
                return (in_group > 0).then(|| end.saturating_sub(in_group));
            };
            if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/') {
                continue;
            }
            if byte != b'=' || in_group < 2 {
                return Some(at);
            }
            if in_group == 2 {
                match bytes.next() {
                    Some((_, b'=')) => {}
                    Some(_) => return Some(at),
                    None => return Some(end),
                }
            }
            return bytes.next().map(|(at, _)| at);
        }
    }
}

/// Base64 that Go reads, as Go writes it: without line ends, and with no bit behind the last byte. `None` if it is so already.
fn canonical_base64(text: &str) -> Option<String> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'\n' | b'\r')).collect();
    let padding = bytes.iter().rev().take_while(|b| **b == b'=').count();
    let unused = [0, 0b11, 0b1111].get(padding).copied().unwrap_or_default();
    let last = bytes.len().checked_sub(padding + 1);
    if let Some(last) = last.and_then(|at| bytes.get_mut(at))
        && let Some(bits) = ALPHABET.iter().position(|b| b == last)
        && let Some(kept) = ALPHABET.get(bits & !unused)
    {
        *last = *kept;
    }
    (bytes != text.as_bytes()).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// The error of a value whose Go type wants something else, for types that decode themselves.
#[must_use]
pub fn type_error(value: &Value, go_type: &str) -> DecodeError {
    DecodeError::mismatch(value, go_type)
}

/// An unknown field as strict decoding words it: `unknown field "spec.x"`.
#[must_use]
pub fn unknown_field(path: &str) -> String {
    format!("unknown field {}", go_quote(path))
}

#[cfg(test)]
mod tests {
    use super::{base64_error, canonical_base64};
    use crate::crd::decode_crd;
    use crate::json::parse;

    #[test]
    fn base64_is_as_go_writes_it() {
        for (text, canonical) in [
            ("", None),
            ("QUJD", None),
            ("QQ==", None),
            ("QR==", Some("QQ==")),
            ("Qf==", Some("QQ==")),
            ("QUL=", Some("QUI=")),
            ("QUI=\n", Some("QUI=")),
            ("QU\r\nJD", Some("QUJD")),
            ("\n", Some("")),
        ] {
            assert_eq!(canonical_base64(text).as_deref(), canonical, "{text:?}");
        }
    }

    #[test]
    fn base64_is_checked() {
        for good in ["", "QQ==", "QUI=", "QUJD", "QU\nJD", "+/+/"] {
            assert_eq!(base64_error(good), None, "{good}");
        }
        for (bad, at) in [
            ("Q", 0),
            ("QUI", 0),
            ("QUJDQQ", 4),
            ("QQ=", 3),
            ("QQ=Q", 2),
            ("QQ==Q", 4),
            ("Q=", 1),
            ("=", 0),
            ("QUJD=", 4),
            ("Q!==", 1),
            ("QUJDé", 4),
        ] {
            assert_eq!(base64_error(bad), Some(at), "{bad}");
        }
    }

    #[test]
    fn unknown_fields_below_types_that_decode_themselves_go_unseen() {
        let tree = parse(
            br#"{"x":1,"spec":{"versions":[{"schema":{"openAPIV3Schema":{"properties":{"a":{"foo":1,"items":{"foo":1}}},"additionalProperties":{"foo":1},"default":{"foo":1}}}}]}}"#,
        );
        let (crd, unknown) = decode_crd(&tree.unwrap()).unwrap();
        assert_eq!(unknown, ["spec.versions[0].schema.openAPIV3Schema.properties.a.foo", "x"]);
        assert_eq!(
            crd.spec.versions[0].open_api_v3_schema().unwrap().to_string(),
            r#"{"additionalProperties":{},"default":{"foo":1},"properties":{"a":{"items":{}}}}"#
        );
    }

    #[test]
    fn at_most_a_hundred_unknown_fields_are_named() {
        let fields: Vec<String> = (0..300).map(|i| format!("\"x{i}\":1")).collect();
        let tree = parse(format!("{{{}}}", fields.join(",")).as_bytes()).unwrap();
        assert_eq!(decode_crd(&tree).unwrap().1.len(), 100);
    }
}
