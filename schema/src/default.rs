//! Defaulting (`schema/defaulting/{algorithm,prunenulls}.go`).

use kindom_api::{Map, Value};

use crate::node::{Fields, Node};

/// Whether there is a null anywhere. Most objects have none, and asking is far cheaper than looking fields up.
pub(crate) fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().any(has_null),
        Value::Array(items) => items.iter().any(has_null),
        _ => false,
    }
}

/// Drops null fields whose schema neither allows null nor has a default. A null that has a default is left for
/// [`fill`]; a null item of a list stays.
pub(crate) fn drop_nulls(value: &mut Value, node: &Node) {
    match value {
        Value::Object(map) => {
            let mut cursor = node.cursor();
            map.retain(|key, value| match cursor.field(key) {
                Some(child) if value.is_null() => child.nullable || child.default.is_some(),
                Some(child) => {
                    drop_nulls(value, child);
                    true
                }
                None => true,
            });
        }
        Value::Array(items) => {
            if let Some(of_items) = node.items.as_deref() {
                items.iter_mut().for_each(|item| drop_nulls(item, of_items));
            }
        }
        _ => {}
    }
}

/// Fills defaults of absent fields, and of nulls where the schema allows none. Only objects that are there are filled:
/// a default never creates its parent.
pub(crate) fn fill(value: &mut Value, node: &Node) {
    if !node.below.defaults {
        return;
    }
    match value {
        Value::Object(map) => {
            let (mut cursor, additional) = (node.cursor(), node.additional().schema());
            let defaults = node.fields.as_deref().map_or(0, Fields::defaults);
            let mut present = 0;
            for (key, value) in map.iter_mut() {
                if defaults == 0 && !matches!(value, Value::Object(_) | Value::Array(_) | Value::Null) {
                    continue;
                }
                if let Some(child) = cursor.property(key) {
                    present += usize::from(child.default.is_some());
                    replace_null(value, child);
                    fill(value, child);
                } else if let Some(child) = additional {
                    replace_null(value, child);
                    fill(value, child);
                }
            }
            if present < defaults {
                insert_absent(map, node, defaults - present);
            }
        }
        Value::Array(items) => {
            if let Some(of_items) = node.items.as_deref() {
                for item in items {
                    replace_null(item, of_items);
                    fill(item, of_items);
                }
            }
        }
        _ => {}
    }
}

/// Inserts the defaults of absent fields, themselves filled.
fn insert_absent(map: &mut Map, node: &Node, count: usize) {
    map.reserve(count);
    for (name, child) in node.properties() {
        let Some(default) = child.default.as_deref() else { continue };
        map.entry_or_insert_with(name, || {
            let mut default = default.clone();
            fill(&mut default, child);
            default
        });
    }
}

fn replace_null(value: &mut Value, node: &Node) {
    if value.is_null()
        && !node.nullable
        && let Some(default) = node.default.as_deref()
    {
        *value = default.clone();
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::json::parse;

    use crate::Schema;

    fn check(schema: &str, object: &str, want: &str) {
        let schema = Schema::compile(Some(&parse(schema.as_bytes()).unwrap()), false).unwrap();
        let mut object = parse(object.as_bytes()).unwrap();
        schema.default(&mut object);
        assert_eq!(object.to_string(), want);
        schema.default(&mut object);
        assert_eq!(object.to_string(), want, "a second time");
    }

    const SCHEMA: &str = r#"{"properties":{
        "a":{"type":"object","properties":{"n":{"type":"integer","default":1}}},
        "b":{"type":"object","default":{},"properties":{"s":{"type":"string","default":"x"}}},
        "list":{"type":"array","items":{"type":"object","properties":{"t":{"type":"boolean","default":true}}}},
        "nums":{"type":"array","items":{"type":"integer","default":7}},
        "map":{"type":"object","additionalProperties":{"type":"string","default":"d"}},
        "maybe":{"type":"string","nullable":true,"default":"m"},
        "plain":{"type":"string"}}}"#;

    #[test]
    fn absent_fields_are_filled_in_objects_that_are_there() {
        check(SCHEMA, "{}", r#"{"b":{"s":"x"},"maybe":"m"}"#);
        check(SCHEMA, r#"{"a":{},"b":{"s":"y"},"maybe":"z"}"#, r#"{"a":{"n":1},"b":{"s":"y"},"maybe":"z"}"#);
        check(
            SCHEMA,
            r#"{"list":[{},{"t":false}],"b":{},"maybe":""}"#,
            r#"{"b":{"s":"x"},"list":[{"t":true},{"t":false}],"maybe":""}"#,
        );
    }

    #[test]
    fn nulls_go_are_replaced_or_stay() {
        check(SCHEMA, r#"{"plain":null,"b":null,"maybe":null}"#, r#"{"b":{"s":"x"},"maybe":null}"#);
        check(
            SCHEMA,
            r#"{"nums":[1,null],"map":{"k":null},"a":{"n":null},"b":{"s":""},"maybe":""}"#,
            r#"{"a":{"n":1},"b":{"s":""},"map":{"k":"d"},"maybe":"","nums":[1,7]}"#,
        );
        check(
            r#"{"properties":{"l":{"items":{"type":"string"}}}}"#,
            r#"{"l":[null],"u":null}"#,
            r#"{"l":[null],"u":null}"#,
        );
    }
}
