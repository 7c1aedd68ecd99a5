//! The proposal's ThirdPartyResource: a group, one version, names and a scope (T-16 to T-41).
//!
//! Its version is the storage version. It has no schema: a registration created through it preserves unknown fields. A
//! registration created through another face keeps the fields that this one does not show.

use super::{Face, as_map, map_at, map_in, normal, take};
use crate::crd::condition;
use crate::decode::{DecodeError, Field, Shape, Struct};
use crate::field::{Error, ErrorList, Path};
use crate::meta::OBJECT_META;
use crate::{Map, Value, object};

const STRING: Shape = Shape::String("string");

pub(super) static RESOURCE: Struct = Struct::new(
    "v1beta1.ThirdPartyResource",
    &[
        Field::new("kind", STRING),
        Field::new("apiVersion", STRING),
        Field::new("metadata", Shape::Struct(&OBJECT_META)),
        Field::always("spec", Shape::Struct(&SPEC)),
        Field::always("status", Shape::Struct(&STATUS)),
    ],
);

/// The proposal gives `Names` and `AcceptedNames` no JSON name, and calls `names.plural` `spec.plural` in a comment
/// (T-16, T-26, T-38).
static SPEC: Struct = Struct::new(
    "v1beta1.ThirdPartyResourceSpec",
    &[
        Field::always("group", STRING),
        Field::always("version", STRING),
        Field::always("names", Shape::Struct(&NAMES)),
        Field::new("Names", Shape::Pointer(&Shape::Struct(&SOME_NAMES))),
        Field::new("plural", STRING),
        Field::always("scope", Shape::String("v1beta1.ResourceScope")),
    ],
);

static NAMES: Struct = Struct::new(
    "v1beta1.ThirdPartyResourceNames",
    &[
        Field::always("plural", STRING),
        Field::new("singular", STRING),
        Field::new("shortNames", Shape::List(&STRING)),
        Field::always("kind", STRING),
        Field::new("listKind", STRING),
    ],
);

/// [`NAMES`] with no field that stands for its absence, to be laid over others.
static SOME_NAMES: Struct = Struct::new(
    "v1beta1.ThirdPartyResourceNames",
    &[
        Field::new("plural", STRING),
        Field::new("singular", STRING),
        Field::new("shortNames", Shape::List(&STRING)),
        Field::new("kind", STRING),
        Field::new("listKind", STRING),
    ],
);

static STATUS: Struct = Struct::new(
    "v1beta1.ThirdPartyResourceStatus",
    &[
        Field::always("conditions", Shape::List(&Shape::Struct(&CONDITION))),
        Field::always("acceptedNames", Shape::Struct(&NAMES)),
        Field::new("AcceptedNames", Shape::Pointer(&Shape::Struct(&SOME_NAMES))),
    ],
);

static CONDITION: Struct = Struct::new(
    "v1beta1.ThirdPartyResourceCondition",
    &[
        Field::always("type", Shape::String("v1beta1.ThirdPartyResourceConditionType")),
        Field::always("status", Shape::String("v1beta1.ConditionStatus")),
        Field::always("lastTransitionTime", Shape::Time),
        Field::new("reason", STRING),
        Field::new("message", STRING),
    ],
);

/// The names that both faces have.
const NAME_FIELDS: [&str; 5] = ["plural", "singular", "shortNames", "kind", "listKind"];
/// The fields that a condition has on both faces.
const CONDITION_FIELDS: [&str; 5] = ["type", "status", "lastTransitionTime", "reason", "message"];

/// The condition of the proposal's API, and the one that its text names (T-34, T-41).
const NAME_CONFLICTS: [&str; 2] = ["NameConflict", "KindNameConflict"];

/// Returns true for a condition that others than kindom write; this face shows those as they are. Of the conditions that
/// kindom computes it shows Terminating only, and its own names stand for another of them.
fn is_foreign(kind: &str) -> bool {
    !condition::COMPUTED.contains(&kind) && !NAME_CONFLICTS.contains(&kind)
}

fn text<'a>(value: Option<&'a Value>, field: &str) -> &'a str {
    value.and_then(|v| v.get(field)).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn decode(object: &Value) -> Result<(Value, Vec<String>, Vec<String>), DecodeError> {
    let decoded = RESOURCE.decode(object)?;
    let mut value = decoded.value;
    let spec = map_at(&mut value, "spec");
    lay_over(spec, "Names", "names");
    let plural = spec.get("plural").cloned();
    let scope = spec.entry_or_insert_with("scope", || "".into());
    if scope.as_str() == Some("") {
        *scope = "Namespaced".into();
    }
    let names = map_in(spec, "names");
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !kind.is_empty() {
        names.entry_or_insert_with("singular", || kind.to_lowercase().into());
        names.entry_or_insert_with("listKind", || format!("{kind}List").into());
    }
    if let Some(plural) = plural {
        let sent = names.get("plural").and_then(Value::as_str).unwrap_or_default();
        // Two that differ are for `read` to refuse.
        if sent.is_empty() || plural.as_str() == Some(sent) {
            names.insert("plural", plural);
            spec.remove("plural");
        }
    }
    lay_over(map_at(&mut value, "status"), "AcceptedNames", "acceptedNames");
    Ok((value, decoded.unknown_fields, Vec::new()))
}

