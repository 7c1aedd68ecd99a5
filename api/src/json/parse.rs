//! Input: bytes to tree, with a bound on depth.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{Key, Map, Value};

/// The deepest that maps and lists may nest in requests and in stored values. Go allows 10,000; here the walks over a tree
/// are recursive, and real objects and schemas stay far below this.
pub const MAX_DEPTH: usize = 256;

/// The deepest that they may nest in values that this server wrote: an object within a list, a table or an event; an object
/// that an older build stored with managedFields deeper than [`MAX_DEPTH`].
pub const OWN_DEPTH_MAX: usize = MAX_DEPTH + 32;

/// The most duplicates that are named (`sigs.k8s.io/json` stops there too).
const DUPLICATES_MAX: usize = 100;

/// The reason why bytes are not a JSON value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

/// Parses one JSON value. Of several equal keys in a map the last one stays; [`duplicate_fields`] names them.
///
/// # Errors
/// Malformed JSON, bad UTF-8, a number out of range, more than [`MAX_DEPTH`] levels, or anything after the value.
pub fn parse(bytes: &[u8]) -> Result<Value, ParseError> {
    parse_telling(bytes).map(|(value, _)| value)
}

/// Parses a value that this server wrote: as [`parse`], but up to [`OWN_DEPTH_MAX`] levels.
///
/// # Errors
/// As for [`parse`].
pub fn parse_own(bytes: &[u8]) -> Result<Value, ParseError> {
    run(bytes, OWN_DEPTH_MAX, None).map(|(value, _)| value)
}

/// As [`parse`]; also whether a key stands more than once in any of the maps. To ask costs nothing, while
/// [`duplicate_fields`] reads everything again.
///
/// # Errors
/// As for [`parse`].
pub fn parse_telling(bytes: &[u8]) -> Result<(Value, bool), ParseError> {
    run(bytes, MAX_DEPTH, None)
}

/// The paths of fields that stand more than once in a map, as Kubernetes' strict decoder names them: `spec.a[0].b`, in
/// the order met.
///
/// # Errors
/// As for [`parse`].
pub fn duplicate_fields(bytes: &[u8]) -> Result<Vec<String>, ParseError> {
    let found = RefCell::new(Vec::new());
    run(bytes, MAX_DEPTH, Some(&found))?;
    Ok(found.into_inner())
}

/// The tree, and whether a key stands more than once.
fn run(
    bytes: &[u8],
    levels: usize,
    duplicates: Option<&RefCell<Vec<String>>>,
) -> Result<(Value, bool), ParseError> {
    let text = std::str::from_utf8(bytes).map_err(|e| ParseError(format!("invalid UTF-8: {e}")))?;
    match read(text, levels, duplicates) {
        Ok(value) => Ok(value),
        // Go reads half a surrogate pair as U+FFFD; looked for only where something is wrong.
        Err(error) => match whole_surrogates(text) {
            Some(mended) => read(&mended, levels, duplicates),
            None => Err(error),
        },
    }
}

/// The text with `\\ufffd` for each escape that is half a surrogate pair; none if it has no such escape.
fn whole_surrogates(text: &str) -> Option<String> {
    let unit = |at: usize| {
        let digits = text.get(at..).and_then(|rest| rest.strip_prefix("\\u")).and_then(|rest| rest.get(..4));
        digits.and_then(|digits| u16::from_str_radix(digits, 16).ok())
    };
    let (mut out, mut at, mut mended) = (String::with_capacity(text.len()), 0, false);
    while let Some(escape) = text.get(at..).and_then(|rest| rest.find('\\')).map(|found| at + found) {
        out.push_str(text.get(at..escape)?);
        let (length, alone) = match (unit(escape), unit(escape + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (12, false),
            (Some(0xd800..=0xdfff), _) => (6, true),
            (Some(_), _) => (6, false),
            (None, _) => (1 + text.get(escape + 1..)?.chars().next().map_or(0, char::len_utf8), false),
        };
        out.push_str(if alone { "\\ufffd" } else { text.get(escape..escape + length)? });
        mended |= alone;
        at = escape + length;
    }
    out.push_str(text.get(at..)?);
    mended.then_some(out)
}

fn read(
    text: &str,
    levels: usize,
    duplicates: Option<&RefCell<Vec<String>>>,
) -> Result<(Value, bool), ParseError> {
    let mut input = serde_json::Deserializer::from_str(text);
    // Depth is counted by `Node`, to one bound for every caller.
    input.disable_recursion_limit();
    let seen = Seen { text, ..Seen::default() };
    let node = Node { levels, seen: &seen, duplicates, path: &Trail::Root };
    let value = node.deserialize(&mut input).map_err(|e| ParseError(e.to_string()))?;
    input.end().map_err(|e| ParseError(e.to_string()))?;
    Ok((value, seen.twice.get()))
}

/// The tree that any input gives.
pub(super) fn any<'de, D: Deserializer<'de>>(input: D) -> Result<Value, D::Error> {
    Node { levels: MAX_DEPTH, seen: &Seen::default(), duplicates: None, path: &Trail::Root }
        .deserialize(input)
}

/// The parser's notes on the whole input.
#[derive(Default)]
struct Seen<'t> {
    /// The input; empty if it is no text.
    text: &'t str,
    /// Set where a key stands more than once.
    twice: Cell<bool>,
    /// For each negative zero in the text: `true` if it has a point or an exponent. Found when the first one is met.
    zeros: OnceCell<Vec<bool>>,
    /// Negative zeros met so far.
    zeros_met: Cell<usize>,
}

