//! Pruning: fields that the schema does not name go (`schema/pruning/algorithm.go`).
//!
//! A preserving node keeps unknown fields, but looks into the known ones; below a field that no schema describes
//! everything goes, unless a preserving node stands above it.

use std::fmt::Write as _;

use kindom_api::{Map, Value};

use crate::coerce;
use crate::node::{Additional, Node};

/// Fields of an embedded resource, and of the object itself, that no schema has to name.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Prunes an object; `unknown` gets the sorted paths of what went.
pub(crate) fn prune(object: &mut Value, root: Option<&Node>, unknown: Option<&mut Vec<String>>) {
    let empty = Node::default();
    let root = root.unwrap_or(&empty);
    let found = unknown.is_some().then(Vec::new);
    let mut pruner = Pruner { path: String::new(), found, reported_bytes: 0 };
    match object {
        Value::Object(map) => pruner.map(map, root, true),
        other => pruner.value(other, Some(root)),
    }
    if let (Some(unknown), Some(mut found)) = (unknown, pruner.found) {
        found.sort_unstable();
        unknown.append(&mut found);
    }
}

/// Prunes every default in an object that holds nothing else, from its root, with the metadata of embedded resources brought
/// into its form (`schema/defaulting/prune.go`): a schema above a default may preserve it, or be metadata.
pub(crate) fn prune_defaults(root: &mut Node) {
    if !root.below.defaults {
        return;
    }
    let mut pruned = Vec::new();
    collect(root, root, &mut Vec::new(), &mut pruned);
    replace(root, &mut pruned.into_iter());
}

/// A step from an object to a default.
enum Step<'n> {
    Field(&'n str),
    Item,
}

/// The defaults of a node as they are when pruned, in the order of [`replace`].
fn collect<'n>(node: &'n Node, root: &Node, path: &mut Vec<Step<'n>>, pruned: &mut Vec<Option<Value>>) {
    if !node.below.defaults {
        return;
    }
    if let Some(default) = &node.default {
        pruned.push(pruned_at(path, default, root));
    }
    if let Some(fields) = &node.fields {
        let additional = match fields.additional() {
            Additional::Schema(child) => Some(("*", &**child)),
            _ => None,
        };
        for (name, child) in fields.properties().chain(additional) {
            path.push(Step::Field(name));
            collect(child, root, path, pruned);
            path.pop();
        }
    }
    if let Some(items) = &node.items {
        path.push(Step::Item);
        collect(items, root, path, pruned);
        path.pop();
    }
}

fn replace(node: &mut Node, pruned: &mut impl Iterator<Item = Option<Value>>) {
    if !node.below.defaults {
        return;
    }
    if node.default.is_some() {
        node.default = pruned.next().flatten().map(Box::new);
    }
    if let Some(fields) = &mut node.fields {
        for (_, child) in fields.properties_mut() {
            replace(child, pruned);
        }
        if let Additional::Schema(child) = fields.additional_mut() {
            replace(child, pruned);
        }
    }
    if let Some(items) = &mut node.items {
        replace(items, pruned);
    }
}

