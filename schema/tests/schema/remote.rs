//! Parts of other servers' v2 documents in a document of this one (kube-openapi `pkg/aggregator`, 0.37).

use kindom_api::{Map, Value, json, object};
use kindom_schema::openapi::{Document, Format, GroupVersionDoc, RemoteDoc, TypeDoc};
use proptest::prelude::*;

use crate::gnostic;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const OURS: GroupVersionDoc<'_> = GroupVersionDoc { group: "ours.io", version: "v1" };
const THEIRS: GroupVersionDoc<'_> = GroupVersionDoc { group: "theirs.io", version: "v1" };

fn type_doc<'a>(plural: &'a str, kind: &'a str, list_kind: &'a str) -> TypeDoc<'a> {
    TypeDoc {
        plural,
        kind,
        list_kind,
        namespaced: true,
        schema: None,
        preserve_unknown_fields: false,
        status: true,
        scale: true,
        declared: Vec::new(),
        selectable_fields: Vec::new(),
        built_in: false,
        only_created: false,
        clears: true,
        declaration: None,
        strategic_merge_patch: false,
    }
}

/// A document with one type, and the parts of others.
fn merged(format: Format, gv: GroupVersionDoc<'_>, remote: &[RemoteDoc]) -> Vec<u8> {
    let doc = type_doc("widgets", "Widget", "WidgetList");
    let (document, mut bytes) = Document::start(format, "test", "1");
    let mut document = if remote.is_empty() { document } else { document.merging() };
    bytes.extend(document.paths(&gv, &doc));
    remote.iter().for_each(|part| bytes.extend(document.remote_paths(part)));
    bytes.extend(document.schemas(&gv, &doc));
    remote.iter().for_each(|part| bytes.extend(document.remote_schemas(part)));
    bytes.extend(document.end());
    bytes
}

fn merged_json(gv: GroupVersionDoc<'_>, remote: &[RemoteDoc]) -> Value {
    json::parse(&merged(Format::V2Json, gv, remote)).unwrap()
}

fn member<'a>(document: &'a Value, name: &str) -> &'a Map {
    document.get(name).and_then(Value::as_object).unwrap()
}

/// The references in a part of a document. Extensions and values of clients' own, such as defaults, refer to nothing.
fn references(value: &Value, found: &mut Vec<String>) {
    references_among(value, false, found);
}

/// `named` for the members of a map whose keys are a server's own names.
fn references_among(value: &Value, named: bool, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| match value.as_str() {
            _ if !named && (name.starts_with("x-") || matches!(name, "default" | "enum" | "example")) => {}
            Some(to) if name == "$ref" => found.push(to.to_owned()),
            _ => references_among(value, !named && matches!(name, "properties" | "definitions"), found),
        }),
        Value::Array(items) => items.iter().for_each(|item| references_among(item, false, found)),
        _ => {}
    }
}

/// Each schema as kube-openapi `pkg/util/proto` reads it, `ParseSchema`: what is an error there is an error here.
fn assert_readable(schema: &Value) {
    let of = |name: &str| schema.get(name);
    if let Some(to) = of("$ref").and_then(Value::as_str) {
        assert!(
            to.starts_with("#/definitions/") && of("type").is_none() && of("properties").is_none(),
            "{schema}"
        );
        return;
    }
    match of("type").map(|of| of.as_str().unwrap()) {
        None | Some("object" | "string" | "number" | "integer" | "boolean") => {}
        Some("array") => assert!(of("items").is_some(), "{schema}"),
        Some(other) => panic!("{other}"),
    }
    let nested = of("properties").and_then(Value::as_object).into_iter().flat_map(Map::values);
    nested
        .chain(of("items"))
        .chain(of("additionalProperties").filter(|of| of.as_object().is_some()))
        .for_each(assert_readable);
}

/// Asserts that a client can read a document, and that protobuf says the same.
fn assert_whole(document: &Value, protobuf: &[u8]) {
    assert_readable_whole(document);
    let read = gnostic::without_zeros(gnostic::document(protobuf));
    assert_eq!(read, gnostic::without_zeros(document.clone()));
}

fn assert_readable_whole(document: &Value) {
    let mut found = Vec::new();
    references(&document.get("paths").cloned().unwrap(), &mut found);
    references(&document.get("definitions").cloned().unwrap(), &mut found);
    for to in found {
        let path: Vec<&str> = to.trim_start_matches("#/").splitn(2, '/').collect();
        assert!(document.at(&path).is_some(), "{to} leads nowhere");
    }
    member(document, "definitions").values().for_each(assert_readable);
}

#[test]
fn a_part_of_a_server_like_this_one_adds_its_own_schemas_alone() {
    let alone = merged_json(THEIRS, &[]);
    let part = RemoteDoc::cut(&alone, "theirs.io", "v1").unwrap();
    let both = merged_json(OURS, std::slice::from_ref(&part));
    assert_whole(&both, &merged(Format::V2Protobuf, OURS, std::slice::from_ref(&part)));
    // Cut out again, it is what it was.
    assert_eq!(RemoteDoc::cut(&both, "theirs.io", "v1").as_ref().map(RemoteDoc::hash), Some(part.hash()));
    assert!(!member(&both, "definitions").keys().any(|name| name.ends_with("_v2")));
    assert!(member(&both, "definitions").get("io.theirs.v1.Widget").is_some());
    let of_alone = member(&alone, "parameters").len();
    assert_eq!(member(&both, "parameters").len(), of_alone);
    assert_eq!(RemoteDoc::cut(&alone, "ours.io", "v1"), None);
}