/// Moves the field `from` into its other spelling `to`: a patch may have used either. A map with all required fields
/// replaces the other one; `kubectl apply` sends such a map, in which a removed field is only absent.
fn lay_over(map: &mut Map, from: &str, to: &str) {
    let Some(Value::Object(said)) = map.remove(from) else { return };
    let known = map_in(map, to);
    if said.contains_key("plural") && said.contains_key("kind") {
        *known = said;
        return;
    }
    for (key, value) in said {
        known.insert(key, value);
    }
}

fn names_of(names: Option<&Value>) -> Value {
    let mut out = object! { "plural": "", "kind": "" };
    if names.is_some() {
        set_fields(as_map(&mut out), names, &NAME_FIELDS);
    }
    out
}

/// The version that objects are stored in, which is the one that this face shows.
fn storage_version(stored: &Value) -> Option<&str> {
    let storage = |v: &&Value| v.get("storage") == Some(&Value::Bool(true));
    versions(stored).iter().find(storage)?.get("name")?.as_str()
}

fn versions(stored: &Value) -> &[Value] {
    stored.at(&["spec", "versions"]).and_then(Value::as_array).unwrap_or_default()
}

pub(super) fn show(mut stored: Value) -> Value {
    let spec = stored.get("spec");
    let status = stored.get("status");
    let mut conditions = Vec::new();
    for condition in status.and_then(|s| s.get("conditions")).and_then(Value::as_array).unwrap_or_default() {
        show_condition(condition, &mut conditions);
    }
    let conditions = if conditions.is_empty() { Value::Null } else { conditions.into() };
    let spec = object! {
        "group": text(spec, "group"),
        "version": storage_version(&stored).unwrap_or_default(),
        "names": names_of(spec.and_then(|s| s.get("names"))),
        "scope": text(spec, "scope"),
    };
    let status = object! {
        "conditions": conditions,
        "acceptedNames": names_of(status.and_then(|s| s.get("acceptedNames"))),
    };
    let metadata = take(&mut stored, "metadata").unwrap_or_else(|| Map::new().into());
    let face = Face::ThirdPartyResource;
    object! {
        "apiVersion": face.api_version(),
        "kind": face.kind(),
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }
}

fn show_condition(condition: &Value, out: &mut Vec<Value>) {
    let kind = text(Some(condition), "type");
    let mut shown: Map =
        CONDITION_FIELDS.into_iter().filter_map(|f| Some((f, condition.get(f)?.clone()))).collect();
    if kind == condition::NAMES_ACCEPTED {
        let opposite = match text(Some(condition), "status") {
            "True" => "False",
            "False" => "True",
            _ => "Unknown",
        };
        shown.insert("status", opposite);
        for kind in NAME_CONFLICTS {
            shown.insert("type", kind);
            out.push(shown.clone().into());
        }
    } else if kind == condition::TERMINATING || is_foreign(kind) {
        out.push(shown.into());
    }
}

/// `true` if an update leaves a registration of one version with one version of another name, which is only right while
/// there are no objects (T-10). Only a write through this face may ask for it.
#[must_use]
pub fn renames_version(old: &Value, new: &Value) -> bool {
    renamed_version(old, new).is_some()
}

/// The name of the version before and after [`renames_version`].
pub(super) fn renamed_version<'a>(old: &'a Value, new: &'a Value) -> Option<(&'a str, &'a str)> {
    let ([old], [new]) = (versions(old), versions(new)) else { return None };
    let (old, new) = (text(Some(old), "name"), text(Some(new), "name"));
    (old != new).then_some((old, new))
}

pub(super) fn read(mut object: Value, old: Option<&Value>, is_status: bool) -> Result<Value, ErrorList> {
    let metadata = take(&mut object, "metadata").unwrap_or_else(|| Map::new().into());
    let mut stored = match (old, is_status) {
        (Some(old), true) => read_status(&object, old)?,
        (Some(old), false) => read_spec(&object, old)?,
        (None, _) => {
            refuse_two_plurals(&object)?;
            new(&object)
        }
    };
    if let Some(map) = stored.as_object_mut() {
        map.insert("apiVersion", Face::V1.api_version());
        map.insert("kind", Face::V1.kind());
        map.insert("metadata", metadata);
    }
    if old.is_none() { normal(&stored) } else { Ok(stored) }
}

