//! YAML to tree, as `sigs.k8s.io/yaml` reads it: the parser knows YAML 1.2, plain scalars have the meaning of YAML 1.1 as in
//! `yaml.v2` (`y`, `no` and `on` are booleans, `0777` is octal, dates are strings), and the result is as if it had gone
//! through JSON (`1.0` is the integer 1).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use kindom_api::field::go_quote;
use kindom_api::json::{self, MAX_DEPTH, Map, Value};

use crate::STRICT_ERRORS_MAX;

/// The most that aliases may add to a document, in bytes of text plus 16 for each node. Without a bound a few hundred bytes
/// of aliases to aliases would unfold to gigabytes; a body itself has at most 3 MiB.
const ALIAS_COST_MAX: usize = 8 << 20;
/// The most that they may add to a short one: this, and so much for each byte. Its reader has as much time as its bytes cost.
const ALIAS_COST_FLAT: usize = 8 << 10;
const ALIAS_COST_PER_BYTE: usize = 128;

/// A document of a text.
#[derive(Debug, PartialEq)]
pub(crate) struct Document {
    /// The tree; of several equal keys the last one stays.
    pub(crate) value: Value,
    /// `line 3: key "a" already set in map`, for each.
    pub(crate) duplicates: Vec<String>,
}

/// Reads the first document; an empty text is `null`.
pub(crate) fn parse(text: &str) -> Result<Document, String> {
    documents(text).next().unwrap_or_else(|| Ok(Document { value: Value::Null, duplicates: Vec::new() }))
}

/// Reads all documents, up to the first one with an error.
pub(crate) fn documents(text: &str) -> impl Iterator<Item = Result<Document, String>> {
    let mut parser = Some(Parser::new_from_str(text));
    let mut refused = refused(text);
    std::iter::from_fn(move || {
        if let Some(why) = refused.take() {
            parser = None;
            return Some(Err(why));
        }
        let next = next_document(text, parser.as_mut()?).transpose();
        if !matches!(next, Some(Ok(_))) {
            parser = None;
        }
        next
    })
}

fn next_document<'a>(
    text: &str,
    events: &mut impl Iterator<Item = Result<(Event<'a>, Span), ScanError>>,
) -> Result<Option<Document>, String> {
    let alias_room =
        ALIAS_COST_MAX.min(ALIAS_COST_FLAT.saturating_add(text.len().saturating_mul(ALIAS_COST_PER_BYTE)));
    let mut builder = Builder { alias_room, ..Builder::default() };
    for next in events {
        let (event, span) = next.map_err(|e| go_error(text, e.marker().line(), &e.info()))?;
        if matches!(event, Event::DocumentEnd) {
            let Builder { root, duplicates, .. } = builder;
            return Ok(Some(Document { value: root.unwrap_or_default(), duplicates }));
        }
        builder.line = span.start.line();
        builder.event(event).map_err(|e| match e {
            Fault::Anchor(id) => {
                format!("yaml: anchor '{}' value contains itself", anchor(text, id).unwrap_or_default())
            }
            Fault::Deep => deep(builder.line),
            Fault::Json(e) => e,
            Fault::Other(e) => format!("yaml: {e}"),
        })?;
    }
    Ok(None)
}

/// The reason why the reader stops at a node.
enum Fault {
    /// The anchor of this number contains itself.
    Anchor(usize),
    Deep,
    /// A value that JSON does not have; this is the complete text of the error.
    Json(String),
    Other(String),
}

impl From<String> for Fault {
    fn from(text: String) -> Self {
        if text.starts_with("json: ") { Self::Json(text) } else { Self::Other(text) }
    }
}

/// go-yaml's parser counts lines from 0, and leaves the first one out.
fn deep(line: usize) -> String {
    match line.saturating_sub(1) {
        0 => format!("yaml: exceeded max depth of {MAX_DEPTH}"),
        line => format!("yaml: line {line}: exceeded max depth of {MAX_DEPTH}"),
    }
}

/// The name of the anchor that was defined as the `id`-th.
fn anchor(text: &str, id: usize) -> Option<&str> {
    let names = text.match_indices('&').filter_map(|(at, _)| {
        let rest = text.get(at + 1..)?;
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))?;
        rest.get(..end).filter(|name| !name.is_empty())
    });
    names.take(id).last()
}

