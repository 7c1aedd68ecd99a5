//! From protobuf to the tree.
//!
//! Input is hostile: depth is bounded as JSON's is, no memory is allocated for a length before its bytes are there, and a
//! value in pieces is joined once. A message that occurs several times is merged as if its bytes stood one behind the other,
//! which is what protobuf promises; a map is sorted when all its entries are there.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::wire::{Raw, Wire};
use super::{
    Field, Kind, MAGIC, Many, Message, Presence, ProtobufError, TYPE_META, UNKNOWN_CONTENT_ENCODING,
    UNKNOWN_CONTENT_TYPE, UNKNOWN_RAW, UNKNOWN_TYPE_META,
};
use kindom_api::json::{Key, MAX_DEPTH, parse};
use kindom_api::meta::time;
use kindom_api::{Map, Value};

/// The most field numbers that [`Unlisted`] names.
const UNLISTED_MAX: usize = 16;
/// 9999-12-31T23:59:59Z
const LAST_SECOND: i64 = 253_402_300_799;

/// A body whose object has not been read yet.
#[derive(Debug)]
pub struct Envelope<'a> {
    /// The apiVersion that the body names; empty if it names none.
    pub api_version: String,
    /// The kind that the body names; empty if it names none.
    pub kind: String,
    raw: &'a [u8],
    unlisted: Vec<String>,
}

impl<'a> Envelope<'a> {
    /// Reads a body's envelope: its type and the place of its object (`Serializer.Decode`).
    ///
    /// # Errors
    /// [`ProtobufError`]
    pub fn open(body: &'a [u8]) -> Result<Self, ProtobufError> {
        let inner = match body.strip_prefix(MAGIC) {
            None if body.is_empty() => return Err(ProtobufError::Empty),
            None => return Err(ProtobufError::NoPrefix),
            Some([]) => return Err(ProtobufError::EmptyBody),
            Some(inner) => inner,
        };
        let (mut type_meta, mut raw) = (Vec::new(), [].as_slice());
        let mut unlisted = Unlisted::default();
        for entry in Wire::new(inner, "Unknown") {
            match entry? {
                (UNKNOWN_TYPE_META, Raw::Bytes(bytes)) => type_meta.push(bytes),
                (UNKNOWN_RAW, Raw::Bytes(bytes)) => raw = bytes,
                // Upstream does not look at it, and reads whatever stands there as if it had none.
                (UNKNOWN_CONTENT_ENCODING, Raw::Bytes([_, ..])) => {
                    return Err(ProtobufError::Malformed("the content has an encoding"));
                }
                (UNKNOWN_CONTENT_ENCODING | UNKNOWN_CONTENT_TYPE, Raw::Bytes(_)) => {}
                (UNKNOWN_TYPE_META, found) => return Err(wrong(found, "TypeMeta")),
                (UNKNOWN_RAW, found) => return Err(wrong(found, "Raw")),
                (UNKNOWN_CONTENT_ENCODING, found) => return Err(wrong(found, "ContentEncoding")),
                (UNKNOWN_CONTENT_TYPE, found) => return Err(wrong(found, "ContentType")),
                (number, _) => unlisted.note(number),
            }
        }
        let type_meta =
            unlisted.within("typeMeta", |unlisted| message_of(&type_meta, &TYPE_META, 0, unlisted))?;
        let text = |field| type_meta.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Self { api_version: text("apiVersion"), kind: text("kind"), raw, unlisted: unlisted.found })
    }

    /// Reads the object as one of this type. Its apiVersion and kind are the caller's to set. A field that is absent is
    /// absent in the tree too: the zero values that JSON shows are the type's decoder's to fill in.
    ///
    /// # Errors
    /// [`ProtobufError`]
    pub fn object(&self, message: &Message) -> Result<Map, ProtobufError> {
        message_of(&[self.raw], message, 0, &mut Unlisted::default())
    }
}

/// Reads a body as an object of this type, `apiVersion` and `kind` included where the body says them.
///
/// # Errors
/// [`ProtobufError`]
pub fn decode(body: &[u8], message: &Message) -> Result<Value, ProtobufError> {
    Ok(decode_telling(body, message)?.0)
}

