//! A stored object: its bytes once, with the few fields that selecting and serving need beside them.
//!
//! Another API server may have written them, in another version, encoding or layout. [`StoredObject::read`] is the one place
//! that sees the difference: from there on the bytes are JSON in the form that is stored here, on one line.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use kindom_api::{Value, json, meta};
use kindom_storage_model::{DamagedValue, Revision, StoredValue};
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::seal::{NO_SHAPE, Sealed, Shape, unseal};

/// An object as it is stored: JSON without `metadata.resourceVersion`, which is spliced in when it is served.
#[derive(Debug)]
pub struct StoredObject {
    key: Box<str>,
    json: Bytes,
    revision: Revision,
    facts: Option<Facts>,
    /// The difference from bytes that kindom writes; `None` for our own.
    foreign: Option<Box<Foreign>>,
    /// The schema under which the bytes may be served as they are: the one that they were stored by, or found to be right
    /// by since.
    shape: AtomicU32,
}

/// The way in which another API server's bytes differ from ours.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Foreign {
    /// In nothing but layout.
    Layout,
    /// They are kindom's, with a negative zero, whose sign goes when they are read ([`Sealed::new`]).
    Signed,
    /// They are of another version or encoding, so that the next write is one even if it changes nothing. `lost` says which
    /// of their fields are not known, if any.
    Form { lost: Option<String> },
    /// They are no object; and why.
    Corrupt(String),
    /// The store has them no more; and why.
    Damaged(String),
}

/// The bytes of another API server, in the form that is stored here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translated {
    /// The JSON.
    pub json: Vec<u8>,
    /// They are of another version or encoding, and not just laid out in another way.
    pub other_form: bool,
    /// The paths of unknown fields: another write would lose them.
    pub unknown: Vec<String>,
}

/// The facts read out of the bytes when an object enters a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    api_version: Arc<str>,
    uid: Box<str>,
    labels: Box<[(Box<str>, Box<str>)]>,
    deleting: bool,
    /// The offset at which `"resourceVersion":"N",` is inserted.
    splice: usize,
}

#[derive(serde::Deserialize)]
struct Document<'a> {
    #[serde(borrow, rename = "apiVersion", default)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

/// An object up to its metadata: what follows is not read.
#[derive(Default)]
struct Beginning<'a> {
    api_version: Text<'a>,
    metadata: Option<Metadata<'a>>,
}

/// A text that borrows where it can, which a bare `Cow` does not.
#[derive(Default, serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(serde::Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum TopLevel {
    ApiVersion,
    Metadata,
    #[serde(other)]
    Other,
}

impl<'de> Visitor<'de> for &mut Beginning<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(field) = map.next_key()? {
            match field {
                TopLevel::ApiVersion => self.api_version = map.next_value()?,
                TopLevel::Metadata => {
                    self.metadata = Some(map.next_value()?);
                    break;
                }
                TopLevel::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// The place of the metadata, for bytes in another layout than ours.
#[derive(serde::Deserialize)]
struct Whole<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

#[derive(serde::Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    uid: Option<&'a RawValue>,
    #[serde(borrow, default)]
    labels: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    #[serde(rename = "deletionTimestamp", default)]
    deletion_timestamp: Option<IgnoredAny>,
    /// Nobody stores it but by hand: it would be served twice.
    #[serde(rename = "resourceVersion", default)]
    resource_version: Option<IgnoredAny>,
}

impl StoredObject {
    /// The object of a stored value that was last written at `revision`. `key` is what follows the type's prefix:
    /// `namespace/name`, or `name` at cluster scope. Bytes that are no object are kept, so that they can be listed as
    /// such and deleted.
    #[must_use]
    pub fn new(key: &str, value: Bytes, revision: Revision) -> Self {
        match unseal(&value) {
            Some((json, shape)) => Self::own(key, json, shape, revision),
            None => Self::with(key, value, revision, Some(Box::new(Foreign::Layout))),
        }
    }

    /// The object that is stored as `sealed`.
    pub fn written(key: &str, sealed: &Sealed, revision: Revision) -> Self {
        Self::own(key, sealed.json(), sealed.shape(), revision)
    }

    fn own(key: &str, json: Bytes, shape: Shape, revision: Revision) -> Self {
        let foreign = (shape == NO_SHAPE).then(|| Box::new(Foreign::Signed));
        let own = Self { shape: AtomicU32::new(shape), ..Self::with(key, json, revision, foreign) };
        debug_assert_eq!(own.facts, Facts::read(&own.json), "sealed bytes are sorted and valid");
        own
    }

