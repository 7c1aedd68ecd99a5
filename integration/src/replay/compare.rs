//! Compares an answer with the recorded one.
//!
//! The recording holds symbols where values differ from run to run. Nothing is masked on this side: a symbol is
//! matched against the value in its place and bound to it, so that a step that differs shifts no later numbers.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Response;
use super::managers;
use super::script::{Answer, Record, Step, Vars, lookup, substitute};

/// The value that each numbered symbol stands for, one to one.
#[derive(Debug, Clone, Default)]
pub struct Bindings {
    values: BTreeMap<String, String>,
}

impl Bindings {
    /// Binds a numbered symbol such as `uid-1`, or checks that it stands for this value and no other of its kind does.
    ///
    /// resourceVersions are numbered by their size, so `rv-2` is also greater than `rv-1`; `rv-2+` is bound to nothing
    /// and is at least `rv-2`. A symbol without a number stands for any value.
    fn bind(&mut self, symbol: &str, value: &str) -> bool {
        let Some((kind, number)) = symbol.split_once('-') else { return true };
        if let Some(least) = number.strip_suffix('+') {
            return self
                .of_kind(kind)
                .all(|(number, bound)| order(number, least).is_gt() || order(bound, value).is_le());
        }
        let fits = self.of_kind(kind).all(|(other, bound)| match kind {
            "rv" => order(other, number) == order(bound, value),
            _ => (other == number) == (bound == value),
        });
        if fits {
            self.values.insert(symbol.to_owned(), value.to_owned());
        }
        fits
    }

    /// The numbers of a kind of symbol, each with its value.
    fn of_kind(&self, kind: &str) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().filter_map(move |(symbol, bound)| {
            let (of, number) = symbol.split_once('-')?;
            (of == kind).then_some((number, bound.as_str()))
        })
    }
}

/// Compares whole numbers of any length, without leading zeros.
fn order(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// The headers that the recording keeps.
const HEADERS: [&str; 6] = ["Allow", "Content-Type", "ETag", "Location", "Retry-After", "Warning"];

/// One step's comparison.
pub(super) struct Comparison<'a> {
    pub(super) step: &'a Step,
    pub(super) vars: &'a Vars,
    /// `true` if managedFields are left out.
    pub(super) managed_fields: bool,
    pub(super) bindings: &'a mut Bindings,
}

