//! Upstream's verdicts on expressions in schemas: `integration/expectations/cel`.

use std::path::Path;

use kindom_api::{Value, json};
use kindom_cel::cost::{Bounds, estimate};
use kindom_cel::types::Type;

use super::declare::Declared;

/// All recorded cases of a kind, by the file's and their own name.
pub(crate) fn cases(kind: &str) -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../integration/expectations/cel");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.to_string_lossy().ends_with(".recorded.json")) {
        let recorded = json::parse(&std::fs::read(file).unwrap()).unwrap();
        let theme = file.file_name().unwrap().to_string_lossy().replace(".recorded.json", "");
        for case in recorded.get("cases").and_then(Value::as_array).unwrap() {
            if case.get("kind").and_then(Value::as_str) == Some(kind) {
                let name = case.get("name").and_then(Value::as_str).unwrap();
                found.push((format!("{theme}: {name}"), expand(case)));
            }
        }
    }
    found
}

/// With lists and texts that are written as `{"$repeat": …}` written out.
fn expand(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(expand).collect()),
        Value::Object(map) => match map.get("$repeat") {
            Some(repeat) => repeated(repeat),
            None => Value::Object(map.iter().map(|(key, value)| (key, expand(value))).collect()),
        },
        other => other.clone(),
    }
}

fn repeated(repeat: &Value) -> Value {
    let count = repeat.get("count").and_then(Value::as_i64).unwrap();
    if let Some(text) = repeat.get("text").and_then(Value::as_str) {
        return text.repeat(usize::try_from(count).unwrap()).into();
    }
    let item = repeat.get("item").unwrap();
    Value::Array((0..count).map(|i| with_index(&expand(item), i)).collect())
}

fn with_index(value: &Value, i: i64) -> Value {
    match value {
        Value::String(text) => text.replace("$i", &i.to_string()).into(),
        Value::Array(items) => Value::Array(items.iter().map(|item| with_index(item, i)).collect()),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key, with_index(value, i))).collect())
        }
        other => other.clone(),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
/// A member of an estimate, as near as a float is where it is more than an int can hold.
pub(crate) fn bound(estimate: &Value, member: &str) -> u64 {
    match estimate.get(member) {
        Some(Value::Int(n)) => u64::try_from(*n).unwrap(),
        Some(Value::Float(x)) => *x as u64,
        other => panic!("{other:?}"),
    }
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as it is read"
)]
/// A number as such a member is read.
pub(crate) fn as_read(n: u64) -> u64 {
    if i64::try_from(n).is_ok() { n } else { n as f64 as u64 }
}

struct Nothing;

impl Bounds for Nothing {
    fn max_elements(&self, _: &[&str]) -> Option<u64> {
        None
    }
}

/// `matches` as a function is the one that upstream counts higher now: see `kindom_cel::cost`.
fn counts_matches(source: &str) -> bool {
    source.match_indices("matches(").any(|(at, _)| !source[..at].trim_end().ends_with('.'))
}

#[test]
fn estimates_are_upstreams() {
    let (mut compared, mut wrong) = (0, Vec::new());
    for (name, case) in cases("expression") {
        let Some(want) = case.at(&["want", "estimate"]) else { continue };
        let source = case.get("expr").and_then(Value::as_str).unwrap();
        let is_root = case.get("root").and_then(Value::as_bool) == Some(true);
        let declared = case.get("schema").and_then(|schema| Declared::new(schema, is_root));
        let mut variables = Vec::new();
        if let Some(declared) = &declared {
            let ty = declared.decl.to_type();
            let optional = case.get("optionalOldSelf").and_then(Value::as_bool) == Some(true);
            let old = if optional { Type::optional(ty.clone()) } else { ty.clone() };
            variables = vec![("self", ty), ("oldSelf", old)];
        }
        let Ok(checked) = kindom_cel::check::compile(source, &variables) else {
            continue;
        };
        let got = match &declared {
            Some(declared) => estimate(&checked, &declared.decl),
            None => estimate(&checked, &Nothing),
        };
        compared += 1;
        let want = (bound(want, "min"), bound(want, "max"));
        let got = (as_read(got.min), as_read(got.max));
        if got != want && !counts_matches(source) {
            wrong.push(format!("{name}\n  {source}\n  {got:?}, not {want:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 4_000, "{compared}");
}
