//! Embedded metadata is brought into `ObjectMeta`'s form (`schema/objectmeta/algorithm.go`).

use kindom_api::field::{Error, Path};
use kindom_api::meta::{OBJECT_META, decode_metadata, drop_malformed};
use kindom_api::{Map, Value};

use crate::node::Node;

/// Coerces the embedded resources below a value; `unknown` gets the fields of their metadata that are no metadata's.
pub(crate) fn coerce(
    value: &mut Value,
    node: &Node,
    at: &Path<'_>,
    unknown: &mut Option<&mut Vec<String>>,
) -> Result<(), Error> {
    below(value, node, at, &mut Treatment { unknown, drops: false })
}

/// As [`coerce`], for a stored object: values of a wrong type are dropped (`DropInvalidFields` there). Metadata that is no
/// map stays as it is. With `is_root` the object itself is taken for an embedded resource.
pub(crate) fn repair(value: &mut Value, node: &Node, is_root: bool) {
    let mut treatment = Treatment { unknown: &mut None, drops: true };
    if let Value::Object(map) = value
        && is_root
        && !node.embedded
    {
        // Dropped values are no errors.
        let _ = resource(map, &Path::root(), &mut treatment);
    }
    let _ = below(value, node, &Path::root(), &mut treatment);
}

/// Coerces the metadata of one embedded resource that is known to be well formed.
pub(crate) fn coerce_resource(resource_fields: &mut Map) {
    // Malformed metadata has been refused before.
    let _ = resource(resource_fields, &Path::root(), &mut Treatment { unknown: &mut None, drops: false });
}

/// The treatment of unknown fields and wrong types.
struct Treatment<'t, 'u> {
    /// Gets the unknown fields of metadata.
    unknown: &'t mut Option<&'u mut Vec<String>>,
    /// `true` if values of a wrong type are dropped without an error.
    drops: bool,
}

fn below(
    value: &mut Value,
    node: &Node,
    at: &Path<'_>,
    treatment: &mut Treatment<'_, '_>,
) -> Result<(), Error> {
    if !node.below.embedded {
        return Ok(());
    }
    match value {
        Value::Object(map) => {
            if node.embedded {
                resource(map, at, treatment)?;
            }
            let (mut cursor, additional) = (node.cursor(), node.additional().schema());
            let deep = |value: &Value| matches!(value, Value::Object(_) | Value::Array(_));
            for (key, value) in map.iter_mut().filter(|(_, value)| deep(value)) {
                if let Some(child) = cursor.property(key) {
                    below(value, child, &at.child(key), treatment)?;
                } else if let Some(child) = additional {
                    below(value, child, &at.key(key), treatment)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(of_items) = node.items.as_deref() {
                for (i, item) in items.iter_mut().enumerate() {
                    below(item, of_items, &at.index(i), treatment)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn resource(map: &mut Map, at: &Path<'_>, treatment: &mut Treatment<'_, '_>) -> Result<(), Error> {
    for field in ["apiVersion", "kind"] {
        if treatment.drops && map.get(field).is_some_and(|value| value.as_str().is_none()) {
            map.remove(field);
        }
        if let Some(value) = map.get(field).filter(|value| value.as_str().is_none()) {
            return Err(Error::invalid(&at.child(field), value.clone(), "must be a string"));
        }
    }
    if let Some(metadata) = map.get_mut("metadata") {
        // Mostly nothing is to be done.
        if metadata.as_object().is_some_and(|metadata| OBJECT_META.keeps(metadata)) {
            return Ok(());
        }
        let at = at.child("metadata");
        // The path is printed only for those who ask which fields are unknown.
        let prefix = if treatment.unknown.is_some() { at.to_string() } else { String::new() };
        match decode_metadata(metadata, &prefix) {
            Ok(decoded) => {
                *metadata = decoded.value;
                if let Some(unknown) = treatment.unknown {
                    unknown.extend(decoded.unknown_fields);
                }
            }
            Err(_) if treatment.drops => drop_malformed(metadata),
            Err(error) => return Err(Error::invalid(&at, metadata.clone(), error.to_string())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kindom_api::json::parse;

    use crate::Schema;

    const SCHEMA: &str = r#"{"type":"object","properties":{"list":{"type":"array","items":{
        "type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}}"#;

    fn check(object: &str, want: Result<(&str, &[&str]), &str>) {
        let schema = Schema::compile(Some(&parse(SCHEMA.as_bytes()).unwrap()), false).unwrap();
        let mut object = parse(object.as_bytes()).unwrap();
        let mut unknown = Vec::new();
        let got = schema.coerce(&mut object, Some(&mut unknown)).map_err(|e| e.to_string());
        match want {
            Ok((object_after, paths)) => {
                assert_eq!(got, Ok(()));
                assert_eq!(
                    (object.to_string().as_str(), unknown),
                    (object_after, paths.iter().map(|p| (*p).to_owned()).collect())
                );
            }
            Err(text) => assert_eq!(got, Err(text.to_owned())),
        }
    }

    #[test]
    fn metadata_below_gets_its_form() {
        check(
            r#"{"metadata":{"x":1},"list":[{"kind":"K","metadata":{"name":"a","x":1,"creationTimestamp":null},"x":1}]}"#,
            Ok((
                r#"{"list":[{"kind":"K","metadata":{"name":"a"},"x":1}],"metadata":{"x":1}}"#,
                &["list[0].metadata.x"],
            )),
        );
        check(r#"{"list":[{"kind":5}]}"#, Err("list[0].kind: Invalid value: 5: must be a string"));
        check(
            r#"{"list":[{"metadata":{"labels":{"a":1}}}]}"#,
            Err(concat!(
                r#"list[0].metadata: Invalid value: {"labels":{"a":1}}: "#,
                "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
            )),
        );
    }
}