/// As [`decode`], with the fields that are not listed, at any depth, by their path and number: `metadata.99`. At most 16.
///
/// # Errors
/// [`ProtobufError`]
pub fn decode_telling(body: &[u8], message: &Message) -> Result<(Value, Vec<String>), ProtobufError> {
    let envelope = Envelope::open(body)?;
    let mut unlisted = Unlisted { path: Vec::new(), found: envelope.unlisted };
    let mut object = message_of(&[envelope.raw], message, 0, &mut unlisted)?;
    for (field, said) in [("apiVersion", envelope.api_version), ("kind", envelope.kind)] {
        if !said.is_empty() {
            object.insert(field, said);
        }
    }
    Ok((Value::Object(object), unlisted.found))
}

/// Fields that were met and that no [`Message`] lists.
#[derive(Default)]
struct Unlisted {
    path: Vec<&'static str>,
    found: Vec<String>,
}

impl Unlisted {
    fn note(&mut self, number: u32) {
        if self.found.len() < UNLISTED_MAX {
            let named = self.path.iter().filter(|name| !name.is_empty());
            let path: Vec<String> = named.map(|name| format!("{name}.")).collect();
            self.found.push(format!("{}{number}", path.concat()));
        }
    }

    fn within<T>(&mut self, name: &'static str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(name);
        let out = read(self);
        self.path.pop();
        out
    }
}

fn wrong(found: Raw<'_>, field: &'static str) -> ProtobufError {
    ProtobufError::WrongWireType { wire: found.wire_type(), field }
}

/// The occurrences of a field that have been read so far.
enum Met<'a> {
    Value(Value),
    /// The places of a message that occurs once: the first, and those to be merged with it.
    Parts(&'a [u8], Vec<&'a [u8]>),
    Items(Vec<Value>),
    Entries(Vec<(Key, Value)>),
}

/// Reads a message whose bytes stand in several places. `depth` is how many maps and lists are around it.
fn message_of(
    parts: &[&[u8]],
    message: &Message,
    depth: usize,
    unlisted: &mut Unlisted,
) -> Result<Map, ProtobufError> {
    let depth = deeper(depth)?;
    let mut met: Vec<(&Field, Met<'_>)> = Vec::new();
    for entry in parts.iter().flat_map(|part| Wire::new(part, message.0)) {
        let (number, raw) = entry?;
        let Ok(at) = message.1.binary_search_by_key(&number, |field| field.0) else {
            unlisted.note(number);
            continue;
        };
        let Some(field) = message.1.get(at) else { continue };
        let slot = met.iter_mut().find(|(of, _)| of.0 == number).map(|(_, slot)| slot);
        if let Some(new) = unlisted.within(field.2, |unlisted| meet(field, raw, slot, depth, unlisted))? {
            met.push((field, new));
        }
    }
    let mut entries = Vec::with_capacity(met.len());
    for (Field(_, _, name, kind, many, presence), met) in met {
        let value = match met {
            Met::Value(value) => value,
            Met::Items(items) => Value::from(items),
            Met::Entries(entries) => Value::Object(Map::from_entries(entries)),
            Met::Parts(first, rest) => {
                let parts = [&[first], rest.as_slice()].concat();
                unlisted.within(name, |unlisted| embedded(*kind, &parts, depth, unlisted))?
            }
        };
        let kept = match (many, presence) {
            (Many::One, Presence::Omit) => !is_zero(&value),
            // JSON leaves out a pointer to a value that is null in JSON.
            _ => !value.is_null() || *presence == Presence::Keep,
        };
        match value {
            Value::Object(map) if name.is_empty() => entries.extend(map),
            value if kept => entries.push((Key::new_static(name), value)),
            _ => {}
        }
    }
    Ok(Map::from_entries(entries))
}

fn deeper(depth: usize) -> Result<usize, ProtobufError> {
    if depth >= MAX_DEPTH { Err(ProtobufError::Malformed("exceeded max depth")) } else { Ok(depth + 1) }
}

/// Adds one occurrence of a field to the earlier ones in `slot`, or returns it if it is the first.
fn meet<'a>(
    field: &Field,
    raw: Raw<'a>,
    slot: Option<&mut Met<'a>>,
    depth: usize,
    unlisted: &mut Unlisted,
) -> Result<Option<Met<'a>>, ProtobufError> {
    let Field(number, go_name, _, kind, many, _) = field;
    let new = match many {
        Many::One | Many::Pointer => match (kind, raw) {
            (Kind::Gone, Raw::Bytes([])) => return Ok(None),
            (Kind::Gone, _) => {
                if let Some(path) = unlisted.path.pop() {
                    unlisted.note(*number);
                    unlisted.path.push(path);
                }
                return Ok(None);
            }
            _ => match scalar(*kind, raw) {
                Some(value) => Met::Value(value?),
                None => match (raw, slot) {
                    (Raw::Bytes(bytes), Some(Met::Parts(_, more))) => {
                        more.push(bytes);
                        return Ok(None);
                    }
                    (Raw::Bytes(bytes), _) => return Ok(Some(Met::Parts(bytes, Vec::new()))),
                    (found, _) => return Err(wrong(found, go_name)),
                },
            },
        },
        Many::Several => {
            let item = single(*kind, raw, go_name, deeper(depth)?, unlisted)?;
            match slot {
                Some(Met::Items(items)) => {
                    items.push(item);
                    return Ok(None);
                }
                _ => Met::Items(vec![item]),
            }
        }
        Many::Map => {
            let Raw::Bytes(bytes) = raw else { return Err(wrong(raw, go_name)) };
            let entry = map_entry(*kind, bytes, go_name, deeper(depth)?, unlisted)?;
            match slot {
                Some(Met::Entries(entries)) => {
                    entries.push(entry);
                    return Ok(None);
                }
                _ => Met::Entries(vec![entry]),
            }
        }
    };
    match slot {
        Some(slot) => {
            *slot = new;
            Ok(None)
        }
        None => Ok(Some(new)),
    }
}

