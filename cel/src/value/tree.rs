//! The server's tree as values, by the shape that a schema gives it
//! (`apiserver/pkg/cel/common/valuesunstructured.go`, `UnstructuredToVal`).

use std::borrow::Cow;
use std::sync::Arc;

use kindom_api::Value as Json;
use kindom_formats::duration;

use crate::parse::reserved;
use crate::shape::{Shape, ShapeKind};
use crate::value::{Duration, EvalError, List, Map, Value, time};

impl<'a> Value<'a> {
    /// The value of a part of the tree, by its shape.
    ///
    /// # Errors
    /// Upstream's text for data that does not fit its shape; validation refuses such objects before it evaluates
    /// their expressions.
    #[allow(clippy::cast_precision_loss, reason = "as Go's conversion does")]
    pub fn of(json: &'a Json, shape: &'a dyn Shape) -> Result<Self, EvalError> {
        Ok(match (shape.kind(), json) {
            (_, Json::Null) => Self::Null,
            (ShapeKind::Object | ShapeKind::Map | ShapeKind::Dyn, Json::Object(map)) => {
                Self::Map(Map::Tree(map, shape))
            }
            (ShapeKind::List | ShapeKind::Set | ShapeKind::ListMap | ShapeKind::Dyn, Json::Array(items)) => {
                Self::List(List::Tree(items, shape))
            }
            (ShapeKind::String | ShapeKind::IntOrString | ShapeKind::Dyn, Json::String(text)) => {
                Self::borrowed(text)
            }
            (ShapeKind::Int | ShapeKind::IntOrString | ShapeKind::Dyn, Json::Int(n)) => Self::Int(*n),
            (ShapeKind::Double, Json::Int(n)) => Self::Double(*n as f64),
            (ShapeKind::Double | ShapeKind::Dyn, Json::Float(x)) => Self::Double(*x),
            (ShapeKind::Bool | ShapeKind::Dyn, Json::Bool(b)) => Self::Bool(*b),
            (ShapeKind::DateTime, Json::String(text)) => match time::date_time(text) {
                Some(at) => Self::Timestamp(at),
                None => {
                    let why = time::why_refused(text, "2006-01-02T15:04:05");
                    return Err(EvalError::Message(format!(
                        "Invalid date-time formatted string {text}: {why}"
                    )));
                }
            },
            (ShapeKind::Date, Json::String(text)) => match time::date(text) {
                Some(at) => Self::Timestamp(at),
                None => {
                    let why = time::why_refused(text, "2006-01-02");
                    return Err(EvalError::Message(format!("Invalid date formatted string {text}: {why}")));
                }
            },
            (ShapeKind::Duration, Json::String(text)) => {
                Self::Duration(duration::parse_words(text).map(Duration).ok_or_else(|| {
                    EvalError::Message(format!("Invalid duration {text}: unable to parse {text} as duration"))
                })?)
            }
            (ShapeKind::Bytes, Json::String(text)) => match base64(text) {
                Ok(bytes) => Self::Bytes(bytes.into()),
                Err(at) => {
                    let why = format!("illegal base64 data at input byte {at}");
                    return Err(EvalError::Message(format!("Invalid byte formatted string {text}: {why}")));
                }
            },
            (kind, other) => return Err(unfit(kind, other)),
        })
    }
}

/// Upstream's error for data that its schema does not describe.
fn unfit(kind: ShapeKind, json: &Json) -> EvalError {
    let go = match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Int(_) => "int64",
        Json::Float(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    };
    EvalError::Message(match kind {
        ShapeKind::IntOrString => {
            "invalid data, expected XIntOrString value to be either a string or integer".to_owned()
        }
        ShapeKind::Object | ShapeKind::Map => {
            "invalid data, expected a map for the provided schema with type=object".to_owned()
        }
        ShapeKind::List | ShapeKind::Set | ShapeKind::ListMap => {
            "invalid data, expected an array for the provided schema with type=array".to_owned()
        }
        ShapeKind::Bool => format!("invalid data, expected bool, got {go}"),
        ShapeKind::Int => format!("invalid data, expected int, got {go}"),
        ShapeKind::Double => format!("invalid data, expected float, got {go}"),
        _ => format!("invalid data, expected string, got {go}"),
    })
}

/// Go's `base64.StdEncoding`: line breaks are skipped, padding is there. Where it is wrong, if it is.
fn base64(text: &str) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut digits, mut padding) = (0_u32, 0_u32, 0_u32);
    for (at, b) in text.bytes().enumerate() {
        let digit = match b {
            b'\n' | b'\r' => continue,
            b'=' if digits % 4 >= 2 => {
                padding += 1;
                continue;
            }
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err(at),
        };
        if padding > 0 {
            return Err(at);
        }
        bits = bits << 6 | u32::from(digit);
        digits += 1;
        if digits % 4 == 0 {
            bytes.extend(bits.to_be_bytes().into_iter().skip(1));
            bits = 0;
        }
    }
    match (digits % 4, padding) {
        (0, 0) => {}
        (2, 2) => bytes.extend((bits << 12).to_be_bytes().into_iter().skip(1).take(1)),
        (3, 1) => bytes.extend((bits << 6).to_be_bytes().into_iter().skip(1).take(2)),
        _ => return Err(text.len()),
    }
    Ok(bytes)
}

