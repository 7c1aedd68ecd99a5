//! Reading a tree into a Go struct without JSON in between (apimachinery `pkg/runtime/converter.go`, 1.37), as strategic
//! merge patches do: numbers are converted more freely than by the JSON decoder, errors have texts of their own, and
//! unknown fields are named by other paths, which leave out the keys of maps.

use super::{DecodeError, Shape, State, Struct, UNKNOWN_FIELDS_MAX};
use crate::json::Key;
use crate::{Map, Value};

/// The result of converting a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Converted {
    /// The tree with its numbers converted, which [`Struct::decode`] takes without an error. Unknown fields are still in it.
    pub value: Value,
    /// The paths of unknown fields, sorted, at most 100.
    pub unknown_fields: Vec<String>,
}

impl Struct {
    /// Reads a tree as `runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation` does.
    ///
    /// # Errors
    /// The first value, in the order of the Go struct's fields, that cannot be what it has to be; with upstream's text.
    pub fn convert(&'static self, value: &Value) -> Result<Converted, DecodeError> {
        let mut walk = Walk { path: String::new(), unknown_fields: Vec::new() };
        let value = walk.convert(&Shape::Struct(self), value)?;
        walk.unknown_fields.sort_unstable();
        Ok(Converted { value, unknown_fields: walk.unknown_fields })
    }
}

struct Walk {
    path: String,
    unknown_fields: Vec<String>,
}

/// Go's name for the kind of a value in an unstructured tree.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

fn error(text: String) -> DecodeError {
    DecodeError::other(text)
}

/// `true` if Go converts a value of this type to a scalar one at all. It does so between all numbers, and from whole
/// numbers to strings, which the converter then refuses.
fn is_convertible(shape: &Shape, value: &Value) -> bool {
    match shape {
        Shape::String(_) => matches!(value, Value::String(_) | Value::Int(_)),
        Shape::Bool => matches!(value, Value::Bool(_)),
        _ => matches!(value, Value::Int(_) | Value::Float(_)),
    }
}

/// Go's conversion of a float that is a whole number.
#[expect(clippy::cast_possible_truncation, reason = "as Go does on amd64, but for what does not fit")]
fn truncated(x: f64) -> i64 {
    x as i64
}

/// Go's conversion to an `int32`, which keeps the lower half.
fn lower_half(n: i64) -> i64 {
    let low = n.rem_euclid(1 << 32);
    if low >= 1 << 31 { low - (1 << 32) } else { low }
}

impl Walk {
    fn convert(&mut self, shape: &Shape, value: &Value) -> Result<Value, DecodeError> {
        if value.is_null() {
            return Ok(Value::Null);
        }
        match shape {
            Shape::Pointer(of) | Shape::Named(_, of) => self.convert(of, value),
            Shape::Json => Ok(value.clone()),
            // These decode themselves, and so go through JSON after all.
            Shape::Custom(..) | Shape::Time | Shape::MicroTime | Shape::Quantity | Shape::IntOrString => {
                State::default().any(shape, value)?;
                Ok(value.clone())
            }
            Shape::String(_) | Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Float => {
                scalar(shape, value)
            }
            Shape::Bytes => match value {
                Value::String(text) => match super::base64_error(text) {
                    Some(at) => Err(error(format!(
                        "error decoding from json: illegal base64 data at input byte {at}"
                    ))),
                    None => Ok(value.clone()),
                },
                Value::Array(items) => bytes(items),
                other => Err(error(format!("cannot restore slice from {}", kind(other)))),
            },
            Shape::List(item) => match value {
                Value::Array(items) => self.list(item, items),
                other => Err(error(format!("cannot restore slice from {}", kind(other)))),
            },
            Shape::Map(of) => match value {
                Value::Object(map) => {
                    let converted = map.iter().map(|(key, value)| Ok((key.into(), self.convert(of, value)?)));
                    Ok(Value::Object(Map::from_entries(converted.collect::<Result<_, DecodeError>>()?)))
                }
                other => Err(error(format!("cannot restore map from {}", kind(other)))),
            },
            Shape::Struct(of) => match value {
                Value::Object(map) => self.fields(of, map),
                other => Err(error(format!("cannot restore struct from: {}", kind(other)))),
            },
        }
    }

    fn list(&mut self, item: &Shape, items: &[Value]) -> Result<Value, DecodeError> {
        let length = self.path.len();
        let mut out = Vec::with_capacity(items.len());
        for (i, value) in items.iter().enumerate() {
            self.path.push_str(&format!("[{i}]"));
            out.push(self.convert(item, value)?);
            self.path.truncate(length);
        }
        Ok(Value::Array(out.into()))
    }