    fn with(key: &str, json: Bytes, revision: Revision, foreign: Option<Box<Foreign>>) -> Self {
        // Bytes that are no object have no facts, even if they look like one.
        let facts = match foreign.as_deref() {
            Some(Foreign::Corrupt(_) | Foreign::Damaged(_)) => None,
            None | Some(Foreign::Signed) => Facts::of_own(&json),
            Some(Foreign::Layout | Foreign::Form { .. }) => Facts::read(&json),
        };
        Self { key: key.into(), json, revision, facts, foreign, shape: AtomicU32::new(NO_SHAPE) }
    }

    /// The object of a value that the store has lost. It has a key and a revision, so it can be listed as damaged, and
    /// deleted.
    #[must_use]
    pub fn damaged(key: &str, damage: &DamagedValue, revision: Revision) -> Self {
        Self::with(key, Bytes::new(), revision, Some(Box::new(Foreign::Damaged(damage.to_string()))))
    }

    /// As [`StoredObject::new`], from the store's value of the object.
    #[must_use]
    pub fn of(key: &str, value: StoredValue, revision: Revision) -> Self {
        match value {
            Ok(json) => Self::new(key, json, revision),
            Err(damage) => Self::damaged(key, &damage, revision),
        }
    }

    /// The object of a stored value, whichever server wrote it. `translate` reads a value that is not stored as plain JSON
    /// (`Strategy::translate`). Unreadable bytes are kept as they are ([`StoredObject::corrupt`]).
    #[must_use]
    pub fn read(
        key: &str,
        value: StoredValue,
        revision: Revision,
        translate: impl FnOnce(&[u8]) -> Option<Result<Translated, String>>,
    ) -> Self {
        let bytes = match value {
            Ok(bytes) => bytes,
            Err(damage) => return Self::damaged(key, &damage, revision),
        };
        if let Some((json, shape)) = unseal(&bytes) {
            return Self::own(key, json, shape, revision);
        }
        let foreign = match translate(&bytes) {
            None => return Self::read_json(key, bytes, revision),
            Some(Err(why)) => Foreign::Corrupt(why),
            Some(Ok(Translated { json, other_form, unknown })) => {
                let lost = (!unknown.is_empty()).then(|| unknown.join(", "));
                let foreign = match other_form || lost.is_some() {
                    true => Foreign::Form { lost },
                    false => Foreign::Layout,
                };
                return Self::with(key, json.into(), revision, Some(Box::new(foreign)));
            }
        };
        Self::with(key, bytes, revision, Some(Box::new(foreign)))
    }

    /// The object of a type that is stored as any JSON, by another program. Line breaks in it, as Go's encoder ends with one,
    /// would break a watch's stream. Malformed metadata is dropped (apiextensions `customresource_handler.go`,
    /// `dropInvalidMetadata`, 1.37).
    fn read_json(key: &str, bytes: Bytes, revision: Revision) -> Self {
        let layout = |json: Bytes| Self::with(key, json, revision, Some(Box::new(Foreign::Layout)));
        let object = match std::str::from_utf8(&bytes) {
            // Go's decoder puts the replacement character there.
            Err(_) => layout(String::from_utf8_lossy(&bytes).into_owned().into()),
            Ok(text) => layout(bytes.slice_ref(text.trim_ascii().as_bytes())),
        };
        let one_line = memchr::memchr2(b'\n', b'\r', &object.json).is_none();
        // Others take deeper objects than we do.
        if object.facts.is_some() && one_line && json::parse_own(&object.json).is_ok() {
            return object;
        }
        let repaired = json::parse_own(&object.json).map_err(|e| e.to_string()).and_then(|mut tree| {
            if tree.as_object().is_none() {
                return Err("it is no JSON object".to_owned());
            }
            meta::repair_metadata(&mut tree)?;
            if let Some(metadata) = tree.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("resourceVersion");
            }
            Ok(tree)
        });
        match repaired {
            Ok(tree) => layout(tree.to_vec().into()),
            Err(why) => Self::with(key, object.json, revision, Some(Box::new(Foreign::Corrupt(why)))),
        }
    }

    /// The reason why its bytes cannot be read; `None` if they can.
    #[must_use]
    pub fn corrupt(&self) -> Option<&str> {
        match self.foreign.as_deref()? {
            Foreign::Corrupt(why) | Foreign::Damaged(why) => Some(why),
            Foreign::Layout | Foreign::Signed | Foreign::Form { .. } => None,
        }
    }