/// A value of a field that may occur several times.
fn single(
    kind: Kind,
    raw: Raw<'_>,
    field: &'static str,
    depth: usize,
    unlisted: &mut Unlisted,
) -> Result<Value, ProtobufError> {
    match (scalar(kind, raw), raw) {
        (Some(value), _) => value,
        (None, Raw::Bytes(bytes)) => embedded(kind, &[bytes], depth, unlisted),
        (None, found) => Err(wrong(found, field)),
    }
}

fn map_entry(
    kind: Kind,
    bytes: &[u8],
    field: &'static str,
    depth: usize,
    unlisted: &mut Unlisted,
) -> Result<(Key, Value), ProtobufError> {
    let (mut key, mut value) = (Key::default(), None);
    for entry in Wire::new(bytes, field) {
        match entry? {
            (1, Raw::Bytes(bytes)) => key = text(bytes)?.into(),
            (2, raw) => value = Some(single(kind, raw, field, depth, unlisted)?),
            (1, found) => return Err(wrong(found, field)),
            (number, _) => unlisted.note(number),
        }
    }
    Ok((key, value.unwrap_or_else(|| zero(kind))))
}

/// The value of a kind that is no message; none if it is one, or stands on the wire as something else.
fn scalar(kind: Kind, raw: Raw<'_>) -> Option<Result<Value, ProtobufError>> {
    Some(Ok(match (kind, raw) {
        (Kind::Text, Raw::Bytes(bytes)) => return Some(text(bytes).map(Value::from)),
        (Kind::Bytes, Raw::Bytes(bytes)) => BASE64.encode(bytes).into(),
        (Kind::Bool, Raw::Number(n)) => Value::Bool(n != 0),
        (Kind::Int64, Raw::Number(n)) => Value::Int(n.cast_signed()),
        (Kind::Int32, Raw::Number(n)) => {
            // Go drops the upper half.
            let [a, b, c, d, ..] = n.to_le_bytes();
            Value::from(i32::from_le_bytes([a, b, c, d]))
        }
        (Kind::Double, Raw::Fixed64(bits)) => {
            let number = f64::from_bits(bits);
            if !number.is_finite() {
                return Some(Err(ProtobufError::Malformed("a number is not finite, which JSON cannot say")));
            }
            // As JSON has it: 3 and not 3.0.
            parse(&Value::Float(number).to_vec()).unwrap_or(Value::Float(number))
        }
        _ => return None,
    }))
}

