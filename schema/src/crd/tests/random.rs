//! No input panics, and a registration that was accepted once is accepted again.

use proptest::prelude::*;

use kindom_api::crd::{decode_crd, default_crd, prepare_for_create, prepare_for_update};
use kindom_api::faces::Face;
use kindom_api::meta::coerce_metadata;
use kindom_api::{Map, Value, json, object};

use crate::crd::{
    api_approval_condition, non_structural_schema_condition, to_v1, validate_create, validate_status_update,
    validate_stored_versions, validate_update, warnings_on_update,
};

/// Field names of registrations and schemas, so that random trees get somewhere.
const NAMES: &[&str] = &[
    "metadata",
    "spec",
    "status",
    "name",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "managedFields",
    "group",
    "names",
    "plural",
    "kind",
    "scope",
    "versions",
    "schema",
    "openAPIV3Schema",
    "type",
    "properties",
    "items",
    "additionalProperties",
    "required",
    "default",
    "enum",
    "pattern",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "nullable",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
    "rule",
    "fieldPath",
    "dependencies",
    "definitions",
    "patternProperties",
    "additionalItems",
    "subresources",
    "scale",
    "selectableFields",
    "jsonPath",
    "additionalPrinterColumns",
    "conversion",
    "strategy",
    "webhook",
    "webhookClientConfig",
    "JSONPath",
    "version",
    "validation",
    "subResources",
    "groupVersion",
    "specReplicasPath",
    "Names",
    "acceptedNames",
    "clientConfig",
    "url",
    "service",
    "path",
    "port",
    "caBundle",
    "conversionReviewVersions",
    "storage",
    "served",
    "storedVersions",
    "conditions",
    "acceptedNames",
    "creationTimestamp",
    "$ref",
    "format",
    "maximum",
];

const TEXTS: &[&str] = &[
    "",
    "object",
    "array",
    "string",
    "integer",
    "set",
    "map",
    "atomic",
    "Webhook",
    "None",
    "Cluster",
    "a",
    "A.b/c",
    "x.k8s.io",
    ".spec['a']",
    ".[",
    "'",
    "https://[::1%25a]:1/%zz",
    "://",
    "//",
    "/a",
    "(",
    "\u{e9}",
    "\n",
    "LS0t",
    "2024-02-29T00:00:00Z",
    "-",
];

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (-1e9..1e9_f64).prop_map(Value::Float),
        prop::sample::select(TEXTS).prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(7, 80, 6, |inner| {
        let name = prop::sample::select(NAMES);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..7)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map>())),
        ]
    })
}

/// A registration that is fine but for its schema and a few other places.
fn registration() -> impl Strategy<Value = Value> {
    (tree(), tree(), tree(), tree()).prop_map(|(schema, subresources, conversion, metadata)| {
        let version = object! { "name": "v1", "served": true, "storage": true,
        "schema": object! { "openAPIV3Schema": schema }, "subresources": subresources };
        object! { "metadata": metadata, "spec": object! { "group": "example.com", "scope": "Cluster",
        "names": object! { "plural": "widgets", "kind": "Widget" }, "conversion": conversion,
        "versions": vec![version] } }
    })
}

fn run(new: &Value, old: &Value) {
    let mut object = new.clone();
    let _ = coerce_metadata(&mut object);
    let Ok((mut new, _)) = decode_crd(new) else { return };
    default_crd(&mut new);
    let decoded_again = decode_crd(&new.to_value()).unwrap().0;
    // `items: false` is written as null, which reads back as nothing, as upstream's does.
    if !new.to_value().to_string().contains(r#""items":null"#) {
        assert_eq!(decoded_again, new, "what was written reads back the same");
    }
    assert_eq!(decode_crd(&decoded_again.to_value()).unwrap().0, decoded_again);
    prepare_for_create(&mut new);
    let _ =
        (api_approval_condition(&new), non_structural_schema_condition(&new), validate_stored_versions(&new));
    let errors = validate_create(&new, Face::V1);
    if errors.is_empty() {
        new.metadata.resource_version = "1".to_owned();
        assert_eq!(validate_update(&new, &new, Face::V1), []);
    }
    if let Ok((mut old, _)) = decode_crd(old) {
        default_crd(&mut old);
        prepare_for_update(&mut new, &old);
        let _ = (
            validate_update(&new, &old, Face::V1),
            validate_status_update(&new, &old),
            warnings_on_update(&new, &old),
        );
    }
}

