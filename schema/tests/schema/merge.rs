//! How values merge, against the schemas that upstream makes for apply, which `integration/expectations/merge` records.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kindom_api::{Value, json};
use kindom_schema::Schema;
use kindom_schema::merge::{ListRelation, ListType, MapType, MergeType, Scalar, built_in};

fn read(path: &Path) -> Value {
    json::parse(&std::fs::read(path).unwrap()).unwrap()
}

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../integration/expectations/merge")
}

/// Holds our types against upstream's, and collects where they differ.
struct Comparison<'e> {
    /// Upstream's named types.
    types: &'e Value,
    /// The types that have been compared: they are the same wherever they stand.
    seen: BTreeSet<&'e str>,
    differences: Vec<String>,
}

impl<'e> Comparison<'e> {
    fn new(types: &'e Value) -> Self {
        Self { types, seen: BTreeSet::new(), differences: Vec::new() }
    }

    fn equal(&mut self, at: &str, what: &str, ours: impl ToString, theirs: impl ToString) {
        let (ours, theirs) = (ours.to_string(), theirs.to_string());
        if ours != theirs {
            self.differences.push(format!("{at}: {what} is {ours}, not {theirs}"));
        }
    }

    fn compare(&mut self, at: &str, ours: MergeType<'_>, theirs: &'e Value) {
        let theirs = match theirs.get("named").and_then(Value::as_str) {
            Some(name) if !self.seen.insert(name) => return,
            Some(name) => self.types.get(name).unwrap(),
            None => theirs,
        };
        let scalar = match ours.scalar() {
            Some(Scalar::Numeric) => "numeric",
            Some(Scalar::String) => "string",
            Some(Scalar::Boolean) => "boolean",
            Some(Scalar::Untyped) => "untyped",
            None => "",
        };
        self.equal(at, "scalar", scalar, theirs.get("scalar").and_then(Value::as_str).unwrap_or_default());
        match (ours.list(), theirs.get("list")) {
            (Some(ours), Some(theirs)) => self.list(at, ours, theirs),
            (ours, theirs) => self.equal(at, "list", ours.is_some(), theirs.is_some()),
        }
        match (ours.map(), theirs.get("map")) {
            (Some(ours), Some(theirs)) => self.map(at, ours, theirs),
            (ours, theirs) => self.equal(at, "map", ours.is_some(), theirs.is_some()),
        }
    }

    fn list(&mut self, at: &str, ours: ListType<'_>, theirs: &'e Value) {
        let keys = theirs.get("keys").and_then(Value::as_array).unwrap_or_default();
        let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
        let theirs_are = (theirs.get("relation").and_then(Value::as_str), &keys[..]);
        let ours_are: (_, Vec<&str>) = match ours.relation() {
            ListRelation::Atomic => (Some("atomic"), Vec::new()),
            ListRelation::Set => (Some("associative"), Vec::new()),
            ListRelation::Keys(keys) => (Some("associative"), keys.iter().map(|key| &**key).collect()),
        };
        self.equal(at, "relation", format!("{ours_are:?}"), format!("{theirs_are:?}"));
        let element = theirs.get("element").unwrap();
        let named = element.get("named").and_then(Value::as_str).and_then(|name| self.types.get(name));
        for key in keys {
            let default =
                named.unwrap_or(element).at(&["map", "fields", key]).and_then(|field| field.get("default"));
            self.equal(at, key, format!("{:?}", ours.key_default(key)), format!("{default:?}"));
        }
        self.compare(&format!("{at}[]"), ours.element(), element);
    }

