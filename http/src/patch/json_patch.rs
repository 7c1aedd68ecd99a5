//! The parts of a JSON patch that strict decoding complains of; `kindom_codec::json_patch` applies it.

use kindom_api::json::{self, Value};
use kindom_codec::STRICT_ERRORS_MAX;
use kindom_codec::go_json::go_type;

use super::decoding;
use crate::RequestError;

const FIELDS: [&str; 4] = ["op", "path", "from", "value"];

/// The operations' fields that stand twice, then those that are unknown.
///
/// # Errors
/// [`RequestError::BadRequest`] for a field of the wrong type, which strict decoding notices.
pub(super) fn strict_errors(patch: &Value, bytes: &[u8]) -> Result<Vec<String>, RequestError> {
    let items = match patch {
        Value::Array(items) => items.as_slice(),
        Value::Null => &[],
        other => {
            let found = go_type(other);
            let kind = "[]handlers.jsonPatchOp";
            return Err(decoding(format!("json: cannot unmarshal {found} into Go value of type {kind}")));
        }
    };
    // Duplicates deep inside a value are not noticed: upstream's field for it takes anything.
    let duplicates = json::duplicate_fields(bytes).unwrap_or_default();
    let own = duplicates.iter().filter(|path| path.matches(['.', '[']).count() == 2);
    let mut errors: Vec<String> = own.map(|path| format!("json patch duplicate field \"{path}\"")).collect();
    for (i, item) in items.iter().enumerate() {
        let Some(fields) = item.as_object() else {
            if item.is_null() {
                continue;
            }
            let found = go_type(item);
            let kind = "handlers.jsonPatchOp";
            return Err(decoding(format!("json: cannot unmarshal {found} into Go value of type {kind}")));
        };
        for (field, value) in fields.iter() {
            if !FIELDS.contains(&field) {
                errors.push(format!("json patch unknown field \"[{i}].{field}\""));
            } else if field != "value" && !matches!(value, Value::String(_) | Value::Null) {
                let found = go_type(value);
                return Err(decoding(format!(
                    "json: cannot unmarshal {found} into Go struct field jsonPatchOp.{field} of type string"
                )));
            }
        }
    }
    errors.truncate(STRICT_ERRORS_MAX);
    Ok(errors)
}