/// None if nothing is left of it.
fn pruned_at(path: &[Step<'_>], default: &Value, root: &Node) -> Option<Value> {
    let mut object = default.clone();
    for step in path.iter().rev() {
        object = match step {
            Step::Field(name) => Value::Object(Map::from_iter([((*name).to_owned(), object)])),
            Step::Item => Value::Array(vec![object].into()),
        };
    }
    coerce::repair(&mut object, root, true);
    prune(&mut object, Some(root), None);
    for step in path {
        object = match (step, object) {
            (Step::Field(name), Value::Object(mut map)) => map.remove(name)?,
            (Step::Item, Value::Array(items)) => items.into_iter().next()?,
            _ => return None,
        };
    }
    Some(object)
}

/// The most bytes of paths that are reported; further ones are dropped. A long key above many unknown fields is in the path
/// of each.
const REPORTED_BYTES_MAX: usize = 3 << 20;

struct Pruner {
    /// The path of the present value; kept up only if paths are asked for.
    path: String,
    found: Option<Vec<String>>,
    /// The bytes of the paths found so far.
    reported_bytes: usize,
}

impl Pruner {
    /// Prunes a value that no preserving node covers, or whose own node says whether it preserves.
    fn value(&mut self, value: &mut Value, node: Option<&Node>) {
        match (value, node) {
            (Value::Object(map), Some(node)) => self.map(map, node, node.embedded),
            (Value::Object(map), None) => {
                if self.found.is_some() {
                    for key in map.keys() {
                        self.record(key);
                    }
                }
                *map = Map::new();
            }
            (Value::Array(items), _) => {
                let of_items = node.and_then(|node| node.items.as_deref());
                let preserve = node.is_some_and(|node| node.preserve);
                for (i, item) in items.iter_mut().enumerate() {
                    let mark = self.enter_index(i);
                    match of_items {
                        Some(of_items) if preserve => self.preserved(item, of_items),
                        None if preserve => {}
                        _ => self.value(item, of_items),
                    }
                    self.path.truncate(mark);
                }
            }
            _ => {}
        }
    }

    /// Looks into the known parts of a value below a preserving list: its unknown fields stay (`skipPrune`).
    fn preserved(&mut self, value: &mut Value, node: &Node) {
        match value {
            Value::Object(map) => self.known_fields(map, node, node.embedded),
            Value::Array(items) => {
                let Some(of_items) = node.items.as_deref() else { return };
                for (i, item) in items.iter_mut().enumerate() {
                    let mark = self.enter_index(i);
                    self.preserved(item, of_items);
                    self.path.truncate(mark);
                }
            }
            _ => {}
        }
    }

    fn map(&mut self, map: &mut Map, node: &Node, embedded: bool) {
        if node.preserve {
            self.known_fields(map, node, embedded);
            return;
        }
        let (mut cursor, additional) = (node.cursor(), node.additional());
        map.retain(|key, value| {
            if embedded && META_FIELDS.contains(&key) {
                return true;
            }
            let child = match (cursor.property(key), additional) {
                (Some(child), _) => Some(child),
                (None, Additional::Unset) => {
                    // At the root a schema-less meta field is no news to the client.
                    if !self.path.is_empty() || !META_FIELDS.contains(&key) {
                        self.record(key);
                    }
                    return false;
                }
                (None, Additional::Schema(child)) => Some(&**child),
                (None, Additional::Any | Additional::No) => None,
            };
            let mark = self.enter(key);
            self.value(value, child);
            self.path.truncate(mark);
            true
        });
    }

    fn known_fields(&mut self, map: &mut Map, node: &Node, embedded: bool) {
        let (mut cursor, additional) = (node.cursor(), node.additional());
        for (key, value) in map.iter_mut() {
            if !matches!(value, Value::Object(_) | Value::Array(_))
                || (embedded && META_FIELDS.contains(&key))
            {
                continue;
            }
            let child = match (cursor.property(key), additional) {
                (Some(child), _) => Some(child),
                (None, Additional::Unset) => continue,
                (None, Additional::Schema(child)) => Some(&**child),
                (None, Additional::Any | Additional::No) => None,
            };
            let mark = self.enter(key);
            self.value(value, child);
            self.path.truncate(mark);
        }
    }

    fn enter(&mut self, key: &str) -> usize {
        let mark = self.path.len();
        if self.found.is_some() {
            if mark > 0 {
                self.path.push('.');
            }
            self.path.push_str(key);
        }
        mark
    }

    fn enter_index(&mut self, index: usize) -> usize {
        let mark = self.path.len();
        if self.found.is_some() {
            // Writing to a String cannot fail.
            let _ = write!(self.path, "[{index}]");
        }
        mark
    }

    fn record(&mut self, key: &str) {
        if self.found.is_none() || self.reported_bytes >= REPORTED_BYTES_MAX {
            return;
        }
        let mark = self.enter(key);
        let path = self.path.clone();
        self.path.truncate(mark);
        self.reported_bytes += size_of::<String>() + path.len();
        if let Some(found) = &mut self.found {
            found.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::json::parse;

    use crate::Schema;

    fn check(schema: &str, object: &str, want: &str, want_unknown: &[&str]) {
        let schema = Schema::compile(Some(&parse(schema.as_bytes()).unwrap()), false).unwrap();
        let mut object = parse(object.as_bytes()).unwrap();
        let mut unknown = Vec::new();
        let mut quiet = object.clone();
        schema.prune(&mut quiet, None);
        schema.prune(&mut object, Some(&mut unknown));
        assert_eq!(object.to_string(), parse(want.as_bytes()).unwrap().to_string());
        assert_eq!(object, quiet);
        assert_eq!(unknown, want_unknown);
    }

    const PLAIN: &str = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{
        "known":{"type":"string"},
        "list":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}},
        "map":{"type":"object","additionalProperties":{"type":"object","properties":{"a":{"type":"string"}}}},
        "open":{"type":"object","additionalProperties":true},
        "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true,
                "properties":{"tight":{"type":"object","properties":{"a":{"type":"string"}}}}}}}}}"#;

    #[test]
    fn unknown_fields_go_and_are_named() {
        check(
            PLAIN,
            r#"{"apiVersion":"v1","kind":"K","metadata":{"x":1},"spec":{"known":"a","other":1,"b":{"c":2}},"status":{}}"#,
            r#"{"apiVersion":"v1","kind":"K","metadata":{"x":1},"spec":{"known":"a"}}"#,
            &["spec.b", "spec.other", "status"],
        );
        check(
            PLAIN,
            r#"{"spec":{"list":[{"a":"x"},{"b":1,"a":"y"},5],"map":{"k":{"a":"x","z":1}}}}"#,
            r#"{"spec":{"list":[{"a":"x"},{"a":"y"},5],"map":{"k":{"a":"x"}}}}"#,
            &["spec.list[1].b", "spec.map.k.z"],
        );
    }

    #[test]
    fn what_no_schema_describes_is_emptied_unless_preserved() {
        check(
            PLAIN,
            r#"{"spec":{"open":{"k":{"inner":1},"s":"text","l":[{"x":1}]}}}"#,
            r#"{"spec":{"open":{"k":{},"s":"text","l":[{}]}}}"#,
            &["spec.open.k.inner", "spec.open.l[0].x"],
        );
        check(
            PLAIN,
            r#"{"spec":{"free":{"any":{"thing":[{"x":1}]},"tight":{"a":"x","b":1}}}}"#,
            r#"{"spec":{"free":{"any":{"thing":[{"x":1}]},"tight":{"a":"x"}}}}"#,
            &["spec.free.tight.b"],
        );
    }

    #[test]
    fn a_preserving_list_keeps_its_items() {
        let schema = r#"{"type":"object","properties":{"l":{"type":"array","x-kubernetes-preserve-unknown-fields":true,
            "items":{"type":"object","properties":{"t":{"type":"object"}}}}}}"#;
        check(schema, r#"{"l":[{"x":1,"t":{"y":1}}]}"#, r#"{"l":[{"x":1,"t":{}}]}"#, &["l[0].t.y"]);
    }

    #[test]
    fn an_embedded_resource_keeps_its_metadata() {
        let schema = r#"{"type":"object","properties":{"template":{"type":"object","x-kubernetes-embedded-resource":true,
            "properties":{"spec":{"type":"object"}}}}}"#;
        check(
            schema,
            r#"{"template":{"apiVersion":"v1","kind":"K","metadata":{"name":"x"},"spec":{"a":1},"status":{}}}"#,
            r#"{"template":{"apiVersion":"v1","kind":"K","metadata":{"name":"x"},"spec":{}}}"#,
            &["template.spec.a", "template.status"],
        );
    }

    #[test]
    fn without_a_schema_only_metadata_stays() {
        let schema = Schema::compile(None, false).unwrap();
        let mut object = parse(br#"{"apiVersion":"v1","kind":"K","metadata":{},"spec":{}}"#).unwrap();
        schema.prune(&mut object, None);
        assert_eq!(object.to_string(), r#"{"apiVersion":"v1","kind":"K","metadata":{}}"#);

        let schema = Schema::compile(None, true).unwrap();
        let mut object = parse(br#"{"spec":{"x":1}}"#).unwrap();
        schema.prune(&mut object, None);
        assert_eq!(object.to_string(), r#"{"spec":{"x":1}}"#);
    }

    #[test]
    fn defaults_are_pruned_too() {
        let schema = r#"{"type":"object","properties":{"spec":{"type":"object","default":{"a":"x","b":1},
            "properties":{"a":{"type":"string"}}}}}"#;
        let schema = Schema::compile(Some(&parse(schema.as_bytes()).unwrap()), false).unwrap();
        let mut object = parse(b"{}").unwrap();
        schema.default(&mut object).unwrap();
        assert_eq!(object.to_string(), r#"{"spec":{"a":"x"}}"#);
    }

    /// The default of `d` in an object that has it.
    fn filled(schema: &str) -> String {
        let schema = Schema::compile(Some(&parse(schema.as_bytes()).unwrap()), false).unwrap();
        let mut object = parse(br#"{"e":{"apiVersion":"v1","kind":"K"},"l":[{}]}"#).unwrap();
        schema.fill_defaults(&mut object).unwrap();
        schema.prune(&mut object, None);
        object.to_string()
    }

    #[test]
    fn defaults_are_pruned_from_the_root() {
        // Metadata has its fields, whatever its schema is.
        let embedded = |metadata: &str| {
            format!(
                r#"{{"properties":{{"e":{{"type":"object","x-kubernetes-embedded-resource":true,"properties":{{"metadata":{metadata}}}}}}}}}"#
            )
        };
        assert_eq!(
            filled(&embedded(r#"{"type":"object","default":{"name":"n","labels":{"a":"b"},"x":1}}"#)),
            r#"{"e":{"apiVersion":"v1","kind":"K","metadata":{"labels":{"a":"b"},"name":"n"}}}"#
        );
        assert_eq!(
            filled(&embedded(
                r#"{"type":"object","default":{},"properties":{"labels":{"type":"object","default":{"a":"b"}}}}"#
            )),
            r#"{"e":{"apiVersion":"v1","kind":"K","metadata":{"labels":{"a":"b"}}}}"#
        );
        // Malformed metadata is dropped.
        assert_eq!(
            filled(&embedded(r#"{"type":"object","default":{"name":"n","labels":5}}"#)),
            r#"{"e":{"apiVersion":"v1","kind":"K","metadata":{"name":"n"}}}"#
        );
        // A list that preserves does so for its items.
        let list = r#"{"properties":{"l":{"type":"array","x-kubernetes-preserve-unknown-fields":true,"items":{"type":"object",
            "properties":{"d":{"type":"array","default":[{"x":1}],"items":{"type":"object"}}}}}}}"#;
        assert_eq!(filled(list), r#"{"l":[{"d":[{}]}]}"#);
    }
}
