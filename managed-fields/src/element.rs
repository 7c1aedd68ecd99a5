//! One step of a path to a field (`fieldpath/element.go`).

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::rc::Rc;

use kindom_api::Value;
use kindom_api::field::go_quote;
use kindom_formats::go;

/// One step of a path. Texts and values are those of the objects and entries that it was read from, where they could be
/// borrowed.
#[derive(Debug, Clone)]
pub enum PathElement<'a> {
    /// A field of a map.
    Field(&'a str),
    /// The item of a list that has these values in its key fields, which are sorted by name.
    Key(Rc<[KeyField<'a>]>),
    /// The item of a set that is this value.
    Value(Cow<'a, Value>),
    /// The item of a list at this place. No type makes them; they are kept where a client says them.
    Index(i64),
}

/// A key field of a list's item.
#[derive(Debug, Clone)]
pub struct KeyField<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) value: Cow<'a, Value>,
}

impl PathElement<'_> {
    fn kind(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                let fields = a.iter().zip(b.iter());
                fields
                    .map(|(a, b)| a.name.cmp(&b.name).then_with(|| compare(&a.value, &b.value)))
                    .find(|order| order.is_ne())
                    .unwrap_or_else(|| a.len().cmp(&b.len()))
            }
            (Self::Value(a), Self::Value(b)) => compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            (a, b) => a.kind().cmp(&b.kind()),
        }
    }
}

impl PartialOrd for PathElement<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement<'_> {}

/// As conflicts and errors print it: `.spec`, `[name="a"]`, `[="a"]`.
impl fmt::Display for PathElement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_char('[')?;
                for (i, field) in fields.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{}={}", field.name, text(&field.value))?;
                }
                f.write_char(']')
            }
            Self::Value(value) => write!(f, "[={}]", text(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// `value.ToString`
fn text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(n) => n.to_string(),
        Value::Float(x) => go::float(*x),
        Value::String(s) => go_quote(s),
        Value::Array(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(",")),
        Value::Object(map) => map.iter().map(|(name, value)| format!("{name}={}", text(value))).collect(),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Int(_) | Value::Float(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// A total order of values; a float and an integer are compared as floats (`value.Compare`).
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
            let (a, b) = (a.as_f64().unwrap_or_default(), b.as_f64().unwrap_or_default());
            a.partial_cmp(&b).unwrap_or(Ordering::Equal)
        }
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let items = a.iter().zip(b).map(|(a, b)| compare(a, b));
            items.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let fields = a.iter().zip(b.iter());
            fields
                .map(|((a_name, a), (b_name, b))| a_name.cmp(b_name).then_with(|| compare(a, b)))
                .find(|order| order.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

/// Returns true if two values are equal; 1 and 1.0 are (`value.Equals`).
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().zip(b.iter()).all(|((a_name, a), (b_name, b))| a_name == b_name && equal(a, b))
        }
        (a, b) => compare(a, b).is_eq(),
    }
}