#[test]
fn a_schema_of_a_taken_name_gets_another() {
    let other = |text: &str, group: &str| {
        let meta = object! { "type": "object", "description": text };
        let version = group.replace(".io", "");
        let kind = format!("{version}.Thing");
        let document = object! {
            "paths": Map::from_iter([
                (format!("/apis/{group}/v1/things"), object! {
                    "post": object! { "parameters": vec![
                        object! { "$ref": "#/parameters/watch-XNNPZGbK" },
                        object! { "in": "body", "name": "body", "schema": object! { "$ref": format!("#/definitions/{kind}") } },
                    ] },
                }),
                ("/apis/elsewhere.io/v1/things".to_owned(), object! {}),
            ]),
            "definitions": Map::from_iter([
                (kind, object! { "properties": object! { "metadata": object! { "$ref": format!("#/definitions/{META}") } } }),
                (META.to_owned(), meta),
                ("unused".to_owned(), object! {}),
            ]),
            "parameters": object! {
                "watch-XNNPZGbK": object! { "in": "query", "name": "watch", "type": "boolean", "description": text },
            },
        };
        RemoteDoc::cut(&document, group, "v1").unwrap()
    };
    let parts = [other("one", "a.io"), other("two", "b.io"), other("one", "c.io")];
    let document = merged_json(OURS, &parts);
    assert_whole(&document, &merged(Format::V2Protobuf, OURS, &parts));
    for (group, wanted) in [("a", "_v2"), ("b", "_v3"), ("c", "_v2")] {
        let meta = document
            .at(&["definitions", &format!("{group}.Thing"), "properties", "metadata", "$ref"])
            .unwrap();
        assert_eq!(meta.as_str().unwrap(), format!("#/definitions/{META}{wanted}"));
        let post =
            document.at(&["paths", &format!("/apis/{group}.io/v1/things"), "post", "parameters"]).unwrap();
        let shared = post.as_array().unwrap()[0].get("$ref").and_then(Value::as_str).unwrap();
        assert_eq!(shared, format!("#/parameters/watch-XNNPZGbK{wanted}"));
    }
    let names: Vec<&str> =
        member(&document, "definitions").keys().filter(|name| name.starts_with(META)).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(!member(&document, "paths").keys().any(|path| path.contains("elsewhere")));
    assert!(!member(&document, "definitions").keys().any(|name| name == "unused"));
}

/// Any value where a document has something else, in places that its readers look at.
fn nonsense() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        prop_oneof![
            Just("#/definitions/a"),
            Just("#/definitions/none"),
            Just("#/parameters/p"),
            Just("/etc"),
            Just("array"),
            Just("null")
        ]
        .prop_map(Value::from),
    ];
    let names = prop_oneof![
        Just("$ref"),
        Just("type"),
        Just("items"),
        Just("properties"),
        Just("additionalProperties"),
        Just("allOf"),
        Just("required"),
        Just("parameters"),
        Just("responses"),
        Just("schema"),
        Just("in"),
        Just("get"),
        Just("x-y"),
        Just("default"),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| Value::Array(items.into())),
            prop::collection::vec((names.clone(), inner), 0..5).prop_map(|members| Value::Object(
                Map::from_iter(members.into_iter().map(|(name, value)| (name.to_owned(), value)))
            )),
        ]
    })
}

proptest! {
    /// A document that is nonsense disturbs nobody who reads the others.
    #[test]
    fn nonsense_is_readable(item in nonsense(), a in nonsense(), p in nonsense(), rest in nonsense()) {
        let wanted = object! { "get": object! { "responses": object! { "200": object! { "schema": a.clone() } } } };
        let document = object! {
            "paths": Map::from_iter([("/apis/g/v1/x".to_owned(), item), ("/apis/g/v1/y".to_owned(), wanted)]),
            "definitions": object! { "a": a, "b": rest.clone() },
            "parameters": object! { "p": p },
        };
        if let Some(part) = RemoteDoc::cut(&document, "g", "v1") {
            let parts = [part];
            assert_readable_whole(&merged_json(OURS, &parts));
            gnostic::document(&merged(Format::V2Protobuf, OURS, &parts));
        }
        prop_assert_eq!(RemoteDoc::cut(&rest, "g", "v1"), None);
    }
}

#[test]
fn what_is_nested_deep_is_left_out() {
    let deep = |levels: usize| {
        let schema = (0..levels).fold(object! {}, |inner, _| object! { "items": inner, "type": "array" });
        let paths = Map::from_iter([(
            "/apis/g/v1/x",
            object! { "get": object! { "responses": object! { "200": object! { "schema": schema } } } },
        )]);
        RemoteDoc::cut(&object! { "paths": Value::Object(paths) }, "g", "v1")
    };
    assert!(deep(50).is_some() && deep(200).is_none());
}