impl Comparison<'_> {
    /// One line for each difference.
    pub(super) fn answer(
        mut self,
        expected: &Answer,
        response: &Response,
        events: Option<&[Value]>,
    ) -> Vec<String> {
        let mut differences = Differences::default();
        if expected.status != response.status {
            let body: String = String::from_utf8_lossy(&response.body).chars().take(500).collect();
            // Of another answer, every line would differ.
            return vec![format!("status: expected {}, got {}: {body}", expected.status, response.status)];
        }
        if self.step.record == Record::Status {
            return Vec::new();
        }
        self.headers(&expected.headers, response, &mut differences);
        match (&expected.events, events) {
            (Some(expected), Some(events)) => self.events(expected, events, &mut differences),
            (Some(_), None) => differences.push("", "expected a stream of events"),
            (None, Some(events)) => {
                differences.push("", &format!("expected no stream, got {} events", events.len()))
            }
            (None, None) => self.body(expected, response, &mut differences),
        }
        differences.lines
    }

    fn headers(&mut self, expected: &Map<String, Value>, response: &Response, differences: &mut Differences) {
        for name in HEADERS {
            let ours: Vec<&str> = response.header(name).collect();
            let theirs: Vec<&str> = match expected.get(name) {
                Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).collect(),
                Some(Value::String(value)) => vec![value],
                _ => Vec::new(),
            };
            let same = theirs.len() == ours.len()
                && theirs
                    .iter()
                    .zip(&ours)
                    .all(|(theirs, ours)| *theirs == "<present>" || match_text(theirs, ours, self.bindings));
            if !same {
                differences.push(name, &format!("expected {theirs:?}, got {ours:?}"));
            }
        }
    }

    fn events(&mut self, expected: &[Value], events: &[Value], differences: &mut Differences) {
        if expected.len() != events.len() {
            let kinds: Vec<&Value> = events.iter().filter_map(|event| event.get("type")).collect();
            differences
                .push("", &format!("expected {} events, got {}: {kinds:?}", expected.len(), events.len()));
        }
        for (index, (expected, event)) in expected.iter().zip(events).enumerate() {
            let event = self.cleaned(event, differences);
            compare(&format!("event {index}"), expected, &event, self.bindings, differences);
        }
    }

    fn body(&mut self, expected: &Answer, response: &Response, differences: &mut Differences) {
        if let Some(text) = &expected.text {
            let mut ours = String::from_utf8_lossy(&response.body).into_owned();
            if self.managed_fields {
                ours = strip_managed_fields(&ours);
            }
            if !match_text(text, &ours, self.bindings) {
                differences.push("text", &format!("expected\n{text}\ngot\n{ours}"));
            }
            return;
        }
        // The recorder leaves a selection out that found nothing.
        let nothing = Map::new();
        let select = expected.select.as_ref().or((!self.step.select.is_empty()).then_some(&nothing));
        if expected.body.is_none() && select.is_none() {
            if !response.body.is_empty() {
                differences
                    .push("body", &format!("expected none, got {}", String::from_utf8_lossy(&response.body)));
            }
            return;
        }
        let Some(ours) = response.json() else {
            differences.push("body", &format!("is not JSON: {}", String::from_utf8_lossy(&response.body)));
            return;
        };
        let ours = self.cleaned(&ours, differences);
        if let Some(body) = &expected.body {
            compare("", body, &ours, self.bindings, differences);
        }
        if let Some(parts) = select {
            for pointer in &self.step.select {
                let path = substitute(pointer, self.vars).unwrap_or_else(|_| pointer.clone());
                member(pointer, parts.get(pointer), lookup(&ours, &path), self.bindings, differences);
            }
        }
    }

    fn cleaned(&self, value: &Value, differences: &mut Differences) -> Value {
        let mut value = value.clone();
        if self.managed_fields {
            drop_managed_fields(&mut value);
        } else {
            managers::settle(&mut value, &mut |fault| differences.push("managedFields", fault));
        }
        value
    }
}

#[derive(Default)]
struct Differences {
    lines: Vec<String>,
}

impl Differences {
    fn push(&mut self, place: &str, what: &str) {
        self.lines.push(if place.is_empty() { what.to_owned() } else { format!("{place}: {what}") });
    }
}

fn drop_managed_fields(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
                metadata.remove("managedFields");
            }
            members.values_mut().for_each(drop_managed_fields);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_managed_fields),
        _ => {}
    }
}

fn compare(
    place: &str,
    expected: &Value,
    ours: &Value,
    bindings: &mut Bindings,
    differences: &mut Differences,
) {
    match (expected, ours) {
        (Value::Object(theirs), Value::Object(members)) => {
            let goes_on = explained_conflict(theirs, members);
            let mut keys: Vec<&String> = theirs.keys().chain(members.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let place = format!("{place}/{}", key.replace('~', "~0").replace('/', "~1"));
                if goes_on && key == "message" {
                    continue;
                }
                member(&place, theirs.get(key), members.get(key), bindings, differences);
            }
        }
        (Value::Array(theirs), Value::Array(items)) => {
            // Upstream's own order of causes differs from run to run.
            if place.ends_with("/details/causes") && theirs.len() > 1 {
                unordered(place, theirs, items, bindings, differences);
                return;
            }
            for index in 0..theirs.len().max(items.len()) {
                member(
                    &format!("{place}/{index}"),
                    theirs.get(index),
                    items.get(index),
                    bindings,
                    differences,
                );
            }
        }
        (Value::String(theirs), Value::String(text)) if match_text(theirs, text, bindings) => {}
        // A port that the server chose.
        (Value::String(theirs), Value::Number(number))
            if theirs.starts_with("<port-") && match_text(theirs, &number.to_string(), bindings) => {}
        // The age of an object at the time of its answer is left to chance.
        (Value::String(theirs), Value::String(text))
            if place.contains("/cells/") && are_ages(theirs, text) => {}
        (theirs, ours) if theirs == ours => {}
        (theirs, ours) => differences.push(place, &format!("expected {theirs}\n{}got {ours}", indent(place))),
    }
}