/// The value of a kind that is a message of its own.
fn embedded(
    kind: Kind,
    parts: &[&[u8]],
    depth: usize,
    unlisted: &mut Unlisted,
) -> Result<Value, ProtobufError> {
    match kind {
        Kind::Of(message) => Ok(Value::Object(message_of(parts, message, depth, unlisted)?)),
        Kind::Time => timestamp(parts.last().copied().unwrap_or_default(), false, unlisted),
        Kind::MicroTime => timestamp(parts.last().copied().unwrap_or_default(), true, unlisted),
        Kind::Json => {
            let found = last_of(parts, "Raw", unlisted)?.unwrap_or_default();
            if found.is_empty() {
                return Ok(Value::Null);
            }
            let value = parse(found).map_err(|_| ProtobufError::Malformed("a field's JSON is malformed"))?;
            within(&value, depth)?;
            Ok(value)
        }
        Kind::Quantity => Ok(match last_of(parts, "String_", unlisted)? {
            Some(found) => text(found)?.into(),
            None => zero(kind),
        }),
        Kind::Texts => {
            let _ = deeper(depth)?;
            let (mut items, each) =
                (Vec::<Value>::new(), parts.iter().flat_map(|part| Wire::new(part, "Texts")));
            for entry in each {
                match entry? {
                    (1, Raw::Bytes(bytes)) => items.push(text(bytes)?.into()),
                    (1, found) => return Err(wrong(found, "Items")),
                    (number, _) => unlisted.note(number),
                }
            }
            Ok(Value::from(items))
        }
        Kind::IntOrString => int_or_string(parts, unlisted),
        Kind::SchemaOrArray(schema) => choice(schema, Choice::Schemas, parts, depth, unlisted),
        Kind::SchemaOrBool(schema) => choice(schema, Choice::Allows, parts, depth, unlisted),
        Kind::SchemaOrTexts(schema) => choice(schema, Choice::Texts, parts, depth, unlisted),
        Kind::Text | Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Double | Kind::Bytes | Kind::Gone => {
            Err(ProtobufError::Malformed("a value stands where a message should"))
        }
    }
}

/// The alternative to a schema in a `JSONSchemaPropsOr…`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Schemas,
    Allows,
    Texts,
}

/// `JSONSchemaPropsOr…`, as it writes itself to JSON: a list that is not empty wins over a schema, a schema over a bool.
fn choice(
    schema: &Message,
    choice: Choice,
    parts: &[&[u8]],
    depth: usize,
    unlisted: &mut Unlisted,
) -> Result<Value, ProtobufError> {
    let (mut schemas, mut items, mut allows) = (Vec::new(), Vec::<Value>::new(), false);
    for entry in parts.iter().flat_map(|part| Wire::new(part, "JSONSchemaProps")) {
        match (choice, entry?) {
            (Choice::Allows, (1, Raw::Number(n))) => allows = n != 0,
            (Choice::Allows, (2, Raw::Bytes(bytes))) => schemas.push(bytes),
            (Choice::Schemas | Choice::Texts, (1, Raw::Bytes(bytes))) => schemas.push(bytes),
            (Choice::Schemas, (2, Raw::Bytes(bytes))) => {
                items.push(Value::Object(message_of(&[bytes], schema, deeper(depth)?, unlisted)?));
            }
            (Choice::Texts, (2, Raw::Bytes(bytes))) => {
                let _ = deeper(depth)?;
                items.push(text(bytes)?.into());
            }
            (Choice::Allows, (1, found)) => return Err(wrong(found, "Allows")),
            (_, (1 | 2, found)) => return Err(wrong(found, "Schema")),
            (_, (number, _)) => unlisted.note(number),
        }
    }
    Ok(match (items.is_empty(), schemas.is_empty()) {
        (false, _) => Value::from(items),
        (true, false) => Value::Object(message_of(&schemas, schema, depth, unlisted)?),
        (true, true) if choice == Choice::Allows => Value::Bool(allows),
        (true, true) => Value::Null,
    })
}

