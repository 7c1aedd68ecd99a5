//! The fields of a schema, one after another.

use kindom_api::{Map, Value};
use serde_json::json;

/// The fields below the root of a structural schema, but for those that every object has. A field of an item stands behind
/// `[]`, one of a map's value behind `.*`.
pub(super) fn fields(schema: &Value) -> Vec<serde_json::Value> {
    let mut out = Vec::new();
    children(schema, "", 0, &mut out);
    out
}

fn children(schema: &Value, path: &str, depth: usize, out: &mut Vec<serde_json::Value>) {
    let Some(fields) = schema.get("properties").and_then(Value::as_object) else { return };
    let required = schema.get("required").and_then(Value::as_array).unwrap_or_default();
    for (name, field) in fields.iter() {
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        if depth == 0 && ["apiVersion", "kind", "metadata"].contains(&name) {
            continue;
        }
        let (mut below, mut innermost) = (path.clone(), field);
        let (mut limits, mut rules) = (limits(field), rules(field, &path));
        while let Some((suffix, values)) = inner(innermost) {
            below.push_str(suffix);
            innermost = values;
            limits.extend(self::limits(values).into_iter().map(|limit| format!("each value: {limit}")));
            rules.extend(self::rules(values, &below));
        }
        out.push(json!({
            "path": path,
            "name": name,
            "depth": depth,
            "type": type_of(field),
            "required": required.iter().any(|required| required.as_str() == Some(name)),
            "default": field.get("default").map(Value::to_string),
            "description": field.text_at(&["description"]),
            "limits": limits,
            "rules": rules,
        }));
        children(innermost, &below, depth.saturating_add(1), out);
    }
}

/// The values in a list or map, and how a path names them.
fn inner(schema: &Value) -> Option<(&'static str, &Value)> {
    let lists = schema.get("items").map(|items| ("[]", items));
    lists.or_else(|| {
        schema.get("additionalProperties").filter(|of| of.as_object().is_some()).map(|of| (".*", of))
    })
}

/// As `kubectl explain` names types.
fn type_of(schema: &Value) -> String {
    let is = |keyword: &str| schema.get(keyword).and_then(Value::as_bool) == Some(true);
    match (inner(schema), schema.text_at(&["type"])) {
        _ if is("x-kubernetes-int-or-string") => "integer or string".to_owned(),
        (Some(("[]", items)), _) => format!("[]{}", type_of(items)),
        (Some((_, values)), _) => format!("map[string]{}", type_of(values)),
        (None, "") => "any".to_owned(),
        (None, known) => known.to_owned(),
    }
}

/// The limits of a value, beside its type.
fn limits(schema: &Value) -> Vec<String> {
    let empty = Map::new();
    let schema = schema.as_object().unwrap_or(&empty);
    let is = |keyword: &str| schema.get(keyword).and_then(Value::as_bool) == Some(true);
    let mut out = Vec::new();
    for (keyword, words) in [
        ("format", "format"),
        ("pattern", "matches"),
        ("minimum", if is("exclusiveMinimum") { "more than" } else { "at least" }),
        ("maximum", if is("exclusiveMaximum") { "less than" } else { "at most" }),
        ("multipleOf", "a multiple of"),
        ("minLength", "characters, at least"),
        ("maxLength", "characters, at most"),
        ("minItems", "items, at least"),
        ("maxItems", "items, at most"),
        ("minProperties", "entries, at least"),
        ("maxProperties", "entries, at most"),
    ] {
        match schema.get(keyword) {
            Some(Value::String(text)) => out.push(format!("{words} {text}")),
            Some(value) => out.push(format!("{words} {value}")),
            None => {}
        }
    }
    out.extend(choices(schema));
    out
}

/// The limits that are no numbers.
fn choices(schema: &Map) -> Vec<String> {
    let is = |keyword: &str| schema.get(keyword).and_then(Value::as_bool) == Some(true);
    let mut out = Vec::new();
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        out.push(format!("one of {}", values.join(", ")));
    }
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).unwrap_or_default();
    let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => out.push("no two items are the same".to_owned()),
        Some("map") => out.push(format!("no two items have the same {}", keys.join(", "))),
        _ => {}
    }
    for (keyword, words) in [
        ("nullable", "may be null"),
        ("x-kubernetes-preserve-unknown-fields", "any other fields"),
        ("x-kubernetes-embedded-resource", "an object with apiVersion and kind"),
    ] {
        if is(keyword) {
            out.push(words.to_owned());
        }
    }
    out
}

/// The rules in CEL of the value at a path, which they call `self`.
pub(super) fn rules(schema: &Value, path: &str) -> Vec<serde_json::Value> {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array).unwrap_or_default();
    let rule = |rule: &Value| json!({ "self": path, "rule": rule.text_at(&["rule"]), "message": rule.text_at(&["message"]) });
    rules.iter().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_row() {
        let schema = kindom_api::json::parse(
            br#"{"type":"object","properties":{"apiVersion":{"type":"string"},"metadata":{"type":"object"},
                "spec":{"type":"object","required":["size"],"properties":{
                    "size":{"type":"integer","minimum":1,"default":2,"enum":[1,2],"description":"How large."},
                    "parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],
                        "items":{"type":"object","minProperties":1,"properties":{"name":{"type":"string"}},
                            "x-kubernetes-validations":[{"rule":"self.name != 'x'"}]}},
                    "by":{"type":"object","additionalProperties":{"type":"array","items":{"type":"object",
                        "properties":{"port":{"x-kubernetes-int-or-string":true}}}}}},
                    "x-kubernetes-validations":[{"rule":"self.size > 0","message":"too small"}]}}}"#,
        )
        .unwrap();
        let rows = fields(&schema);
        let shown: Vec<String> = rows
            .iter()
            .map(|row| {
                format!(
                    "{} {} {}",
                    row["path"].as_str().unwrap(),
                    row["type"].as_str().unwrap(),
                    row["depth"]
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "spec object 0",
                "spec.by map[string][]object 1",
                "spec.by.*[].port integer or string 2",
                "spec.parts []object 1",
                "spec.parts[].name string 2",
                "spec.size integer 1",
            ]
        );
        let size = rows.last().unwrap();
        assert_eq!((&size["required"], &size["default"]), (&json!(true), &json!("2")));
        assert_eq!(size["limits"], json!(["at least 1", "one of 1, 2"]));
        assert_eq!(
            rows[0]["rules"],
            json!([{ "self": "spec", "rule": "self.size > 0", "message": "too small" }])
        );
        assert_eq!(
            rows[3]["limits"],
            json!(["no two items have the same name", "each value: entries, at least 1"])
        );
        assert_eq!(
            rows[3]["rules"],
            json!([{ "self": "spec.parts[]", "rule": "self.name != 'x'", "message": "" }])
        );
    }
}