    /// The store has lost its bytes, which were readable once: somebody may have seen them.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        matches!(self.foreign.as_deref(), Some(Foreign::Damaged(_)))
    }

    /// The fields of the stored bytes that are unknown here: another write would lose them.
    #[must_use]
    pub fn would_lose(&self) -> Option<&str> {
        match self.foreign.as_deref()? {
            Foreign::Form { lost } => lost.as_deref(),
            Foreign::Layout | Foreign::Signed | Foreign::Corrupt(_) | Foreign::Damaged(_) => None,
        }
    }

    /// `true` if its bytes have a sign that goes when they are read.
    pub fn is_signed(&self) -> bool {
        matches!(self.foreign.as_deref(), Some(Foreign::Signed))
    }

    /// Returns true if another API server has written its bytes.
    pub fn is_foreign(&self) -> bool {
        self.foreign.is_some()
    }

    /// Returns true if storing this JSON would change nothing.
    pub fn is_stored_as(&self, json: &[u8]) -> bool {
        match self.foreign.as_deref() {
            None => self.json == json,
            Some(Foreign::Layout | Foreign::Signed) => {
                // A sign that is stored and lost when it is read is no layout.
                self.json == json
                    || !json::may_hold_negative_zero(&self.json)
                        && json::parse_own(&self.json).is_ok_and(|tree: Value| tree.to_vec() == json)
            }
            Some(Foreign::Form { .. } | Foreign::Corrupt(_) | Foreign::Damaged(_)) => false,
        }
    }

    /// The part of its storage key behind the type's prefix.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its namespace; none at cluster scope.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.key.split_once('/').map(|(namespace, _)| namespace)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.split_once('/').map_or(&*self.key, |(_, name)| name)
    }

    /// The revision that wrote it.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The same object at a later revision, for the event of its deletion.
    #[must_use]
    pub fn at_revision(&self, revision: Revision) -> Self {
        let shape = AtomicU32::new(self.shape.load(Ordering::Relaxed));
        let (key, json) = (self.key.clone(), self.json.clone());
        Self { key, json, revision, facts: self.facts.clone(), foreign: self.foreign.clone(), shape }
    }

    /// Its JSON: as stored, but for the seal and the layout of another program's bytes.
    #[must_use]
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// Its uid; empty if it has none.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.facts.as_ref().map_or("", |f| &f.uid)
    }

    /// Returns true if it is being deleted.
    #[must_use]
    pub fn deleting(&self) -> bool {
        self.facts.as_ref().is_some_and(|f| f.deleting)
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        let labels = &self.facts.as_ref()?.labels;
        let at = labels.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        labels.get(at).map(|(_, v)| &**v)
    }

    /// The `apiVersion` it is stored in; none if the bytes are no object.
    #[must_use]
    pub fn api_version(&self) -> Option<&str> {
        self.facts.as_ref().map(|f| &*f.api_version)
    }

    /// Appends the bytes with `metadata.resourceVersion` in them; false, and nothing appended, if they are no object.
    #[must_use]
    pub fn write_served(&self, out: &mut Vec<u8>) -> bool {
        let Some((head, tail)) = self.facts.as_ref().and_then(|f| self.json.split_at_checked(f.splice))
        else {
            return false;
        };
        out.reserve(self.json.len() + 48);
        out.extend_from_slice(head);
        out.extend_from_slice(b"\"resourceVersion\":\"");
        out.extend_from_slice(itoa::Buffer::new().format(self.revision.0).as_bytes());
        out.extend_from_slice(b"\",");
        out.extend_from_slice(tail);
        true
    }

    /// Returns true if its bytes are known to be pruned and defaulted by the schema of this shape.
    #[must_use]
    pub fn has_shape(&self, shape: Shape) -> bool {
        self.shape.load(Ordering::Relaxed) == shape
    }

    /// Notes that its bytes are pruned and defaulted by the schema of this shape.
    pub fn set_shape(&self, shape: Shape) {
        self.shape.store(shape, Ordering::Relaxed);
    }
}

impl Facts {
    fn read(json: &[u8]) -> Option<Self> {
        // One walk: with managedFields, metadata is often the larger part.
        let Document { api_version, metadata } = serde_json::from_slice(json).ok()?;
        Self::new(json, &api_version, metadata)
    }

    /// As [`Facts::read`], up to the metadata: kindom's bytes have passed their checksum, and their keys are sorted and unique, so
    /// nothing behind it matters.
    fn of_own(json: &[u8]) -> Option<Self> {
        let mut beginning = Beginning::default();
        // Usually an error, as the map is not read to its end. After a real one before the metadata there is none.
        let _ = serde_json::Deserializer::from_slice(json).deserialize_map(&mut beginning);
        Self::new(json, &beginning.api_version.0, beginning.metadata?)
    }

