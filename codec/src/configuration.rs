//! Apply patches: YAML or JSON to the configuration that they hold.

use kindom_api::json::{self, Map, Value};

use crate::go_json::go_type;
use crate::strict::YAML_ERRORS;
use crate::{DecodeError, yaml};

/// The body of an apply patch, decoded.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// The body as a map, or the text of the 400. The caller answers it once the object to apply to is known.
    pub value: Result<Value, String>,
    /// `line 3: key "a" already set in map`, for each.
    pub duplicates: Vec<String>,
}

impl Configuration {
    /// All duplicates as the text of a 400 (`yaml.UnmarshalStrict`).
    pub fn strict_text(&self) -> String {
        let lines = self.duplicates.join("\n  ");
        format!("error strict decoding patch: error converting YAML to JSON: {YAML_ERRORS}{lines}")
    }
}

/// Decodes an apply patch: YAML, of which the first document counts. JSON is YAML too, and read as such
/// (`validateAndTranscodePatch` and `applyPatchToCurrentObject` in apiserver `handlers/patch.go`).
///
/// # Errors
/// [`DecodeError`] for a body that is no YAML. A body that begins like JSON fails later.
pub fn configuration(bytes: &[u8]) -> Result<Configuration, DecodeError> {
    const NOT_A_MAP: &str =
        "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal";
    if let Some(value) = plain_json(bytes) {
        return Ok(Configuration { value: Ok(value), duplicates: Vec::new() });
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned());
    let document = match text.and_then(yaml::parse) {
        Ok(document) => document,
        Err(why) if bytes.trim_ascii_start().starts_with(b"{") => {
            let why = format!("error decoding patch: error converting YAML to JSON: {why}");
            return Ok(Configuration { value: Err(why), duplicates: Vec::new() });
        }
        Err(why) => return Err(DecodeError(format!("error encoding patch: {why}"))),
    };
    let value = match document.value {
        Value::Object(_) => Ok(document.value),
        Value::Null => Ok(Value::Object(Map::new())),
        other => {
            Err(format!("{NOT_A_MAP} {} into Go value of type map[string]interface {{}}", go_type(&other)))
        }
    };
    Ok(Configuration { value, duplicates: document.duplicates })
}

/// A map that is JSON and would be the same as YAML, which takes far longer to read: what clients send.
fn plain_json(bytes: &[u8]) -> Option<Value> {
    fn has_float(value: &Value) -> bool {
        match value {
            Value::Float(_) => true,
            Value::Array(items) => items.iter().any(has_float),
            Value::Object(map) => map.values().any(has_float),
            _ => false,
        }
    }
    let is_plain = |byte: &u8| matches!(byte, b'\n' | b' '..=b'~');
    let special = |pair: &[u8]| matches!(pair, b"<<" | b"\\u");
    if !bytes.iter().all(is_plain) || bytes.windows(2).any(special) {
        return None;
    }
    let (value, has_duplicates) = json::parse_telling(bytes).ok()?;
    let same = value.as_object().is_some() && !has_duplicates && !has_float(&value);
    same.then_some(value)
}
