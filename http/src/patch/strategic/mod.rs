//! Strategic merge patch (apimachinery `pkg/util/strategicpatch/patch.go`, 1.37), for types whose Go structs are known:
//! lists may merge instead of being replaced, and keys that begin with `$` say how.
//!
//! | directive | in | does |
//! |---|---|---|
//! | `$patch: replace` | a map, an item of a keyed list | what stands beside it takes the place of all |
//! | `$patch: delete` | a map, an item of a keyed list | empties the map; removes the items of that key |
//! | `$deleteFromPrimitiveList/f: [a]` | a map | removes items from the list `f` |
//! | `$setElementOrder/f: [a, b]` | a map | the order of the list `f` |
//! | `$retainKeys: [a, b]` | a map | removes all other keys |
//!
//! Upstream goes through the keys of a map in random order. Here it is their sorted order, so that where a list is both
//! deleted from and merged, the deletion comes first.

mod merge;
mod order;
#[cfg(test)]
mod tests;

use kindom_api::decode::Struct;
use kindom_api::field;
use kindom_api::json::{Map, Value};
use kindom_formats::go;

use super::parse;
use crate::RequestError;
use kindom_codec::go_json::go_type;
use kindom_codec::{FieldValidation, duplicate_fields, strict_text, unknown_field};

use merge::Error;

/// A decoded strategic merge patch.
#[derive(Debug, Clone, PartialEq)]
pub struct StrategicPatch {
    patch: Map,
    duplicates: Vec<String>,
}

impl StrategicPatch {
    /// About as many bytes as it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.patch.iter().map(|(key, value)| size_of::<Value>() + key.len() + field::bytes(value)).sum()
    }

    /// Decodes a patch.
    ///
    /// # Errors
    /// [`RequestError::BadRequest`] for a body that is no JSON map; a `null` changes nothing.
    pub fn decode(bytes: &[u8], validation: FieldValidation) -> Result<Self, RequestError> {
        let (value, has_duplicates) = parse(bytes, false)?;
        let patch = match value {
            Value::Object(map) => map,
            Value::Null => Map::new(),
            other => {
                let found = go_type(&other);
                return Err(RequestError::BadRequest(format!(
                    "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
                )));
            }
        };
        let strict = validation != FieldValidation::Ignore;
        let duplicates = if strict && has_duplicates { duplicate_fields(bytes) } else { Vec::new() };
        Ok(Self { patch, duplicates })
    }

    /// Applies it to an object of a Go type. The result decodes as one; its kind may be another one, which upstream's
    /// conversion ignores. The second part are warnings for the client.
    ///
    /// # Errors
    /// [`RequestError::BadRequest`], [`RequestError::PatchDoesNotApply`] and [`RequestError::Internal`] for errors of the
    /// patch, as upstream distinguishes them; [`RequestError::Invalid`] if the result is no object of the type, or under
    /// [`FieldValidation::Strict`] has fields that are unknown or stand twice in the patch.
    pub fn apply(
        &self,
        object: Value,
        of: &'static Struct,
        validation: FieldValidation,
    ) -> Result<(Value, Vec<String>), RequestError> {
        let mut patch = self.patch.clone();
        let Value::Object(object) = object else {
            return Err(RequestError::Internal("what is stored is no object".to_owned()));
        };
        let merged = merge::apply(object, &mut patch, of).map_err(|error| match error {
            Error::Malformed(why) => RequestError::BadRequest(why),
            Error::Unprocessable(why) => RequestError::PatchDoesNotApply(why),
            Error::Other(why) => RequestError::Internal(why),
        })?;
        let invalid = |patch: &Map, why: String| RequestError::invalid_patch(go::map(patch), why);
        let converted =
            of.convert(&Value::Object(merged)).map_err(|error| invalid(&patch, error.to_string()))?;
        if validation == FieldValidation::Ignore {
            return Ok((converted.value, Vec::new()));
        }
        let mut strict = self.duplicates.clone();
        strict.extend(converted.unknown_fields.iter().map(|path| unknown_field(path)));
        if validation == FieldValidation::Strict && !strict.is_empty() {
            return Err(invalid(&patch, strict_text(&strict)));
        }
        Ok((converted.value, strict))
    }
}