    fn new(json: &[u8], api_version: &str, metadata: Metadata<'_>) -> Option<Self> {
        if metadata.resource_version.is_some() {
            return None;
        }
        // The slices borrow from `json`, so the distance between their starts is an offset into it.
        let offset = |part: &str| (part.as_ptr() as usize).wrapping_sub(json.as_ptr() as usize);
        // Our own bytes have sorted keys and no white space, and "resourceVersion" sorts right before "uid". In others'
        // bytes it goes first.
        let before_uid = metadata.uid.map(|uid| offset(uid.get()).wrapping_sub(6));
        let splice = match before_uid {
            Some(at) if json.get(at..).is_some_and(|rest| rest.starts_with(b"\"uid\":")) => at,
            _ => {
                let text = serde_json::from_slice::<Whole<'_>>(json).ok()?.metadata.get();
                if text.trim_start_matches('{').trim_start().starts_with('}') {
                    return None;
                }
                offset(text) + 1
            }
        };
        let uid = metadata.uid.and_then(|uid| serde_json::from_str::<Cow<'_, str>>(uid.get()).ok());
        let labels = metadata.labels.unwrap_or_default();
        Some(Self {
            api_version: api_version.into(),
            uid: uid.unwrap_or_default().into(),
            labels: labels.into_iter().map(|(k, v)| (Box::from(k), Box::from(v))).collect(),
            deleting: metadata.deletion_timestamp.is_some(),
            splice,
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kindom_storage_model::Revision;

    use super::{Facts, StoredObject};
    use crate::seal::Sealed;

    fn served(json: &str) -> Option<String> {
        let object = StoredObject::new("ns/a", Bytes::copy_from_slice(json.as_bytes()), Revision(7));
        let mut out = Vec::new();
        object.write_served(&mut out).then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_revision_is_spliced_in_where_it_sorts() {
        let json = r#"{"apiVersion":"g/v1","metadata":{"labels":{"a":"b"},"name":"a","uid":"u"},"spec":{}}"#;
        let want = r#"{"apiVersion":"g/v1","metadata":{"labels":{"a":"b"},"name":"a","resourceVersion":"7","uid":"u"},"spec":{}}"#;
        assert_eq!(served(json).as_deref(), Some(want));
    }

    #[test]
    fn bytes_of_others_are_served_too() {
        assert_eq!(
            served(r#"{ "metadata": { "uid" : "u" } }"#).as_deref(),
            Some(r#"{ "metadata": {"resourceVersion":"7", "uid" : "u" } }"#)
        );
        assert_eq!(served("garbage"), None);
        assert_eq!(served(r#"{"metadata":{}}"#), None);
    }

    #[test]
    fn our_own_bytes_are_read_up_to_the_metadata() {
        for json in [
            r#"{"apiVersion":"g/v1","kind":"K","metadata":{"labels":{"a":"b"},"name":"a","uid":"u"},"spec":{"metadata":{}}}"#,
            r#"{"apiVersion":"v1","data":{"metadata":"{"},"metadata":{"deletionTimestamp":"t","managedFields":[{}],"uid":"\u003c"}}"#,
            r#"{"kind":"K","metadata":{"name":"a"}}"#,
            r#"{"metadata":{"resourceVersion":"1","uid":"u"}}"#,
            r#"{"metadata":{"labels":{"a":1},"uid":"u"}}"#,
            r#"{"metadata":[]}"#,
            r#"{"metadata":{}}"#,
            r#"{"spec":{}}"#,
            "[]",
            "",
        ] {
            let (own, whole) = (Facts::of_own(json.as_bytes()), Facts::read(json.as_bytes()));
            assert_eq!(format!("{own:?}"), format!("{whole:?}"), "{json}");
        }
        let broken = br#"{"apiVersion":"g/v1","metadata":{"uid":"u"},"spec":"#;
        assert!(Facts::of_own(broken).is_some() && Facts::read(broken).is_none());
    }

    fn read(bytes: &[u8]) -> StoredObject {
        StoredObject::read("ns/a", Ok(Bytes::copy_from_slice(bytes)), Revision(7), |_| None)
    }

    #[test]
    fn layout_is_no_change() {
        let ours = br#"{"apiVersion":"g/v1","metadata":{"name":"a","uid":"u"},"s":"\u003c\u0026"}"#;
        let sealed = Sealed::new(ours.to_vec(), 7);
        let object = read(&sealed.value());
        assert!(!object.is_foreign() && object.has_shape(7) && object.is_stored_as(&sealed.json()));
        // As another program may write it, as Go's encoder does, and as nobody does; and our own, changed.
        let changed = [&b" "[..], &sealed.value()].concat();
        for bytes in [
            &ours[..],
            &changed[..],
            b"{\"apiVersion\":\"g/v1\",\"metadata\":{\"name\":\"a\",\"uid\":\"u\"},\"s\":\"\\u003c\\u0026\"}\n",
            b"{\r\n \"s\": \"<&\", \"apiVersion\":\"g/v1\",\n\"metadata\": {\"uid\":\"u\",\"name\":\"a\"}}",
        ] {
            let object = read(bytes);
            assert!(object.is_foreign() && !object.has_shape(7) && object.is_stored_as(ours));
            assert!(!object.is_stored_as(b"{}"));
            assert!(!object.json().contains(&b'\n') && !object.json().contains(&b'\r'));
            assert_eq!((object.uid(), object.api_version()), ("u", Some("g/v1")));
        }
    }

    #[test]
    fn a_negative_zero_is_stored_and_not_served_as_it_is() {
        let with =
            |n: &str| format!(r#"{{"apiVersion":"g/v1","metadata":{{"name":"a","uid":"u"}},"n":{n}}}"#);
        let sealed = |n: &str| Sealed::new(with(n).into_bytes(), 7);
        let is_stored_as = |object: &StoredObject, n: &str| object.is_stored_as(with(n).as_bytes());
        for n in ["0", "-0.5", "-1", "[1,0]", r#""-0""#, r#""2026-01-01T00:00:00Z""#] {
            let object = read(&sealed(n).value());
            assert!(!object.is_foreign() && object.has_shape(7), "{n}");
        }
        for n in ["-0", "[-0]", r#"{"a":-0}"#, "[1,-0,2]", r#"":-0,""#] {
            let sealed = sealed(n);
            for object in [read(&sealed.value()), StoredObject::written("ns/a", &sealed, Revision(7))] {
                assert!(object.is_foreign() && !object.has_shape(7) && is_stored_as(&object, n), "{n}");
                assert_eq!((object.json(), object.uid()), (&Bytes::from(with(n)), "u"), "{n}");
                assert!(!is_stored_as(&object, "0"), "{n}");
            }
        }
        assert!(!is_stored_as(&read(&sealed("0").value()), "-0"));
    }

    #[test]
    fn a_revision_that_was_stored_is_not_the_one_that_is_served() {
        let object =
            read(br#"{"apiVersion":"g/v1","metadata":{"name":"a","resourceVersion":"1","uid":"u"}}"#);
        let mut out = Vec::new();
        assert!(object.write_served(&mut out));
        let served = r#"{"apiVersion":"g/v1","metadata":{"name":"a","resourceVersion":"7","uid":"u"}}"#;
        assert_eq!(String::from_utf8(out).unwrap(), served);
    }

    #[test]
    fn bytes_are_read_as_far_as_they_can_be() {
        let object = read(br#"{"apiVersion":"g/v1","metadata":{"name":"a","labels":{"a":1},"uid":"u"}}"#);
        assert_eq!((object.uid(), object.corrupt()), ("u", None));
        assert_eq!(object.label("a"), None);
        let object = read(b"{\"apiVersion\":\"g/v1\",\"metadata\":{\"uid\":\"u\xff\"}}");
        assert_eq!((object.uid(), object.corrupt()), ("u\u{fffd}", None));
        assert_eq!(read(br#"{"spec":{}}"#).corrupt(), None);
        for (bytes, why) in [
            (&b"[]"[..], "it is no JSON object"),
            (br#"{"metadata":[]}"#, "invalid metadata: expected object"),
        ] {
            assert_eq!(read(bytes).corrupt(), Some(why));
        }
        // Deeper than anything is read here.
        let deep = format!("{{\"metadata\":{{}},\"a\":{}{}}}\n", "[".repeat(300), "]".repeat(300));
        for bytes in [&b""[..], b"\n", b"{", b"k8s\0\n\x0c", b"\xff\xfe", b"{}{}", deep.as_bytes()] {
            let object = read(bytes);
            assert!(object.corrupt().is_some(), "{bytes:?}");
            assert!(object.at_revision(Revision(8)).corrupt().is_some());
        }
    }

    #[test]
    fn labels_and_names_are_at_hand() {
        let json = r#"{"metadata":{"labels":{"a":"b","c":"d\n"},"uid":"u"}}"#;
        let object = StoredObject::new("ns/x", Bytes::from_static(json.as_bytes()), Revision(1));
        assert_eq!((object.namespace(), object.name(), object.uid()), (Some("ns"), "x", "u"));
        assert_eq!((object.label("c"), object.label("b")), (Some("d\n"), None));
    }
}
