//! An event as its two faces show it.

use kindom_api::field::ErrorList;
use kindom_api::{Map, Value, json, object};
use kindom_schema::merge::MergeType;

use super::CORE;
use crate::declared::Declared;
use crate::{ConvertError, Faces, Subresource};

/// The fields that the faces name differently: as the stored one does, and as the later one does.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// One of the two faces.
pub(super) struct EventFaces {
    pub(super) declared: &'static Declared,
}

fn is_core(of: &Declared) -> bool {
    std::ptr::eq(of, &raw const CORE)
}

/// An object of either face as another shows it.
fn shown_as(object: Value, to: &Declared) -> Result<Value, String> {
    let declaration = to.declaration();
    let Value::Object(map) = object else { return Err("an event is no object".to_owned()) };
    let mut out: Map = map
        .into_iter()
        .map(|(key, value)| {
            let renamed = NAMES.iter().find_map(|(core, later)| match is_core(to) {
                true => (key.as_str() == *later).then_some(*core),
                false => (key.as_str() == *core).then_some(*later),
            });
            (renamed.map_or(key, Into::into), value)
        })
        .collect();
    out.insert("apiVersion", declaration.api_version);
    out.insert("kind", declaration.kind);
    let decoded = declaration.shape.decode(&out.into()).map_err(|error| error.to_string())?;
    Ok(decoded.value)
}

/// The JSON of an object of the later face as it is stored.
pub(super) fn as_stored(json: &[u8]) -> Result<Vec<u8>, String> {
    let object = json::parse_own(json).map_err(|error| error.to_string())?;
    Ok(shown_as(object, &CORE)?.to_vec())
}

impl Faces for EventFaces {
    fn is_stored(&self, _: &str) -> bool {
        is_core(self.declared)
    }

    /// Upstream's managers of one group know no type of the other, and forget what was managed through it.
    fn merge_type(&self, api_version: &str) -> Option<MergeType<'static>> {
        let is_own = self.declared.declaration().api_version == api_version;
        is_own.then(|| self.declared.merge_type())
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        if object.get("apiVersion").and_then(Value::as_str) == Some(api_version) {
            return Ok(object.clone());
        }
        Err(ConvertError::NoSuchVersion)
    }

    fn shows_as_stored(&self, _: &str, _: &[u8]) -> bool {
        is_core(self.declared)
    }

    fn show(&self, _: &str, stored: Value) -> Value {
        if is_core(self.declared) {
            return stored;
        }
        // What is stored was decoded when it was read or written.
        shown_as(stored, self.declared).unwrap_or_else(|_| object! {})
    }

    fn read(
        &self,
        _: &str,
        object: Value,
        _: Option<&Value>,
        _: Option<Subresource>,
    ) -> Result<Value, ErrorList> {
        if is_core(self.declared) {
            return Ok(object);
        }
        // Both faces' fields have the same types.
        Ok(shown_as(object, &CORE).unwrap_or_else(|_| object! {}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::event::{LATER, events};
    use kindom_api::json::parse;

    #[test]
    fn the_faces_convert_back_and_forth_without_loss() {
        let core = r#"{"action":"Binding","apiVersion":"v1","count":3,"eventTime":"2026-01-02T03:04:05.000006Z","firstTimestamp":"2026-01-02T03:04:05Z","involvedObject":{"kind":"Pod","name":"a"},"kind":"Event","lastTimestamp":null,"message":"m","metadata":{"name":"e","namespace":"n"},"reason":"R","reportingComponent":"c","reportingInstance":"i","series":{"count":2,"lastObservedTime":null},"source":{"component":"s"},"type":"Normal"}"#;
        let later = r#"{"action":"Binding","apiVersion":"events.k8s.io/v1","deprecatedCount":3,"deprecatedFirstTimestamp":"2026-01-02T03:04:05Z","deprecatedLastTimestamp":null,"deprecatedSource":{"component":"s"},"eventTime":"2026-01-02T03:04:05.000006Z","kind":"Event","metadata":{"name":"e","namespace":"n"},"note":"m","reason":"R","regarding":{"kind":"Pod","name":"a"},"reportingController":"c","reportingInstance":"i","series":{"count":2,"lastObservedTime":null},"type":"Normal"}"#;
        let tree = |text: &str| parse(text.as_bytes()).unwrap();
        assert_eq!(shown_as(tree(core), &LATER).unwrap().to_string(), later);
        assert_eq!(shown_as(tree(later), &CORE).unwrap().to_string(), core);
        let least = r#"{"apiVersion":"v1","eventTime":null,"firstTimestamp":null,"involvedObject":{},"kind":"Event","lastTimestamp":null,"metadata":{},"reportingComponent":"","reportingInstance":"","source":{}}"#;
        let shown = shown_as(tree(least), &LATER).unwrap();
        assert_eq!(shown_as(shown, &CORE).unwrap().to_string(), least);
        // What another server stored.
        let [core, later] =
            [core, later].map(|text| events().strategy.translate(text.as_bytes()).unwrap().unwrap());
        assert_eq!(core.json, later.json);
        assert!(later.other_form && !core.other_form);
        assert!(events().strategy.translate(b"{}").unwrap().is_err());
    }
}