impl Seen<'_> {
    /// The next negative zero. Go reads `-0` as the integer 0 and `-0.0` as a float with a sign (`sigs.k8s.io/json`,
    /// `convertNumber`); serde_json reads both as the float.
    #[cold]
    fn negative_zero(&self) -> Value {
        let met = self.zeros_met.get();
        self.zeros_met.set(met + 1);
        let zeros = self.zeros.get_or_init(|| negative_zeros(self.text));
        if zeros.get(met).is_none_or(|is_float| *is_float) { Value::Float(-0.0) } else { Value::Int(0) }
    }
}

/// For each number in a JSON text that is a negative zero: `true` if it has a point or an exponent.
fn negative_zeros(text: &str) -> Vec<bool> {
    let (bytes, mut at, mut found) = (text.as_bytes(), 0, Vec::new());
    while let Some(next) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'-', rest)) {
        at += next;
        if bytes.get(at) == Some(&b'"') {
            at = end_of_string(bytes, at + 1);
            continue;
        }
        let rest = bytes.get(at..).unwrap_or_default();
        let length =
            rest.iter().take_while(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')).count();
        let number = text.get(at..at + length).unwrap_or_default();
        if number.parse() == Ok(0.0) {
            found.push(number.contains(['.', 'e', 'E']));
        }
        at += length;
    }
    found
}

/// The offset behind the closing quote of a string whose first byte (behind its opening quote) is at `at`.
fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(next) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += next;
        if bytes.get(at) == Some(&b'"') {
            return at + 1;
        }
        // The byte behind a backslash is no end.
        at += 2;
    }
    bytes.len()
}

#[derive(Clone, Copy)]
struct Node<'a> {
    /// The number of further levels of maps and lists that there may be.
    levels: usize,
    seen: &'a Seen<'a>,
    /// The list that duplicates are noted in; `path` is kept up only if this is set.
    duplicates: Option<&'a RefCell<Vec<String>>>,
    path: &'a Trail<'a>,
}

/// The path to a value. It is built as text only when a duplicate is noted: a long key may stand above many values.
enum Trail<'a> {
    Root,
    Field(&'a Trail<'a>, &'a str),
    Index(&'a Trail<'a>, usize),
}

impl fmt::Display for Trail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Trail::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Value, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(Value::Bool(b))
    }
    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(Value::Int(n))
    }
    #[allow(clippy::cast_precision_loss, reason = "as Go reads a whole number that does not fit 64 bits")]
    fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
        Ok(i64::try_from(n).map_or(Value::Float(n as f64), Value::Int))
    }
    fn visit_f64<E>(self, x: f64) -> Result<Value, E> {
        Ok(if x == 0.0 && x.is_sign_negative() { self.seen.negative_zero() } else { Value::Float(x) })
    }
    fn visit_str<E>(self, s: &str) -> Result<Value, E> {
        Ok(Value::String(s.to_owned()))
    }
    fn visit_string<E>(self, s: String) -> Result<Value, E> {
        Ok(Value::String(s))
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let levels = self.deeper()?;
        let mut items = Vec::new();
        loop {
            let path = Trail::Index(self.path, items.len());
            match seq.next_element_seed(Node { levels, path: &path, ..self })? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items.into())),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let levels = self.deeper()?;
        let mut entries: Vec<(Key, Value)> = Vec::new();
        // The keys so far; `true` once a repetition has been reported.
        let mut seen: HashMap<Key, bool> = HashMap::new();
        while let Some(key) = map.next_key::<Key>()? {
            let path = Trail::Field(self.path, &key);
            if let Some(duplicates) = self.duplicates {
                match seen.get_mut(&key) {
                    None => drop(seen.insert(key.clone(), false)),
                    Some(told) => {
                        let mut duplicates = duplicates.borrow_mut();
                        if !*told && duplicates.len() < DUPLICATES_MAX {
                            let path = path.to_string();
                            if !duplicates.contains(&path) {
                                duplicates.push(path);
                            }
                        }
                        *told = true;
                    }
                }
            }
            let value = map.next_value_seed(Node { levels, path: &path, ..self })?;
            entries.push((key, value));
        }
        let read = entries.len();
        let map = Map::from_entries(entries);
        if map.len() < read {
            self.seen.twice.set(true);
        }
        Ok(Value::Object(map))
    }
}

