//! Nothing is lost on the way through any face, whatever the registration.

use proptest::prelude::*;

use super::Face;
use crate::{Map, Value, object};

/// Some of these are equal, so that versions have things in common.
fn schema() -> impl Strategy<Value = Option<Value>> {
    let preserve = object! { "type": "object", "x-kubernetes-preserve-unknown-fields": true };
    let deep = object! {
        "type": "object",
        "properties": object! { "spec": object! { "type": "object", "default": Map::new(), "items": object! { "type": "string" } } },
    };
    prop_oneof![
        Just(None),
        Just(Some(Map::new().into())),
        Just(Some(object! { "openAPIV3Schema": preserve })),
        Just(Some(object! { "openAPIV3Schema": deep })),
    ]
}

fn subresources() -> impl Strategy<Value = Option<Value>> {
    let scale = object! { "specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a" };
    prop_oneof![
        Just(None),
        Just(Some(Map::new().into())),
        Just(Some(object! { "status": Map::new() })),
        Just(Some(object! { "status": Map::new(), "scale": scale })),
    ]
}

fn columns(json_path: &'static str) -> impl Strategy<Value = Option<Value>> {
    let column = move |name: &str| -> Value {
        let mut column = object! { "name": name, "type": "string", "priority": 1 };
        super::as_map(&mut column).insert(json_path, ".spec.a");
        column
    };
    prop_oneof![
        Just(None),
        Just(Some(vec![column("A")].into())),
        Just(Some(vec![column("A"), column("B")].into())),
    ]
}

fn selectable() -> impl Strategy<Value = Option<Value>> {
    let fields = vec![object! { "jsonPath": ".spec.a" }];
    prop_oneof![Just(None), Just(Some(fields.into()))]
}

/// Generates the optional parts of a version, or those that all versions share; `names` are the four fields that hold them.
fn parts(names: [&'static str; 4], json_path: &'static str) -> impl Strategy<Value = Map> {
    (schema(), subresources(), columns(json_path), selectable()).prop_map(move |(a, b, c, d)| {
        names.into_iter().zip([a, b, c, d]).filter_map(|(name, value)| Some((name, value?))).collect()
    })
}

const IN_VERSION: [&str; 4] = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];
const FOR_ALL: [&str; 4] = ["validation", "subresources", "additionalPrinterColumns", "selectableFields"];

fn versions(json_path: &'static str) -> impl Strategy<Value = Vec<Value>> {
    let version = (parts(IN_VERSION, json_path), any::<bool>(), any::<bool>());
    let versions = (prop::collection::vec(version, 1..4), any::<prop::sample::Index>());
    versions.prop_map(|(versions, storage)| {
        let storage = storage.index(versions.len());
        let version = |(i, (mut version, served, deprecated)): (usize, (Map, bool, bool))| -> Value {
            version.insert("name", format!("v{i}"));
            version.insert("served", served);
            version.insert("storage", i == storage);
            if deprecated {
                version.insert("deprecated", true);
                version.insert("deprecationWarning", "old");
            }
            version.into()
        };
        versions.into_iter().enumerate().map(version).collect()
    })
}

fn names() -> impl Strategy<Value = Value> {
    let list = || prop::collection::vec(prop_oneof![Just("a"), Just("b")], 0..3);
    (prop_oneof![Just("Ox"), Just("Cow")], list(), list()).prop_map(|(kind, short, categories)| {
        object! { "plural": "oxen", "kind": kind, "shortNames": short, "categories": categories }
    })
}

