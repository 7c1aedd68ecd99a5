//! Paths of fields: `.spec.ports[].name`, where `[]` stands for each item of a list, or each value of a map.

use std::fmt;

use kindom_api::{Map, Value};

/// The most fields of a path up to its first list or map, and between others: maps may be made for them, in each item of a list.
const FIELDS_MAX: usize = 32;
const MEMBER_FIELDS_MAX: usize = 4;

/// A path: fields, and between them the places where it branches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    text: String,
    /// The fields to each list or map whose members it leads through, and at last those to the value; none is empty.
    parts: Vec<Vec<String>>,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Path {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let refused = || format!("must be a path such as .spec.ports[].name, not {text:?}");
        let mut parts = Vec::new();
        for part in text.split("[]") {
            let fields = part.strip_prefix('.').ok_or_else(refused)?;
            let fields: Vec<String> = fields.split('.').map(str::to_owned).collect();
            if fields.iter().any(|field| field.is_empty() || field.contains(['[', ']', '\'', '"', '\\'])) {
                return Err(refused());
            }
            parts.push(fields);
        }
        let too_long = |(i, part): (usize, &Vec<String>)| {
            part.len() > if i == 0 { FIELDS_MAX } else { MEMBER_FIELDS_MAX }
        };
        if parts.len() > FIELDS_MAX || parts.iter().enumerate().any(too_long) {
            return Err(format!(
                "must have at most {FIELDS_MAX} fields, and {MEMBER_FIELDS_MAX} behind []: {text:?}"
            ));
        }
        let root = parts.first().and_then(|fields| fields.first()).map(String::as_str);
        match root {
            Some("apiVersion" | "kind" | "metadata") => {
                Err(format!("must not be in apiVersion, kind or metadata, which stay as they are: {text:?}"))
            }
            _ => Ok(Self { text: text.to_owned(), parts }),
        }
    }

    /// True if it leads to one value.
    pub(crate) fn is_single(&self) -> bool {
        self.parts.len() == 1
    }

    /// True if both lead through the same lists and maps.
    pub(crate) fn branches_as(&self, other: &Self) -> bool {
        let branches = |path: &'_ Self| path.parts.split_last().map(|(_, branches)| branches.to_vec());
        branches(self) == branches(other)
    }

    /// The fields to each list or map whose members it leads through, and at last those to the value.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[String]> {
        self.parts.iter().map(Vec::as_slice)
    }

    /// The levels from the object to the value.
    pub(crate) fn levels(&self) -> usize {
        self.parts.iter().map(|fields| fields.len() + 1).sum()
    }

    /// The fields behind the last branch.
    pub(crate) fn fields(&self) -> &[String] {
        self.parts.last().map_or(&[], Vec::as_slice)
    }

    /// Its schema in a version of a registration, if it has one.
    pub(crate) fn schema<'v>(&self, version: &'v Value) -> Option<&'v Value> {
        let mut schema = version.at(&["schema", "openAPIV3Schema"])?;
        for (place, fields) in self.parts().enumerate() {
            if place > 0 {
                schema = schema.get("items").or_else(|| schema.get("additionalProperties"))?;
            }
            schema = fields.iter().try_fold(schema, |schema, field| schema.get("properties")?.get(field))?;
        }
        Some(schema)
    }

    /// True if a version's schema lets a value be there: it describes it, or anything around it.
    pub(crate) fn is_in_schema(&self, version: &Value) -> bool {
        let Some(mut schema) = version.at(&["schema", "openAPIV3Schema"]) else { return true };
        for field in self.fields() {
            if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
                return true;
            }
            let property = schema.get("properties").and_then(|properties| properties.get(field));
            match property.or_else(|| schema.get("additionalProperties")) {
                Some(Value::Bool(allowed)) => return *allowed,
                Some(found) => schema = found,
                None => return false,
            }
        }
        true
    }

    /// True if it leads through a map that has one manager as a whole.
    pub(crate) fn is_in_atomic_map(&self, version: &Value) -> bool {
        let root = version.at(&["schema", "openAPIV3Schema"]);
        let around = self.fields().iter().scan(root, |schema, field| {
            let found = (*schema)?;
            *schema = found.get("properties").and_then(|properties| properties.get(field));
            Some(found)
        });
        let is_atomic = |schema: &Value| schema.text_at(&["x-kubernetes-map-type"]) == "atomic";
        around.into_iter().any(is_atomic)
    }

    /// Calls `visit` with each map that [`fields`](Self::fields) begin in.
    pub(crate) fn visit(&self, object: &mut Value, visit: &mut dyn FnMut(&mut Map)) {
        let branches = self.parts.len().saturating_sub(1);
        visit_at(self.parts.get(..branches).unwrap_or_default(), object, visit);
    }
}

fn visit_at(branches: &[Vec<String>], value: &mut Value, visit: &mut dyn FnMut(&mut Map)) {
    let Some((fields, rest)) = branches.split_first() else {
        if let Value::Object(map) = value {
            visit(map);
        }
        return;
    };
    let members = fields.iter().try_fold(value, |value, field| value.get_mut(field));
    match members {
        Some(Value::Array(items)) => items.iter_mut().for_each(|item| visit_at(rest, item, visit)),
        Some(Value::Object(map)) => map.iter_mut().for_each(|(_, item)| visit_at(rest, item, visit)),
        _ => {}
    }
}

/// The value that fields lead to.
pub(crate) fn get<'v>(object: &'v Value, fields: &[String]) -> Option<&'v Value> {
    fields.iter().try_fold(object, |value, field| value.get(field))
}

/// The value that fields lead to.
pub(crate) fn get_mut<'m>(map: &'m mut Map, fields: &[String]) -> Option<&'m mut Value> {
    let (first, rest) = fields.split_first()?;
    rest.iter().try_fold(map.get_mut(first)?, |value, field| value.get_mut(field))
}

/// Removes the value that fields lead to.
pub(crate) fn remove(map: &mut Map, fields: &[String]) {
    let Some((last, around)) = fields.split_last() else { return };
    let inner =
        if around.is_empty() { Some(map) } else { get_mut(map, around).and_then(Value::as_object_mut) };
    if let Some(inner) = inner {
        inner.remove(last);
    }
}

/// Takes the value that fields lead to, and the maps around it that are empty then.
pub(crate) fn take(map: &mut Map, fields: &[String]) -> Option<Value> {
    let (first, rest) = fields.split_first()?;
    if rest.is_empty() {
        return map.remove(first);
    }
    let inner = map.get_mut(first)?.as_object_mut()?;
    let taken = take(inner, rest)?;
    if inner.is_empty() {
        map.remove(first);
    }
    Some(taken)
}

/// Puts a value where fields lead to, in place of what is there, and makes the maps around it. What is no map stays: then the value
/// comes back.
pub(crate) fn put(map: &mut Map, fields: &[String], value: Value) -> Result<(), Value> {
    let Some((first, rest)) = fields.split_first() else { return Err(value) };
    if rest.is_empty() {
        map.insert(first.as_str(), value);
        return Ok(());
    }
    match map.entry_or_insert_with(first, || Map::new().into()) {
        Value::Object(inner) => put(inner, rest, value),
        _ => Err(value),
    }
}
