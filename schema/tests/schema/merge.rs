//! How values merge, against the schemas that upstream makes for apply, which `integration/expectations/merge` records.

use std::path::{Path, PathBuf};

use kindom_api::{Value, json};
use kindom_schema::Schema;
use kindom_schema::merge::{ListRelation, MergeType, built_in};

use crate::comparison::Comparison;

fn read(path: &Path) -> Value {
    json::parse(&std::fs::read(path).unwrap()).unwrap()
}

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../integration/expectations/merge")
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
