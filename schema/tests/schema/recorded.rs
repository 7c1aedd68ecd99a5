//! The answers of a real API server that `integration/expectations` records, as far as they are the schema's.

use std::collections::BTreeSet;
use std::path::Path;

use kindom_api::crd::ColumnDefinition;
use kindom_api::{Value, json};
use kindom_schema::Schema;
use kindom_schema::columns::Columns;

struct Script {
    crd: Value,
    /// Step, object, recorded answer.
    writes: Vec<(String, Value, Value)>,
}

fn read(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../integration/expectations");
    json::parse(&std::fs::read(folder.join(name)).unwrap()).unwrap()
}

/// Sets the value at a JSON pointer, making the maps on the way.
fn set(target: &mut Value, pointer: &str, value: &Value) {
    let mut at = target;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        at = match at {
            Value::Array(items) => items.get_mut(step.parse::<usize>().unwrap()).unwrap(),
            other => {
                if !matches!(other, Value::Object(_)) {
                    *other = Value::Object(kindom_api::Map::new());
                }
                other.as_object_mut().unwrap().entry_or_insert_with(&step, || Value::Null)
            }
        };
    }
    *at = value.clone();
}

fn script(topic: &str) -> Script {
    let (script, expected) = (read(&format!("{topic}.script.json")), read(&format!("{topic}.expected.json")));
    let fixture = |name: &str| script.at(&["fixtures", name]).cloned();
    let steps = script.get("steps").and_then(Value::as_array).unwrap();
    let answers = expected.get("steps").and_then(Value::as_array).unwrap();
    let mut writes = Vec::new();
    for (step, answer) in steps.iter().zip(answers) {
        let text = |field: &str| step.get(field).and_then(Value::as_str).unwrap_or_default();
        // Steps that change a fixture in other ways than by `set` are not read here.
        let known = ["name", "method", "path", "query", "from", "set", "select", "accept"];
        let plain = step.as_object().unwrap().keys().all(|field| known.contains(&field));
        let dry = step.at(&["query", "fieldValidation"]).is_none();
        if text("method") != "POST" || text("path") != "${things}" || !plain || !dry {
            continue;
        }
        let mut object = fixture(text("from")).unwrap();
        for (pointer, value) in step.get("set").and_then(Value::as_object).into_iter().flat_map(|m| m.iter())
        {
            set(&mut object, pointer, value);
        }
        writes.push((text("name").to_owned(), object, answer.clone()));
    }
    Script { crd: fixture("crd").unwrap(), writes }
}

fn version(crd: &Value) -> Value {
    crd.at(&["spec", "versions"]).and_then(Value::as_array).unwrap()[0].clone()
}

/// Holds each write of a script against the schema; gives how many there were.
fn check_validation(topic: &str) -> usize {
    let script = script(topic);
    let schema = version(&script.crd).at(&["schema", "openAPIV3Schema"]).cloned();
    let schema = Schema::compile(schema.as_ref(), false).unwrap();
    for (name, object, answer) in &script.writes {
        let mut object = object.clone();
        schema.prune(&mut object, None);
        schema.default(&mut object).unwrap();
        let ours: BTreeSet<String> = schema
            .validate(&object)
            .iter()
            .map(|e| format!("{} {} {}", e.kind.reason(), e.field, e.body()))
            .collect();
        let selected = answer.get("select").unwrap();
        if let (None, Some(message)) =
            (selected.get("/details"), selected.get("/message").and_then(Value::as_str))
        {
            let errors = kindom_api::field::aggregate(&schema.validate(&object));
            // Text that looks like a uid is masked.
            let masked = message.contains("<uid-");
            assert!(
                masked || message.ends_with(&format!(" is invalid: {errors}")),
                "{topic}: {name}: {errors} not {message}"
            );
            continue;
        }
        let causes =
            selected.get("/details").and_then(|d| d.get("causes")).and_then(Value::as_array).unwrap_or(&[]);
        let text = |cause: &Value, field: &str| {
            cause.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let theirs: BTreeSet<String> = causes
            .iter()
            .map(|c| format!("{} {} {}", text(c, "reason"), text(c, "field"), text(c, "message")))
            .collect();
        assert_eq!(ours, theirs, "{topic}: {name}: {object}");
        if let Some(spec) = selected.get("/spec") {
            assert_eq!(object.get("spec").unwrap().to_string(), spec.to_string(), "{topic}: {name}");
        }
    }
    script.writes.len()
}

#[test]
fn errors_are_those_recorded() {
    let count = check_validation("schema-errors");
    assert!(count >= 40, "only {count} writes were read");
}

#[test]
fn formats_are_those_recorded() {
    let count = check_validation("schema-formats");
    assert!(count >= 20, "only {count} writes were read");
}

#[test]
fn cells_are_those_recorded() {
    let script = script("printer-columns");
    let defs = version(&script.crd).get("additionalPrinterColumns").cloned().unwrap();
    let defs: Vec<ColumnDefinition> = json::from_value(&defs).unwrap();
    let columns = Columns::compile(&defs);
    let mut count = 0;
    for (name, mut object, answer) in script.writes {
        let Some(theirs) = answer.at(&["select", "/rows/0/cells"]).and_then(Value::as_array) else {
            continue;
        };
        set(&mut object, "/metadata/creationTimestamp", &"2024-01-01T00:00:00Z".into());
        let ours = columns.cells(&object, 1_800_000_000);
        assert_eq!(ours.len(), theirs.len(), "{name}");
        for (ours, theirs) in ours.iter().zip(theirs) {
            // Values that depend on the clock are masked.
            if theirs.as_str() != Some("<age>") {
                assert_eq!(ours.to_string(), theirs.to_string(), "{name}");
            }
        }
        count += 1;
    }
    assert!(count >= 5, "only {count} rows were read");
}
