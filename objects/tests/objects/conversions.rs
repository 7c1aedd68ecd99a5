//! Declared conversions of public projects' kinds against the conversions that those have in Go (`integration/expectations/conversions`).

use std::path::PathBuf;

use kindom_api::{Value, json};
use kindom_objects::Convert as _;
use kindom_objects::conversion_rules::{DeclaredConversion, KEPT_ANNOTATION};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../integration/expectations/conversions")
}

/// Takes away what Go's types show or leave out by their tags: zeros of any kind.
fn without_zeros(value: &mut Value) {
    let is_zero = |value: &Value| match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Int(n) => *n == 0,
        Value::String(text) => text.as_str().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Float(_) => false,
    };
    match value {
        Value::Object(map) => map.retain(|_, value: &mut Value| {
            without_zeros(value);
            !is_zero(value)
        }),
        Value::Array(items) => items.iter_mut().for_each(without_zeros),
        _ => {}
    }
}

/// B-20: what rules make of an object is what the project's own code makes of it, but that rules keep what the code loses.
#[test]
fn rules_convert_as_the_go_code_of_public_projects() {
    let mut pairs = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let Some(name) = path.to_str().and_then(|path| path.strip_suffix(".expected.json")) else { continue };
        let recorded = json::parse(&std::fs::read(&path).unwrap()).unwrap();
        let rules =
            DeclaredConversion::parse(&std::fs::read_to_string(format!("{name}.rules.json")).unwrap())
                .unwrap();
        let conversions = recorded.get("conversions").and_then(Value::as_array).unwrap();
        assert!(conversions.len() >= 16, "{name}");
        for conversion in conversions {
            let of = |field: &str| conversion.get(field).unwrap();
            let mut made = rules
                .convert(of("object"), of("from").as_str().unwrap(), of("to").as_str().unwrap())
                .unwrap();
            let mut wanted = of("converted").clone();
            let back =
                rules.convert(&made, of("to").as_str().unwrap(), of("from").as_str().unwrap()).unwrap();
            let mut before = of("object").clone();
            let mut back = back.clone();
            for object in [&mut made, &mut wanted, &mut before, &mut back] {
                let map = object.as_object_mut().unwrap();
                map.remove("apiVersion");
                if let Some(annotations) = map.get_mut("metadata").and_then(|of| of.get_mut("annotations")) {
                    annotations.as_object_mut().unwrap().remove(KEPT_ANNOTATION);
                }
                without_zeros(object);
            }
            assert_eq!(made, wanted, "{name}: {}", of("object"));
            assert_eq!(back, before, "{name}: {}", of("object"));
        }
        pairs += 1;
    }
    assert!(pairs >= 5, "{pairs}");
}