/// Returns true for two ages as tables show them, `7s` or `7y5d`, or `3 (7y5d ago)` after the same number. Both are of the test itself, or
/// both of a time that a script names, years ago: since the answer was recorded, that one has only become longer.
fn are_ages(theirs: &str, ours: &str) -> bool {
    fn number(text: &str) -> Option<u32> {
        text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()))
    }
    /// Years and days.
    fn years(text: &str) -> Option<(u32, u32)> {
        let (years, days) = text.split_once('y')?;
        let days = if days.is_empty() { 0 } else { number(days.strip_suffix('d')?)? };
        Some((number(years)?, days))
    }
    fn is_short(text: &str) -> bool {
        text.strip_suffix(['s', 'm']).is_some_and(|digits| number(digits).is_some())
    }
    fn ago(text: &str) -> Option<(&str, &str)> {
        text.strip_suffix(" ago)")?.split_once(" (")
    }
    match (ago(theirs), ago(ours)) {
        (Some((theirs, recorded)), Some((ours, age))) => theirs == ours && are_ages(recorded, age),
        _ => match (years(theirs), years(ours)) {
            (Some(recorded), Some(age)) => age >= recorded,
            _ => is_short(theirs) && is_short(ours),
        },
    }
}

/// Returns true if both are the condition `NamesAccepted`, False, and our message goes on after theirs: ours also names the
/// holder (T-18). The beginning is upstream's to the byte, and the rest must be such an explanation.
fn explained_conflict(theirs: &Map<String, Value>, ours: &Map<String, Value>) -> bool {
    let is_conflict = |condition: &Map<String, Value>| {
        let says = |field: &str, text: &str| condition.get(field).and_then(Value::as_str) == Some(text);
        says("type", "NamesAccepted") && says("status", "False")
    };
    let message = |condition: &Map<String, Value>| condition.get("message")?.as_str().map(str::to_owned);
    let (Some(theirs_said), Some(ours_said)) = (message(theirs), message(ours)) else { return false };
    is_conflict(theirs)
        && is_conflict(ours)
        && ours_said
            .strip_prefix(&theirs_said)
            .is_some_and(|rest| (rest.starts_with(" by ") || rest.starts_with(": \"")) && rest.contains("; "))
}

/// Lines the second value up below the first.
fn indent(place: &str) -> String {
    let before = if place.is_empty() { 0 } else { place.len() + ": ".len() };
    " ".repeat(before + "expected ".len() - "got ".len())
}

fn member(
    place: &str,
    expected: Option<&Value>,
    ours: Option<&Value>,
    bindings: &mut Bindings,
    differences: &mut Differences,
) {
    match (expected, ours) {
        (Some(expected), Some(ours)) => compare(place, expected, ours, bindings, differences),
        (Some(expected), None) => differences.push(place, &format!("expected {expected}, got nothing")),
        (None, Some(ours)) => differences.push(place, &format!("expected nothing, got {ours}")),
        (None, None) => {}
    }
}

fn unordered(
    place: &str,
    expected: &[Value],
    ours: &[Value],
    bindings: &mut Bindings,
    differences: &mut Differences,
) {
    let mut left: Vec<&Value> = ours.iter().collect();
    for expected in expected {
        let found = left.iter().position(|ours| {
            let mut attempt = Differences::default();
            let mut bound = bindings.clone();
            compare(place, expected, ours, &mut bound, &mut attempt);
            let same = attempt.lines.is_empty();
            if same {
                *bindings = bound;
            }
            same
        });
        match found {
            Some(index) => {
                left.remove(index);
            }
            None => differences.push(place, &format!("expected {expected} among them")),
        }
    }
    for ours in left {
        differences.push(place, &format!("did not expect {ours}"));
    }
}

/// Returns true if a recorded text, with its symbols, matches this text.
///
/// A symbol takes as many characters as its kind allows and the rest then fits; few texts hold more than three.
fn match_text(expected: &str, text: &str, bindings: &mut Bindings) -> bool {
    let Some((before, symbol, after)) = next_symbol(expected) else { return expected == text };
    let Some(text) = text.strip_prefix(before) else { return false };
    for end in candidates(symbol, text) {
        let (Some(value), Some(rest)) = (text.get(..end), text.get(end..)) else { continue };
        let mut bound = bindings.clone();
        if bound.bind(symbol, value) && match_text(after, rest, &mut bound) {
            *bindings = bound;
            return true;
        }
    }
    false
}

