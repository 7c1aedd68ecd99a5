//! Schemas and what is judged by them: registrations, objects, columns, scales, OpenAPI.

use kindom_api::crd::{ColumnDefinition, decode_crd, default_crd, prepare_for_create};
use kindom_api::faces::Face;
use kindom_api::json::MAX_DEPTH;
use kindom_api::{Value, json, object};
use kindom_fuzz::{JsonMutants, Mutants, Target, Texts};
use kindom_schema::columns::{Columns, validate_path};
use kindom_schema::openapi::{self, Document, Format, GroupVersionDoc, TypeDoc};
use kindom_schema::scale::{ScalePaths, Selectors};
use kindom_schema::whole::WholeSchema;
use kindom_schema::{Others, Schema, crd};

use crate::seeds;

/// The words of schemas.
const WORDS: [&str; 34] = [
    "object",
    "array",
    "string",
    "integer",
    "number",
    "boolean",
    "date-time",
    "int32",
    "byte",
    "hostname",
    "properties",
    "items",
    "additionalProperties",
    "required",
    "default",
    "enum",
    "nullable",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "pattern",
    "format",
    "maxLength",
    "minimum",
    "uniqueItems",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
    "x-kubernetes-validations",
    "x-kubernetes-map-type",
    "map",
];

/// The seeds' first schema, without its transition rule: an object that was never written before has no errors of one.
fn schema_of(crd: &str) -> String {
    let crd = json::parse(crd.as_bytes()).unwrap();
    let versions = crd.at(&["spec", "versions"]).and_then(Value::as_array).unwrap();
    versions[0]
        .at(&["schema", "openAPIV3Schema"])
        .unwrap()
        .to_string()
        .replace("oldSelf.colour == self.colour", "true")
}

#[test]
fn registrations_are_judged() {
    let inputs = seeds::registrations().words(&WORDS);
    // Rules are compiled, and regular expressions of schemas with them.
    Target::new("validate-crd", 4000).stack(3 << 19).flat(64 << 20, 1 << 30).rounds(150).run(
        inputs,
        |bytes| {
            let Ok(mut value) = json::parse(bytes) else { return };
            for face in Face::ALL {
                if face.decode(&mut value, None).is_err() {
                    continue;
                }
                let Ok((mut crd, _)) = decode_crd(&value) else { continue };
                default_crd(&mut crd);
                prepare_for_create(&mut crd);
                let errors = crd::validate_create(&crd, face);
                let _ = crd::validate_update(&crd, &crd, face);
                let _ = crd::validate_status_update(&crd, &crd);
                let _ = crd::validate_stored_versions(&crd);
                if !errors.is_empty() {
                    continue;
                }
                for version in &crd.spec.versions {
                    let schema =
                        version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
                    assert!(
                        Schema::compile(schema, false).is_ok(),
                        "a schema that a registration may have does not compile"
                    );
                }
            }
        },
    );
}

#[test]
fn objects_by_schemas() {
    let schemas = JsonMutants::of([schema_of(seeds::CRD)]).words(&WORDS);
    let objects = JsonMutants::of([seeds::WIDGET]);
    Target::new("schema", 4000).flat(64 << 20, 1 << 30).rounds(250).run(
        (schemas, objects),
        |(schema, object)| {
            let (Ok(schema), Ok(old)) = (json::parse(schema), json::parse(object)) else { return };
            let Ok(schema) = Schema::compile(Some(&schema), false) else { return };
            let mut object = old.clone();
            let (mut unknown, mut dropped) = (Vec::new(), Vec::new());
            schema.prune(&mut object, Some(&mut unknown));
            let mut again = object.clone();
            schema.prune(&mut again, None);
            assert_eq!(again, object, "pruning twice differs");
            let _ = schema.coerce(&mut object, Some(&mut dropped));
            if schema.default(&mut object).is_ok() {
                let mut again = object.clone();
                assert!(schema.default(&mut again).is_ok());
                assert_eq!(again, object, "defaulting twice differs");
            }
            let errors = schema.validate(&object);
            let _ = schema.validate_status_update_telling(&object, &old, Others::default());
            let (kept, _) = schema.validate_update_telling(&object, &object, Others::default());
            // An error that keeps the rules from being checked does not count where nothing has changed: they are, then.
            let rules_were_checked = errors.iter().all(|error| error.field != "<nil>");
            assert!(
                !rules_were_checked || kept.len() <= errors.len(),
                "an unchanged object is worse than a new one: {kept:?}, not {errors:?}"
            );
        },
    );
}

#[test]
fn columns() {
    let paths = [
        ".spec.colour",
        ".spec.ports[*].port",
        ".status.conditions[?(@.type=='Ready')].status",
        ".metadata.labels['a\\.b']",
        "..name",
        ".spec.list[-1:0:2]",
        ".spec['a','b']",
        "{.a}",
        ".spec.ports[?(@.port > 80)]",
        "$.x",
        ".a[?(@.b == 'it\\'s')]",
        "",
    ];
    let tokens = [
        ".", "..", "[", "]", "*", "?(@", ")", "'", "\"", "==", "!=", "<=", ":", ",", "-1", "0", "{", "}",
        "\\", "@.a",
    ];
    let inputs = Texts(
        Mutants::of(paths)
            .tokens(&tokens)
            .nests(&[("[?(@.a==", ")]"), ("[", "]"), ("..", ""), (".a", "")])
            .longest(4000),
    );
    let widget = json::parse(seeds::WIDGET.as_bytes()).unwrap();
    // A path of `..` may find every node, and again below each.
    Target::new("columns", 8000).flat(32 << 20, 1 << 30).rounds(800).run(inputs, move |path| {
        let valid = validate_path(path).is_ok();
        for kind in ["string", "integer", "number", "boolean", "date"] {
            let definition = ColumnDefinition {
                name: "X".to_owned(),
                kind: kind.to_owned(),
                json_path: path.clone(),
                ..ColumnDefinition::default()
            };
            let columns = Columns::compile(&[definition]);
            assert_eq!(columns.definitions().len(), if valid { 2 } else { 1 }, "{path:?}");
            assert_eq!(columns.cells(&widget, 0).len(), columns.definitions().len());
        }
    });
}

