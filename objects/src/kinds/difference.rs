//! The difference of two objects, as a refusal to change one shows it.

use std::collections::BTreeSet;

use kindom_api::Value;

use crate::kinds::fields::same;

/// The most fields that a difference lists.
const DIFFERENCES_MAX: usize = 32;

/// The fields of two objects that differ, as they were and as they would be. Upstream shows lines of its own form of both.
pub(super) fn of(new: &Value, old: &Value) -> String {
    let mut found = Vec::new();
    compare(Some(new), Some(old), String::new(), &mut found);
    let line = |(path, was, is): &(String, Value, Value)| format!("- {path}: {was}\n+ {path}: {is}\n");
    found.iter().take(DIFFERENCES_MAX).map(line).collect()
}

fn compare(new: Option<&Value>, old: Option<&Value>, path: String, found: &mut Vec<(String, Value, Value)>) {
    if found.len() >= DIFFERENCES_MAX || same(new, old) {
        return;
    }
    match (new, old) {
        (Some(Value::Object(new)), Some(Value::Object(old))) => {
            let names: BTreeSet<&str> = new.iter().chain(old.iter()).map(|(name, _)| name).collect();
            for name in names {
                let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                compare(new.get(name), old.get(name), path, found);
            }
        }
        (Some(Value::Array(new)), Some(Value::Array(old))) if new.len() == old.len() => {
            for (index, (new, old)) in new.iter().zip(old.iter()).enumerate() {
                compare(Some(new), Some(old), format!("{path}[{index}]"), found);
            }
        }
        _ => found.push((path, old.cloned().unwrap_or_default(), new.cloned().unwrap_or_default())),
    }
}
