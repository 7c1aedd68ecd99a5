//! Declared conversions of public projects' kinds against the conversions that those have in Go (`integration/expectations/conversions`).

use std::path::PathBuf;

use kindom_api::{Value, json};
use kindom_objects::Convert as _;
use kindom_objects::conversion_rules::{DeclaredConversion, KEPT_ANNOTATION};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../integration/expectations/conversions")
}

/// Takes away values for which this is true, bottom up.
fn without(value: &mut Value, is_nothing: fn(&Value) -> bool) {
    match value {
        Value::Object(map) => map.retain(|_, value: &mut Value| {
            without(value, is_nothing);
            !is_nothing(value)
        }),
        Value::Array(items) => items.iter_mut().for_each(|item| without(item, is_nothing)),
        _ => {}
    }
}

/// Null, and maps and lists without members.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// A zero of any kind: Go shows it or leaves it out by the field's tags, which differ from version to version.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(b) => !b,
        Value::Int(n) => *n == 0,
        Value::String(text) => text.as_str().is_empty(),
        value => is_empty(value),
    }
}

/// The kinds that are recorded.
const KINDS: [&str; 7] = [
    "certificate.cert-manager.io",
    "clusterresourceset.addons.cluster.x-k8s.io",
    "ipaddressclaim.ipam.cluster.x-k8s.io",
    "localqueue.kueue.x-k8s.io",
    "machinehealthcheck.cluster.x-k8s.io",
    "multikueuecluster.kueue.x-k8s.io",
    "subscription.dapr.io",
];

/// B-20: what rules make of an object is what the project's own code makes of it, but that rules keep what the code loses.
#[test]
fn rules_convert_as_the_go_code_of_public_projects() {
    for kind in KINDS {
        let read = |end: &str| std::fs::read_to_string(folder().join(format!("{kind}.{end}.json"))).unwrap();
        let recorded = json::parse(read("expected").as_bytes()).unwrap();
        let rules = DeclaredConversion::parse(&read("rules")).unwrap();
        let conversions = recorded.get("conversions").and_then(Value::as_array).unwrap();
        let hub = recorded.get("hub").unwrap();
        let (to_hub, from_hub): (Vec<_>, Vec<_>) =
            conversions.iter().partition(|conversion| conversion.get("to") == Some(hub));
        assert_eq!((to_hub.len(), from_hub.len()), (16, 16), "{kind}");
        for conversion in conversions {
            let of = |field: &str| conversion.get(field).unwrap();
            let (from, to) = (of("from").as_str().unwrap(), of("to").as_str().unwrap());
            let mut made = rules.convert(of("object"), from, to).unwrap();
            let mut back = rules.convert(&made, to, from).unwrap();
            let (mut wanted, mut before) = (of("converted").clone(), of("object").clone());
            for object in [&mut made, &mut back, &mut wanted, &mut before] {
                let map = object.as_object_mut().unwrap();
                map.remove("apiVersion");
                if let Some(annotations) = map.get_mut("metadata").and_then(|of| of.get_mut("annotations")) {
                    annotations.as_object_mut().unwrap().remove(KEPT_ANNOTATION);
                }
                without(object, is_empty);
            }
            assert_eq!(back, before, "{kind}: {}", of("object"));
            without(&mut made, is_zero);
            without(&mut wanted, is_zero);
            assert_eq!(made, wanted, "{kind}: {}", of("object"));
        }
    }
}