/// Returns an error for a text that go-yaml refuses and this parser would accept: one with directives other than those of
/// YAML 1.1, or with control characters.
fn refused(text: &str) -> Option<String> {
    let taken = |c: char| {
        matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
            || c >= '\u{10000}'
    };
    if !text.chars().all(taken) {
        return Some("yaml: control characters are not allowed".to_owned());
    }
    let text = text.trim_start_matches('\u{feff}');
    let before = text.lines().take_while(|line| line.trim().is_empty() || line.starts_with(['#', '%']));
    for directive in before.filter_map(|line| line.strip_prefix('%')) {
        let mut words = directive.split_ascii_whitespace();
        match words.next() {
            Some("YAML") if words.next() == Some("1.1") => {}
            Some("YAML") => return Some("yaml: found incompatible YAML document".to_owned()),
            Some("TAG") => {}
            _ => return Some("yaml: found unknown directive name".to_owned()),
        }
    }
    None
}

/// An error as go-yaml words it, where the two parsers find the same.
fn go_error(text: &str, line: usize, info: &str) -> String {
    let info = if info.contains("unknown anchor") {
        let line = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        let names = line.split('*').skip(1);
        let name = names
            .map(|rest| rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')))
            .find_map(|mut parts| parts.next().filter(|name| !name.is_empty()));
        return format!("yaml: unknown anchor '{}' referenced", name.unwrap_or_default());
    } else if info.starts_with("tabs disallowed") {
        "found character that cannot start any token"
    } else if info.contains("recursion limit") {
        return deep(line);
    } else if info.contains("surrogate") {
        "found invalid Unicode character escape code"
    } else if info.starts_with("unclosed bracket") {
        "did not find expected node content"
    } else {
        info
    };
    format!("yaml: line {line}: {info}")
}

/// A finished node, and the cost of a copy of it.
#[derive(Clone)]
struct Node {
    value: Value,
    depth: usize,
    cost: usize,
    /// `true` if it is the plain scalar `<<`, or another one tagged as a merge.
    is_merge: bool,
}

struct Frame {
    anchor: usize,
    depth: usize,
    cost: usize,
    kind: Kind,
}

enum Kind {
    List(Vec<Value>),
    Map { entries: Vec<(json::Key, Value)>, seen: HashSet<json::Key>, merged: Vec<Map>, key: Option<Key> },
}

enum Key {
    /// The name in JSON; for a key that is no string, also its value.
    Field(json::Key, Option<Value>),
    Merge,
}

#[derive(Default)]
struct Builder {
    frames: Vec<Frame>,
    anchors: HashMap<usize, Node>,
    /// The cost that aliases may still add.
    alias_room: usize,
    root: Option<Value>,
    duplicates: Vec<String>,
    line: usize,
}

impl Builder {
    fn event(&mut self, event: Event<'_>) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.as_deref();
                let is_merge = match tag {
                    Some(tag) => own_tag(tag).as_deref() == Some("merge"),
                    None => style == ScalarStyle::Plain && text == "<<",
                };
                let value = scalar(&text, style, tag)?;
                let node = Node { value, depth: 0, cost: 16 + text.len(), is_merge };
                self.finish(node, anchor)
            }
            Event::SequenceStart(_, anchor, _) => self.open(anchor, Kind::List(Vec::new())),
            Event::MappingStart(_, anchor, _) => {
                let (entries, seen) = (Vec::new(), HashSet::new());
                self.open(anchor, Kind::Map { entries, seen, merged: Vec::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(frame) = self.frames.pop() else { return Ok(()) };
                let value = match frame.kind {
                    Kind::List(items) => Value::Array(items.into()),
                    Kind::Map { entries, merged, .. } => Value::Object(with_merged(entries, merged)),
                };
                let node = Node { value, depth: frame.depth + 1, cost: frame.cost + 16, is_merge: false };
                self.finish(node, frame.anchor)
            }
            Event::Alias(id) => {
                // An alias to a map that is not finished yet has no node: it contains itself.
                let node = self.anchors.get(&id).ok_or(Fault::Anchor(id))?.clone();
                self.copied(node.cost)?;
                self.finish(node, 0)
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, anchor: usize, kind: Kind) -> Result<(), Fault> {
        if self.frames.len() >= MAX_DEPTH {
            return Err(Fault::Deep);
        }
        self.frames.push(Frame { anchor, depth: 0, cost: 0, kind });
        Ok(())
    }

    /// Counts a copy for an anchor or an alias.
    fn copied(&mut self, cost: usize) -> Result<(), Fault> {
        let left = self.alias_room.checked_sub(cost);
        self.alias_room = left.ok_or_else(|| "document contains excessive aliasing".to_owned())?;
        Ok(())
    }

    fn finish(&mut self, node: Node, anchor: usize) -> Result<(), Fault> {
        if self.frames.len() + node.depth > MAX_DEPTH {
            return Err(Fault::Deep);
        }
        if anchor != 0 {
            // The copy for the anchor counts, too: an anchor on every level of a deep tree copies it again and again.
            self.copied(node.cost)?;
            self.anchors.insert(anchor, node.clone());
        }
        let Some(frame) = self.frames.last_mut() else {
            self.root.get_or_insert(node.value);
            return Ok(());
        };
        frame.depth = frame.depth.max(node.depth);
        frame.cost += node.cost;
        match &mut frame.kind {
            Kind::List(items) => items.push(node.value),
            Kind::Map { entries, seen, merged, key } => match key.take() {
                None if node.is_merge => *key = Some(Key::Merge),
                None => {
                    let name = field(&node.value)?;
                    let own = Some(node.value).filter(|value| value.as_str().is_none());
                    *key = Some(Key::Field(name, own));
                }
                Some(Key::Merge) => merge(node.value, merged)?,
                Some(Key::Field(_, Some(Value::Null))) => {
                    let value = match &node.value {
                        Value::String(text) => go_quote(text),
                        Value::Null => "<nil>".to_owned(),
                        other => other.to_string(),
                    };
                    return Err(Fault::Json(format!(
                        "unsupported map key of type: %!s(<nil>), key: <nil>, value: {value}"
                    )));
                }
                Some(Key::Field(name, own)) => {
                    if !seen.insert(name.clone()) && self.duplicates.len() < STRICT_ERRORS_MAX {
                        let name = own.map_or_else(|| go_quote(&name), |own| own.to_string());
                        self.duplicates.push(format!("line {}: key {name} already set in map", self.line));
                    }
                    entries.push((name, node.value));
                }
            },
        }
        Ok(())
    }
}

/// A map's key as JSON has it.
fn field(value: &Value) -> Result<json::Key, String> {
    match value {
        Value::String(s) => Ok(s.as_str().into()),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => Ok(value.to_string().into()),
        Value::Null => Ok("null".into()),
        Value::Array(_) | Value::Object(_) => Err("invalid map key".to_owned()),
    }
}

/// Takes the value of `<<`: a map, or a list of maps of which earlier ones win.
fn merge(value: Value, merged: &mut Vec<Map>) -> Result<(), String> {
    let wrong = || "map merge requires map or sequence of maps as the value".to_owned();
    match value {
        Value::Object(map) => merged.push(map),
        Value::Array(items) => {
            for item in items {
                let Value::Object(map) = item else { return Err(wrong()) };
                merged.push(map);
            }
        }
        _ => return Err(wrong()),
    }
    Ok(())
}

/// Fields that stand in the map win over merged ones. As the last of equal keys stays, they come last.
fn with_merged(entries: Vec<(json::Key, Value)>, merged: Vec<Map>) -> Map {
    if merged.is_empty() {
        return Map::from_entries(entries);
    }
    let mut all: Vec<(json::Key, Value)> = Vec::new();
    for map in merged.iter().rev() {
        all.extend(map.iter().map(|(k, v)| (k.into(), v.clone())));
    }
    all.extend(entries);
    Map::from_entries(all)
}

/// The name of a tag of YAML's own: `int` of `!!int`.
fn own_tag(tag: &Tag) -> Option<Cow<'_, str>> {
    tag.suffix_in_namespace("tag:yaml.org,2002:")
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let mismatch = |kind: &str| format!("cannot decode !!str `{text}` as a !!{kind}");
    let Some(tag) = tag else {
        return if style == ScalarStyle::Plain { resolve(text) } else { Ok(Value::from(text)) };
    };
    match own_tag(tag).as_deref() {
        Some("int") => resolve(text)?.as_i64().map(Value::Int).ok_or_else(|| mismatch("int")),
        Some("float") => {
            let value = resolve(text)?;
            if value.as_f64().is_some() { Ok(value) } else { Err(mismatch("float")) }
        }
        Some("bool") => resolve(text)?.as_bool().map(Value::Bool).ok_or_else(|| mismatch("bool")),
        Some("null") => Ok(Value::Null),
        Some("binary") => {
            let compact: String = text.split_whitespace().collect();
            let bytes =
                STANDARD.decode(compact).map_err(|_| "!!binary value contains invalid base64 data")?;
            Ok(Value::String(String::from_utf8_lossy(&bytes).into_owned()))
        }
        _ => Ok(Value::from(text)),
    }
}

/// The value of a plain scalar (`yaml.v2` `resolve.go`).
fn resolve(text: &str) -> Result<Value, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Ok(Value::Bool(true));
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Ok(Value::Bool(false));
        }
        ".nan" | ".NaN" | ".NAN" => return Err("json: unsupported value: NaN".to_owned()),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Err("json: unsupported value: +Inf".to_owned());
        }
        "-.inf" | "-.Inf" | "-.INF" => return Err("json: unsupported value: -Inf".to_owned()),
        _ => {}
    }
    let first = text.bytes().next().unwrap_or(0);
    if !(first.is_ascii_digit() || matches!(first, b'+' | b'-' | b'.')) {
        return Ok(Value::from(text));
    }
    let plain = text.replace('_', "");
    if let Some(number) = integer(&plain) {
        return Ok(number);
    }
    if is_float(&plain)
        && let Ok(x) = plain.parse::<f64>()
        && x.is_finite()
    {
        // Through JSON: a whole number that prints without an exponent comes back as an integer.
        return json::parse(&Value::Float(x).to_vec()).map_err(|e| e.to_string());
    }
    Ok(Value::from(text))
}

