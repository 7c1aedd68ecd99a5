//! Strategic merge patches of maps (`mergeMap` and the functions that it calls).

use std::collections::{HashMap, HashSet};

use kindom_api::decode::{Patched, Shape, Struct};
use kindom_api::field::go_quote;
use kindom_api::json::{Map, Value};
use kindom_formats::go;

use super::order;

/// Says what else happens to a map or an item.
pub(super) const DIRECTIVE: &str = "$patch";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
pub(super) const SET_ORDER: &str = "$setElementOrder";
const RETAIN_KEYS: &str = "$retainKeys";

/// The error for a patch at which upstream panics.
pub(super) const INCOMPARABLE: &str = "lists, maps and null cannot be keys or items of a list that is merged";

/// The reason why a patch cannot be applied; it decides the status code (`interpretStrategicMergePatchError`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Error {
    /// 400: a directive that is malformed.
    Malformed(String),
    /// 422 with a fixed message.
    Unprocessable(String),
    /// 500 with this text, as upstream has it.
    Other(String),
}

impl Error {
    fn malformed_deletion() -> Self {
        Self::Malformed("invalid patch format of primitive list".to_owned())
    }

    pub(super) fn malformed_order() -> Self {
        Self::Malformed("invalid patch format of setElementOrder list".to_owned())
    }

    fn malformed_retain_keys() -> Self {
        Self::Malformed("invalid patch format of retainKeys".to_owned())
    }

    /// See [`INCOMPARABLE`].
    pub(super) fn incomparable() -> Self {
        Self::Malformed(INCOMPARABLE.to_owned())
    }

    fn unknown_directive(directive: &Value, map: &Map) -> Self {
        let (directive, map) = (go::string(directive), go::map(map));
        Self::Other(format!("unknown patch type: {directive} in map: {map}"))
    }

    fn no_merge_key(map: &Map, key: &str) -> Self {
        Self::Other(format!("map: {} does not contain declared merge key: {key}", go::map(map)))
    }

    pub(super) fn not_a_list(found: &Value) -> Self {
        Self::Other(format!("expected a []interface {{}}, but received a {}", go_type(found)))
    }

    pub(super) fn not_a_map(found: &Value) -> Self {
        Self::Other(format!("expected a map[string]interface {{}}, but received a {}", go_type(found)))
    }
}

/// Applies a patch to an object of a Go type. The patch is left as upstream's errors print it: without the directives
/// that were followed.
///
/// # Errors
/// Malformed directives, and lists that cannot be merged.
pub(super) fn apply(object: Map, patch: &mut Map, of: &'static Struct) -> Result<Map, Error> {
    maps(object, patch, &Shape::Struct(of))
}

/// A field as the patch sees it.
pub(super) struct Lookup {
    shape: &'static Shape,
    pub(super) patched: Patched,
}

impl Lookup {
    /// The field of this name, in a map of this type; whichever case its name is written in, as Go's decoder does.
    fn field(of: &Shape, name: &str) -> Result<Self, Error> {
        let of = match of {
            Shape::Pointer(to) => to,
            other => other,
        };
        let (fields, go_name) = match of {
            Shape::Struct(of) => (of.fields, of.name()),
            // A type that decodes itself has no fields that JSON could name.
            Shape::Custom(go_name, _) => (&[][..], *go_name),
            Shape::Json => (&[][..], "JSON"),
            Shape::Named(go_name, Shape::Json) => (&[][..], go_name.rsplit('.').next().unwrap_or_default()),
            Shape::Time => (&[][..], "Time"),
            Shape::MicroTime => (&[][..], "MicroTime"),
            Shape::Quantity => (&[][..], "Quantity"),
            Shape::IntOrString => (&[][..], "IntOrString"),
            other => {
                let kind = other.go_kind();
                let why = "merging an object in json but data type is not struct, instead is";
                return Err(Error::Other(format!("{why}: {kind}")));
            }
        };
        let found = fields
            .iter()
            .find(|field| field.name == name)
            .or_else(|| fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)));
        found.map(|field| Self { shape: &field.shape, patched: field.patched }).ok_or_else(|| {
            let name = go_quote(name);
            Error::Other(format!("unable to find api field in struct {go_name} for the json field {name}"))
        })
    }

    /// A field that is a list; the shape is that of its items.
    pub(super) fn list(of: &Shape, name: &str) -> Result<Self, Error> {
        let Self { shape, patched } = Self::field(of, name)?;
        let shape = match shape {
            Shape::Named(_, of) => of,
            other => other,
        };
        let item = match shape {
            Shape::List(Shape::List(_) | Shape::Bytes) => {
                return Err(Error::Other("unexpected slice of slice".to_owned()));
            }
            Shape::List(item) => item,
            Shape::Pointer(Shape::List(item)) => item,
            Shape::Pointer(to) => to,
            Shape::Bytes => &Shape::Int32,
            _ => {
                let kind = of.go_kind();
                return Err(Error::Other(format!("expected slice or array type, but got: {kind}")));
            }
        };
        Ok(Self { shape: item, patched })
    }

    /// Returns true for a list whose items merge.
    pub(super) fn merges(&self) -> bool {
        matches!(self.patched, Patched::Adds | Patched::MergesBy(_))
    }

    pub(super) fn key(&self) -> Option<&'static str> {
        if let Patched::MergesBy(key) = self.patched { Some(key) } else { None }
    }
}

