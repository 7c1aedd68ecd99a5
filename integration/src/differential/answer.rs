//! The parts of an answer that are compared.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::replay::out_of_order;

/// The answers to one object's writes, masked alike for both servers.
///
/// A uid and a resourceVersion are numbered by their first appearance, so that it shows whether one stayed.
#[derive(Debug, Default)]
pub struct Answers {
    uids: Vec<String>,
    revisions: Vec<String>,
    last: Option<String>,
    times: BTreeSet<String>,
    disorder: Option<String>,
}

impl Answers {
    /// The last resourceVersion that an answer gave.
    #[must_use]
    pub fn revision(&self) -> &str {
        self.last.as_deref().unwrap_or("1")
    }

    /// Returns true if all times that the server set were the same second. The order of managedFields depends on that, and
    /// the order decides if a write changes anything: so only such answers are compared.
    #[must_use]
    pub fn in_one_second(&self) -> bool {
        self.times.len() <= 1
    }

    /// The first managedFields that were not in Kubernetes' order. The comparison uses the order that entries of one second
    /// have.
    #[must_use]
    pub fn disorder(&self) -> Option<&str> {
        self.disorder.as_deref()
    }

    /// Masks the next answer.
    pub fn mask(&mut self, status: u16, warnings: &[String], body: &[u8]) -> Value {
        let mut value: Value = serde_json::from_slice(body)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()));
        if (200..300).contains(&status)
            && let Some(revision) = value.pointer("/metadata/resourceVersion").and_then(Value::as_str)
        {
            self.last = Some(revision.to_owned());
        }
        self.disorder = self.disorder.take().or_else(|| out_of_order(&value).into_iter().next());
        self.walk(&mut value);
        if value.get("kind").is_some_and(|kind| kind == "Status") {
            settle_status(&mut value);
        }
        json!({"status": status, "warnings": warnings, "body": value})
    }

    fn walk(&mut self, value: &mut Value) {
        let Value::Object(members) = value else { return };
        if let Some(Value::String(uid)) =
            members.get_mut("details").and_then(|details| details.get_mut("uid"))
        {
            *uid = number(&mut self.uids, uid, "uid");
        }
        let Some(Value::Object(metadata)) = members.get_mut("metadata") else { return };
        for (key, value) in metadata.iter_mut() {
            match (key.as_str(), value) {
                ("uid", Value::String(uid)) => *uid = number(&mut self.uids, uid, "uid"),
                ("resourceVersion", Value::String(revision)) => {
                    *revision = number(&mut self.revisions, revision, "rv");
                }
                ("creationTimestamp" | "deletionTimestamp", Value::String(time)) => {
                    self.times.insert(std::mem::replace(time, "<time>".to_owned()));
                }
                ("managedFields", Value::Array(entries)) => settle_managers(entries, &mut self.times),
                _ => {}
            }
        }
    }
}

fn number(seen: &mut Vec<String>, value: &str, kind: &str) -> String {
    let place = seen.iter().position(|known| known == value).unwrap_or_else(|| {
        seen.push(value.to_owned());
        seen.len() - 1
    });
    format!("<{kind}-{}>", place + 1)
}

/// Hides the times of the run, and gives the entries the order in which they would be if they were all the same.
fn settle_managers(entries: &mut [Value], times: &mut BTreeSet<String>) {
    for entry in entries.iter_mut() {
        if let Some(Value::String(time)) = entry.get_mut("time")
            && time.as_str() >= "2020"
        {
            times.insert(std::mem::replace(time, "<time>".to_owned()));
        }
    }
    entries.sort_by_key(|entry| {
        ["operation", "time", "manager", "apiVersion", "subresource"]
            .map(|key| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned())
    });
}

/// Hides an object that a message quotes, times and all.
fn settle_message(of: &mut Value) {
    let Some(Value::String(message)) = of.get_mut("message") else { return };
    let Some((head, quoted)) = message.split_once("\"{\\\"apiVersion\\\"") else { return };
    let mut escaped = false;
    let end = quoted.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    if let Some(rest) = end.and_then(|end| quoted.get(end..)) {
        *message = format!("{head}\"<object>{rest}");
    }
}

/// Gives the causes one order, and the faults of a message, which upstream takes from a map.
fn settle_status(status: &mut Value) {
    let mut several = false;
    settle_message(status);
    if let Some(Value::Array(causes)) = status.pointer_mut("/details/causes") {
        causes.iter_mut().for_each(settle_message);
        causes.sort_by_key(Value::to_string);
        several = causes.len() > 1;
    }
    let Some(Value::String(message)) = status.get_mut("message") else { return };
    if several && let Some((head, _)) = message.split_once(" is invalid: [") {
        *message = format!("{head} is invalid: <causes>");
    }
    // The faults reported before an undeclared field, which ends the walk, depend on a map's order too.
    if message.starts_with("failed to create typed")
        && message.contains("field not declared in schema")
        && let Some((head, _)) = message.split_once("): ")
    {
        *message = format!("{head}): <undeclared>");
    }
    if let Some((head, faults)) = message.split_once("errors:\n") {
        let mut faults: Vec<&str> = faults.lines().collect();
        faults.sort_unstable();
        *message = format!("{head}errors:\n{}", faults.join("\n"));
    }
}

/// The places in which two masked answers differ, a line each.
#[must_use]
pub fn difference(theirs: &Value, ours: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    descend("", theirs, ours, &mut lines);
    lines
}

fn descend(place: &str, theirs: &Value, ours: &Value, lines: &mut Vec<String>) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            let keys: BTreeMap<&String, ()> = theirs.keys().chain(ours.keys()).map(|key| (key, ())).collect();
            for key in keys.into_keys() {
                let place = format!("{place}/{}", key.replace('~', "~0").replace('/', "~1"));
                match (theirs.get(key), ours.get(key)) {
                    (Some(theirs), Some(ours)) => descend(&place, theirs, ours, lines),
                    (Some(theirs), None) => lines.push(format!("{place}: expected {theirs}, got nothing")),
                    (None, Some(ours)) => lines.push(format!("{place}: expected nothing, got {ours}")),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (theirs, ours)) in a.iter().zip(b).enumerate() {
                descend(&format!("{place}/{index}"), theirs, ours, lines);
            }
        }
        (theirs, ours) if theirs == ours => {}
        (theirs, ours) => lines.push(format!("{place}: expected {theirs}, got {ours}")),
    }
}
