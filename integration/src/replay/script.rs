//! The formats: scripts, expectations, variables and pointers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(super) type Vars = BTreeMap<String, String>;

/// One `<topic>.script.json`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Script {
    /// One sentence.
    #[serde(default)]
    pub about: String,
    /// Text for `${name}`.
    #[serde(default)]
    pub vars: BTreeMap<String, String>,
    /// Bodies that steps start from.
    #[serde(default)]
    pub fixtures: BTreeMap<String, Value>,
    /// `true` if managedFields are left out of the comparison.
    #[serde(default = "yes")]
    pub mask_managed_fields: bool,
    /// The requests, in order.
    pub steps: Vec<Step>,
}

fn yes() -> bool {
    true
}

/// One request, and the parts of its answer that are compared.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Step {
    /// Unique in the script.
    pub name: String,
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    raw_query: String,
    headers: BTreeMap<String, Values>,
    from: Option<String>,
    set: BTreeMap<String, Value>,
    remove: Vec<String>,
    body: Option<Value>,
    body_text: Option<String>,
    body_repeat: Option<Repeat>,
    content_type: Option<String>,
    accept: Option<String>,
    pub(super) capture: BTreeMap<String, String>,
    pub(super) until: Vec<Condition>,
    pub(super) watch: Option<Stop>,
    pub(super) select: Vec<String>,
    pub(super) record: Record,
}

/// The values of a header: a text or, for one that is sent repeatedly, a list of texts.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Values {
    One(String),
    Several(Vec<String>),
}

impl Values {
    fn all(&self) -> &[String] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Several(values) => values,
        }
    }
}

/// The parts of an answer that are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Record {
    /// Status, headers, body.
    #[default]
    Full,
    /// The body to the byte, even if it is JSON.
    Text,
    /// The status and nothing else.
    Status,
}

#[derive(Debug, Clone, Deserialize)]
struct Repeat {
    prefix: String,
    unit: String,
    count: usize,
    suffix: String,
}

/// The condition that a polled answer must satisfy.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Condition {
    condition: Option<String>,
    status: Option<u16>,
    pointer: Option<String>,
    equals: Value,
}

impl Condition {
    /// Returns true if an answer satisfies the condition. An absent member equals null.
    #[must_use]
    pub fn holds(&self, status: u16, body: Option<&Value>) -> bool {
        if let Some(wanted) = self.status {
            return status == wanted;
        }
        let Some(body) = body else { return false };
        if let Some((kind, wanted)) = self.condition.as_deref().and_then(|text| text.split_once('=')) {
            return lookup(body, &format!("/status/conditions/[type={kind}]/status"))
                .is_some_and(|is| is == wanted);
        }
        self.pointer
            .as_deref()
            .is_some_and(|pointer| lookup(body, pointer).unwrap_or(&Value::Null) == &self.equals)
    }
}

/// The part of a stream that is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stop {
    events: usize,
    until: String,
}

impl Stop {
    /// Returns true if these events are all that the step wants. Never, if it wants everything that the server sends until
    /// it ends the stream.
    #[must_use]
    pub fn reached(&self, events: &[Value]) -> bool {
        match self.until.as_str() {
            "" => events.len() >= self.events,
            "initial-events-end" => events.last().is_some_and(ends_initial_events),
            _ => false,
        }
    }
}

/// The marked bookmark, also where it is a Table's row.
fn ends_initial_events(event: &Value) -> bool {
    ["/object", "/object/rows/0/object"].iter().any(|place| {
        lookup(event, &format!("{place}/metadata/annotations/k8s.io~1initial-events-end"))
            .is_some_and(|marker| marker == "true")
    })
}

/// A request as it is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method, which may be one that HTTP does not know.
    pub method: String,
    /// Path and query, encoded; to be sent as it is.
    pub target: String,
    /// All headers but Host and Content-Length.
    pub headers: Vec<(String, String)>,
    /// The body, if there is one.
    pub body: Option<Vec<u8>>,
}

/// One `<topic>.expected.json`.
#[derive(Debug, Clone, Deserialize)]
pub struct Expectations {
    /// The [`fingerprint`](crate::fingerprint::fingerprint) of the script's file.
    #[serde(default)]
    pub requests: String,
    /// The answers, one for every step.
    pub steps: Vec<Answer>,
}

/// The real server's answer, masked.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    /// The step's name.
    pub name: String,
    /// The HTTP status.
    pub status: u16,
    pub(super) headers: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) body: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) select: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) events: Option<Vec<Value>>,
}