/// Returns true if an unquoted text is read as a string, not as a boolean, a number or null.
pub(crate) fn is_plain_string(text: &str) -> bool {
    matches!(resolve(text), Ok(Value::String(_))) && text != "<<"
}

/// Parses an integer as Go's `strconv.ParseInt(text, 0, 64)` does, and a larger one as `ParseUint`.
fn integer(text: &str) -> Option<Value> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let prefix = digits.get(..2).unwrap_or("").to_ascii_lowercase();
    let (radix, digits) = match prefix.as_str() {
        "0x" => (16, digits.get(2..)?),
        "0b" => (2, digits.get(2..)?),
        "0o" => (8, digits.get(2..)?),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    // `from_str_radix` would take a second sign.
    if !digits.bytes().next()?.is_ascii_alphanumeric() {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        return 0i64.checked_sub_unsigned(magnitude).map(Value::Int);
    }
    #[allow(clippy::cast_precision_loss, reason = "as Go reads a whole number that does not fit 64 bits")]
    Some(i64::try_from(magnitude).map_or(Value::Float(magnitude as f64), Value::Int))
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|e| !e.is_empty() && digits(e))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{documents, parse};

    fn check(text: &str, want: &str) {
        let got = match parse(text) {
            Ok(document) => document.value.to_string(),
            Err(e) => format!("error: {e}"),
        };
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn plain_scalars_mean_what_yaml_1_1_says() {
        check("[y, Yes, on, TRUE, n, No, off]", "[true,true,true,true,false,false,false]");
        check("[~, null, Null, '']", "[null,null,null,\"\"]");
        check("a:", r#"{"a":null}"#);
        check("[1, -5, +7, 0x1F, 0b101, 0o17, 0777, 1_000]", "[1,-5,7,31,5,15,511,1000]");
        check("[08, 1.0, 1.5, 1e3, 1e-7, .5, 1., 1e21]", "[8,1,1.5,1000,1e-7,0.5,1,1e+21]");
        check("[9223372036854775807, 9223372036854775808]", "[9223372036854775807,9223372036854776000]");
        check("[-9223372036854775808]", "[-9223372036854775808]");
        check(
            "[2001-01-01, 1.2.3, 1h, 0x, --1, +-1, 1e, '1', \"y\"]",
            r#"["2001-01-01","1.2.3","1h","0x","--1","+-1","1e","1","y"]"#,
        );
        check("[.nan]", "error: json: unsupported value: NaN");
        check("-.inf", "error: json: unsupported value: -Inf");
    }

    #[test]
    fn tags() {
        check(
            "[!!str 1, !!int '5', !!float 1, !!bool 'no', !!binary aGk=, !x 1]",
            r#"["1",5,1,false,"hi","1"]"#,
        );
        check("!!int x", "error: yaml: cannot decode !!str `x` as a !!int");
        check("!!binary '*'", "error: yaml: !!binary value contains invalid base64 data");
    }

    #[test]
    fn keys_become_strings() {
        check("{1: a, true: b, y: c, 1.5: e}", r#"{"1":"a","1.5":"e","true":"c"}"#);
        check("? [a]\n: b", "error: yaml: invalid map key");
        check("~: d", r#"error: unsupported map key of type: %!s(<nil>), key: <nil>, value: "d""#);
        assert_eq!(parse("{true: b, y: c}").unwrap().duplicates, ["line 1: key true already set in map"]);
    }

    #[test]
    fn blocks_and_documents() {
        check("a: |\n  x\n  y\nb: >\n  x\n  y\n", r#"{"a":"x\ny\n","b":"x y\n"}"#);
        check("---\na: 1\n---\nb: 2\n", r#"{"a":1}"#);
        check("", "null");
        check("# nothing\n", "null");
        check("{\"a\": [1, {\"b\": null}]}", r#"{"a":[1,{"b":null}]}"#);
    }

    #[test]
    fn anchors_and_merges() {
        check("a: &x {b: 1}\nc: *x", r#"{"a":{"b":1},"c":{"b":1}}"#);
        check("base: &b {x: 1, z: 2}\nd:\n  z: 3\n  <<: *b", r#"{"base":{"x":1,"z":2},"d":{"x":1,"z":3}}"#);
        check("d:\n  <<: [{x: 1}, {x: 2, z: 2}]", r#"{"d":{"x":1,"z":2}}"#);
        check("{<<: 1}", "error: yaml: map merge requires map or sequence of maps as the value");
        check("{'<<': 1}", r#"{"\u003c\u003c":1}"#);
        assert_eq!(parse("a: 1\nb: *none-1 # x").unwrap_err(), "yaml: unknown anchor 'none-1' referenced");
        check("&x [*x]", "error: yaml: anchor 'x' value contains itself");
        check("[&w 1, &x [*w, *x]]", "error: yaml: anchor 'x' value contains itself");
        assert_eq!(parse("*none").unwrap_err(), "yaml: unknown anchor 'none' referenced");
    }

    #[test]
    fn what_go_yaml_refuses_is_refused() {
        check("%YAML 1.1\n%TAG !e! tag:example.com,2000:\n---\na: 1", r#"{"a":1}"#);
        check("%YAML 1.2\n---\na: 1", "error: yaml: found incompatible YAML document");
        check("# so\n\n%FROB x\n---\na: 1", "error: yaml: found unknown directive name");
        check("a: b\0c", "error: yaml: control characters are not allowed");
        check("a: \"b\\0c\"", r#"{"a":"b\u0000c"}"#);
        check("\u{feff}a: 1", r#"{"a":1}"#);
    }

    #[test]
    fn duplicates_are_named_and_the_last_one_stays() {
        let document = parse("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n").unwrap();
        assert_eq!(document.value.to_string(), r#"{"a":3,"b":{"c":2}}"#);
        assert_eq!(
            document.duplicates,
            ["line 4: key \"c\" already set in map", "line 5: key \"a\" already set in map"]
        );
    }

    #[test]
    fn aliases_cannot_unfold_without_bound() {
        let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for i in 1..20 {
            let aliases = vec![format!("*a{}", i - 1); 10].join(",");
            text += &format!("a{i}: &a{i} [{aliases}]\n");
        }
        assert!(parse(&text).unwrap_err().ends_with("document contains excessive aliasing"));

        let mut text = format!("# {}\na0: &a0 [x]\n", "-".repeat(20_000));
        for i in 1..400 {
            text += &format!("a{i}: &a{i} [*a{}]\n", i - 1);
        }
        assert!(parse(&text).unwrap_err().ends_with("exceeded max depth of 256"));

        let text = "[&a ".repeat(250) + &",*a]".repeat(250);
        assert!(parse(&text).unwrap_err().ends_with("document contains excessive aliasing"));

        // As long as it is for each alias that others would write.
        let template = format!("a: &a [{}]\n", vec!["word"; 500].join(","));
        let text = format!("{template}b: [{}]", vec!["*a"; 30].join(","));
        assert!(parse(&text).is_ok());

        let big = format!("a: &a {}\nb: [{}]", "x".repeat(100_000), vec!["*a"; 1000].join(","));
        assert!(parse(&big).unwrap_err().ends_with("document contains excessive aliasing"));
    }

    #[test]
    fn nesting_has_a_bound() {
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert!(parse(&"- ".repeat(100_000)).is_err());
        assert!(parse(&(0..2000).map(|i| " ".repeat(i) + "a:\n").collect::<String>()).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z&*<:!\\-\\[\\]{},'\"|> \n0-9.]{0,80}") {
            let _ = documents(&text).count();
        }

        #[test]
        fn json_is_read_as_json(n in any::<i64>(), x in -1e9f64..1e9, s in "[a-zé\\\\\" ]{0,9}") {
            let value = kindom_api::object! { "n": n, "x": vec![kindom_api::json::Value::Float(x)], "s": s };
            let text = value.to_string();
            let want = kindom_api::json::parse(text.as_bytes()).unwrap();
            prop_assert_eq!(parse(&text).unwrap().value, want);
        }
    }
}
