//! What a schema says that objects are not held to.

use kindom_api::Value;

/// How many paths a sentence names.
const PATHS_MAX: usize = 3;

/// Whether there is an `x-kubernetes-validations` on the structural spine or below `allOf`.
pub(crate) fn has_rules(schema: &Value) -> bool {
    let mut found = false;
    visit(schema, &mut String::new(), &mut |node, _| {
        found |= has_own_rules(node);
    });
    found
}

/// Sentences on what is not enforced.
pub(crate) fn not_enforced(schema: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    let mut count = 0_usize;
    visit(schema, &mut String::new(), &mut |node, path| {
        if has_own_rules(node) {
            count += 1;
            if paths.len() < PATHS_MAX {
                paths.push(if path.is_empty() { "the root".to_owned() } else { path.to_owned() });
            }
        }
    });
    if count == 0 {
        return Vec::new();
    }
    let more = match count - paths.len() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    vec![format!("x-kubernetes-validations is not enforced yet (at {}{more})", paths.join(", "))]
}

fn has_own_rules(node: &Value) -> bool {
    node.get("x-kubernetes-validations").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty())
}

/// Calls `see` on each subschema with the path of what it describes: `spec.items[*].name`. The depth is that of the
/// document, which its parser bounds.
fn visit(node: &Value, path: &mut String, see: &mut dyn FnMut(&Value, &str)) {
    see(node, path);
    let Some(map) = node.as_object() else { return };
    let mut step = |child: &Value, text: &str, path: &mut String| {
        let mark = path.len();
        path.push_str(text);
        visit(child, path, see);
        path.truncate(mark);
    };
    for (keyword, value) in map.iter() {
        match (keyword, value) {
            ("properties", Value::Object(properties)) => {
                for (name, child) in properties.iter() {
                    let text = if path.is_empty() { name.to_owned() } else { format!(".{name}") };
                    step(child, &text, path);
                }
            }
            ("items", child @ Value::Object(_)) => step(child, "[*]", path),
            ("additionalProperties", child @ Value::Object(_)) => step(child, ".*", path),
            ("allOf", Value::Array(branches)) => {
                branches.iter().for_each(|child| step(child, "", path));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::json::parse;

    use super::{has_rules, not_enforced};

    #[test]
    fn rules_are_named_with_their_paths() {
        let rule = r#""x-kubernetes-validations":[{"rule":"true"}]"#;
        let schema = format!(
            r#"{{{rule},"properties":{{"a":{{"items":{{{rule}}}}},"b":{{"additionalProperties":{{{rule}}}}},
                "c":{{"allOf":[{{{rule}}}]}},"d":{{}}}}}}"#
        );
        let schema = parse(schema.as_bytes()).unwrap();
        assert!(has_rules(&schema));
        assert_eq!(
            not_enforced(&schema),
            ["x-kubernetes-validations is not enforced yet (at the root, a[*], b.* and 1 more)"]
        );
        let without = parse(br#"{"properties":{"x":{"anyOf":[{"type":"string"}]}}}"#).unwrap();
        assert!(!has_rules(&without) && not_enforced(&without).is_empty());
    }
}