impl Step {
    /// The request, with all variables filled in.
    ///
    /// # Errors
    /// A sentence: an unknown variable (of a capture that failed) or fixture, or a pointer that leads nowhere.
    pub(super) fn request(&self, script: &Script, vars: &Vars) -> Result<Request, String> {
        let mut target = substitute(&self.path, vars)?;
        let mut query = vec![substitute(&self.raw_query, vars)?];
        for (key, value) in &self.query {
            query.push(format!("{}={}", percent(key), percent(&substitute(value, vars)?)));
        }
        query.retain(|part| !part.is_empty());
        if !query.is_empty() {
            target = format!("{target}?{}", query.join("&"));
        }
        let body = self.bytes(script, vars)?;
        let mut headers = vec![("User-Agent".to_owned(), "kindom-replay/1".to_owned())];
        let accept = self.accept.as_deref().unwrap_or("application/json");
        if accept != "-" {
            headers.push(("Accept".to_owned(), accept.to_owned()));
        }
        let content_type = self.content_type.as_deref().unwrap_or("application/json");
        if body.is_some() && content_type != "-" {
            headers.push(("Content-Type".to_owned(), content_type.to_owned()));
        }
        for (name, values) in &self.headers {
            // A script may be another client.
            headers.retain(|(default, _)| default != "User-Agent" || name != "User-Agent");
            for value in values.all() {
                headers.push((name.clone(), substitute(value, vars)?));
            }
        }
        Ok(Request { method: self.method.clone(), target, headers, body })
    }

    /// Returns true if a watch may begin with any state that the server has at hand.
    pub(super) fn watches_any_state(&self) -> bool {
        self.watch.is_some() && self.query.iter().any(|(key, value)| key == "resourceVersion" && value == "0")
    }

    fn bytes(&self, script: &Script, vars: &Vars) -> Result<Option<Vec<u8>>, String> {
        if let Some(Repeat { prefix, unit, count, suffix }) = &self.body_repeat {
            return Ok(Some(format!("{prefix}{}{suffix}", unit.repeat(*count)).into_bytes()));
        }
        if let Some(text) = &self.body_text {
            return Ok(Some(substitute(text, vars)?.into_bytes()));
        }
        let mut body = match (&self.from, &self.body) {
            (Some(name), _) => {
                script.fixtures.get(name).cloned().ok_or_else(|| format!("no fixture {name}"))?
            }
            (None, Some(body)) => body.clone(),
            (None, None) => return Ok(None),
        };
        for (pointer, value) in &self.set {
            set(&mut body, &segments(pointer), value).ok_or_else(|| format!("cannot set {pointer}"))?;
        }
        for pointer in &self.remove {
            remove(&mut body, pointer).ok_or_else(|| format!("cannot remove {pointer}"))?;
        }
        Ok(Some(substitute(&body.to_string(), vars)?.into_bytes()))
    }
}

/// Fills in `${name}`; a value may hold further references.
pub(super) fn substitute(text: &str, vars: &Vars) -> Result<String, String> {
    let mut text = text.to_owned();
    for _ in 0..8 {
        if !text.contains("${") {
            return Ok(text);
        }
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once("${") {
            let (name, tail) = after.split_once('}').ok_or_else(|| format!("unclosed variable in {text}"))?;
            out.push_str(before);
            out.push_str(vars.get(name).ok_or_else(|| format!("unknown variable {name}"))?);
            rest = tail;
        }
        out.push_str(rest);
        text = out;
    }
    Err(format!("variables refer to each other without end: {text}"))
}

fn percent(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

pub(super) fn segments(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|segment| segment.replace("~1", "/").replace("~0", "~")).collect()
}

/// Follows a JSON pointer, whose segments may also be `[key=value]`: the first element of an array whose member at the
/// dotted key has that text.
pub(super) fn lookup<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    segments(pointer).iter().try_fold(value, |value, segment| match value {
        Value::Object(members) => members.get(segment),
        Value::Array(items) => match segment.strip_prefix('[') {
            Some(selector) => {
                let (key, wanted) = selector.strip_suffix(']')?.split_once('=')?;
                items.iter().find(|item| {
                    let member = key.split('.').try_fold(*item, |item, part| item.get(part));
                    member.is_some_and(|member| member == wanted)
                })
            }
            None => items.get(segment.parse::<usize>().ok()?),
        },
        _ => None,
    })
}

/// A captured value as text.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(super) fn set(value: &mut Value, path: &[String], child: &Value) -> Option<()> {
    let Some((first, rest)) = path.split_first() else {
        *value = child.clone();
        return Some(());
    };
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(members) => set(members.entry(first.clone()).or_insert(Value::Null), rest, child),
        Value::Array(items) if first == "-" => {
            items.push(Value::Null);
            set(items.last_mut()?, rest, child)
        }
        Value::Array(items) => set(items.get_mut(first.parse::<usize>().ok()?)?, rest, child),
        _ => None,
    }
}

pub(super) fn remove(value: &mut Value, pointer: &str) -> Option<()> {
    let (parent, _) = pointer.rsplit_once('/')?;
    let last = segments(pointer).pop()?;
    value.pointer_mut(parent)?.as_object_mut()?.remove(&last);
    Some(())
}
