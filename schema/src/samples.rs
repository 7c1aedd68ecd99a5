//! Objects made up from a schema, by which rules over all objects of a version are tried: whether two versions convert
//! without loss, for instance (B-20).
//!
//! A sample mostly obeys its schema; [`Schema::validate`](crate::Schema::validate) says whether it does. What the schema leaves open is
//! chosen by chance, which the caller gives: the same numbers make the same sample.

use kindom_api::{Map, Value, object};
use kindom_formats::Format;
use kindom_formats::pattern::sample as matching;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// The deepest nesting of a value that a schema leaves open.
const OPEN_DEPTH_MAX: usize = 2;
/// The most items, members or characters that are made because a schema wants so many.
const FEWEST_MAX: u64 = 1000;
/// The most members of a map or items of a list, beyond what the schema needs.
const MORE_MAX: u64 = 3;

/// The samples of a seed.
pub struct Samples {
    chance: SplitMix64,
}

impl Samples {
    /// Those of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { chance: SplitMix64::seed_from_u64(seed) }
    }

    /// An object of a version with this schema; its metadata has a name, a label and an annotation.
    pub fn object(&mut self, schema: &Value, api_version: &str, kind: &str) -> Value {
        let mut object = self.map(schema, true);
        object.insert("apiVersion", api_version);
        object.insert("kind", kind);
        let metadata = object! {
            "name": self.word(),
            "labels": object! { "example.com/a": self.word() },
            "annotations": object! { "example.com/a": self.word() },
        };
        object.insert("metadata", metadata);
        Value::Object(object)
    }

    /// A value of a schema, `openAPIV3Schema` or a part of one.
    pub fn value(&mut self, schema: &Value) -> Value {
        let flag = |name| schema.get(name) == Some(&Value::Bool(true));
        if flag("nullable") && self.chance(8) {
            return Value::Null;
        }
        if let Some(choices) = schema.get("enum").and_then(Value::as_array).filter(|of| !of.is_empty()) {
            return self.pick(choices).cloned().unwrap_or_default();
        }
        if flag("x-kubernetes-int-or-string") {
            return if self.chance(2) { self.integer(schema).into() } else { self.text(schema).into() };
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => Value::Object(self.map(schema, false)),
            Some("array") => self.list(schema),
            Some("integer") => self.integer(schema).into(),
            Some("number") => self.number(schema),
            Some("string") => self.text(schema).into(),
            Some("boolean") => self.chance(2).into(),
            _ => self.open(OPEN_DEPTH_MAX),
        }
    }

    fn map(&mut self, schema: &Value, is_root: bool) -> Map {
        let mut map = Map::new();
        let (needed, unwanted) = self.branch(schema);
        let required = texts(schema, "required");
        let is_embedded = schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
        for (name, property) in
            schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter)
        {
            let is_of_type = matches!(name, "apiVersion" | "kind" | "metadata");
            if is_of_type && (is_root || is_embedded) {
                continue;
            }
            let needed = required.contains(&name) || needed.contains(&name);
            if needed || !unwanted.contains(&name) && self.chance(2) {
                map.insert(name, self.value(property));
            }
        }
        if is_embedded {
            map.insert("apiVersion", "example.com/v1");
            map.insert("kind", "Example");
            map.insert("metadata", object! { "name": self.word() });
        }
        let bound = |name| count(schema, name);
        let fewest = bound("minProperties").unwrap_or(0).min(FEWEST_MAX);
        let more = fewest.saturating_sub(map.len() as u64)
            + self.below(MORE_MAX.min(bound("maxProperties").unwrap_or(MORE_MAX)) + 1);
        match schema.get("additionalProperties") {
            Some(Value::Bool(false)) | None => {
                if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) && !is_root
                {
                    for _ in 0..more {
                        map.insert(self.word(), self.open(OPEN_DEPTH_MAX - 1));
                    }
                }
            }
            Some(of) => {
                for _ in 0..more {
                    map.insert(self.word(), self.value(of));
                }
            }
        }
        map
    }

    /// The fields that one branch of `oneOf` and `anyOf` needs, and those that the others of `oneOf` need.
    fn branch<'s>(&mut self, schema: &'s Value) -> (Vec<&'s str>, Vec<&'s str>) {
        let (mut needed, mut unwanted) = (Vec::new(), Vec::new());
        for (keyword, is_one) in [("oneOf", true), ("anyOf", false)] {
            let branches = schema.get(keyword).and_then(Value::as_array).unwrap_or_default();
            let Some(chosen) = self.pick(branches) else { continue };
            needed.extend(texts(chosen, "required"));
            let others = branches.iter().filter(|branch| is_one && !std::ptr::eq(*branch, chosen));
            unwanted.extend(others.flat_map(|branch| texts(branch, "required")));
        }
        (needed, unwanted)
    }

    fn list(&mut self, schema: &Value) -> Value {
        let bound = |name| count(schema, name);
        let fewest = bound("minItems").unwrap_or(0).min(FEWEST_MAX);
        let most = bound("maxItems").unwrap_or(u64::MAX).min(fewest + MORE_MAX);
        let count = fewest + self.below(most.saturating_sub(fewest) + 1);
        let null = Value::Null;
        let of = schema.get("items").unwrap_or(&null);
        let kind = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
        let keys = texts(schema, "x-kubernetes-list-map-keys");
        let mut items: Vec<Value> = Vec::new();
        for _ in 0..count {
            let item = self.value(of);
            let is_double = match kind {
                Some("set") => items.contains(&item),
                Some("map") => {
                    items.iter().any(|other| keys.iter().all(|key| other.get(key) == item.get(key)))
                }
                _ => false,
            };
            if !is_double {
                items.push(item);
            }
        }
        items.into()
    }

    fn integer(&mut self, schema: &Value) -> i64 {
        let is_32 = schema.get("format").and_then(Value::as_str) == Some("int32");
        let (low, high) =
            if is_32 { (i64::from(i32::MIN), i64::from(i32::MAX)) } else { (i64::MIN, i64::MAX) };
        let bound = |name| schema.get(name).and_then(Value::as_f64);
        let excludes = |name| i64::from(schema.get(name) == Some(&Value::Bool(true)));
        let low = bound("minimum")
            .map_or(low, |min| whole(min.ceil()).saturating_add(excludes("exclusiveMinimum")));
        let high = bound("maximum")
            .map_or(high, |max| whole(max.floor()).saturating_sub(excludes("exclusiveMaximum")));
        // Small numbers more often than others.
        let number = if self.chance(4) {
            let span = high.abs_diff(low).saturating_add(u64::from(high.abs_diff(low) != u64::MAX));
            low.wrapping_add_unsigned(self.below(span.max(1)))
        } else {
            let near = 0.clamp(low, high.max(low));
            near.saturating_add_unsigned(self.below(high.abs_diff(near).min(20) + 1))
        };
        match bound("multipleOf").map(whole).filter(|of| *of > 1) {
            Some(of) => number.saturating_sub(number % of),
            None => number,
        }
    }

    fn number(&mut self, schema: &Value) -> Value {
        let whole = self.integer(schema);
        if self.chance(2) || schema.get("multipleOf").is_some() {
            return whole.into();
        }
        #[allow(clippy::cast_precision_loss, reason = "any number near it will do")]
        let number = whole as f64 + 0.25;
        match schema.get("maximum").and_then(Value::as_f64) {
            Some(max) if number >= max => whole.into(),
            _ => Value::Float(number),
        }
    }

    fn text(&mut self, schema: &Value) -> String {
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
            && let Some(text) = matching(pattern, &mut |below| self.below(below))
        {
            return text;
        }
        let format = schema.get("format").and_then(Value::as_str).and_then(Format::named);
        if let Some(example) = format.and_then(|format| self.pick(examples(format)).copied()) {
            return example.to_owned();
        }
        let mut text = self.word();
        if self.chance(6) {
            text.push_str(" é\u{1f6e5}\"\\");
        }
        let fewest = count(schema, "minLength").unwrap_or(0).min(FEWEST_MAX);
        while (text.chars().count() as u64) < fewest {
            text.push_str(&self.word());
        }
        let most = count(schema, "maxLength").and_then(|most| usize::try_from(most).ok());
        text.chars().take(most.unwrap_or(usize::MAX)).collect()
    }

    /// Some value that no schema describes.
    fn open(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 4 } else { 6 }) {
            0 => self.word().into(),
            1 => self.integer(&Value::Null).into(),
            2 => self.chance(2).into(),
            3 => self.number(&Value::Null),
            4 => (0..self.below(3)).map(|_| self.open(depth - 1)).collect::<Vec<_>>().into(),
            _ => Value::Object((0..self.below(3)).map(|_| (self.word(), self.open(depth - 1))).collect()),
        }
    }

    fn word(&mut self) -> String {
        (0..=self.below(6))
            .filter_map(|_| self.pick(b"abcdefghijklmnopqrstuvwxyz").copied().map(char::from))
            .collect()
    }

    fn pick<'s, T>(&mut self, of: &'s [T]) -> Option<&'s T> {
        let at = if of.is_empty() { 0 } else { self.below(of.len() as u64) };
        of.get(usize::try_from(at).ok()?)
    }

    /// A number below `bound`, which is not 0.
    fn below(&mut self, bound: u64) -> u64 {
        self.chance.next_u64() % bound
    }

    /// True once in so many times.
    fn chance(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

fn texts<'s>(schema: &'s Value, field: &str) -> Vec<&'s str> {
    schema.get(field).and_then(Value::as_array).unwrap_or_default().iter().filter_map(Value::as_str).collect()
}

