//! The types, and how malformed metadata is read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::decode::{DecodeError, Decoded, Field, Patched, Shape, Struct};
use crate::{Map, Value, json};

const STRING: Shape = Shape::String("string");
const UID: Shape = Shape::String("types.UID");

/// The shape of `metav1.ObjectMeta`.
pub static OBJECT_META: Struct = Struct::new(
    "v1.ObjectMeta",
    &[
        Field::new("name", STRING),
        Field::new("generateName", STRING),
        Field::new("namespace", STRING),
        Field::new("selfLink", STRING),
        Field::new("uid", UID),
        Field::new("resourceVersion", STRING),
        Field::new("generation", Shape::Int64),
        Field::new("creationTimestamp", Shape::Time),
        Field::new("deletionTimestamp", Shape::Pointer(&Shape::Time)),
        Field::new("deletionGracePeriodSeconds", Shape::Pointer(&Shape::Int64)),
        Field::new("labels", Shape::Map(&STRING)),
        Field::new("annotations", Shape::Map(&STRING)),
        Field::new("ownerReferences", Shape::List(&Shape::Struct(&OWNER_REFERENCE)))
            .patched(Patched::MergesBy("uid")),
        Field::new("finalizers", Shape::List(&STRING)).patched(Patched::Adds),
        Field::new("managedFields", Shape::List(&Shape::Struct(&MANAGED_FIELDS_ENTRY))),
    ],
);

/// The shape of `metav1.OwnerReference`.
pub static OWNER_REFERENCE: Struct = Struct::new(
    "v1.OwnerReference",
    &[
        Field::always("apiVersion", STRING),
        Field::always("kind", STRING),
        Field::always("name", STRING),
        Field::always("uid", UID),
        Field::new("controller", Shape::Pointer(&Shape::Bool)),
        Field::new("blockOwnerDeletion", Shape::Pointer(&Shape::Bool)),
    ],
);

/// The shape of `metav1.ManagedFieldsEntry`.
pub static MANAGED_FIELDS_ENTRY: Struct = Struct::new(
    "v1.ManagedFieldsEntry",
    &[
        Field::new("manager", STRING),
        Field::new("operation", Shape::String("v1.ManagedFieldsOperationType")),
        Field::new("apiVersion", STRING),
        Field::new("time", Shape::Pointer(&Shape::Time)),
        Field::new("fieldsType", STRING),
        Field::new("fieldsV1", Shape::Pointer(&Shape::Json)),
        Field::new("subresource", STRING),
    ],
);

/// An object's metadata, typed. Custom objects stay trees; this is for the types that the server itself works on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// The name, unique among the objects of a type in a namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A prefix from which the server makes a name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    /// The namespace; empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// No longer filled in by anybody, but still a known field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub self_link: String,
    /// The server's identity for this object, never used again for another.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The store's revision of the last change.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// A count of the changes of the desired state.
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: i64,
    /// RFC 3339, UTC, whole seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// Set once deletion was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
    /// Seconds that the object had to end by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    /// The labels, which label selectors match.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Anything else.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The objects that this one goes with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// The names of the controllers that must finish before the object is deleted; each removes its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// The fields that each manager has set, as the client or the store gave them; not parsed here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_fields: Option<Value>,
}

/// A reference from an object to its owner.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// The owner's group and version.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name.
    pub name: String,
    /// The owner's uid.
    pub uid: String,
    /// `true` if it is the one controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// `true` if the owner waits for this object under foreground deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// A list's metadata.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    /// The revision that the list shows.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// The token for the next page; empty on the last.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    /// The number of objects behind this page; `None` if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
}

/// A condition in a status.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// The name of the condition: `Established`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The time of the last change of `status`; RFC 3339, UTC, whole seconds.
    pub last_transition_time: Option<String>,
    /// Why, in one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The generation that it was computed for.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(n: &i64) -> bool {
    *n == 0
}