/// A registration as the older faces write it, fine but for a few places.
fn older() -> impl Strategy<Value = Value> {
    let shared = (tree(), tree(), tree(), tree());
    (shared, tree(), tree(), tree(), any::<bool>()).prop_map(|(shared, version, conversion, status, single)| {
        let (validation, subresources, proposed, columns) = shared;
        let mut spec = object! { "group": "example.com", "names": object! { "plural": "widgets", "kind": "Widget" },
        "conversion": conversion, "subResources": proposed, "Names": version.clone() };
        let map = spec.as_object_mut().unwrap();
        if single {
            map.insert("version", "v1");
            map.insert("validation", validation);
            map.insert("subresources", subresources);
            map.insert("additionalPrinterColumns", columns);
        } else {
            let first = object! { "name": "v1", "storage": true, "schema": validation, "subResources": subresources };
            map.insert("versions", vec![first, version]);
        }
        object! { "metadata": object! { "name": "widgets.example.com" }, "spec": spec, "status": status }
    })
}

/// The stored form of a document that comes in by a face; `None` if the face refuses it.
fn stored(face: Face, document: &Value, old: Option<&Value>, subresource: Option<&str>) -> Option<Value> {
    let mut object = document.clone();
    let mut unknown = Vec::new();
    face.decode(&mut object, Some(&mut unknown)).ok()?;
    face.read(object, old, subresource).ok()
}

fn through_every_face(new: &Value, old: &Value) {
    let mut kinds = [("extensions/v1beta1", "ThirdPartyResource")].to_vec();
    kinds.extend(Face::ALL.map(|face| (face.api_version(), face.kind())));
    for (api_version, kind) in kinds {
        let mut document = new.clone();
        if let Some(map) = document.as_object_mut() {
            map.insert("apiVersion", api_version);
            map.insert("kind", kind);
        }
        if let Ok(converted) = to_v1(document)
            && kind == "ThirdPartyResource"
        {
            let (mut crd, _) = decode_crd(&converted.manifest).unwrap();
            default_crd(&mut crd);
            prepare_for_create(&mut crd);
            assert_eq!(validate_create(&crd, Face::V1), [], "what was converted is taken");
        }
    }
    for face in Face::ALL {
        let Some(created) = stored(face, new, None, None) else { continue };
        let (mut crd, _) = decode_crd(&created).unwrap();
        prepare_for_create(&mut crd);
        let _ = validate_create(&crd, face);
        for other in Face::ALL {
            let shown = other.show(created.clone());
            let _ = stored(other, &shown, Some(&created), Some("status"));
            if let Some(updated) = stored(other, &shown, Some(&created), None) {
                let (mut crd, _) = decode_crd(&updated).unwrap();
                let (old, _) = decode_crd(&created).unwrap();
                prepare_for_update(&mut crd, &old);
                let _ = validate_update(&crd, &old, other);
            }
            let _ = stored(other, old, Some(&created), None);
            let _ = stored(other, old, Some(&created), Some("status"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_on_any_tree(new in tree(), old in tree()) {
        run(&new, &old);
    }

    #[test]
    fn nothing_panics_on_any_schema(new in registration(), old in registration()) {
        run(&new, &old);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_face_panics_on_any_tree(new in tree(), old in tree()) {
        through_every_face(&new, &old);
    }

    #[test]
    fn no_face_panics_on_any_registration(new in older(), old in older(), today in registration()) {
        through_every_face(&new, &old);
        through_every_face(&today, &new);
    }
}

/// Upstream's validation dereferences a nil pointer here and answers 500.
#[test]
fn paths_into_what_has_no_schema_are_refused() {
    let tree = br#"{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Cluster",
        "names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,
        "schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","additionalProperties":true}}}},
        "selectableFields":[{"jsonPath":".spec.a.b"}]}]}}"#;
    let (mut crd, _) = decode_crd(&json::parse(tree).unwrap()).unwrap();
    default_crd(&mut crd);
    let errors: Vec<String> = validate_create(&crd, Face::V1).iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            r#"spec.selectableFields[0].jsonPath: Invalid value: ".spec.a.b": is an invalid path: does not refer to a valid field"#
        ]
    );
}