/// `mergeMap`
fn maps(mut original: Map, patch: &mut Map, of: &Shape) -> Result<Map, Error> {
    match patch.get(DIRECTIVE) {
        Some(Value::String(directive)) if directive == "replace" => {
            patch.remove(DIRECTIVE);
            return Ok(patch.clone());
        }
        Some(Value::String(directive)) if directive == "delete" => return Ok(Map::new()),
        Some(directive) => return Err(Error::unknown_directive(directive, patch)),
        None => {}
    }
    retain_keys(&mut original, patch)?;
    order::apply(&mut original, patch, of)?;

    // Collect removed and added keys: doing it one by one would be quadratic.
    let (mut removed, mut added) = (HashSet::new(), Vec::new());
    for (directive, value) in patch.iter_mut() {
        let deletes = directive.starts_with(DELETE_FROM);
        let key = if deletes {
            target(directive, DELETE_FROM).ok_or_else(Error::malformed_deletion)?
        } else {
            directive
        };
        if value.is_null() {
            removed.insert(key.to_owned());
            continue;
        }
        let current = original.get_mut(key).filter(|_| !removed.contains(key));
        match (current, value) {
            (Some(Value::Object(current)), Value::Object(value)) => {
                let field = Lookup::field(of, key)?;
                *current = match field.patched {
                    Patched::ReplacesAny => value.clone(),
                    _ => maps(std::mem::take(current), value, field.shape)?,
                };
            }
            (Some(Value::Array(current)), Value::Array(value)) => {
                let field = Lookup::list(of, key)?;
                **current = if deletes || field.merges() {
                    lists(std::mem::take(&mut **current), value, &field, deletes)?
                } else {
                    value.to_vec()
                };
            }
            (current, value) => {
                let same_type = current.as_ref().is_some_and(|current| is_same_type(current, value));
                if deletes && !same_type {
                    continue;
                }
                let taken = take(value);
                match (taken, current) {
                    (Some(taken), Some(current)) => *current = taken,
                    (Some(taken), None) => added.push((key.into(), taken)),
                    (None, _) => drop(removed.insert(key.to_owned())),
                }
            }
        }
    }
    if removed.is_empty() && added.is_empty() {
        return Ok(original);
    }
    let kept = original.into_iter().filter(|(key, _)| !removed.contains(&**key));
    Ok(Map::from_entries(kept.chain(added).collect()))
}

/// The field that a directive is about: `finalizers` of `$setElementOrder/finalizers`.
pub(super) fn target<'a>(directive: &'a str, prefix: &str) -> Option<&'a str> {
    let (before, field) = directive.split_once('/')?;
    (before == prefix).then_some(field)
}

fn is_same_type(a: &Value, b: &Value) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// `applyRetainKeysDirective`
fn retain_keys(original: &mut Map, patch: &mut Map) -> Result<(), Error> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let retained = retained.as_array().ok_or_else(Error::malformed_retain_keys)?;
    if retained.iter().any(is_incomparable) {
        return Err(Error::incomparable());
    }
    let retained: HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let is_data = |key: &str, value: &Value| {
        !value.is_null() && !key.starts_with(DELETE_FROM) && !key.starts_with(SET_ORDER)
    };
    if patch.iter().any(|(key, value)| is_data(key, value) && !retained.contains(key)) {
        return Err(Error::malformed_retain_keys());
    }
    original.retain(|key, _| retained.contains(key));
    Ok(())
}

/// The part of a patch that is added where there is nothing yet: without nulls in maps, and without directives. `None` if
/// the patch is itself a map with a directive.
fn take(value: &mut Value) -> Option<Value> {
    discard_nulls(value);
    match value {
        // A list in the patch keeps the parts that the object does not get.
        Value::Array(_) => {
            let mut taken = value.clone();
            without_directives(&mut taken).then_some(taken)
        }
        value => without_directives(value).then(|| value.clone()),
    }
}

/// `discardNullValuesFromPatch`
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|_, value| {
            discard_nulls(value);
            !value.is_null()
        }),
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// `removeDirectives`: whether the value stays at all.
pub(super) fn without_directives(value: &mut Value) -> bool {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => false,
        Value::Object(map) => {
            map.retain(|_, value| without_directives(value));
            true
        }
        Value::Array(items) => {
            items.retain_mut(without_directives);
            true
        }
        _ => true,
    }
}

/// `true` if Go cannot compare it, and so panics where it is looked up.
fn is_incomparable(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_))
}

/// The kind of the items of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Items {
    Maps,
    Scalars,
}