impl<'a> List<'a> {
    /// The number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Tree(items, _) => items.len(),
            Self::Owned(items) | Self::Added(items, _) => items.len(),
        }
    }

    /// Returns true if there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The item at a place.
    ///
    /// # Errors
    /// As [`Value::of`].
    pub fn get(&self, place: usize) -> Option<Result<Value<'a>, EvalError>> {
        match self {
            Self::Tree(items, shape) => items.get(place).map(|item| Value::of(item, item_shape(*shape))),
            Self::Owned(items) | Self::Added(items, _) => items.get(place).map(|item| Ok(item.clone())),
        }
    }

    /// The items.
    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, EvalError>> + '_ {
        (0..self.len()).filter_map(|place| self.get(place))
    }

    /// The shape that says how the list is compared and added to.
    pub(crate) fn shape(&self) -> Option<&'a dyn Shape> {
        match self {
            Self::Tree(_, shape) | Self::Added(_, shape) => Some(*shape),
            Self::Owned(_) => None,
        }
    }
}

/// The shape of a list's items.
pub(crate) fn item_shape(list: &dyn Shape) -> &dyn Shape {
    list.items().unwrap_or(list)
}

/// The shape of a map's value; `None` if the schema does not have the field.
pub(super) fn value_shape<'a>(map: &'a dyn Shape, key: &str) -> Option<&'a dyn Shape> {
    match map.kind() {
        ShapeKind::Dyn => Some(map),
        _ => map.field(key),
    }
}

impl<'a> Map<'a> {
    /// The number of entries; in an object this includes fields that the schema does not have.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Tree(map, _) => map.len(),
            Self::Owned(entries) => entries.len(),
        }
    }

    /// Returns true if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key; of an object, of a field by its escaped name, if it is not null.
    ///
    /// # Errors
    /// `no such overload` for a key that is no string in a map of the tree; as [`Value::of`].
    pub fn find(&self, key: &Value<'_>) -> Result<Option<Value<'a>>, EvalError> {
        match self {
            Self::Owned(entries) => Ok(entries.get(key).cloned()),
            Self::Tree(map, shape) => {
                let Some(key) = key.as_str() else { return Err(EvalError::NoSuchOverload) };
                if shape.kind() != ShapeKind::Object {
                    return field(map, *shape, key);
                }
                match unescape(key) {
                    Some(name) => field(map, *shape, &name),
                    None => Ok(None),
                }
            }
        }
    }

    /// The entry at a place, in an order that stays: its key and its value. In an object the key is the escaped name; `None`
    /// if the schema does not have the field.
    pub fn entry(&self, place: usize) -> Option<(Value<'a>, Result<Value<'a>, EvalError>)> {
        match self {
            Self::Owned(entries) => entries.at(place).map(|(key, value)| (key.clone(), Ok(value.clone()))),
            Self::Tree(map, shape) => {
                let (key, value) = map.at(place)?;
                let shape_of_value = value_shape(*shape, key)?;
                let name = match shape.kind() {
                    ShapeKind::Object => match escape(key) {
                        Some(Cow::Owned(escaped)) => Value::string(escaped),
                        _ => Value::borrowed(key),
                    },
                    _ => Value::borrowed(key),
                };
                Some((name, Value::of(value, shape_of_value)))
            }
        }
    }

    /// The entries that an expression can see.
    pub fn iter(&self) -> impl Iterator<Item = (Value<'a>, Result<Value<'a>, EvalError>)> + '_ {
        (0..self.len()).filter_map(|place| self.entry(place))
    }
}

/// A field's value by its real name, and its shape. In an object with declared fields, null counts as absent.
pub(crate) fn member<'a>(
    map: &'a kindom_api::Map,
    shape: &'a dyn Shape,
    name: &str,
) -> Option<(&'a Json, &'a dyn Shape)> {
    let json = map.get(name)?;
    match shape.kind() {
        ShapeKind::Dyn => return Some((json, shape)),
        ShapeKind::Object if json.is_null() => return None,
        _ => {}
    }
    shape.field(name).map(|of| (json, of))
}

/// The position at which a field was last found; in a list of objects the next one nearly always has it there too.
#[derive(Debug, Default)]
pub(crate) struct Hint<'a> {
    place: usize,
    /// A shape and that of its field.
    shapes: Option<(&'a dyn Shape, &'a dyn Shape)>,
}