fn refuse_two_plurals(object: &Value) -> Result<(), ErrorList> {
    let spec = Path::new("spec");
    match object.at(&["spec", "plural"]) {
        Some(plural) => {
            let detail = "must be the same as spec.names.plural, which may stand alone";
            Err(Error::invalid(&spec.child("plural"), plural.clone(), detail).into())
        }
        None => Ok(()),
    }
}

fn new(object: &Value) -> Value {
    let spec = object.get("spec");
    let schema = object! { "type": "object", "x-kubernetes-preserve-unknown-fields": true };
    let version = object! {
        "name": text(spec, "version"),
        "served": true,
        "storage": true,
        "schema": object! { "openAPIV3Schema": schema },
    };
    let spec = object! {
        "group": text(spec, "group"),
        "names": names_of(spec.and_then(|s| s.get("names"))),
        "scope": text(spec, "scope"),
        "versions": vec![version],
    };
    object! { "spec": spec }
}

fn read_spec(object: &Value, old: &Value) -> Result<Value, ErrorList> {
    refuse_two_plurals(object)?;
    let sent = object.get("spec");
    let mut stored = old.clone();
    let spec = map_at(&mut stored, "spec");
    for field in ["group", "scope"] {
        spec.insert(field, text(sent, field));
    }
    set_fields(map_in(spec, "names"), sent.and_then(|s| s.get("names")), &NAME_FIELDS);
    let (shown, wanted) = (storage_version(old).unwrap_or_default(), text(sent, "version"));
    if shown == wanted {
        return Ok(stored);
    }
    if versions(old).len() != 1 {
        let path = Path::new("spec");
        let all: Vec<&str> = versions(old).iter().map(|v| text(Some(v), "name")).collect();
        let detail = format!(
            "may only change while there is one version; through {} this registration has {}",
            Face::V1.api_version(),
            all.join(", ")
        );
        return Err(Error::invalid(&path.child("version"), wanted, detail).into());
    }
    let versions = spec.get_mut("versions").and_then(Value::as_array_mut);
    if let Some(version) = versions.and_then(|v| v.first_mut()).and_then(Value::as_object_mut) {
        version.insert("name", wanted);
    }
    Ok(stored)
}

/// Copies these fields, which both faces have, to `target`; a field that is absent is removed.
fn set_fields(target: &mut Map, said: Option<&Value>, fields: &[&str]) {
    for field in fields {
        match said.and_then(|s| s.get(field)) {
            Some(value) => target.insert(*field, value.clone()),
            None => target.remove(field),
        };
    }
}

/// Merges the client's conditions into the stored status: a condition that kindom does not compute replaces the stored one
/// of its type in that one's place, new ones follow, and missing ones are removed. The rest of the status stays.
fn read_status(object: &Value, old: &Value) -> Result<Value, ErrorList> {
    fn conditions(value: &Value) -> &[Value] {
        value.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default()
    }
    let mut sent: Vec<Option<&Value>> = conditions(object).iter().map(Some).collect();
    let mut errors = ErrorList::new();
    let mut out = Vec::new();
    let status = Path::new("status");
    let path = status.child("conditions");
    for before in conditions(old) {
        let kind = text(Some(before), "type");
        if !is_foreign(kind) {
            out.push(before.clone());
            continue;
        }
        // A type that is not in the list any more was removed.
        let same = sent.iter_mut().find(|c| text(**c, "type") == kind && c.is_some());
        let Some(condition) = same.and_then(Option::take) else { continue };
        let mut merged = before.clone();
        set_fields(as_map(&mut merged), Some(condition), &CONDITION_FIELDS);
        out.push(merged);
    }
    out.extend(sent.into_iter().flatten().filter(|c| is_foreign(text(Some(c), "type"))).cloned());
    let known = |kind: &str, status: &str| {
        conditions(old).iter().any(|c| text(Some(c), "type") == kind && text(Some(c), "status") == status)
    };
    for (i, condition) in conditions(object).iter().enumerate() {
        let status = text(Some(condition), "status");
        let is_status = matches!(status, "True" | "False" | "Unknown");
        // A condition that was accepted through another face may stay as it is.
        if !is_status && !known(text(Some(condition), "type"), status) {
            let at = path.index(i);
            errors.push(Error::not_supported(&at.child("status"), status, &["False", "True", "Unknown"]));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut stored = old.clone();
    let list = if out.is_empty() { Value::Null } else { out.into() };
    map_at(&mut stored, "status").insert("conditions", list);
    Ok(stored)
}
