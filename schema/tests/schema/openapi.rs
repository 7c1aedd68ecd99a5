//! The published document against the one that upstream's builder makes of the same registrations.
//!
//! `openapi_expected.json` holds two registrations and the document that `builder.BuildOpenAPIV3` and `MergeSpecsV3`
//! (k8s.io/apiextensions-apiserver v0.37.2) make of them, parameters cut to their names and shared schemas left out;
//! `v2` is what `BuildOpenAPIV2`, kube-openapi's `PruneDefaults` and `MergeSpecs` make of them, without the parameters'
//! descriptions, and `builtIn` what upstream publishes of registrations in v3, without any.

use kindom_api::declaration::Declaration;
use kindom_api::decode::{Field, Items, Shape, Struct};
use kindom_api::meta::OBJECT_META;
use kindom_api::{Map, Value, json, object};
use kindom_schema::openapi::{Document, Format, GroupVersionDoc, TypeDoc};

use crate::gnostic;

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
        declared: Vec::new(),
        selectable_fields: fields
            .iter()
            .map(|f| f.get("jsonPath").and_then(Value::as_str).unwrap())
            .collect(),
        built_in: false,
        declaration: None,
        preserve_unknown_fields: false,
        strategic_merge_patch: false,
        only_created: false,
        clears: true,
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

type Type<'a> = (GroupVersionDoc<'a>, TypeDoc<'a>);

const EXAMPLE: GroupVersionDoc<'_> = GroupVersionDoc { group: "example.com", version: "v1" };

/// A document of types, whole.
fn whole(format: Format, types: &[Type<'_>]) -> Vec<u8> {
    let (mut document, mut bytes) = Document::start(format, "test", "1");
    for (gv, doc) in types {
        bytes.extend(document.paths(gv, doc));
    }
    for (gv, doc) in types {
        bytes.extend(document.schemas(gv, doc));
    }
    bytes.extend(document.end());
    bytes
}

fn v3_document(types: &[Type<'_>]) -> Value {
    json::parse(&whole(Format::V3, types)).unwrap()
}

#[test]
fn the_document_is_upstreams() {
    let expected = json::parse(include_bytes!("openapi_expected.json")).unwrap();
    let crds = expected.get("types").and_then(Value::as_array).unwrap();
    let types: Vec<Type<'_>> = crds.iter().map(|crd| (EXAMPLE, type_doc(crd))).collect();
    let mut document = v3_document(&types);
    document
        .as_object_mut()
        .unwrap()
        .insert("info", object! { "title": "Kubernetes CRD Swagger", "version": "v0.1.0" });
    let mut found = Vec::new();
    differences("", &reduced(document), expected.get("document").unwrap(), &mut found);
    assert!(found.is_empty(), "{found:#?}");
}

fn without_description(value: &mut Value) {
    if let Some(map) = value.as_object_mut() {
        map.remove("description");
    }
}

#[test]
fn the_v2_document_is_upstreams() {
    let expected = json::parse(include_bytes!("openapi_expected.json")).unwrap();
    let crds = expected.get("types").and_then(Value::as_array).unwrap();
    let types: Vec<_> = crds.iter().map(|crd| (EXAMPLE, type_doc(crd))).collect();
    let v2 = json::parse(&whole(Format::V2Json, &types)).unwrap();
    let part = |name: &str| v2.get(name).and_then(Value::as_object).unwrap().clone();
    let (mut paths, mut definitions, mut parameters) =
        (part("paths"), part("definitions"), part("parameters"));
    for (_, path) in paths.iter_mut() {
        for (method, operation) in path.as_object_mut().unwrap().iter_mut() {
            let list = if method == "parameters" { Some(operation) } else { operation.get_mut("parameters") };
            for parameter in list.and_then(Value::as_array_mut).into_iter().flatten() {
                if parameter.get("name").and_then(Value::as_str) != Some("name") {
                    without_description(parameter);
                }
            }
        }
    }
    definitions.retain(|name, _| !name.starts_with("io.k8s."));
    for (_, parameter) in parameters.iter_mut() {
        without_description(parameter);
    }
    let theirs = expected.get("v2").unwrap();
    let mut found = Vec::new();
    differences("/paths", &paths.into(), theirs.get("paths").unwrap(), &mut found);
    differences("/definitions", &definitions.into(), theirs.get("definitions").unwrap(), &mut found);
    differences("/parameters", &parameters.into(), theirs.get("parameters").unwrap(), &mut found);
    assert!(found.is_empty(), "{found:#?}");
}

/// Enough of a declared kind.
static NAMESPACE: Declaration = Declaration {
    api_version: "v1",
    kind: "Namespace",
    go_package: "k8s.io/api/core/v1",
    shape: &Struct::new(
        "v1.Namespace",
        &[
            Field::new("kind", Shape::String("string")),
            Field::new("apiVersion", Shape::String("string")),
            Field::always("metadata", Shape::Struct(&OBJECT_META)).declared(1, "Standard metadata."),
            Field::always("status", Shape::Struct(&STATUS)).declared(3, "The observed state."),
        ],
    ),
};

static STATUS: Struct = Struct::new(
    "v1.NamespaceStatus",
    &[Field::new("conditions", Shape::List(&Shape::Struct(&CONDITION))).items(Items::Keys(&["type"]))],
);

static CONDITION: Struct = Struct::new(
    "v1.NamespaceCondition",
    &[
        Field::always("type", Shape::String("v1.NamespaceConditionType")),
        Field::always("lastTransitionTime", Shape::Time),
        Field::new("since", Shape::Pointer(&Shape::MicroTime)),
    ],
);

/// All built-in types.
fn all_built_in() -> Vec<Type<'static>> {
    let doc = |plural, kind, list_kind| TypeDoc {
        plural,
        kind,
        list_kind,
        namespaced: false,
        schema: None,
        status: true,
        scale: false,
        declared: Vec::new(),
        selectable_fields: Vec::new(),
        built_in: true,
        declaration: None,
        preserve_unknown_fields: false,
        strategic_merge_patch: true,
        only_created: false,
        clears: true,
    };
    let namespaces = doc("namespaces", "Namespace", "NamespaceList");
    let namespaces = TypeDoc { declaration: Some(&NAMESPACE), ..namespaces };
    let crd = doc("customresourcedefinitions", "CustomResourceDefinition", "CustomResourceDefinitionList");
    let tpr = doc("thirdpartyresources", "ThirdPartyResource", "ThirdPartyResourceList");
    let group = "apiextensions.k8s.io";
    vec![
        (GroupVersionDoc { group: "", version: "v1" }, namespaces),
        (GroupVersionDoc { group, version: "v1" }, crd.clone()),
        (GroupVersionDoc { group, version: "v1beta1" }, crd.clone()),
        (GroupVersionDoc { group: "apiextension.k8s.io", version: "v1beta1" }, tpr),
        (GroupVersionDoc { group: "apiextensions.kindom.dev", version: "v1" }, crd),
    ]
}

/// A schema without any description; fields that are called so stay.
fn undescribed(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(k, v)| *k != "description" || v.as_str().is_none());
            Value::Object(kept.map(|(k, v)| (k, undescribed(v))).collect())
        }
        Value::Array(items) => items.iter().map(undescribed).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