fn int_or_string(parts: &[&[u8]], unlisted: &mut Unlisted) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number, mut string) = (false, Value::Int(0), Value::from(""));
    for entry in parts.iter().flat_map(|part| Wire::new(part, "IntOrString")) {
        match entry? {
            (1, Raw::Number(kind)) => is_text = kind != 0,
            (2, raw @ Raw::Number(_)) => {
                number = single(Kind::Int32, raw, "IntVal", 0, unlisted)?;
            }
            (3, Raw::Bytes(bytes)) => string = text(bytes)?.into(),
            (1, found) => return Err(wrong(found, "Type")),
            (2, found) => return Err(wrong(found, "IntVal")),
            (3, found) => return Err(wrong(found, "StrVal")),
            (number, _) => unlisted.note(number),
        }
    }
    Ok(if is_text { string } else { number })
}

/// The last occurrence of field 1 of a message that has no other.
fn last_of<'a>(
    parts: &[&'a [u8]],
    field: &'static str,
    unlisted: &mut Unlisted,
) -> Result<Option<&'a [u8]>, ProtobufError> {
    let mut last = None;
    for entry in parts.iter().flat_map(|part| Wire::new(part, field)) {
        match entry? {
            (1, Raw::Bytes(bytes)) => last = Some(bytes),
            (1, found) => return Err(wrong(found, field)),
            (number, _) => unlisted.note(number),
        }
    }
    Ok(last)
}

/// A `metav1.Time`; null for the zero time, which clients send for "not set". Its nanoseconds are dropped, as upstream
/// drops them (apimachinery `pkg/apis/meta/v1/time_proto.go`), but for those of a `MicroTime`.
fn timestamp(bytes: &[u8], micro: bool, unlisted: &mut Unlisted) -> Result<Value, ProtobufError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut microseconds) = (0, 0);
    for entry in Wire::new(bytes, "Timestamp") {
        match entry? {
            (1, Raw::Number(n)) => seconds = n.cast_signed(),
            (2, Raw::Number(n)) => microseconds = n / 1000,
            (1, found) => return Err(wrong(found, "Seconds")),
            (2, found) => return Err(wrong(found, "Nanos")),
            (number, _) => unlisted.note(number),
        }
    }
    if !(time::ZERO..=LAST_SECOND).contains(&seconds) || microseconds > 999_999 {
        return Err(ProtobufError::Malformed("a time is not within the years 1 to 9999"));
    }
    if seconds == time::ZERO && (!micro || microseconds == 0) {
        return Ok(Value::Null);
    }
    let text = time::format(seconds);
    Ok(match text.strip_suffix('Z') {
        Some(whole) if micro => format!("{whole}.{microseconds:06}Z").into(),
        _ => text.into(),
    })
}

fn text(bytes: &[u8]) -> Result<String, ProtobufError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ProtobufError::Malformed("a string is no UTF-8"))?;
    Ok(text.to_owned())
}

/// Refuses a value that nests too deeply where it stands.
fn within(value: &Value, depth: usize) -> Result<(), ProtobufError> {
    match value {
        Value::Array(items) => {
            let depth = deeper(depth)?;
            items.iter().try_for_each(|item| within(item, depth))
        }
        Value::Object(map) => {
            let depth = deeper(depth)?;
            map.values().try_for_each(|value| within(value, depth))
        }
        _ => Ok(()),
    }
}

/// The value of a map's entry that has none.
fn zero(kind: Kind) -> Value {
    match kind {
        Kind::Text | Kind::Gone => Value::from(""),
        Kind::Bool => Value::Bool(false),
        Kind::Int32 | Kind::Int64 | Kind::Double | Kind::IntOrString => Value::Int(0),
        Kind::Quantity => Value::from("0"),
        Kind::Of(_) => Value::Object(Map::new()),
        Kind::Bytes
        | Kind::Time
        | Kind::MicroTime
        | Kind::Json
        | Kind::Texts
        | Kind::SchemaOrArray(_)
        | Kind::SchemaOrBool(_)
        | Kind::SchemaOrTexts(_) => Value::Null,
    }
}

/// Returns true if `omitempty` leaves out this value, which is no struct.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) => true,
        Value::Float(x) => *x == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(true) | Value::Int(_) | Value::Object(_) => false,
    }
}