/// The kind of the items of these lists, which must all be of one type (`sliceElementType`).
pub(super) fn items_of(lists: [&[Value]; 2]) -> Result<Items, Error> {
    let mut all = lists.into_iter().flatten();
    let first =
        all.next().ok_or_else(|| Error::Other("no elements in any of the given slices".to_owned()))?;
    match first {
        Value::Null => return Err(Error::incomparable()),
        Value::Array(_) => return Err(Error::Unprocessable("lists of lists are not supported".to_owned())),
        _ => {}
    }
    if !all.all(|item| is_same_type(first, item)) {
        let [original, patch] = lists.map(go::list);
        let why = "list element types are not identical";
        return Err(Error::Other(format!("{why}: [{original} {patch}]")));
    }
    Ok(if let Value::Object(_) = first { Items::Maps } else { Items::Scalars })
}

/// The text by which Go compares items and keys: equal values of one type have equal text.
pub(super) fn identity(value: &Value) -> Result<String, Error> {
    if is_incomparable(value) { Err(Error::incomparable()) } else { Ok(value.to_string()) }
}

pub(super) fn identities<'a>(values: impl IntoIterator<Item = &'a Value>) -> Result<HashSet<String>, Error> {
    values.into_iter().map(identity).collect()
}

/// `mergeSlice`
pub(super) fn lists(
    original: Vec<Value>,
    patch: &[Value],
    field: &Lookup,
    deletes: bool,
) -> Result<Vec<Value>, Error> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let items = items_of([&original, patch])?;
    let key = field.key();
    let (server_order, patch_order, merged) = match (items, key) {
        (Items::Scalars, _) if deletes => {
            let gone = identities(patch)?;
            let mut kept = original;
            kept.retain(|item| !gone.contains(&item.to_string()));
            return Ok(kept);
        }
        (Items::Scalars, _) => {
            // Of equal items the first one stays. If the patch has none, upstream leaves the items behind the first ones in
            // another order.
            let mut seen = HashSet::new();
            let both = original.iter().chain(patch.iter());
            let merged: Vec<Value> = both.filter(|item| seen.insert(item.to_string())).cloned().collect();
            (original, patch.to_vec(), merged)
        }
        (Items::Maps, None) => {
            let kind = field.shape.go_kind();
            return Err(Error::Other(format!("cannot merge lists without merge key for {kind}")));
        }
        (Items::Maps, Some(key)) => {
            let (original, mut patch) = item_directives(original, patch, key)?;
            let merged = merge_items(original.clone(), &mut patch, key, field.shape)?;
            (original, patch, merged)
        }
    };
    let (patched, server_only) = order::partition(merged, &patch_order, key)?;
    order::normalize(patched, server_only, &patch_order, &server_order, key, items)
}

/// The map that an item is, and the value of its key.
pub(super) fn keyed<'a>(item: &'a Value, key: &str) -> Result<(&'a Map, &'a Value), Error> {
    let map = item.as_object().ok_or_else(|| Error::not_a_map(item))?;
    let value = map.get(key).ok_or_else(|| Error::no_merge_key(map, key))?;
    Ok((map, value))
}

/// Follows the directives among the items of a keyed list (`mergeSliceWithSpecialElements`): returns the remaining items of
/// the original and of the patch.
fn item_directives(
    mut original: Vec<Value>,
    patch: &[Value],
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let (mut rest, mut gone, mut replaces) = (Vec::new(), HashSet::new(), false);
    for item in patch {
        let Some(map) = item.as_object() else { return Err(Error::not_a_map(item)) };
        let Some(directive) = map.get(DIRECTIVE) else {
            rest.push(item.clone());
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let (_, value) = keyed(item, key)?;
                gone.insert(identity(value)?);
            }
            Some("replace") => replaces = true,
            Some("merge") => {
                return Err(Error::Other("merging lists cannot yet be specified in the patch".to_owned()));
            }
            _ => return Err(Error::unknown_directive(directive, map)),
        }
    }
    if replaces {
        return Ok((rest, Vec::new()));
    }
    if !gone.is_empty() {
        original.retain(|item| !item.get(key).is_some_and(|value| gone.contains(&value.to_string())));
    }
    Ok((original, rest))
}

/// `mergeSliceWithoutSpecialElements`
fn merge_items(
    mut merged: Vec<Value>,
    patch: &mut [Value],
    key: &str,
    item: &Shape,
) -> Result<Vec<Value>, Error> {
    let mut places: HashMap<String, usize> = HashMap::new();
    for (place, item) in merged.iter().enumerate() {
        if let Some(value) = item.get(key) {
            places.entry(value.to_string()).or_insert(place);
        }
    }
    for change in patch {
        let (_, value) = keyed(change, key)?;
        let place = places.entry(identity(value)?).or_insert(merged.len());
        match (merged.get_mut(*place), change) {
            (Some(Value::Object(current)), Value::Object(change)) => {
                *current = maps(std::mem::take(current), change, item)?;
            }
            (_, change) => merged.push(change.clone()),
        }
    }
    Ok(merged)
}

/// `%s` of a `reflect.Type`, of which null has none.
fn go_type(value: &Value) -> &'static str {
    if *value == Value::Null { "%!s(<nil>)" } else { go::type_of(value) }
}