/// As deeply as input may nest.
#[test]
fn deep_schemas_are_walked() {
    let mut schema = object! { "type": "string" };
    for i in 0..80 {
        schema = match i % 3 {
            0 => object! { "type": "array", "items": schema },
            1 => object! { "type": "object", "additionalProperties": schema },
            _ => object! { "type": "object", "properties": object! { "p": schema } },
        };
    }
    schema = object! { "type": "object", "properties": object! { "p": schema } };
    let version = object! { "name": "v1", "served": true, "storage": true,
    "schema": object! { "openAPIV3Schema": schema } };
    let tree = object! { "metadata": object! { "name": "widgets.example.com" }, "spec": object! {
    "group": "example.com", "scope": "Cluster", "names": object! { "plural": "widgets", "kind": "Widget" },
    "versions": vec![version] } };
    let (mut crd, _) = decode_crd(&tree).unwrap();
    default_crd(&mut crd);
    assert_eq!(validate_create(&crd, Face::V1), []);
}

fn errors_of(spec: Value) -> Vec<String> {
    let schema = object! { "type": "object", "properties": object! { "spec": spec } };
    let version = object! { "name": "v1", "served": true, "storage": true,
    "schema": object! { "openAPIV3Schema": schema } };
    let tree = object! { "metadata": object! { "name": "widgets.example.com" }, "spec": object! {
    "group": "example.com", "scope": "Cluster", "names": object! { "plural": "widgets", "kind": "Widget" },
    "versions": vec![version] } };
    let (mut crd, _) = decode_crd(&tree).unwrap();
    default_crd(&mut crd);
    validate_create(&crd, Face::V1).iter().map(ToString::to_string).collect()
}

/// Each error shows all keys, so that all errors together would take 40 GB.
#[test]
fn errors_that_show_one_value_take_no_more_than_there_is_room_for() {
    let keys: Vec<Value> = vec!["a".into(); 100_000];
    let item = object! { "type": "object", "required": vec![Value::from("a")],
    "properties": object! { "a": object! { "type": "string" } } };
    let errors = errors_of(object! { "type": "array", "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": keys, "items": item });
    assert!(errors.first().unwrap().ends_with("must not contain duplicate entries"));
    assert!(errors.iter().any(|error| error.contains("too many errors: more are not listed")));
    assert!(errors.len() < 100, "{}", errors.len());
}

/// The schema below each default would be compiled for each, and for one in metadata the resource around it.
#[test]
fn defaults_in_one_another_are_checked_as_far_as_there_is_time() {
    const TOLD: &str = "the schemas that defaults stand in may not hold more than 1000000 values together";
    let fields = |count: usize| {
        let string = || object! { "type": "string", "pattern": "^a+$", "default": "aaa" };
        Value::Object((0..count).map(|i| (format!("p{i}"), string())).collect())
    };
    let nested = |levels: usize, leaves: usize| {
        let leaf = object! { "type": "object", "properties": fields(leaves) };
        (0..levels).fold(leaf, |schema, _| {
            object! { "type": "object", "default": object! {}, "properties": object! { "a": schema } }
        })
    };
    assert_eq!(errors_of(nested(20, 1_000)), Vec::<String>::new());
    let errors = errors_of(nested(100, 3_000));
    assert!(errors.len() == 1 && errors.iter().all(|error| error.contains(TOLD)), "{errors:?}");
    let embedded = object! { "type": "object", "x-kubernetes-embedded-resource": true,
    "x-kubernetes-preserve-unknown-fields": true,
    "properties": object! { "metadata": object! { "type": "object", "properties": fields(5_000) } } };
    let errors = errors_of(embedded);
    assert!(errors.last().is_some_and(|error| error.contains(TOLD)), "{:?}", errors.last());
}
