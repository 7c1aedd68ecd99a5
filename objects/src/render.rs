//! Between stored bytes and the version that a client asked for.

use kindom_api::field::{self, ErrorList, Path};
use kindom_api::json::{MAX_DEPTH, OWN_DEPTH_MAX};
use kindom_api::names::split_api_version;
use kindom_api::{Map, Value, json, meta};

use crate::conversion::Conversion;
use crate::convert::no_form;
use crate::error::{PlanError, Unreadable};
use crate::kind::TypeSpec;
use crate::metadata::metadata_mut;
use crate::seal::Sealed;
use crate::version::VersionSpec;
use crate::{RuleContext, StoredObject, webhook_conversion};

/// Returns true if a version serves the object as it is stored, so that it is copied. What it says of a type with
/// [`Faces`](crate::Faces) is true of most objects.
#[must_use]
pub fn is_copied(spec: &TypeSpec, version: &VersionSpec, object: &StoredObject) -> bool {
    match &spec.conversion {
        Conversion::Faces(faces) => faces.is_stored(&version.name),
        _ => version.serves_as_is(object) && spec.is_stored_in(version, object),
    }
}

/// Appends an object as a version serves it, resourceVersion included. Without any parsing where its bytes are known to
/// be that already, which they are unless the schema changed or another version was asked for.
///
/// # Errors
/// [`Unreadable::Corrupt`] and [`Unreadable::Undecodable`].
pub fn write_served(
    spec: &TypeSpec,
    version: &VersionSpec,
    object: &StoredObject,
    out: &mut Vec<u8>,
) -> Result<(), Unreadable> {
    if let Conversion::Faces(faces) = &spec.conversion {
        let as_stored = !object.is_signed() && faces.shows_as_stored(&version.name, object.json());
        if !as_stored || !object.write_served(out) {
            decode(spec, version, object)?.write_to(out);
        }
        return Ok(());
    }
    let same_version = spec.is_stored_in(version, object);
    if same_version && version.serves_as_is(object) && object.write_served(out) {
        return Ok(());
    }
    let tree = decode(spec, version, object)?;
    let start = out.len();
    tree.write_to(out);
    let mut as_is = Vec::new();
    if same_version && object.write_served(&mut as_is) && out.get(start..) == Some(as_is.as_slice()) {
        object.set_shape(version.shape);
    }
    Ok(())
}

/// The tree of an object as a version serves it, resourceVersion included: read by the schema of the version that it is
/// stored in, then converted, and brought into the form of the version asked for. (As upstream, no defaults of the latter:
/// `crdConversionRESTOptionsGetter`.)
///
/// # Errors
/// [`Unreadable::Corrupt`] and [`Unreadable::Undecodable`].
pub fn decode(spec: &TypeSpec, version: &VersionSpec, object: &StoredObject) -> Result<Value, Unreadable> {
    let undecodable = |why: String| corrupt(&spec.prefix, object, &why);
    let mut tree = stored(&spec.prefix, object)?;
    if let Conversion::Faces(faces) = &spec.conversion {
        return Ok(faces.show(&version.name, tree));
    }
    refresh(spec, object, &mut tree).map_err(undecodable)?;
    if !spec.is_stored_in(version, object) {
        convert(spec, &mut tree, &version.name).map_err(undecodable)?;
        if let Some(schema) = &spec.compiled(version).map_err(undecodable)?.schema {
            // Upstream refuses to read an object that is malformed by this schema, and then to list its type.
            schema.prune(&mut tree, None);
            schema.repair(&mut tree);
        }
    }
    Ok(tree)
}

/// The tree of an object of which its table and its metadata alone are made ([`Faces::internal`](crate::Faces::internal)).
///
/// # Errors
/// As for [`decode`].
pub fn internal(spec: &TypeSpec, version: &VersionSpec, object: &StoredObject) -> Result<Value, Unreadable> {
    match &spec.conversion {
        Conversion::Faces(faces) => Ok(faces.internal(&version.name, stored(&spec.prefix, object)?)),
        _ => decode(spec, version, object),
    }
}

/// True if objects of a type may have another form in tables than where they are shown ([`internal`]).
#[must_use]
pub fn has_internal_form(spec: &TypeSpec) -> bool {
    matches!(spec.conversion, Conversion::Faces(_))
}

/// The error of an object whose bytes cannot be read.
///
/// # Errors
/// [`Unreadable::Corrupt`], if so.
pub fn readable(spec: &TypeSpec, object: &StoredObject) -> Result<(), Unreadable> {
    object.corrupt().map_or(Ok(()), |why| Err(corrupt(&spec.prefix, object, why)))
}

fn corrupt(prefix: &str, object: &StoredObject, why: &str) -> Unreadable {
    let (key, revision) = (format!("{prefix}{}", object.key()), object.revision());
    Unreadable::Corrupt { key, revision, why: why.to_owned() }
}