/// Splits at the first `<symbol>`; other text in angle brackets is just text.
fn next_symbol(text: &str) -> Option<(&str, &str, &str)> {
    text.match_indices('<').find_map(|(start, _)| {
        let (symbol, after) = text.get(start + 1..)?.split_once('>')?;
        let kind = match symbol.split_once('-') {
            Some((kind @ ("uid" | "rv" | "suffix" | "ip" | "port"), number)) if is_number(kind, number) => {
                kind
            }
            None if symbol != "uid" && symbol != "suffix" => symbol,
            _ => return None,
        };
        let known = [
            "uid", "rv", "suffix", "time", "continue", "age", "hash", "object", "causes", "token", "ip",
            "port",
        ];
        known.contains(&kind).then_some((text.get(..start)?, symbol, after))
    })
}

fn is_number(kind: &str, number: &str) -> bool {
    let number = if kind == "rv" { number.strip_suffix('+').unwrap_or(number) } else { number };
    number.bytes().all(|b| b.is_ascii_digit())
}

/// The lengths that a symbol's value may have at the start of a text, the likeliest first.
fn candidates(symbol: &str, text: &str) -> Vec<usize> {
    let run = |allowed: &dyn Fn(u8) -> bool| text.bytes().take_while(|byte| allowed(*byte)).count();
    let shape = |pattern: &str| {
        text.bytes().zip(pattern.bytes()).take_while(|(b, p)| fits(*b, *p)).count() == pattern.len()
    };
    let exactly = |length: usize, fits: bool| if fits { vec![length] } else { Vec::new() };
    match symbol.split('-').next().unwrap_or_default() {
        "uid" => exactly(36, shape("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")),
        "rv" => exactly(run(&|b| b.is_ascii_digit()), shape("0")),
        "suffix" => exactly(5, run(&|b| b.is_ascii_lowercase() || b.is_ascii_digit()) >= 5),
        "time" if shape("0000-00-00T00:00:00.000000Z") => vec![27],
        "time" => exactly(20, shape("0000-00-00T00:00:00Z")),
        "continue" => {
            let length = run(&|b| b.is_ascii_alphanumeric() || b"-_=".contains(&b));
            exactly(length, length > 0)
        }
        "token" => {
            let length = run(&|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
            let dots = text.bytes().take(length).filter(|b| *b == b'.').count();
            exactly(length, text.starts_with("eyJ") && dots == 2)
        }
        "ip" => {
            let length = run(&|b| b.is_ascii_digit() || b == b'.');
            exactly(length, text.starts_with("10.0.0."))
        }
        "port" => exactly(5, run(&|b| b.is_ascii_digit()) == 5),
        "hash" => {
            let length = run(&|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b));
            exactly(length, length > 0)
        }
        "age" => {
            let length = run(&|b| b.is_ascii_digit() || b"smhdy".contains(&b));
            exactly(length, shape("0") && length > 1)
        }
        "object" => {
            text.match_indices('}').map(|(at, _)| at + 1).rev().filter(|_| text.starts_with('{')).collect()
        }
        // The list that ends the message; the causes themselves are compared one by one.
        _ => exactly(text.len(), text.starts_with('[')),
    }
}

fn fits(byte: u8, pattern: u8) -> bool {
    match pattern {
        b'0' => byte.is_ascii_digit(),
        b'x' => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        other => byte == other,
    }
}

/// Cuts the member out of a JSON or YAML text without touching a byte of the rest.
fn strip_managed_fields(text: &str) -> String {
    strip_json(strip_yaml(text))
}

fn strip_yaml(text: &str) -> String {
    let mut out = String::new();
    let mut cutting: Option<usize> = None;
    for line in text.split_inclusive('\n') {
        let content = line.trim_start_matches(' ');
        let depth = line.len() - content.len();
        if let Some(at) = cutting {
            if depth > at || (depth == at && content.starts_with("- ")) {
                continue;
            }
            cutting = None;
        }
        if content.trim_end() == "managedFields:" {
            cutting = Some(depth);
            continue;
        }
        out.push_str(line);
    }
    out
}

