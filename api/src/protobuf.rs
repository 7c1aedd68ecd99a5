//! Objects as protobuf: those that clients send are read into the tree that JSON would have given, and a Scale is written
//! from its tree.
//!
//! Generated clients, kubectl's `create namespace` among them, send protobuf for built-in types without a fallback to
//! JSON. A body is the four bytes `k8s\0` and a `runtime.Unknown`, whose `raw` is the object by the field numbers of its
//! type's `generated.proto` (apimachinery `pkg/runtime/serializer/protobuf`, `k8s.io/api/core/v1`, 1.37). Other API servers
//! store their objects so too. Fields that are not listed here are skipped, as a decoder of an older version would;
//! [`decode_telling`] names them, for whoever must not lose any.
//!
//! Worked example: `0a 01 61` is field 1 (`0a` = 1 << 3 | 2: bytes follow) of one byte, `a`; in an [`ObjectMeta`] that is
//! `{"name":"a"}`.
//!
//! [`ObjectMeta`]: crate::meta::ObjectMeta

use crate::json::{MAX_DEPTH, parse};
use crate::meta::time;
use crate::{Map, Value};

/// The media type of such bodies.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What every body starts with.
const MAGIC: &[u8] = b"k8s\0";

/// A message type: its fields by number.
#[derive(Debug)]
pub struct Message(&'static [Field]);

/// A field: its number, its name in JSON, and what it holds.
#[derive(Debug)]
struct Field(u64, &'static str, Kind);

#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Texts,
    Integer,
    /// An integer that is left out of JSON where it is 0.
    Count,
    Bool,
    /// `metav1.Time`: seconds since the epoch.
    Time,
    /// `metav1.FieldsV1`: JSON, in a message of its own.
    Json,
    /// A map of strings.
    Labels,
    /// A string that no version has any more. It was always written, and was always empty.
    Gone,
    One(&'static Message),
    Many(&'static Message),
}

const OWNER_REFERENCE: Message = Message(&[
    Field(1, "kind", Kind::Text),
    Field(3, "name", Kind::Text),
    Field(4, "uid", Kind::Text),
    Field(5, "apiVersion", Kind::Text),
    Field(6, "controller", Kind::Bool),
    Field(7, "blockOwnerDeletion", Kind::Bool),
]);

const MANAGED_FIELDS_ENTRY: Message = Message(&[
    Field(1, "manager", Kind::Text),
    Field(2, "operation", Kind::Text),
    Field(3, "apiVersion", Kind::Text),
    Field(4, "time", Kind::Time),
    Field(6, "fieldsType", Kind::Text),
    Field(7, "fieldsV1", Kind::Json),
    Field(8, "subresource", Kind::Text),
]);

const OBJECT_META: Message = Message(&[
    Field(1, "name", Kind::Text),
    Field(2, "generateName", Kind::Text),
    Field(3, "namespace", Kind::Text),
    Field(4, "selfLink", Kind::Text),
    Field(5, "uid", Kind::Text),
    Field(6, "resourceVersion", Kind::Text),
    Field(7, "generation", Kind::Count),
    Field(8, "creationTimestamp", Kind::Time),
    Field(9, "deletionTimestamp", Kind::Time),
    Field(10, "deletionGracePeriodSeconds", Kind::Integer),
    Field(11, "labels", Kind::Labels),
    Field(12, "annotations", Kind::Labels),
    Field(13, "ownerReferences", Kind::Many(&OWNER_REFERENCE)),
    Field(14, "finalizers", Kind::Texts),
    Field(15, "clusterName", Kind::Gone),
    Field(17, "managedFields", Kind::Many(&MANAGED_FIELDS_ENTRY)),
]);

const NAMESPACE_CONDITION: Message = Message(&[
    Field(1, "type", Kind::Text),
    Field(2, "status", Kind::Text),
    Field(4, "lastTransitionTime", Kind::Time),
    Field(5, "reason", Kind::Text),
    Field(6, "message", Kind::Text),
]);

/// `v1` Namespace.
pub const NAMESPACE: Message = Message(&[
    Field(1, "metadata", Kind::One(&OBJECT_META)),
    Field(2, "spec", Kind::One(&Message(&[Field(1, "finalizers", Kind::Texts)]))),
    Field(
        3,
        "status",
        Kind::One(&Message(&[
            Field(1, "phase", Kind::Text),
            Field(2, "conditions", Kind::Many(&NAMESPACE_CONDITION)),
        ])),
    ),
]);

/// `autoscaling/v1` Scale.
pub const SCALE: Message = Message(&[
    Field(1, "metadata", Kind::One(&OBJECT_META)),
    Field(2, "spec", Kind::One(&Message(&[Field(1, "replicas", Kind::Integer)]))),
    Field(
        3,
        "status",
        Kind::One(&Message(&[Field(1, "replicas", Kind::Integer), Field(2, "selector", Kind::Text)])),
    ),
]);

/// `meta.k8s.io/v1` DeleteOptions.
pub const DELETE_OPTIONS: Message = Message(&[
    Field(1, "gracePeriodSeconds", Kind::Integer),
    Field(
        2,
        "preconditions",
        Kind::One(&Message(&[Field(1, "uid", Kind::Text), Field(2, "resourceVersion", Kind::Text)])),
    ),
    Field(3, "orphanDependents", Kind::Bool),
    Field(4, "propagationPolicy", Kind::Text),
    Field(5, "dryRun", Kind::Texts),
    Field(6, "ignoreStoreReadErrorWithClusterBreakingPotential", Kind::Bool),
]);

/// `runtime.Unknown`: whose kind and bytes follow.
const UNKNOWN_TYPE_META: u64 = 1;
const UNKNOWN_RAW: u64 = 2;
const UNKNOWN_CONTENT_ENCODING: u64 = 3;
const UNKNOWN_CONTENT_TYPE: u64 = 4;
const TYPE_META: Message = Message(&[Field(1, "apiVersion", Kind::Text), Field(2, "kind", Kind::Text)]);

/// Why bytes are not such an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// They do not begin as such a body does.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoPrefix,
    /// A length, number or text is cut off or malformed.
    #[error("proto: {0}")]
    Malformed(&'static str),
}

/// How many fields that are not listed are named.
const UNLISTED_MAX: usize = 16;

/// Whether bytes are such a body, and not JSON.
#[must_use]
pub fn is_protobuf(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
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
    let body = body.strip_prefix(MAGIC).ok_or(ProtobufError::NoPrefix)?;
    let (mut object, mut type_meta) = (Map::new(), Map::new());
    let mut unlisted = Unlisted::default();
    for entry in Wire(body) {
        match entry? {
            (UNKNOWN_TYPE_META, Raw::Bytes(bytes)) => {
                unlisted.within("typeMeta", |unlisted| read(bytes, &TYPE_META, &mut type_meta, unlisted))?;
            }
            (UNKNOWN_RAW, Raw::Bytes(bytes)) => read(bytes, message, &mut object, &mut unlisted)?,
            (UNKNOWN_CONTENT_ENCODING, Raw::Bytes(bytes)) if !bytes.is_empty() => {
                return Err(ProtobufError::Malformed("the content has an encoding"));
            }
            (UNKNOWN_CONTENT_ENCODING | UNKNOWN_CONTENT_TYPE, _) => {}
            (number, _) => unlisted.note(number),
        }
    }
    for (name, value) in type_meta {
        object.insert(name, value);
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
    fn note(&mut self, number: u64) {
        if self.found.len() < UNLISTED_MAX {
            let path: Vec<String> = self.path.iter().map(|name| format!("{name}.")).collect();
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

/// Writes an object of this type as a body. What the type does not list is left out, and so is what is empty; decoders
/// take that for the zero value.
#[must_use]
pub fn encode(object: &Value, message: &Message) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put_bytes(UNKNOWN_TYPE_META, &write(object, &TYPE_META), &mut out);
    put_bytes(UNKNOWN_RAW, &write(object, message), &mut out);
    out
}

fn write(object: &Value, message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    for Field(number, name, kind) in message.0 {
        match (kind, object.get(name)) {
            (Kind::Text, Some(Value::String(text))) => put_bytes(*number, text.as_bytes(), &mut out),
            (Kind::Integer | Kind::Count, Some(Value::Int(n))) => {
                put_number(*number, n.cast_unsigned(), &mut out)
            }
            (Kind::Bool, Some(Value::Bool(b))) => put_number(*number, u64::from(*b), &mut out),
            (Kind::Time, Some(Value::String(text))) => {
                if let Ok(seconds) = time::parse(text) {
                    let mut of_time = Vec::new();
                    put_number(1, seconds.cast_unsigned(), &mut of_time);
                    put_bytes(*number, &of_time, &mut out);
                }
            }
            (Kind::Json, Some(value)) => {
                let mut of_json = Vec::new();
                put_bytes(1, &value.to_vec(), &mut of_json);
                put_bytes(*number, &of_json, &mut out);
            }
            (Kind::Texts, Some(Value::Array(items))) => {
                for text in items.iter().filter_map(Value::as_str) {
                    put_bytes(*number, text.as_bytes(), &mut out);
                }
            }
            (Kind::Labels, Some(Value::Object(map))) => {
                for (key, value) in map.iter() {
                    let mut entry = Vec::new();
                    put_bytes(1, key.as_bytes(), &mut entry);
                    put_bytes(2, value.as_str().unwrap_or_default().as_bytes(), &mut entry);
                    put_bytes(*number, &entry, &mut out);
                }
            }
            (Kind::One(message), Some(value @ Value::Object(_))) => {
                put_bytes(*number, &write(value, message), &mut out);
            }
            (Kind::Many(message), Some(Value::Array(items))) => {
                for item in items {
                    put_bytes(*number, &write(item, message), &mut out);
                }
            }
            _ => {}
        }
    }
    out
}

fn put_number(field: u64, number: u64, out: &mut Vec<u8>) {
    put_varint(field << 3, out);
    put_varint(number, out);
}

fn put_bytes(field: u64, bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(field << 3 | 2, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Reads a message into `map`. What comes more than once is merged, or the last one counts, as protobuf has it.
fn read(
    bytes: &[u8],
    message: &Message,
    map: &mut Map,
    unlisted: &mut Unlisted,
) -> Result<(), ProtobufError> {
    if unlisted.path.len() > MAX_DEPTH {
        return Err(ProtobufError::Malformed("exceeded max depth"));
    }
    for entry in Wire(bytes) {
        let (number, raw) = entry?;
        let Some(Field(_, name, kind)) = message.0.iter().find(|field| field.0 == number) else {
            unlisted.note(number);
            continue;
        };
        match (kind, raw) {
            // Go leaves the zero value of a string out of JSON.
            (Kind::Text, Raw::Bytes(bytes)) if !bytes.is_empty() => drop(map.insert(*name, text(bytes)?)),
            (Kind::Text | Kind::Gone, Raw::Bytes([])) => {}
            (Kind::Gone, Raw::Bytes(_)) => unlisted.note(number),
            (Kind::Integer, Raw::Number(n)) => drop(map.insert(*name, n.cast_signed())),
            (Kind::Count, Raw::Number(0)) => drop(map.remove(name)),
            (Kind::Count, Raw::Number(n)) => drop(map.insert(*name, n.cast_signed())),
            (Kind::Bool, Raw::Number(n)) => drop(map.insert(*name, n != 0)),
            (Kind::Time, Raw::Bytes(bytes)) => {
                if let Some(seconds) = unlisted.within(name, |unlisted| seconds(bytes, unlisted))? {
                    map.insert(*name, time::format(seconds));
                }
            }
            (Kind::Json, Raw::Bytes(bytes)) => {
                if let Some(value) = unlisted.within(name, |unlisted| json_of(bytes, unlisted))? {
                    map.insert(*name, value);
                }
            }
            (Kind::Texts, Raw::Bytes(bytes)) => push(map, name, text(bytes)?.into()),
            (Kind::Many(message), Raw::Bytes(bytes)) => {
                let mut item = Map::new();
                unlisted.within(name, |unlisted| read(bytes, message, &mut item, unlisted))?;
                push(map, name, item.into());
            }
            (Kind::One(message), Raw::Bytes(bytes)) => {
                let part = map.entry_or_insert_with(name, || Map::new().into());
                if let Some(part) = part.as_object_mut() {
                    unlisted.within(name, |unlisted| read(bytes, message, part, unlisted))?;
                }
            }
            (Kind::Labels, Raw::Bytes(bytes)) => {
                let (key, value) = unlisted.within(name, |unlisted| label(bytes, unlisted))?;
                let labels = map.entry_or_insert_with(name, || Value::Object(Map::new()));
                if let Some(labels) = labels.as_object_mut() {
                    labels.insert(key, value);
                }
            }
            _ => return Err(ProtobufError::Malformed("wrong wireType for a field")),
        }
    }
    Ok(())
}

/// An entry of a map of strings.
fn label(bytes: &[u8], unlisted: &mut Unlisted) -> Result<(String, String), ProtobufError> {
    let (mut key, mut value) = (String::new(), String::new());
    for entry in Wire(bytes) {
        match entry? {
            (1, Raw::Bytes(bytes)) => key = text(bytes)?,
            (2, Raw::Bytes(bytes)) => value = text(bytes)?,
            (number, _) => unlisted.note(number),
        }
    }
    Ok((key, value))
}

/// The JSON of a `metav1.FieldsV1`.
fn json_of(bytes: &[u8], unlisted: &mut Unlisted) -> Result<Option<Value>, ProtobufError> {
    let mut json = None;
    for entry in Wire(bytes) {
        match entry? {
            (1, Raw::Bytes([])) => {}
            (1, Raw::Bytes(bytes)) => {
                json =
                    Some(parse(bytes).map_err(|_| ProtobufError::Malformed("a field's JSON is malformed"))?);
            }
            (number, _) => unlisted.note(number),
        }
    }
    Ok(json)
}

fn push(map: &mut Map, name: &str, item: Value) {
    if let Some(items) = map.entry_or_insert_with(name, || Value::Array(Vec::new().into())).as_array_mut() {
        items.push(item);
    }
}

fn text(bytes: &[u8]) -> Result<String, ProtobufError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ProtobufError::Malformed("a string is no UTF-8"))?;
    Ok(text.to_owned())
}

/// The seconds of a `metav1.Time`; none for the zero time, which clients send for "not set". Its nanoseconds are dropped,
/// as upstream drops them (apimachinery `pkg/apis/meta/v1/time_proto.go`).
fn seconds(bytes: &[u8], unlisted: &mut Unlisted) -> Result<Option<i64>, ProtobufError> {
    let mut found = (!bytes.is_empty()).then_some(0);
    for entry in Wire(bytes) {
        match entry? {
            (1, Raw::Number(seconds)) => found = Some(seconds.cast_signed()),
            (2, Raw::Number(_)) => {}
            (number, _) => unlisted.note(number),
        }
    }
    Ok(found.filter(|seconds| *seconds != ZERO_TIME_SECONDS))
}

/// Go's zero time, 0001-01-01T00:00:00Z.
const ZERO_TIME_SECONDS: i64 = -62_135_596_800;

/// A value as it stands on the wire.
enum Raw<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Of a fixed size, which no field here has.
    Skipped,
}

/// The entries of a message, in order.
struct Wire<'a>(&'a [u8]);

impl<'a> Iterator for Wire<'a> {
    type Item = Result<(u64, Raw<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            self.0 = &[];
        }
        Some(entry)
    }
}

impl<'a> Wire<'a> {
    fn entry(&mut self) -> Result<(u64, Raw<'a>), ProtobufError> {
        let tag = self.varint()?;
        let raw = match tag & 7 {
            0 => Raw::Number(self.varint()?),
            1 => self.take(8).map(|_| Raw::Skipped)?,
            2 => {
                let length = self.varint()?;
                let length =
                    usize::try_from(length).map_err(|_| ProtobufError::Malformed("unexpected EOF"))?;
                Raw::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Raw::Skipped)?,
            _ => return Err(ProtobufError::Malformed("illegal wireType")),
        };
        Ok((tag >> 3, raw))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or(ProtobufError::Malformed("unexpected EOF"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.take(1)? else { return Err(ProtobufError::Malformed("unexpected EOF")) };
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ProtobufError::Malformed("integer overflow"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A field of bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend_from_slice(bytes);
        out
    }

    #[test]
    fn a_namespace_is_read() {
        let labels = [field(1, b"a"), field(2, b"b")].concat();
        // The zero time: a varint of ten bytes.
        let zero = [8, 0x80, 0x92, 0xb8, 0xc3, 0x98, 0xfe, 0xff, 0xff, 0xff, 0x01];
        let meta = [field(1, b"foo"), field(2, b""), field(8, &zero), field(11, &labels), field(14, b"x/y")]
            .concat();
        let spec = field(1, b"kubernetes");
        let raw = [field(1, &meta), field(2, &spec), field(3, b"")].concat();
        let kind = [field(1, b"v1"), field(2, b"Namespace")].concat();
        let body = [MAGIC.to_vec(), field(1, &kind), field(2, &raw), field(3, b""), field(4, b"")].concat();
        assert_eq!(
            decode(&body, &NAMESPACE).unwrap().to_string(),
            r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"finalizers":["x/y"],"labels":{"a":"b"},"name":"foo"},"spec":{"finalizers":["kubernetes"]},"status":{}}"#
        );
    }

    fn body(raw: &[u8]) -> Vec<u8> {
        let kind = [field(1, b"v1"), field(2, b"Namespace")].concat();
        [MAGIC.to_vec(), field(1, &kind), field(2, raw), field(3, b""), field(4, b"")].concat()
    }

    #[test]
    fn what_is_not_listed_is_told_at_any_depth() {
        let told = |raw: &[u8]| decode_telling(&body(raw), &NAMESPACE).unwrap().1;
        let none: [&str; 0] = [];
        let varint = |number: u8, value: u8| vec![number << 3, value];
        // Empty, it is what every server before 1.24 wrote (`clusterName`).
        let meta = |more: &[u8]| field(1, &[&field(1, b"foo"), more].concat());
        assert_eq!(told(&meta(&field(15, b""))), none);
        assert_eq!(told(&meta(&field(15, b"x"))), ["metadata.15"]);
        assert_eq!(told(&field(9, b"")), ["9"]);
        assert_eq!(told(&field(2, &varint(7, 0))), ["spec.7"]);
        let condition = [field(1, b"A"), field(9, b"x")].concat();
        assert_eq!(told(&field(3, &field(2, &condition))), ["status.conditions.9"]);
        let fixed = [vec![9 << 3 | 5, 1, 2, 3, 4], vec![10 << 3 | 1, 1, 2, 3, 4, 5, 6, 7, 8]].concat();
        assert_eq!(told(&field(3, &fixed)), ["status.9", "status.10"]);
        assert_eq!(told(&meta(&field(13, &field(9, b"")))), ["metadata.ownerReferences.9"]);
        assert_eq!(told(&meta(&field(11, &field(3, b"")))), ["metadata.labels.3"]);
        assert_eq!(told(&meta(&field(8, &[varint(1, 5), varint(2, 7)].concat()))), none);
        assert_eq!(
            told(&meta(&field(8, &[varint(1, 5), varint(3, 7)].concat()))),
            ["metadata.creationTimestamp.3"]
        );
        let outer = [body(&meta(b"")), field(9, b"")].concat();
        assert_eq!(decode_telling(&outer, &NAMESPACE).unwrap().1, ["9"]);
    }

    #[test]
    fn a_part_that_comes_twice_is_merged() {
        let twice = [field(1, &field(1, b"foo")), field(1, &field(14, b"a/b"))].concat();
        let read = decode(&body(&twice), &NAMESPACE).unwrap();
        assert_eq!(read.get("metadata").unwrap().to_string(), r#"{"finalizers":["a/b"],"name":"foo"}"#);
    }

    #[test]
    fn who_manages_what_is_read() {
        let json = br#"{"f:metadata":{"f:labels":{}}}"#;
        let entry = [field(1, b"kubectl"), field(4, &[8, 0]), field(7, &field(1, json))].concat();
        // Number 17 takes two bytes.
        let length = u8::try_from(entry.len()).unwrap();
        let meta = [field(1, b"foo"), vec![0x8a, 0x01, length], entry].concat();
        let read = decode(&body(&field(1, &meta)), &NAMESPACE).unwrap();
        assert_eq!(
            read.at(&["metadata", "managedFields"]).unwrap().to_string(),
            r#"[{"fieldsV1":{"f:metadata":{"f:labels":{}}},"manager":"kubectl","time":"1970-01-01T00:00:00Z"}]"#
        );
        let broken = field(1, &[vec![0x8a, 0x01, 5], field(7, &field(1, b"{"))].concat());
        assert!(matches!(decode(&body(&broken), &NAMESPACE), Err(ProtobufError::Malformed(_))));
    }

    #[test]
    fn a_scale_is_written_as_it_is_read() {
        let scale = br#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"creationTimestamp":"2026-01-02T03:04:05Z","labels":{"a":"b"},"name":"one","resourceVersion":"7"},"spec":{"replicas":300},"status":{"replicas":-1,"selector":"a=b"}}"#;
        let scale = crate::json::parse(scale).unwrap();
        let bytes = encode(&scale, &SCALE);
        assert_eq!(decode(&bytes, &SCALE).unwrap(), scale);
        // By hand: replicas is field 1, a varint; spec is field 2 of the object, which is field 2 of the envelope.
        let spec = [0x12, 3, 0x08, 0xac, 0x02];
        assert!(bytes.windows(spec.len()).any(|w| w == spec), "{bytes:?}");
    }

    #[test]
    fn damage_is_an_error() {
        assert_eq!(decode(b"{}", &NAMESPACE), Err(ProtobufError::NoPrefix));
        for bad in [
            &b"k8s\0\x12\x05a"[..],
            b"k8s\0\x12",
            b"k8s\0\x13",
            b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ] {
            assert!(matches!(decode(bad, &NAMESPACE), Err(ProtobufError::Malformed(_))), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&[MAGIC, &bytes].concat(), &NAMESPACE);
            let _ = decode(&[MAGIC, &[0x12, 100], &bytes].concat(), &DELETE_OPTIONS);
        }
    }
}