/// With references that are wrapped, to carry a description or a default, told apart no more from those that are not.
fn unwrapped(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let wrapped = |(key, value): (&str, &Value)| match value {
                Value::Array(of) if key == "allOf" => of.first().and_then(|of| of.get("$ref")).cloned(),
                _ => None,
            };
            let entry = |(key, value): (&str, &Value)| match wrapped((key, value)) {
                Some(reference) => ("$ref".to_owned(), reference),
                None => (key.to_owned(), unwrapped(value)),
            };
            Value::Object(map.iter().map(entry).collect())
        }
        Value::Array(items) => items.iter().map(unwrapped).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

#[test]
fn registrations_have_the_fields_that_upstream_publishes() {
    let expected = json::parse(include_bytes!("openapi_expected.json")).unwrap();
    let mut theirs = expected.get("builtIn").unwrap().clone();
    let mut ours = Map::new();
    for built_in in all_built_in().into_iter().filter(|(gv, _)| gv.group == "apiextensions.k8s.io") {
        let document = v3_document(&[built_in]);
        let schemas = document.at(&["components", "schemas"]).and_then(Value::as_object).unwrap();
        for (name, schema) in schemas.iter().filter(|(name, _)| name.contains("apiextensions-apiserver")) {
            ours.insert(name, undescribed(schema));
        }
    }
    // Lists are made as those of registered types are, whose metadata has no default.
    for (_, list) in theirs.as_object_mut().unwrap().iter_mut().filter(|(name, _)| name.ends_with("List")) {
        let metadata = list.get_mut("properties").and_then(|p| p.get_mut("metadata")).unwrap();
        metadata.as_object_mut().unwrap().remove("default");
    }
    let mut found = Vec::new();
    differences("", &unwrapped(&ours.into()), &unwrapped(&theirs), &mut found);
    assert!(found.is_empty(), "{found:#?}");
}

/// A host has upstream's schemas, and those that it gets from us are merged with them by name.
#[test]
fn registrations_behind_a_host_have_the_same_fields_under_names_of_their_own() {
    let schemas = |group: &str| {
        let built_in = all_built_in().into_iter().find(|(gv, _)| gv.group == group && gv.version == "v1");
        let document = v3_document(&[built_in.unwrap()]);
        document.at(&["components", "schemas"]).unwrap().clone()
    };
    let theirs = schemas("apiextensions.k8s.io").to_string();
    let renamed = theirs
        .replace("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.", "dev.kindom.apiextensions.v1.")
        .replace("\"apiextensions.k8s.io\"", "\"apiextensions.kindom.dev\"");
    let ours = schemas("apiextensions.kindom.dev");
    assert!(ours == json::parse(renamed.as_bytes()).unwrap());
    let spec = ours.at(&["dev.kindom.apiextensions.v1.CustomResourceDefinitionSpec", "properties"]);
    assert!(spec.and_then(|fields| fields.get("versions")).is_some());
}