impl Condition {
    /// A condition that has not been set yet.
    pub fn new(
        kind: impl Into<String>,
        status: impl Into<String>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        let (kind, status, reason, message) = (kind.into(), status.into(), reason.into(), message.into());
        Self { kind, status, reason, message, ..Self::default() }
    }
}

/// The condition of a type.
#[must_use]
pub fn find_condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.kind == kind)
}

/// `true` if there is a condition of a type and it is `True`.
#[must_use]
pub fn is_condition_true(conditions: &[Condition], kind: &str) -> bool {
    find_condition(conditions, kind).is_some_and(|c| c.status == "True")
}

/// Sets a condition: adds it, or changes the one of its type in place. Its time becomes `now` only if its status
/// changed or had no time yet (apiextensions-apiserver `pkg/apihelpers.SetCRDCondition`). Says whether anything changed.
pub fn set_condition(conditions: &mut Vec<Condition>, new: Condition, now: &str) -> bool {
    let Some(old) = conditions.iter_mut().find(|c| c.kind == new.kind) else {
        conditions.push(Condition { last_transition_time: Some(now.to_owned()), ..new });
        return true;
    };
    let last_transition_time = match &old.last_transition_time {
        Some(time) if old.status == new.status => Some(time.clone()),
        _ => Some(now.to_owned()),
    };
    let new = Condition { last_transition_time, ..new };
    let changed = *old != new;
    *old = new;
    changed
}

/// Brings the metadata of an object into the form that Go's `ObjectMeta` gives back: unknown fields, empty fields and
/// nulls go. Gives the paths of the unknown fields (`metadata.x`). An object without metadata is left alone
/// (apiextensions-apiserver `pkg/apiserver/schema/objectmeta.GetObjectMeta`).
///
/// # Errors
/// A field of the wrong type; to be answered 400 with its text. The object is then unchanged.
pub fn coerce_metadata(object: &mut Value) -> Result<Vec<String>, DecodeError> {
    let Some(metadata) = object.get_mut("metadata") else { return Ok(Vec::new()) };
    // Mostly nothing is to be done.
    if metadata.as_object().is_some_and(|metadata| OBJECT_META.keeps(metadata)) {
        return Ok(Vec::new());
    }
    let decoded = decode_metadata(metadata, "metadata")?;
    *metadata = decoded.value;
    Ok(decoded.unknown_fields)
}

/// Decodes the metadata of an object that is no Go struct, of which `path` is the path. Upstream prints it as JSON and reads
/// that into `ObjectMeta`, so that a float that prints as a whole number is one there.
///
/// # Errors
/// A field of the wrong type.
pub fn decode_metadata(metadata: &Value, path: &str) -> Result<Decoded, DecodeError> {
    if has_float(metadata)
        && let Ok(printed) = json::parse_own(&metadata.to_vec())
    {
        return OBJECT_META.decode_at(&printed, path);
    }
    OBJECT_META.decode_at(metadata, path)
}

fn has_float(value: &Value) -> bool {
    match value {
        Value::Float(_) => true,
        Value::Object(map) => map.values().any(has_float),
        Value::Array(items) => items.iter().any(has_float),
        _ => false,
    }
}

/// As [`coerce_metadata`], for an object that another program stored: fields of the wrong type are dropped without an error
/// (`DropMalformedFields` there).
///
/// # Errors
/// If the metadata is no map.
pub fn repair_metadata(object: &mut Value) -> Result<(), String> {
    if coerce_metadata(object).is_ok() {
        return Ok(());
    }
    let Some(metadata) = object.get_mut("metadata") else { return Ok(()) };
    if metadata.as_object().is_none() {
        return Err("invalid metadata: expected object".to_owned());
    }
    drop_malformed(metadata);
    Ok(())
}