    fn map(&mut self, at: &str, ours: MapType<'_>, theirs: &'e Value) {
        let is = |field| theirs.get(field) == Some(&Value::Bool(true));
        self.equal(at, "atomic", ours.is_atomic(), is("atomic"));
        self.equal(at, "deduced", ours.is_deduced(), is("deduced"));
        let fields = theirs.get("fields").and_then(Value::as_object);
        let their_names: Vec<&str> = fields.iter().flat_map(|fields| fields.keys()).collect();
        let our_names: BTreeSet<&str> = ours.fields().map(|(name, _)| name).collect();
        self.equal(
            at,
            "fields",
            format!("{our_names:?}"),
            format!("{:?}", BTreeSet::from_iter(&their_names)),
        );
        assert_eq!(ours.fields().count(), our_names.len(), "{at}: each field is there once");
        for name in their_names {
            let theirs = fields.unwrap().get(name).unwrap().get("type").unwrap();
            match ours.field(name) {
                Some(ours) => self.compare(&format!("{at}.{name}"), ours, theirs),
                None => self.equal(at, name, "none", "a field"),
            }
        }
        assert!(ours.field("no such field").is_none());
        match (ours.element(), theirs.get("element")) {
            (Some(ours), Some(theirs)) => self.compare(&format!("{at}.*"), ours, theirs),
            (ours, theirs) => self.equal(at, "element", ours.is_some(), theirs.is_some()),
        }
    }
}

#[test]
fn every_schema_merges_as_upstream_has_it() {
    let (cases, expected) = (read(&recorded().join("cases.json")), read(&recorded().join("expected.json")));
    let mut differences = Vec::new();
    let mut count = 0;
    for (name, case) in cases.as_object().unwrap().iter() {
        let preserve = case.get("preserveUnknownFields") == Some(&Value::Bool(true));
        let schema = Schema::compile(case.get("schema"), preserve).unwrap();
        let types = expected.get(if preserve { "preserving" } else { "types" }).unwrap();
        let mut comparison = Comparison::new(types);
        comparison.compare(name, schema.merge_type(), expected.at(&["cases", name]).unwrap());
        differences.append(&mut comparison.differences);
        count += 1;
    }
    assert!(count >= 70, "{count} cases");
    assert_eq!(differences, Vec::<String>::new());
}

#[test]
fn built_in_types_merge_as_upstream_has_them() {
    let expected = read(&recorded().join("expected.json"));
    let mut comparison = Comparison::new(expected.get("types").unwrap());
    for (group, version, kind, model) in [
        (
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.",
        ),
        (
            "apiextensions.k8s.io",
            "v1beta1",
            "CustomResourceDefinition",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1beta1.",
        ),
        ("", "v1", "Namespace", "io.k8s.api.core.v1."),
        ("autoscaling", "v1", "Scale", "io.k8s.api.autoscaling.v1."),
    ] {
        let ours = built_in(group, version, kind).unwrap();
        comparison.compare(kind, ours, expected.at(&["types", &format!("{model}{kind}")]).unwrap());
    }
    assert_eq!(comparison.differences, Vec::<String>::new());
    for name in ["ObjectMeta", "OwnerReference", "FieldsV1", "Time"] {
        let name = format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}");
        assert!(comparison.seen.contains(&*name), "{name} was not compared");
    }
}

/// Asks all that can be asked of a type; gives how many places it looked at.
pub(crate) fn walk(of: MergeType<'_>, depth: usize) -> usize {
    let is_anything = of.scalar().is_some() && of.map().is_some_and(|map| map.fields().next().is_none());
    // A value that may be anything may hold anything, without end.
    if depth == 0 || is_anything {
        return 1;
    }
    let list = of.list().map_or(0, |list| {
        if let ListRelation::Keys(keys) = list.relation() {
            assert!(!keys.is_empty());
            assert!(keys.iter().all(|key| list.key_default(key).is_none_or(|default| !default.is_null())));
        }
        walk(list.element(), depth - 1)
    });
    let map = of.map().map_or(0, |map| {
        let fields: usize = map
            .fields()
            .map(|(name, of)| {
                assert!(map.field(name).is_some());
                // Metadata is the same everywhere.
                if name == "metadata" { 1 } else { walk(of, depth - 1) }
            })
            .sum();
        fields + map.element().map_or(0, |of| walk(of, depth - 1))
    });
    1 + list + map
}