/// The tree of an object as it is stored, with its resourceVersion.
///
/// # Errors
/// [`Unreadable::Corrupt`]
pub fn stored(prefix: &str, object: &StoredObject) -> Result<Value, Unreadable> {
    if let Some(why) = object.corrupt() {
        return Err(corrupt(prefix, object, why));
    }
    let mut tree = json::parse_own(object.json()).map_err(|e| corrupt(prefix, object, &e.to_string()))?;
    metadata_mut(&mut tree).insert("resourceVersion", object.revision().to_string());
    Ok(tree)
}

/// Prunes and defaults a stored object's tree by the schema, as it is now, of the version that the object is stored in;
/// unless that was done when it was written. An object that another API server wrote is treated as that server would at
/// every read: it loses malformed metadata, and gets a generation (`customresource_handler.go`, `dropInvalidMetadata` and
/// `repairGeneration`, 1.37).
///
/// # Errors
/// If the stored schema does not compile, or the metadata is no map.
pub fn refresh(spec: &TypeSpec, object: &StoredObject, tree: &mut Value) -> Result<(), String> {
    let registered = !spec.is_typed();
    if registered && object.is_foreign() && tree.get("metadata").is_some() {
        meta::repair_metadata(tree)?;
        let metadata = metadata_mut(tree);
        if metadata.get("generation").and_then(Value::as_i64).unwrap_or(0) == 0 {
            metadata.insert("generation", 1);
        }
    }
    let Some(stored) = spec.version_of(object).filter(|stored| !stored.serves_as_is(object)) else {
        return Ok(());
    };
    if let Some(schema) = &spec.compiled(stored)?.schema {
        schema.refresh(tree).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// The object that a write replaces.
#[derive(Clone, Copy)]
pub enum Former<'o> {
    /// There is none.
    Nothing,
    /// It is this, in the version of the request.
    Object(&'o Value),
    /// It is the same in all that matters here.
    Itself,
}

/// The bytes to store for an object of a version: converted to the storage version, pruned and defaulted by its schema,
/// without resourceVersion. An object that could not be read back is refused: with its managedFields it may nest deeper than
/// the client's, and rules may give it no form in a version. One that was so before, as one of an older build or another
/// server may be, can still lose its finalizers and what is wrong with it.
///
/// # Errors
/// [`PlanError::Invalid`] for an object that nests too deep; [`PlanError::BadRequest`] for one that rules give no form in a version;
/// [`PlanError::Internal`] where conversion is missing.
pub fn encode(
    cx: &RuleContext<'_>,
    version: &VersionSpec,
    mut object: Value,
    former: Former<'_>,
) -> Result<Sealed, PlanError> {
    metadata_mut(&mut object).remove("resourceVersion");
    if !matches!(cx.spec.conversion, Conversion::Faces(_)) {
        to_storage_version(cx.spec, version, &mut object)?;
        if let Some(why) = without_form(cx.spec, &object)
            && !match former {
                Former::Nothing => false,
                Former::Object(old) => without_form(cx.spec, old).is_some(),
                Former::Itself => true,
            }
        {
            return Err(PlanError::BadRequest(why));
        }
    }
    let was_deep = || match former {
        Former::Nothing => false,
        Former::Object(old) => !old.nests_within(MAX_DEPTH),
        Former::Itself => true,
    };
    let encoded = match object.to_vec_within(MAX_DEPTH) {
        Err(_) if was_deep() => object.to_vec_within(OWN_DEPTH_MAX),
        encoded => encoded,
    };
    encoded.map(|json| cx.spec.seal(json)).map_err(|_| too_deep(&object))
}

/// The reason why an object has no form in a served version, if rules may give it none.
fn without_form(spec: &TypeSpec, object: &Value) -> Option<String> {
    let Conversion::Rules(rules) = &spec.conversion else { return None };
    if !rules.refuses() {
        return None;
    }
    let own = object.text_at(&["apiVersion"]);
    let mut served =
        spec.versions.iter().filter(|version| version.served && spec.api_version(&version.name) != own);
    served.find_map(|version| convert(spec, &mut object.clone(), &version.name).err())
}

fn to_storage_version(spec: &TypeSpec, version: &VersionSpec, object: &mut Value) -> Result<(), PlanError> {
    let internal = |why: String| PlanError::Internal(why);
    let storage = spec.storage().ok_or_else(|| internal("there is no storage version".to_owned()))?;
    if storage.name != version.name {
        convert(spec, object, &storage.name).map_err(|why| match &spec.conversion {
            Conversion::Rules(rules) if rules.refuses() => PlanError::BadRequest(why),
            _ => internal(why),
        })?;
        if let Some(schema) = &spec.compiled(storage).map_err(internal)?.schema {
            schema.reshape(object, None).map_err(|e| internal(e.to_string()))?;
            schema.fill_defaults(object).map_err(|e| internal(e.to_string()))?;
        }
        sort_lists(spec, object);
    }
    Ok(())
}

/// Names the fields of an object that nest too deep.
fn too_deep(object: &Value) -> PlanError {
    let deep = |around: usize| move |(_, value): &(&str, &Value)| !value.nests_within(MAX_DEPTH - around);
    let mut errors = ErrorList::new();
    for (name, value) in object.as_object().into_iter().flat_map(Map::iter).filter(deep(1)) {
        let parent = Path::new(name);
        if name != "metadata" {
            errors.push(nests_too_deep(&parent));
            continue;
        }
        for (name, _) in value.as_object().into_iter().flat_map(Map::iter).filter(deep(2)) {
            errors.push(nests_too_deep(&parent.child(name)));
        }
    }
    let name = object.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default().to_owned();
    PlanError::Invalid { name, errors }
}

fn nests_too_deep(path: &Path<'_>) -> field::Error {
    let why =
        format!("exceeded max depth: the maps and lists of a stored object may nest {MAX_DEPTH} levels deep");
    field::Error::forbidden(path, why)
}

/// Sorts the lists that are stored sorted; the storage version's defaults may be among the keys.
fn sort_lists(spec: &TypeSpec, object: &mut Value) {
    if let Some(lists) = spec.sorted_lists() {
        lists.sort(object);
    }
}

/// The bytes to store for a stored object whose version is not the storage version any more; none if it is.
///
/// # Errors
/// Where the bytes are no object of this group, or conversion is missing.
pub fn restored(spec: &TypeSpec, object: &StoredObject) -> Result<Option<Sealed>, String> {
    let storage = spec.storage().ok_or("there is no storage version")?;
    if object.api_version() == Some(&spec.api_version(&storage.name)) {
        return Ok(None);
    }
    if let Some(why) = object.corrupt() {
        return Err(why.to_owned());
    }
    let mut tree = json::parse_own(object.json()).map_err(|e| e.to_string())?;
    let api_version = tree.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if api_version.split_once('/').is_none_or(|(group, _)| group != spec.group) {
        return Err(format!("apiVersion {api_version:?} is not in group {}", spec.group));
    }
    // An object that `Facts` can't read would be looked at again for ever.
    if object.api_version().is_none() {
        return Err("its metadata can't be read".into());
    }
    refresh(spec, object, &mut tree)?;
    convert(spec, &mut tree, &storage.name)?;
    if let Some(schema) = &spec.compiled(storage)?.schema {
        schema.refresh(&mut tree).map_err(|e| e.to_string())?;
    }
    sort_lists(spec, &mut tree);
    metadata_mut(&mut tree).remove("resourceVersion");
    tree.to_vec_within(OWN_DEPTH_MAX).map(|json| Some(spec.seal(json))).map_err(|e| e.to_string())
}

/// Makes an object one of another version of its type.
///
/// # Errors
/// The rules between the versions fail, or somebody else has them.
pub fn convert(spec: &TypeSpec, object: &mut Value, version: &str) -> Result<(), String> {
    match &spec.conversion {
        Conversion::None => {
            if let Some(map) = object.as_object_mut() {
                map.insert("apiVersion", spec.api_version(version));
            }
            Ok(())
        }
        Conversion::Faces(_) => Err("is converted as a whole".to_owned()),
        Conversion::Rules(rules) => {
            let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
            let from = split_api_version(api_version).map_or("", |(_, version)| version);
            if from == version {
                return Ok(());
            }
            let converted = rules.convert(object, from, version).map_err(|why| {
                let name = object.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default();
                no_form(&spec.names.kind, name, (from, version), &why)
            })?;
            replace_converted(object, converted, &spec.api_version(version));
            Ok(())
        }
        Conversion::Program(None) => Err(format!(
            "the versions of {} are converted by a program that is compiled with them, and this one is not",
            spec.names.kind
        )),
        Conversion::Program(Some(rules)) => {
            let wanted = spec.api_version(version);
            if let Some(converted) = webhook_conversion::converted_by_program(&**rules, object, &wanted)? {
                replace_converted(object, converted, &wanted);
            }
            Ok(())
        }
        Conversion::Webhook(_) => {
            // The version may have gone from the registration since.
            let found = object.text_at(&["apiVersion"]);
            if split_api_version(found).and_then(|(_, version)| spec.version(version)).is_none() {
                return Err(format!("request to convert CR from an invalid group/version: {found}"));
            }
            let wanted = spec.api_version(version);
            if let Some(converted) = webhook_conversion::converted(object, &wanted)? {
                replace_converted(object, converted, &wanted);
            }
            Ok(())
        }
    }
}

/// Replaces an object by its form in another version. Who it is stays: its kind, and its metadata but for labels and annotations
/// (apiextensions `pkg/apiserver/conversion/webhook_converter.go`, `restoreObjectMeta`, 1.37).
fn replace_converted(object: &mut Value, mut converted: Value, api_version: &str) {
    let mut metadata = std::mem::take(metadata_mut(object));
    for field in ["labels", "annotations"] {
        match converted.get_mut("metadata").and_then(Value::as_object_mut).and_then(|new| new.remove(field)) {
            Some(value) if !value.is_null() => drop(metadata.insert(field, value)),
            _ => drop(metadata.remove(field)),
        }
    }
    let kind = object.as_object_mut().and_then(|map| map.remove("kind"));
    if let Some(map) = converted.as_object_mut() {
        map.insert("apiVersion", api_version);
        map.insert("kind", kind.unwrap_or_default());
        map.insert("metadata", metadata);
    }
    *object = converted;
}
