//! One compiled form for all schemas with the same meaning: versions of a type, and types, often repeat each other.
//!
//! Schemas have the same meaning if they differ only in texts for people (`description` and the like), which the compiled
//! form does not keep. A collision-resistant digest identifies them, so that no registration gets another one's schema; the
//! texts themselves are not kept.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use kindom_api::Value;
use kindom_api::field::ErrorList;
use sha2::{Digest as _, Sha256};

use crate::Schema;

/// The keywords of a schema that only people read.
const TO_BE_READ: [&str; 4] = ["description", "title", "example", "externalDocs"];

type Key = [u8; 32];

/// Weak, so that a schema goes with its last user.
#[derive(Default)]
struct Known {
    schemas: HashMap<Key, Weak<Schema>>,
    /// The number of entries at which to look for dead ones: twice the number that was alive the last time.
    sweep_at: usize,
}

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// The compiled form that all schemas of the same meaning share; compiled now if there is none.
pub(crate) fn shared(
    schema: Option<&Value>,
    preserve_unknown_fields: bool,
) -> Result<Arc<Schema>, ErrorList> {
    let key = key(schema, preserve_unknown_fields);
    if let Some(schema) = known(|known| known.schemas.get(&key).and_then(Weak::upgrade)) {
        return Ok(schema);
    }
    // Without the lock: it takes a while. Who compiles the same meanwhile gets the one that is done first.
    let compiled = Arc::new(Schema::compile(schema, preserve_unknown_fields)?);
    Ok(known(|known| known.keep(key, compiled)))
}

fn known<T>(work: impl FnOnce(&mut Known) -> T) -> T {
    // A panic while the lock is held cannot leave the map half changed.
    work(&mut KNOWN.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Known {
    fn keep(&mut self, key: Key, compiled: Arc<Schema>) -> Arc<Schema> {
        if let Some(first) = self.schemas.get(&key).and_then(Weak::upgrade) {
            return first;
        }
        if self.schemas.len() >= self.sweep_at.max(64) {
            self.schemas.retain(|_, schema| schema.strong_count() > 0);
            self.sweep_at = self.schemas.len() * 2;
        }
        self.schemas.insert(key, Arc::downgrade(&compiled));
        compiled
    }
}

fn key(schema: Option<&Value>, preserve_unknown_fields: bool) -> Key {
    let mut text = vec![u8::from(preserve_unknown_fields), u8::from(schema.is_some())];
    if let Some(schema) = schema {
        meaning(schema, &mut text);
    }
    Sha256::digest(text).into()
}

/// Appends a schema as JSON, without its texts for people.
fn meaning(schema: &Value, out: &mut Vec<u8>) {
    let Value::Object(map) = schema else {
        schema.write_to(out);
        return;
    };
    out.push(b'{');
    for (keyword, value) in map.iter().filter(|(keyword, _)| !TO_BE_READ.contains(keyword)) {
        Value::from(keyword).write_to(out);
        match (keyword, value) {
            ("properties", Value::Object(properties)) => {
                out.push(b'{');
                for (name, schema) in properties.iter() {
                    Value::from(name).write_to(out);
                    meaning(schema, out);
                }
                out.push(b'}');
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(branches)) => {
                out.push(b'[');
                for branch in branches {
                    meaning(branch, out);
                    out.push(b',');
                }
                out.push(b']');
            }
            ("items" | "additionalProperties" | "not", schema) => meaning(schema, out),
            (_, value) => value.write_to(out),
        }
        out.push(b',');
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kindom_api::json::parse;

    use super::{Known, key};
    use crate::Schema;

    fn shared(text: &str) -> Arc<Schema> {
        Schema::shared(Some(&parse(text.as_bytes()).unwrap()), false).unwrap()
    }

    #[test]
    fn what_means_the_same_is_one_and_goes_with_its_last_user() {
        let one = shared(r#"{"properties":{"only_here":{"type":"string","description":"x"}}}"#);
        let other = shared(r#"{"properties":{"only_here":{"type":"string"}},"title":"y"}"#);
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!(Arc::strong_count(&one), 2);
        let weak = Arc::downgrade(&one);
        drop((one, other));
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn what_means_something_else_is_another() {
        let texts = [
            "{}",
            r#"{"type":"object"}"#,
            r#"{"default":{"description":"x"}}"#,
            r#"{"default":{"description":"y"}}"#,
            r#"{"enum":[{"title":"x"}]}"#,
            r#"{"enum":[{"title":"y"}]}"#,
            r#"{"properties":{"description":{"type":"string"}}}"#,
            r#"{"properties":{"description":{"type":"integer"}}}"#,
            r#"{"properties":{"title":{"type":"integer"}}}"#,
            r#"{"properties":{"a":{"properties":{"b":{}}}}}"#,
            r#"{"properties":{"a":{},"b":{}}}"#,
            r#"{"required":["a"]}"#,
            r#"{"allOf":[{"required":["a"]}]}"#,
            r#"{"anyOf":[{"required":["a"]}]}"#,
            r#"{"not":{"required":["a"]}}"#,
        ];
        let keys = texts.map(|text| key(Some(&parse(text.as_bytes()).unwrap()), false));
        for (i, one) in keys.iter().enumerate() {
            assert_eq!(keys.iter().position(|other| other == one), Some(i), "{}", texts[i]);
        }
        assert_ne!(key(None, false), key(None, true));
        assert_ne!(key(None, false), keys[0]);
    }

    #[test]
    fn dead_entries_are_swept() {
        let mut known = Known::default();
        for n in 0..10_000_u32 {
            let schema = Arc::new(Schema::compile(None, false).unwrap());
            let mut key = [0; 32];
            key[..4].copy_from_slice(&n.to_le_bytes());
            known.keep(key, schema);
        }
        assert!(known.schemas.len() <= 64);
    }
}