fn conditions() -> impl Strategy<Value = Vec<Value>> {
    const KINDS: [&str; 6] =
        ["NamesAccepted", "Established", "Terminating", "NameConflict", "Mine", "Theirs"];
    const STATES: [&str; 5] = ["True", "False", "Unknown", "Maybe", ""];
    let condition = (prop::sample::select(&KINDS[..]), prop::sample::select(&STATES[..]), 0..3_i64);
    prop::collection::vec(condition, 0..6).prop_map(|conditions| {
        let condition = |(kind, status, generation)| {
            object! {
                "type": kind, "status": status, "reason": "R", "observedGeneration": Value::Int(generation),
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        };
        conditions.into_iter().map(condition).collect()
    })
}

fn annotations() -> impl Strategy<Value = Value> {
    let scale = r#"{"v0":{"scale":{"specReplicasPath":".spec.x"}},"v1":{}}"#;
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(move |(own, through, proposed)| {
        let mut out = Map::new();
        if own {
            out.insert("kindom.dev/x", "y");
        }
        if through {
            out.insert("face.kindom.dev/registered-through", "apiextension.k8s.io/v1beta1");
        }
        if proposed {
            out.insert("face.kindom.dev/sub-resources", scale);
        }
        out.into()
    })
}

/// A registration as it is stored.
fn stored() -> impl Strategy<Value = Value> {
    let webhook = object! {
        "strategy": "Webhook",
        "webhook": object! {
            "conversionReviewVersions": vec!["v1", "v1beta1"],
            "clientConfig": object! { "service": object! { "namespace": "n", "name": "s" } },
        },
    };
    let conversion = prop_oneof![Just(Value::Null), Just(webhook)];
    let scope = prop_oneof![Just("Cluster"), Just("Namespaced")];
    let spec = (names(), scope, versions("jsonPath"), conversion, any::<bool>());
    (annotations(), spec, names(), conditions()).prop_map(|(annotations, spec, accepted, conditions)| {
        let (names, scope, versions, conversion, preserve) = spec;
        let mut crd = object! {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": object! { "name": "oxen.example.com", "generation": 1, "annotations": annotations },
            "spec": object! {
                "group": "example.com", "names": names, "scope": scope, "versions": versions,
                "conversion": conversion, "preserveUnknownFields": preserve,
            },
            "status": object! { "acceptedNames": accepted, "conditions": conditions },
        };
        Face::V1.decode(&mut crd, None).unwrap();
        // As every write leaves a registration: without annotations for versions that do not exist or that contradict them.
        Face::V1.read(crd.clone(), Some(&crd), None).unwrap()
    })
}

/// A v1beta1 document that says each thing in one place.
fn document() -> impl Strategy<Value = Value> {
    let conversion = prop_oneof![
        Just(Value::Null),
        Just(object! { "strategy": "Webhook", "webhookClientConfig": object! { "url": "https://h/p" } }),
    ];
    let preserve = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::Bool)];
    (names(), parts(FOR_ALL, "JSONPath"), versions("JSONPath"), any::<bool>(), conversion, preserve).prop_map(
        |(names, shared, mut versions, only_one, conversion, preserve)| {
            let mut spec = object! {
                "group": "example.com", "names": names, "conversion": conversion, "preserveUnknownFields": preserve,
            };
            let map = super::as_map(&mut spec);
            for (field, all) in IN_VERSION.into_iter().zip(FOR_ALL) {
                let first = versions.first().and_then(|v| v.get(field)).cloned();
                let same = versions.iter().all(|v| v.get(field) == first.as_ref());
                let has_any = versions.iter().any(|v| v.get(field).is_some());
                if only_one || (same && has_any) {
                    for version in &mut versions {
                        super::take(version, field);
                    }
                }
                let free = !versions.iter().any(|v| v.get(field).is_some());
                if let Some(value) = shared.get(all).filter(|_| free) {
                    map.insert(all, value.clone());
                }
            }
            if only_one {
                map.insert("version", "v1");
            } else {
                map.insert("versions", versions);
            }
            object! { "metadata": object! { "name": "oxen.example.com" }, "spec": spec }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_a_face_shows_it_reads_back(stored in stored()) {
        for face in Face::ALL {
            let mut object = face.show(stored.clone());
            prop_assert!(!object.to_string().contains(super::ANNOTATION_PREFIX));
            let mut unknown = Vec::new();
            face.decode(&mut object, Some(&mut unknown)).unwrap();
            prop_assert_eq!(&unknown, &Vec::<String>::new(), "{:?}", face);
            for subresource in [None, Some("status")] {
                let read = face.read(object.clone(), Some(&stored), subresource);
                prop_assert_eq!(read.as_ref().map(ToString::to_string), Ok(stored.to_string()), "{:?} {:?}", face, subresource);
            }
        }
    }

    #[test]
    fn v1_shows_as_stored_what_it_does_not_change(stored in stored()) {
        let bytes = stored.to_vec();
        if Face::V1.shows_as_stored(&bytes) {
            prop_assert_eq!(Face::V1.show(stored), crate::json::parse(&bytes).unwrap());
        }
    }

    #[test]
    fn a_v1beta1_document_keeps_all_that_it_says(mut document in document()) {
        let face = Face::V1beta1;
        face.decode(&mut document, None).unwrap();
        let stored = face.read(document.clone(), None, None).map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
        let mut shown = face.show(stored);
        face.decode(&mut shown, None).unwrap();
        prop_assert_eq!(shown.get("spec").unwrap().to_string(), document.get("spec").unwrap().to_string());
    }
}