/// The target of a reference, wrapped or not.
fn target<'a>(schema: &Value, schemas: &'a Value) -> &'a Value {
    let wrapped = schema.get("allOf").and_then(Value::as_array).and_then(<[Value]>::first);
    let name = wrapped.unwrap_or(schema).get("$ref").and_then(Value::as_str).unwrap();
    schemas.get(name.strip_prefix("#/components/schemas/").unwrap()).unwrap()
}

/// Each field that a body of a built-in type may have is published, and no other.
#[test]
fn built_in_types_publish_what_is_decoded() {
    fn check(schema: &Value, schemas: &Value, fields: &'static Struct, seen: &mut Vec<&'static str>) {
        if seen.contains(&fields.go_type) || fields.go_type.ends_with("ObjectMeta") {
            return;
        }
        seen.push(fields.go_type);
        let published = schema.get("properties").and_then(Value::as_object);
        let published: Vec<&str> = published.into_iter().flat_map(Map::keys).collect();
        let mut decoded: Vec<&str> = fields.fields.iter().map(|field| field.name).collect();
        decoded.sort_unstable();
        assert_eq!(published, decoded, "{}", fields.go_type);
        for field in fields.fields {
            let mut shape = &field.shape;
            let mut schema = schema.at(&["properties", field.name]).unwrap();
            while let Shape::Pointer(inner)
            | Shape::List(inner)
            | Shape::Map(inner)
            | Shape::Named(_, inner) = shape
            {
                shape = inner;
                schema = schema.get("items").or(schema.get("additionalProperties")).unwrap_or(schema);
            }
            if let Shape::Struct(inner) = shape {
                check(target(schema, schemas), schemas, inner, seen);
            }
        }
    }
    let mut seen = Vec::new();
    let shapes = [NAMESPACE.shape, &kindom_api::crd::CRD];
    for ((gv, doc), fields) in all_built_in().into_iter().zip(shapes) {
        let end = format!(".{}", doc.kind);
        let document = v3_document(&[(gv, doc)]);
        let schemas = document.at(&["components", "schemas"]).unwrap();
        let (_, schema) = schemas.as_object().unwrap().iter().find(|(name, _)| name.ends_with(&end)).unwrap();
        check(schema, schemas, fields, &mut seen);
    }
    assert!(seen.contains(&"v1.NamespaceCondition") && seen.contains(&"v1.ValidationRule"), "{seen:?}");
}

#[test]
fn protobuf_says_what_json_says() {
    let expected = json::parse(include_bytes!("openapi_expected.json")).unwrap();
    let crds = expected.get("types").and_then(Value::as_array).unwrap();
    let mut types: Vec<_> = crds.iter().map(|crd| (EXAMPLE, type_doc(crd))).collect();
    types.extend(all_built_in());
    let json_document = json::parse(&whole(Format::V2Json, &types)).unwrap();
    let read = gnostic::document(&whole(Format::V2Protobuf, &types));
    let mut found = Vec::new();
    differences("", &gnostic::without_zeros(read), &gnostic::without_zeros(json_document), &mut found);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_type_of_a_built_in_name_describes_nothing_anew() {
    let mut types = all_built_in();
    let alone = json::parse(&whole(Format::V2Json, &types)).unwrap();
    // After built-in types, as callers put them.
    let gv = GroupVersionDoc { group: "core.api.k8s.io", version: "v1" };
    types.push((gv, TypeDoc { built_in: false, declaration: None, ..types[0].1.clone() }));
    let with_rival = json::parse(&whole(Format::V2Json, &types)).unwrap();
    assert!(alone.get("definitions") == with_rival.get("definitions"));
    assert!(alone.get("paths") != with_rival.get("paths"));
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
    let built_in = all_built_in();
    for built_in in &built_in {
        let document = v3_document(std::slice::from_ref(built_in));
        let mut found = Vec::new();
        references(&document, &mut found);
        let schemas = document.at(&["components", "schemas"]).unwrap();
        for reference in found {
            let name = reference.strip_prefix("#/components/schemas/").unwrap();
            assert!(schemas.get(name).is_some(), "{reference}");
        }
    }
    let document = v3_document(&built_in[..1]);
    let create = document.at(&["paths", "/api/v1/namespaces", "post", "operationId"]).unwrap();
    assert_eq!(create.as_str(), Some("createCoreV1Namespace"));
    let patch =
        document.at(&["paths", "/api/v1/namespaces/{name}", "patch", "requestBody", "content"]).unwrap();
    assert!(patch.get("application/strategic-merge-patch+json").is_some());

    let document = json::parse(&whole(Format::V2Json, &built_in)).unwrap();
    let mut found = Vec::new();
    references(&document, &mut found);
    for reference in found {
        let path: Vec<&str> = reference.strip_prefix("#/").unwrap().split('/').collect();
        assert!(document.at(&path).is_some(), "{reference}");
    }
}