fn strip_json(mut text: String) -> String {
    const KEY: &str = "\"managedFields\":";
    while let Some(start) = text.find(KEY) {
        let Some(end) =
            text.get(start + KEY.len()..).and_then(array_length).map(|length| start + KEY.len() + length)
        else {
            break;
        };
        let after = text.get(end..).unwrap_or_default();
        // With a member goes a comma: the one behind, or else the one before.
        let (start, end) = match after.strip_prefix(',') {
            Some(rest) => (start, text.len() - rest.trim_start().len()),
            None => {
                let before = text.get(..start).unwrap_or_default().trim_end();
                (before.strip_suffix(',').unwrap_or(before).len(), end)
            }
        };
        text.replace_range(start..end, "");
    }
    text
}

/// The bytes up to and with the end of the array that a text starts with.
fn array_length(text: &str) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' if !quoted => depth += 1,
            b']' if !quoted => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b' ' | b'\n' => {}
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(pairs: &[(&str, &str)]) -> Vec<bool> {
        let mut bindings = Bindings::default();
        pairs.iter().map(|(expected, ours)| match_text(expected, ours, &mut bindings)).collect()
    }

    fn differences(expected: &Value, ours: &Value) -> Vec<String> {
        let mut differences = Differences::default();
        compare("", expected, ours, &mut Bindings::default(), &mut differences);
        differences.lines
    }

    #[test]
    fn a_numbered_symbol_stands_for_one_value_and_no_other_does() {
        assert_eq!(
            texts(&[
                ("<rv-1>", "7"),
                ("<rv-1>", "7"),
                ("<rv-1>", "8"),
                ("<rv-2>", "7"),
                ("<rv-2>", "9"),
                ("<rv-1>", "07")
            ]),
            [true, true, false, false, true, false]
        );
    }

    #[test]
    fn resource_versions_are_numbered_by_their_size() {
        assert_eq!(
            texts(&[
                ("<rv-2>", "9"),
                ("<rv-1>", "10"),
                ("<rv-1>", "8"),
                ("<rv-3>", "8"),
                ("<rv-3>", "100"),
                ("<rv-3+>", "99"),
                ("<rv-3+>", "100"),
                ("<rv-2+>", "99"),
                ("<rv-2+>", "8"),
                ("<rv-4+>", "99"),
                ("<rv+>", "99"),
            ]),
            [true, false, true, false, true, false, true, true, false, false, false]
        );
    }

    #[test]
    fn kinds_do_not_disturb_each_other() {
        assert_eq!(
            texts(&[("<rv-1>", "12345"), ("a-<suffix-1>", "a-12345"), ("<rv>", "12345")]),
            [true, true, true]
        );
    }

    #[test]
    fn symbols_match_what_they_stand_for_and_nothing_else() {
        let uid = "123e4567-e89b-12d3-a456-426614174000";
        for (expected, ours, same) in [
            ("<uid-1>", uid, true),
            ("<uid-1>", "not a uid", false),
            ("UID: <uid-1>, now", &format!("UID: {uid}, now"), true),
            ("<time>", "2020-01-02T03:04:05Z", true),
            ("<time>", "2020-01-02", false),
            ("<time>", "2020-01-02T03:04:05.678901Z", true),
            ("<age>", "5m30s", true),
            ("<age>", "<unknown>", false),
            ("<unknown>", "<unknown>", true),
            ("<none>", "5m", false),
            ("<continue>", "eyJ2Ijoi-_=", true),
            ("<continue>", "", false),
            ("?hash=<hash>", "?hash=0AF", true),
            ("in '<object>' (<rv>)", r#"in '{"a":{}}' (12)"#, true),
            ("X is invalid: <causes>", "X is invalid: [a, b]", true),
            ("X is invalid: <causes>", "X is invalid: a", false),
            ("a < b > c", "a < b > c", true),
        ] {
            assert_eq!(match_text(expected, ours, &mut Bindings::default()), same, "{expected} and {ours}");
        }
    }

    #[test]
    fn a_difference_names_its_place() {
        let lines = differences(
            &json!({"metadata": {"name": "a", "a/b": 1}, "items": [1, 2]}),
            &json!({"metadata": {"name": "b", "a/b": 1.0}, "items": [1], "more": null}),
        );
        assert_eq!(
            lines,
            [
                "/items/1: expected 2, got nothing",
                "/metadata/a~1b: expected 1\n                     got 1.0",
                "/metadata/name: expected \"a\"\n                     got \"b\"",
                "/more: expected nothing, got null",
            ]
        );
    }

    #[test]
    fn a_conflict_of_names_may_be_explained_further() {
        let condition = |kind: &str, status: &str, message: &str| json!({"type": kind, "status": status, "message": message});
        let theirs = "\"f\" is already in use";
        let ours = "\"f\" is already in use by foos.g.io (short name); choose another short name";
        let check = |kind: &str, status: &str, ours: &str| {
            differences(&condition(kind, status, theirs), &condition(kind, status, ours)).len()
        };
        assert_eq!(check("NamesAccepted", "False", ours), 0);
        assert_eq!(check("NamesAccepted", "False", theirs), 0, "the recorded server's own text");
        assert_eq!(check("NamesAccepted", "False", "\"f\" is already in use, sorry"), 1);
        assert_eq!(check("NamesAccepted", "False", &ours.replace('f', "g")), 1);
        assert_eq!(check("NamesAccepted", "True", ours), 1);
        assert_eq!(check("Established", "False", ours), 1);
        let mut other = condition("NamesAccepted", "False", ours);
        other["reason"] = json!("KindConflict");
        assert_eq!(differences(&condition("NamesAccepted", "False", theirs), &other).len(), 1);
    }

    #[test]
    fn only_in_cells_one_age_is_as_good_as_another() {
        let row = |cell: &str| json!({"rows": [{"cells": ["name", cell]}], "age": "0s"});
        assert!(
            differences(&row("0s"), &row("12s")).is_empty() && differences(&row("0s"), &row("1m")).is_empty()
        );
        for wrong in ["", "s", "1", "-1s", "name", "7y", "7y5d"] {
            assert_eq!(differences(&row("0s"), &row(wrong)).len(), 1, "{wrong:?}");
        }
        for later in ["7y333d", "8y", "10y1d"] {
            assert!(differences(&row("7y332d"), &row(later)).is_empty(), "{later:?}");
            let ago = |age: &str| row(&format!("3 ({age} ago)"));
            assert!(differences(&ago("7y332d"), &ago(later)).is_empty(), "{later:?}");
        }
        for wrong in ["0s", "y", "y5d", "7y5", "7y331d", "6y364d", "<unknown>", "3 (7y332d ago)"] {
            assert_eq!(differences(&row("7y332d"), &row(wrong)).len(), 1, "{wrong:?}");
        }
        assert_eq!(differences(&row("3 (7y332d ago)"), &row("4 (7y332d ago)")).len(), 1);
        assert_eq!(differences(&json!({"age": "0s"}), &json!({"age": "1s"})).len(), 1);
    }

    #[test]
    fn causes_have_no_order_and_other_arrays_have() {
        let causes = |list: Value| json!({"details": {"causes": list}, "finalizers": ["a", "b"]});
        assert!(differences(&causes(json!(["x", "y", "x"])), &causes(json!(["y", "x", "x"]))).is_empty());
        assert_eq!(differences(&causes(json!(["x", "y"])), &causes(json!(["y", "z"]))).len(), 2);
        assert_eq!(differences(&json!(["a", "b"]), &json!(["b", "a"])).len(), 2);
    }

    #[test]
    fn managed_fields_are_cut_out_of_text() {
        for (text, left) in [
            (
                r#"{"metadata":{"managedFields":[{"f":{"k:{\"a\":\"]\"}":{}}}],"name":"x"}}"#,
                r#"{"metadata":{"name":"x"}}"#,
            ),
            (r#"{"a":1, "managedFields": [[]]}"#, r#"{"a":1}"#),
            ("metadata:\n  managedFields:\n  - a: 1\n    b: 2\n  name: x\n", "metadata:\n  name: x\n"),
            ("untouched: [1, 2]\n", "untouched: [1, 2]\n"),
        ] {
            assert_eq!(strip_managed_fields(text), left);
        }
    }
}