impl Node<'_> {
    fn deeper<E: serde::de::Error>(&self) -> Result<usize, E> {
        self.levels.checked_sub(1).ok_or_else(|| E::custom("exceeded max depth"))
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_DEPTH, duplicate_fields, parse, parse_telling};

    fn check(input: &str, want: &str) {
        assert_eq!(parse(input.as_bytes()).unwrap().to_string(), want);
    }

    #[test]
    fn keys_are_sorted_and_the_last_duplicate_stays() {
        check(r#"{"b":1,"a":2,"b":3}"#, r#"{"a":2,"b":3}"#);
        check(r#"{"a":1,"a":2,"a":3}"#, r#"{"a":3}"#);
    }

    #[test]
    fn numbers_keep_their_kind() {
        check(
            "[1,1.0,9223372036854775807,9223372036854775808,1e3,-5]",
            "[1,1,9223372036854775807,9223372036854776000,1000,-5]",
        );
    }

    #[test]
    fn floats_are_read_to_the_last_bit() {
        check("9.223372036854775e18", "9223372036854775000");
        check("0.1234567890123456789", "0.12345678901234568");
        check("2.2250738585072011e-308", "2.225073858507201e-308");
    }

    #[test]
    fn strings_are_escaped() {
        check(r#""a\"\\\n\u0001é<""#, r#""a\"\\\n\u0001é\u003c""#);
        check(r#""<a>&\b\f\u2028\u2029\u2030""#, "\"\\u003ca\\u003e\\u0026\\b\\f\\u2028\\u2029\u{2030}\"");
    }

    #[test]
    fn half_a_surrogate_pair_is_the_replacement_character() {
        check(
            r#"["\ud800","\ud83d\ude00","x\udc00\n\ud800\u0041","\\ud800"]"#,
            r#"["�","😀","x�\n�A","\\ud800"]"#,
        );
    }

    #[test]
    fn only_a_float_zero_has_a_sign() {
        check("[-0,-0.0,0,0.0,-0e1]", "[0,-0,0,0,-0]");
        // A negative zero within a string or key is text, and a number may be so small that it reads as zero.
        check(
            r#"{"-0":"-0.0","a\\\"-0":-0,"b":["\\",-0.00E+5,"\"",-0 ,-1e-400,-1,-0.5,-1E9],"c":-0}"#,
            r#"{"-0":"-0.0","a\\\"-0":0,"b":["\\",-0,"\"",0,-0,-1,-0.5,-1000000000],"c":0}"#,
        );
        check(r#"["\ud800",-0,-0.0]"#, r#"["�",0,-0]"#);
        check("-0", "0");
        check("-0.0", "-0");
        check(r#"{"a":-0.0,"a":-0,"b":-0.0}"#, r#"{"a":0,"b":-0}"#);
    }

    #[test]
    fn duplicates_are_named_by_path() {
        let found = duplicate_fields(br#"{"spec":{"x":1,"x":2,"l":[{"y":1,"y":1}]},"spec":{}}"#).unwrap();
        assert_eq!(found, ["spec.x", "spec.l[0].y", "spec"]);
        let has_duplicates = |text: &str| parse_telling(text.as_bytes()).unwrap().1;
        assert!(
            has_duplicates(r#"{"b":{"x":1,"a":1,"x":2}}"#) && has_duplicates(r#"[[{"x":1,"\u0078":1}]]"#)
        );
        assert!(!has_duplicates(r#"{"b":{"x":1,"a":{"x":1}},"x":1}"#) && !has_duplicates("[1,1]"));
    }

    #[test]
    fn nesting_has_a_bound() {
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(parse(deep(MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(
            parse(deep(100_000).as_bytes()).unwrap_err().to_string().split(" at ").next(),
            Some("exceeded max depth")
        );
    }

    #[test]
    fn garbage_is_an_error() {
        for bad in ["", "{", "{}x", "[1,]", "nul", "\"\u{1}\"", "1e999"] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(parse(b"\"\xff\"").is_err());
    }
}