/// Drops the fields of the metadata that do not decode. Metadata that is no map stays as it is.
pub fn drop_malformed(metadata: &mut Value) {
    let Value::Object(fields) = metadata else { return };
    let mut kept = Map::new();
    for (field, value) in std::mem::take(fields) {
        let alone = Value::Object(Map::from_iter([(field, value)]));
        if let Ok(decoded) = decode_metadata(&alone, "metadata")
            && let Value::Object(decoded) = decoded.value
        {
            for (field, value) in decoded {
                kept.insert(field, value);
            }
        }
    }
    *fields = kept;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::{from_value, parse, to_value};

    fn coerce(object: &str) -> String {
        let mut object = parse(object.as_bytes()).unwrap();
        match coerce_metadata(&mut object) {
            Ok(unknown) => format!("{object} {unknown:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn metadata_is_read_as_gos_type() {
        let check = |object: &str, want: &str| assert_eq!(coerce(object), want, "{object}");
        check(r#"{"spec":1}"#, r#"{"spec":1} []"#);
        check(r#"{"metadata":null}"#, r#"{"metadata":{}} []"#);
        check(r#"{"metadata":{"generation":-0.0}}"#, r#"{"metadata":{}} []"#);
        check(r#"{"metadata":{"generation":2.0}}"#, r#"{"metadata":{"generation":2}} []"#);
        check(
            r#"{"metadata":{"name":"a","x":1,"labels":{"a":null},"finalizers":[],"creationTimestamp":null,"deletionGracePeriodSeconds":0}}"#,
            r#"{"metadata":{"deletionGracePeriodSeconds":0,"labels":{"a":""},"name":"a"}} ["metadata.x"]"#,
        );
        check(
            r#"{"metadata":{"ownerReferences":[{"kind":"K","y":{}}]}}"#,
            r#"{"metadata":{"ownerReferences":[{"apiVersion":"","kind":"K","name":"","uid":""}]}} ["metadata.ownerReferences[0].y"]"#,
        );
        check(
            r#"{"metadata":{"creationTimestamp":"2024-02-29T12:00:00.9+02:00"}}"#,
            r#"{"metadata":{"creationTimestamp":"2024-02-29T10:00:00Z"}} []"#,
        );
        check(
            r#"{"metadata":{"managedFields":[{"manager":"m","fieldsV1":{"f:x":{}},"time":null}]}}"#,
            r#"{"metadata":{"managedFields":[{"fieldsV1":{"f:x":{}},"manager":"m"}]}} []"#,
        );
    }

    #[test]
    fn metadata_as_stored_is_known_to_decode_to_itself() {
        let keeps =
            |metadata: &str| OBJECT_META.keeps(parse(metadata.as_bytes()).unwrap().as_object().unwrap());
        assert!(keeps(
            r#"{"annotations":{"a":""},"creationTimestamp":"2024-02-29T10:00:00Z","deletionGracePeriodSeconds":0,
            "finalizers":["f"],"generation":1,"labels":{"a":"b"},"managedFields":[{"apiVersion":"v1","fieldsType":"FieldsV1",
            "fieldsV1":{"f:x":{}},"manager":"m","operation":"Update","time":"2024-02-29T10:00:00Z"}],"name":"a",
            "ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u"}],"resourceVersion":"1","uid":"u"}"#
        ));
        assert!(!keeps(r#"{"creationTimestamp":null}"#));
    }

    fn metadata() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            (-1_i64..2).prop_map(Value::from),
            Just(Value::Float(0.5)),
            any::<bool>().prop_map(Value::from),
            "a?".prop_map(Value::from),
            Just(Value::from("2024-02-29T10:00:00Z")),
            Just(Value::from("2024-02-29T10:00:00.5+01:00")),
            Just(Value::from("0001-01-01T00:00:00Z")),
        ];
        let names = |of: &Struct| {
            let mut names: Vec<_> = of.fields.iter().map(|field| field.name).collect();
            names.push("x");
            proptest::sample::select(names)
        };
        let values = leaf.prop_recursive(3, 16, 4, move |inner| {
            let map = |name: BoxedStrategy<&'static str>| {
                prop::collection::vec((name, inner.clone()), 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect()))
            };
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                map(Just("a").boxed()),
                map(names(&OWNER_REFERENCE).boxed()),
                map(names(&MANAGED_FIELDS_ENTRY).boxed()),
            ]
        });
        prop::collection::vec((names(&OBJECT_META), values), 0..4)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn what_is_kept_decodes_to_itself(metadata in metadata()) {
            if OBJECT_META.keeps(metadata.as_object().unwrap()) {
                let decoded = OBJECT_META.decode(&metadata).unwrap();
                prop_assert_eq!(decoded, crate::decode::Decoded { value: metadata, unknown_fields: Vec::new() });
            }
        }
    }

    #[test]
    fn metadata_of_the_wrong_type_is_refused_in_gos_words() {
        let check = |metadata: &str, want: &str| {
            assert_eq!(
                coerce(&format!("{{\"metadata\":{metadata}}}")),
                format!("json: cannot unmarshal {want}")
            );
        };
        check("[]", "array into Go value of type v1.ObjectMeta");
        check(r#"{"labels":{"a":5}}"#, "number into Go struct field ObjectMeta.labels of type string");
        check(r#"{"labels":"x"}"#, "string into Go struct field ObjectMeta.labels of type map[string]string");
        check(r#"{"finalizers":{}}"#, "object into Go struct field ObjectMeta.finalizers of type []string");
        check(r#"{"generation":1.5}"#, "number 1.5 into Go struct field ObjectMeta.generation of type int64");
        check(r#"{"uid":true}"#, "bool into Go struct field ObjectMeta.uid of type types.UID");
        check(
            r#"{"deletionTimestamp":5}"#,
            "number into Go struct field ObjectMeta.deletionTimestamp of type string",
        );
        check(
            r#"{"ownerReferences":[{"uid":1}]}"#,
            "number into Go struct field OwnerReference.ownerReferences.uid of type types.UID",
        );
        // The first one counts, but what decodes itself stops everything.
        check(
            r#"{"annotations":[],"creationTimestamp":1}"#,
            "number into Go struct field ObjectMeta.creationTimestamp of type string",
        );
    }

    #[test]
    fn what_is_malformed_in_stored_metadata_is_dropped() {
        let check = |object: &str, want: Result<&str, &str>| {
            let mut object = parse(object.as_bytes()).unwrap();
            let repaired = repair_metadata(&mut object).map(|()| object.to_string());
            assert_eq!(repaired.as_deref().map_err(String::as_str), want);
        };
        check(r#"{"spec":1}"#, Ok(r#"{"spec":1}"#));
        check(
            r#"{"metadata":{"annotations":{"a":1},"labels":{"b":"c"},"name":"n","uid":5}}"#,
            Ok(r#"{"metadata":{"labels":{"b":"c"},"name":"n"}}"#),
        );
        check(r#"{"metadata":7}"#, Err("invalid metadata: expected object"));
    }

    #[test]
    fn typed_metadata_goes_there_and_back() {
        let tree = parse(br#"{"name":"a","labels":{"x":"y"},"generation":3,"finalizers":["f"],"managedFields":[{"manager":"m"}]}"#);
        let tree = tree.unwrap();
        let meta: ObjectMeta = from_value(&tree).unwrap();
        assert_eq!(meta.labels.get("x").map(String::as_str), Some("y"));
        assert_eq!(to_value(&meta), tree);
    }

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let mut conditions = Vec::new();
        assert!(set_condition(&mut conditions, Condition::new("A", "False", "R", "m"), "t1"));
        assert!(!set_condition(&mut conditions, Condition::new("A", "False", "R", "m"), "t2"));
        assert!(set_condition(&mut conditions, Condition::new("A", "False", "Q", "m"), "t2"));
        assert_eq!(find_condition(&conditions, "A").unwrap().last_transition_time.as_deref(), Some("t1"));
        assert!(set_condition(&mut conditions, Condition::new("A", "True", "Q", "m"), "t3"));
        assert_eq!(find_condition(&conditions, "A").unwrap().last_transition_time.as_deref(), Some("t3"));
        assert!(is_condition_true(&conditions, "A") && !is_condition_true(&conditions, "B"));
    }
}