/// As [`member`], looking first where the hint says.
pub(crate) fn member_by<'a>(
    hint: &mut Hint<'a>,
    map: &'a kindom_api::Map,
    shape: &'a dyn Shape,
    name: &str,
) -> Option<(&'a Json, &'a dyn Shape)> {
    let json = match map.at(hint.place) {
        Some((key, json)) if key == name => json,
        _ => {
            hint.place = map.place(name)?;
            map.at(hint.place)?.1
        }
    };
    match hint.shapes {
        Some((known, of)) if same_shape(known, shape) && !json.is_null() => Some((json, of)),
        _ => {
            let (json, of) = member(map, shape, name)?;
            hint.shapes = Some((shape, of));
            Some((json, of))
        }
    }
}

/// Returns true if both shapes are the same one.
#[allow(
    ambiguous_wide_pointer_comparisons,
    reason = "equal shapes that are taken for two are only looked at twice"
)]
pub(super) fn same_shape(a: &dyn Shape, b: &dyn Shape) -> bool {
    std::ptr::eq(a, b)
}

/// The value of a field by its real name.
pub(crate) fn field<'a>(
    map: &'a kindom_api::Map,
    shape: &'a dyn Shape,
    name: &str,
) -> Result<Option<Value<'a>>, EvalError> {
    member(map, shape, name).map(|(json, of)| Value::of(json, of)).transpose()
}

impl<'a> FromIterator<Value<'a>> for Value<'a> {
    fn from_iter<I: IntoIterator<Item = Value<'a>>>(items: I) -> Self {
        Self::List(List::Owned(Arc::new(items.into_iter().collect())))
    }
}

/// The name by which expressions know a field, if they can (`apiserver/pkg/cel/escaping.go`, `Escape`).
#[must_use]
pub fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.bytes().next().is_none_or(|b| b.is_ascii_digit()) {
        return None;
    }
    if reserved(name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./".contains(&b)) {
        return None;
    }
    if !name.contains("__") && !name.contains(['-', '.', '/']) {
        return Some(Cow::Borrowed(name));
    }
    let dotted = name.replace("__", "\0").replace('.', "__dot__").replace('-', "__dash__");
    Some(Cow::Owned(dotted.replace('/', "__slash__").replace('\0', "__underscores__")))
}

/// The real name of a field from its name in an expression; `None` if no field has such a name (`Unescape`).
#[must_use]
pub fn unescape(name: &str) -> Option<Cow<'_, str>> {
    if !name.contains("__") {
        return Some(Cow::Borrowed(name));
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(from) = rest.find("__") {
        let (before, after) = (rest.get(..from)?, rest.get(from + 2..)?);
        // Two underscores, others than underscores, two underscores.
        let inner = after.find('_').filter(|len| *len > 0).and_then(|len| after.get(..len));
        let Some(inner) = inner.filter(|inner| after.get(inner.len()..).is_some_and(|s| s.starts_with("__")))
        else {
            // Nothing begins here; it may at the next character.
            out.push_str(before);
            out.push('_');
            rest = rest.get(from + 1..)?;
            continue;
        };
        out.push_str(before);
        match inner {
            "underscores" => out.push_str("__"),
            "dot" => out.push('.'),
            "dash" => out.push('-'),
            "slash" => out.push('/'),
            keyword if reserved(keyword) && keyword.len() + 4 == name.len() => out.push_str(keyword),
            _ => return None,
        }
        rest = after.get(inner.len() + 2..)?;
    }
    out.push_str(rest);
    Some(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::{base64, escape, unescape};

    #[test]
    fn names_are_escaped_and_back() {
        for (name, escaped) in [
            ("a", "a"),
            ("a_b", "a_b"),
            ("_a", "_a"),
            ("a__b", "a__underscores__b"),
            ("a-b", "a__dash__b"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("namespace", "__namespace__"),
            ("namespaces", "namespaces"),
            ("___", "__underscores___"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(escaped), "{name}");
            assert_eq!(unescape(escaped).as_deref(), Some(name), "{escaped}");
        }
        for name in ["", "1a", "a b", "ä"] {
            assert_eq!(escape(name), None, "{name}");
        }
        for escaped in ["a__foo__b", "a__if__"] {
            assert_eq!(unescape(escaped), None, "{escaped}");
        }
        assert_eq!(unescape("__a").as_deref(), Some("__a"));
        assert_eq!(unescape("a__").as_deref(), Some("a__"));
    }

    #[test]
    fn bytes_are_read_from_base64() {
        for (text, bytes) in
            [("", Some(&b""[..])), ("YQ==", Some(b"a")), ("YWI=", Some(b"ab")), ("YW\nJj", Some(b"abc"))]
        {
            assert_eq!(base64(text).ok().as_deref(), bytes, "{text}");
        }
        for text in ["YQ", "YQ=", "Y", "YQ=a", "Y-==", "===="] {
            assert!(base64(text).is_err(), "{text}");
        }
    }
}
