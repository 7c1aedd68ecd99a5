//! The published document against the one that upstream's builder makes of the same registrations.
//!
//! `openapi_expected.json` holds two registrations and the document that `builder.BuildOpenAPIV3` and `MergeSpecsV3`
//! (k8s.io/apiextensions-apiserver v0.37.2) make of them, parameters cut to their names and shared schemas left out.

use kindom_api::{Map, Value, json};
use kindom_schema::openapi::{GroupVersionDoc, TypeDoc, v3_document};

fn only_names(parameters: &mut Value) {
    let named = |p: &Value| p.get("name").cloned().unwrap();
    *parameters = Value::Array(parameters.as_array().unwrap().iter().map(named).collect());
}

fn reduced(mut document: Value) -> Value {
    for (_, path) in document.get_mut("paths").and_then(Value::as_object_mut).unwrap().iter_mut() {
        for (method, operation) in path.as_object_mut().unwrap().iter_mut() {
            if method == "parameters" {
                only_names(operation);
            } else if let Some(parameters) = operation.get_mut("parameters") {
                only_names(parameters);
            }
        }
    }
    let schemas = document.get_mut("components").and_then(|c| c.get_mut("schemas")).unwrap();
    schemas.as_object_mut().unwrap().retain(|name, _| !name.starts_with("io.k8s."));
    document
}

fn type_doc(crd: &Value) -> TypeDoc<'_> {
    let spec = crd.get("spec").unwrap();
    let text = |path: &[&str]| spec.at(path).and_then(Value::as_str).unwrap();
    let version = &spec.get("versions").and_then(Value::as_array).unwrap()[0];
    let fields = version.get("selectableFields").and_then(Value::as_array).unwrap_or(&[]);
    TypeDoc {
        plural: text(&["names", "plural"]),
        kind: text(&["names", "kind"]),
        list_kind: text(&["names", "listKind"]),
        namespaced: text(&["scope"]) == "Namespaced",
        schema: version.at(&["schema", "openAPIV3Schema"]),
        status: version.at(&["subresources", "status"]).is_some(),
        scale: version.at(&["subresources", "scale"]).is_some(),
        selectable_fields: fields
            .iter()
            .map(|f| f.get("jsonPath").and_then(Value::as_str).unwrap())
            .collect(),
        schema_prefix: None,
        strategic_merge_patch: false,
    }
}

/// The places where two documents differ.
fn differences(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let empty = Value::String("<absent>".into());
            let keys: Map = a.iter().chain(b.iter()).map(|(k, _)| (k, Value::Null)).collect();
            for key in keys.keys() {
                let (a, b) = (a.get(key).unwrap_or(&empty), b.get(key).unwrap_or(&empty));
                differences(&format!("{path}/{key}"), a, b, found);
            }
        }
        (a, b) if a != b => found.push(format!("{path}: {a} not {b}")),
        _ => {}
    }
}

#[test]
fn the_document_is_upstreams() {
    let expected = json::parse(include_bytes!("openapi_expected.json")).unwrap();
    let crds = expected.get("types").and_then(Value::as_array).unwrap();
    let document = v3_document(&GroupVersionDoc {
        group: "example.com",
        version: "v1",
        types: crds.iter().map(type_doc).collect(),
    });
    let mut found = Vec::new();
    differences("", &reduced(document), expected.get("document").unwrap(), &mut found);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn every_reference_resolves() {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map.iter() {
                    match (key, value) {
                        ("$ref", Value::String(text)) => found.push(text.clone()),
                        (_, value) => references(value, found),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }
    let doc = TypeDoc {
        plural: "namespaces",
        kind: "Namespace",
        list_kind: "NamespaceList",
        namespaced: false,
        schema: None,
        status: true,
        scale: false,
        selectable_fields: Vec::new(),
        schema_prefix: Some("io.k8s.api.core.v1"),
        strategic_merge_patch: true,
    };
    let document = v3_document(&GroupVersionDoc { group: "", version: "v1", types: vec![doc] });
    let mut found = Vec::new();
    references(&document, &mut found);
    let schemas = document.at(&["components", "schemas"]).unwrap();
    for reference in found {
        assert!(
            schemas.get(reference.strip_prefix("#/components/schemas/").unwrap()).is_some(),
            "{reference}"
        );
    }
    let create = document.at(&["paths", "/api/v1/namespaces", "post", "operationId"]).unwrap();
    assert_eq!(create.as_str(), Some("createCoreV1Namespace"));
    let patch =
        document.at(&["paths", "/api/v1/namespaces/{name}", "patch", "requestBody", "content"]).unwrap();
    assert!(patch.get("application/strategic-merge-patch+json").is_some());
}