fn count(schema: &Value, bound: &str) -> Option<u64> {
    schema.get(bound).and_then(Value::as_i64).and_then(|count| u64::try_from(count).ok())
}

#[allow(clippy::cast_possible_truncation, reason = "a bound beyond all integers is the largest")]
fn whole(number: f64) -> i64 {
    number as i64
}

/// Strings of a format.
fn examples(format: Format) -> &'static [&'static str] {
    match format {
        Format::BsonObjectId => &["507f1f77bcf86cd799439011"],
        Format::Uri => &["https://example.com/a?b=c", "http://10.0.0.1:80/"],
        Format::Email => &["a@example.com"],
        Format::Hostname | Format::LongName => &["example.com", "a-b.io"],
        Format::Ipv4 => &["10.0.0.1", "192.168.1.255"],
        Format::Ipv6 => &["::1", "2001:db8::1"],
        Format::Cidr => &["10.0.0.0/8", "2001:db8::/32"],
        Format::Mac => &["00:00:5e:00:53:01"],
        Format::Uuid | Format::Uuid4 => &["0ecc9db4-8a1f-4a4e-a7a8-3bd7d46b3a59"],
        Format::Uuid3 => &["6fa459ea-ee8a-3ca4-894e-db77e160355e"],
        Format::Uuid5 => &["886313e1-3b8a-5372-9b90-0c9aee199e5d"],
        Format::Isbn | Format::Isbn10 => &["0321751043"],
        Format::Isbn13 => &["9780321751041"],
        Format::CreditCard => &["4111111111111111"],
        Format::Ssn => &["111-22-3333"],
        Format::HexColor => &["#fff", "#00ff7f"],
        Format::RgbColor => &["rgb(1,2,3)"],
        Format::Byte => &["a2luZG9t", "AA=="],
        Format::Date => &["2026-11-27", "2024-02-29"],
        Format::Duration => &["1s", "2h45m", "1 week"],
        Format::DateTime | Format::DateTimePlain => &["2026-11-27T12:00:00Z", "2026-11-27T12:00:00.123456Z"],
        Format::ShortName => &["a-name", "b2"],
        Format::Password | Format::Int32 | Format::Int64 | Format::Float | Format::Double => &[],
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::json;

    use super::*;
    use crate::Schema;

    #[test]
    fn samples_obey_their_schema() {
        let schema = json::parse(
            br#"{"type":"object","required":["spec"],"properties":{"spec":{"type":"object","required":["a"],
            "oneOf":[{"required":["x"]},{"required":["y"]}],
            "properties":{
                "a":{"type":"string","pattern":"^[a-z]{2,4}-\\d+$"},
                "b":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string","enum":["p","q"]}},
                "c":{"type":"integer","minimum":3,"maximum":9,"multipleOf":3},
                "d":{"type":"string","format":"date-time"},
                "e":{"x-kubernetes-int-or-string":true},
                "f":{"type":"object","additionalProperties":{"type":"number","exclusiveMinimum":true,"minimum":0}},
                "g":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
                "h":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},
                "i":{"type":"array","minItems":2,"maxItems":2,"items":{"type":"boolean"}},
                "j":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],
                    "items":{"type":"object","required":["k"],"properties":{"k":{"type":"integer","format":"int32"}}}},
                "l":{"type":"string","minLength":9,"maxLength":9},
                "m":{"type":"string","nullable":true},
                "x":{"type":"string"},"y":{"type":"string"}}}}}"#,
        )
        .unwrap();
        let compiled = Schema::compile(Some(&schema), false).unwrap();
        let mut samples = Samples::new(7);
        let (mut all, mut seen) = (Vec::new(), std::collections::BTreeSet::new());
        for _ in 0..500 {
            let sample = samples.object(&schema, "g.io/v1", "K");
            let errors = compiled.validate(&sample);
            assert!(errors.is_empty(), "{sample}: {errors:?}");
            seen.extend(sample.get("spec").and_then(Value::as_object).unwrap().keys().map(str::to_owned));
            all.push(sample.to_string());
        }
        assert_eq!(seen.len(), 14);
        all.sort();
        all.dedup();
        assert!(all.len() > 490, "{}", all.len());
    }

    /// Demands that no value can obey, and such that only a huge one could.
    #[test]
    fn any_schema_ends() {
        for schema in [
            r#"{"type":"integer","minimum":1e300,"exclusiveMinimum":true}"#,
            r#"{"type":"integer","minimum":9,"maximum":-9,"multipleOf":1e30}"#,
            r#"{"type":"number","maximum":-1e300,"exclusiveMaximum":true}"#,
            r#"{"type":"array","minItems":9223372036854775807,"items":{"type":"boolean"}}"#,
            r#"{"type":"object","minProperties":9223372036854775807,"additionalProperties":{"type":"boolean"}}"#,
            r#"{"type":"string","minLength":9223372036854775807,"maxLength":-1}"#,
            r#"{"type":"string","pattern":"^(?:){4294967295}$"}"#,
            r#"{"type":"string","enum":[],"format":"thing"}"#,
            r#"{"type":7,"oneOf":[],"properties":[]}"#,
        ] {
            let schema = json::parse(schema.as_bytes()).unwrap();
            let mut samples = Samples::new(1);
            for _ in 0..20 {
                samples.value(&schema);
                samples.object(&schema, "g.io/v1", "K");
            }
        }
    }

    #[test]
    fn every_example_has_its_format() {
        for name in [
            "bsonobjectid",
            "uri",
            "email",
            "hostname",
            "ipv4",
            "ipv6",
            "cidr",
            "mac",
            "uuid",
            "uuid3",
            "uuid4",
            "uuid5",
            "isbn",
            "isbn10",
            "isbn13",
            "creditcard",
            "ssn",
            "hexcolor",
            "rgbcolor",
            "byte",
            "date",
            "duration",
            "date-time",
            "datetime",
            "k8s-short-name",
            "k8s-long-name",
        ] {
            let format = Format::named(name).unwrap();
            assert!(!examples(format).is_empty());
            for example in examples(format) {
                assert!(format.accepts(example), "{name}: {example}");
            }
        }
    }
}