#[test]
fn scales() {
    let paths = [".spec.size", ".status.replicas", ".spec.list", ".spec.any.deep", ".", "", ".a.b.c", "spec"];
    let inputs = (
        Texts(Mutants::of(paths).tokens(&[".", "spec", "\\.", "[0]", "[", "]"])),
        JsonMutants::of([seeds::WIDGET]),
    );
    Target::new("scale", 600).rounds(1000).run(inputs, |(path, object)| {
        let Ok(mut object) = json::parse(object) else { return };
        let paths = ScalePaths::new(&object! {
            "specReplicasPath": path.as_str(), "statusReplicasPath": path.as_str(), "labelSelectorPath": path.as_str(),
        });
        let _ = paths.read(&object).map(|scale| scale.to_value(object.get("metadata")));
        let _ = paths.validate_spec(&object);
        let _ = paths.validate_status(&object, Selectors::Any);
        let _ = paths.validate_status(&object, Selectors::Valid(Some(&object)));
        let paths = ScalePaths::new(&object! { "specReplicasPath": path.as_str() });
        if paths.set_replicas(&mut object, 7).is_ok() {
            assert_eq!(paths.read(&object).ok().and_then(|scale| scale.replicas), Some(7), "{path:?}");
        }
    });
}

/// Schemas of everything that only whole ones may say.
const WHOLE: [&str; 3] = [
    r##"{"$defs":{"n":{"type":"integer","minimum":1},"t":{"properties":{"t":{"$ref":"#/$defs/t"},"n":{"$ref":"#/$defs/n"}}}},
        "properties":{"spec":{"$ref":"#/$defs/t"},"metadata":{"patternProperties":{"^[a-z]+$":{"type":["string","object"]}}}},
        "if":{"required":["spec"]},"then":{"dependentRequired":{"kind":["spec"]}},"else":false}"##,
    r##"{"allOf":[{"anyOf":[{"properties":{"kind":{"const":"Widget"}}},{"not":{"$ref":"#"}}]},
        {"oneOf":[true,{"propertyNames":{"maxLength":3}}]}],"unevaluatedProperties":{"type":"object"}}"##,
    r##"{"properties":{"spec":{"properties":{"parts":{"prefixItems":[{"type":"object"}],"items":{"enum":[1,"a",null]},
        "contains":{"type":"object"},"minContains":1,"uniqueItems":true,"unevaluatedItems":false}},
        "additionalProperties":{"pattern":"^(a|b)*$"}}},"dependentSchemas":{"spec":{"$anchor":"a","minProperties":2}}}"##,
];

#[test]
fn objects_by_whole_schemas() {
    let words = [
        "$ref",
        "#",
        "#/$defs/n",
        "#/$defs/t",
        "#a",
        "$anchor",
        "not",
        "anyOf",
        "pattern",
        "(a{9}){9}",
        "unevaluatedItems",
    ];
    let schemas = JsonMutants::of(WHOLE.map(str::to_owned)).words(&words);
    let objects = JsonMutants::of([seeds::WIDGET]);
    // As a thread has that serves.
    Target::new("whole-schemas", 40_000).stack(2 << 20).flat(256 << 20, 4 << 30).rounds(300).run(
        (schemas, objects),
        |(schema, object)| {
            let (Ok(schema), Ok(object)) = (std::str::from_utf8(schema), json::parse(object)) else { return };
            let Ok(whole) = WholeSchema::compile(schema) else { return };
            let errors = whole.validate(&object);
            assert_eq!(whole.validate(&object), errors);
        },
    );
}

#[test]
fn documents() {
    let inputs = JsonMutants::of([schema_of(seeds::CRD)]).words(&WORDS);
    Target::new("openapi", 4000).flat(4 << 20, 256 << 20).rounds(300).run(inputs, |bytes| {
        let Ok(schema) = json::parse(bytes) else { return };
        // In a registration at least three maps are around it, as in the document.
        if !schema.nests_within(MAX_DEPTH - 3) {
            return;
        }
        let gv = GroupVersionDoc { group: "example.com", version: "v1" };
        let doc = TypeDoc {
            plural: "widgets",
            kind: "Widget",
            list_kind: "WidgetList",
            namespaced: true,
            schema: Some(&schema),
            preserve_unknown_fields: false,
            status: true,
            scale: true,
            declared: Vec::new(),
            selectable_fields: vec![".spec.colour"],
            built_in: false,
            declaration: None,
            strategic_merge_patch: false,
            only_created: false,
            clears: true,
        };
        for format in [Format::V3, Format::V2Json, Format::V2Protobuf] {
            let (mut document, mut bytes) = Document::start(format, "fuzz", "1");
            bytes.extend(document.paths(&gv, &doc));
            bytes.extend(document.schemas(&gv, &doc));
            bytes.extend(document.end());
            if format != Format::V2Protobuf {
                assert!(json::parse(&bytes).is_ok(), "{}", String::from_utf8_lossy(&bytes));
            }
        }
        let registration = object! { "spec": object! {} };
        let _ = openapi::structural_schema(&registration, "v1");
    });
}