    fn fields(&mut self, of: &Struct, map: &Map) -> Result<Value, DecodeError> {
        let length = self.path.len();
        let mut out: Vec<(Key, Value)> = Vec::with_capacity(map.len());
        for field in of.fields {
            let Some(value) = map.get(field.name) else { continue };
            self.step(field.name);
            out.push((field.name.into(), self.convert(&field.shape, value)?));
            self.path.truncate(length);
        }
        for (key, value) in map.iter() {
            if of.fields.iter().any(|field| field.name == key) {
                continue;
            }
            if self.unknown_fields.len() < UNKNOWN_FIELDS_MAX {
                self.step(key);
                self.unknown_fields.push(self.path.clone());
                self.path.truncate(length);
            }
            out.push((key.into(), value.clone()));
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

fn scalar(shape: &Shape, value: &Value) -> Result<Value, DecodeError> {
    Ok(match (shape, value) {
        (Shape::String(_), Value::String(_))
        | (Shape::Bool, Value::Bool(_))
        | (Shape::Int64, Value::Int(_))
        | (Shape::Float, Value::Int(_) | Value::Float(_)) => value.clone(),
        (Shape::Int32, Value::Int(n)) => Value::Int(lower_half(*n)),
        (Shape::Int64, Value::Float(x)) if x.trunc() == *x => Value::Int(truncated(*x)),
        (Shape::Int32, Value::Float(x)) if x.trunc() == *x => Value::Int(lower_half(truncated(*x))),
        (shape, value) if is_convertible(shape, value) => {
            return Err(error(format!("cannot convert {} to {}", kind(value), shape.go_type())));
        }
        (shape, _) => return Err(error(format!("unrecognized type: {}", shape.go_kind()))),
    })
}

/// A `[]byte` as a list of its bytes, of which no type makes use: it is written as base64.
fn bytes(items: &[Value]) -> Result<Value, DecodeError> {
    if items.is_empty() {
        return Ok(Value::String(String::new()));
    }
    Err(error("a list of bytes is not supported, only base64".to_owned()))
}

#[cfg(test)]
mod tests {
    use crate::crd::CRD;
    use crate::json::parse;

    fn check(tree: &str, want: &str) {
        let got = match CRD.convert(&parse(tree.as_bytes()).unwrap()) {
            Ok(converted) => {
                assert!(CRD.decode(&converted.value).is_ok(), "{tree}");
                format!("{} {:?}", converted.value, converted.unknown_fields)
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(got, want, "{tree}");
    }

    #[test]
    fn numbers_are_converted() {
        check(r#"{"metadata":{"generation":2.0e0}}"#, r#"{"metadata":{"generation":2}} []"#);
        let column = |priority: &str| {
            format!(
                r#"{{"spec":{{"versions":[{{"additionalPrinterColumns":[{{"priority":{priority}}}]}}]}}}}"#
            )
        };
        check(&column("4294967297"), &format!("{} []", column("1")));
        check(&column("2147483648"), &format!("{} []", column("-2147483648")));
        check(&column("-1"), &format!("{} []", column("-1")));
        check(&column("1.5"), "cannot convert float64 to int32");
        check(&column("\"1\""), "unrecognized type: int32");
        check(&column("null"), &format!("{} []", column("null")));
    }

    #[test]
    fn the_first_error_is_that_of_the_first_field() {
        check(r#"{"metadata":{"uid":5,"labels":5}}"#, "cannot convert int64 to types.UID");
        check(r#"{"metadata":{"uid":1.5}}"#, "unrecognized type: string");
        check(r#"{"metadata":{"uid":true}}"#, "unrecognized type: string");
        check(r#"{"spec":{"scope":5}}"#, "cannot convert int64 to v1.ResourceScope");
        check(r#"{"spec":{"preserveUnknownFields":1}}"#, "unrecognized type: bool");
        check(r#"{"metadata":{"finalizers":{}}}"#, "cannot restore slice from map");
        check(r#"{"metadata":{"labels":[]}}"#, "cannot restore map from slice");
        check(r#"{"metadata":true}"#, "cannot restore struct from: bool");
        check(
            r#"{"metadata":{"creationTimestamp":5}}"#,
            "json: cannot unmarshal number into Go value of type string",
        );
    }

    #[test]
    fn unknown_fields_are_named_without_the_keys_of_maps() {
        let tree = r#"{"a":1,"spec":{"versions":[{"schema":{"openAPIV3Schema":{"items":{"x":1},"properties":{"p":{"x":1}}}},"b":1}]}}"#;
        let unknown = CRD.convert(&parse(tree.as_bytes()).unwrap()).unwrap().unknown_fields;
        let want = ["a", "spec.versions[0].b", "spec.versions[0].schema.openAPIV3Schema.properties.x"];
        assert_eq!(unknown, want);
    }
}
