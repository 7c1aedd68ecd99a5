//! Defaulting (`schema/defaulting/{algorithm,prunenulls}.go`).

use kindom_api::field::bytes;
use kindom_api::{Map, Value};

use crate::node::{Fields, Node};

/// The most bytes of memory that defaults may add to an object. Each item of a list gets defaults of its own: 100,000 empty
/// ones in a request of 300 kB, and a default of 1 MB, would be 100 GB. The bound is several times the largest object that
/// may be stored.
const FILLED_BYTES_MAX: usize = 32 << 20;

/// The defaults of a schema would make an object too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the defaults of its schema would add more than {FILLED_BYTES_MAX} bytes to the object")]
pub struct TooManyDefaults;

/// `true` if there is a null anywhere. Most objects have none, and asking is far cheaper than looking fields up.
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
///
/// # Errors
/// [`TooManyDefaults`]; some are filled in then.
pub(crate) fn fill(value: &mut Value, node: &Node) -> Result<(), TooManyDefaults> {
    Filler { room: FILLED_BYTES_MAX }.fill(value, node)
}

struct Filler {
    /// The bytes that may still be added.
    room: usize,
}

impl Filler {
    fn fill(&mut self, value: &mut Value, node: &Node) -> Result<(), TooManyDefaults> {
        if !node.below.defaults {
            return Ok(());
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
                        self.replace_null(value, child)?;
                        self.fill(value, child)?;
                    } else if let Some(child) = additional {
                        self.replace_null(value, child)?;
                        self.fill(value, child)?;
                    }
                }
                if present < defaults {
                    self.insert_absent(map, node, defaults - present)?;
                }
            }
            Value::Array(items) => {
                if let Some(of_items) = node.items.as_deref() {
                    for item in items {
                        self.replace_null(item, of_items)?;
                        self.fill(item, of_items)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Inserts the defaults of absent fields, themselves filled.
    fn insert_absent(&mut self, map: &mut Map, node: &Node, count: usize) -> Result<(), TooManyDefaults> {
        map.reserve(count);
        let mut outcome = Ok(());
        for (name, default, child) in node.fields.iter().flat_map(|fields| fields.defaulted()) {
            map.entry_or_insert_with(name, || {
                self.filled(default, child).unwrap_or_else(|error| {
                    outcome = Err(error);
                    Value::Null
                })
            });
            outcome?;
        }
        Ok(())
    }

    fn filled(&mut self, default: &Value, node: &Node) -> Result<Value, TooManyDefaults> {
        let mut default = self.copy(default)?;
        self.fill(&mut default, node)?;
        Ok(default)
    }

    fn replace_null(&mut self, value: &mut Value, node: &Node) -> Result<(), TooManyDefaults> {
        if value.is_null()
            && !node.nullable
            && let Some(default) = node.default.as_deref()
        {
            *value = self.copy(default)?;
        }
        Ok(())
    }

    fn copy(&mut self, default: &Value) -> Result<Value, TooManyDefaults> {
        self.room = self.room.checked_sub(bytes(default)).ok_or(TooManyDefaults)?;
        Ok(default.clone())
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::json::parse;

    use crate::Schema;

    fn check(schema: &str, object: &str, want: &str) {
        let schema = Schema::compile(Some(&parse(schema.as_bytes()).unwrap()), false).unwrap();
        let mut object = parse(object.as_bytes()).unwrap();
        schema.default(&mut object).unwrap();
        assert_eq!(object.to_string(), want);
        schema.default(&mut object).unwrap();
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
