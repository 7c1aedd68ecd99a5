//! Replays the request scripts of `integration/expectations` and compares the answers with the oracle's recordings of the
//! real server.
//!
//! Knows no HTTP client: a test implements [`Transport`] over whichever it likes. The formats are described in
//! `integration/expectations/README.md`, the symbols in `integration/oracle/README.md`.
//!
//! # Guarantees
//! - Steps run in order; a step that differs, or that could not be sent, does not keep the later ones from running.
//! - A symbol such as `<uid-1>` stands for one value in the whole script, and two symbols of one kind for two values,
//!   so that "kept its resourceVersion" is compared although the number is not.
//! - A difference is either listed in `known-differences.json`, with kindom's own answer in each place that differs, or
//!   a failure. The rest of a listed answer is compared as any other, and a place that no longer differs is a failure
//!   too, so that the list can only shrink.
//! - An answer is compared only with what was recorded for these very requests: a recording carries the hash of its
//!   script.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fmt::Write as _;
use std::future::Future;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::fingerprint::fingerprint;

mod compare;
mod managers;
mod script;

pub use compare::Bindings;
pub use managers::out_of_order;
pub use script::{Answer, Condition, Expectations, Request, Script, Step, Stop};

/// The answer to a [`Request`].
#[derive(Debug, Clone, Default)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// Names, in any case, and values, in the order received.
    pub headers: Vec<(String, String)>,
    /// The whole body; empty for a stream that was read as events.
    pub body: Vec<u8>,
}

impl Response {
    /// The values of a header, whatever the case of its name.
    pub fn header<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers
            .iter()
            .filter(move |(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// The course of a watch.
#[derive(Debug, Clone)]
pub enum Watched {
    /// Anything but a 200: an ordinary answer.
    Refused(Response),
    /// A 200, its headers, and the events that were read until [`Stop::reached`] or the end of the stream.
    Events(Response, Vec<Value>),
}

/// Sends requests to the server under test.
pub trait Transport {
    /// The reason why a request had no answer.
    type Error: Display;

    /// Sends one request and reads the whole answer.
    fn request(&mut self, request: &Request) -> impl Future<Output = Result<Response, Self::Error>>;

    /// Sends one request and, if the answer is a 200, reads its events until [`Stop::reached`] or the stream ends.
    /// A time limit of the transport's own is a safety net and an error.
    fn watch(&mut self, request: &Request, stop: &Stop)
    -> impl Future<Output = Result<Watched, Self::Error>>;

    /// Called between two attempts of a step with `until`. `false` gives up: the last answer is then compared.
    fn pause(&mut self) -> impl Future<Output = bool>;
}

/// The reason why scripts or expectations could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A file could not be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file has the wrong format.
    #[error("{path}: {source}")]
    Format {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
    /// The script was changed after its answers were recorded, or the recording lacks a step.
    #[error("{script}: the script is not the one whose answers were recorded: record it again")]
    Stale {
        /// The topic.
        script: String,
    },
}

/// One topic: the script and the real server's recorded answers.
#[derive(Debug, Clone)]
pub struct Topic {
    /// The files' common name, such as `object-delete`.
    pub name: String,
    /// The requests.
    pub script: Script,
    /// The answers.
    pub expected: Expectations,
}

/// The outcome of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The step's name.
    pub step: String,
    /// One line for every place where the answers differ; none if they agree.
    pub differences: Vec<String>,
}

/// A difference that is meant, or known and not yet mended: kindom's own answer, place by place.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KnownDifference {
    /// The topic.
    pub script: String,
    /// The step's name.
    pub step: String,
    /// The reason.
    pub reason: String,
    /// JSON pointers into the recorded answer (`/status`, `/headers/Warning`, `/body/message`), each with kindom's
    /// value, in the recording's symbols.
    pub ours: BTreeMap<String, Value>,
    /// Pointers to members of the recorded answer that kindom's answer lacks.
    pub absent: Vec<String>,
    /// `true` if timing decides whether kindom's answer is this one or the recorded one.
    pub race: bool,
}

impl KnownDifference {
    fn places(&self) -> impl Iterator<Item = &str> {
        self.ours.keys().chain(&self.absent).map(String::as_str)
    }

    /// The recorded answer with kindom's known differences put in, except at one place.
    ///
    /// # Errors
    /// A sentence: a place that leads nowhere, or an answer that is none.
    fn applied(&self, recorded: &Answer, but_for: Option<&str>) -> Result<Answer, String> {
        let mut answer = serde_json::to_value(recorded).map_err(|cause| cause.to_string())?;
        for (pointer, value) in self.ours.iter().filter(|(pointer, _)| Some(pointer.as_str()) != but_for) {
            script::set(&mut answer, &script::segments(pointer), value)
                .ok_or_else(|| format!("{pointer} leads nowhere in the recorded answer"))?;
        }
        for pointer in self.absent.iter().filter(|pointer| Some(pointer.as_str()) != but_for) {
            script::remove(&mut answer, pointer)
                .ok_or_else(|| format!("{pointer} is not in the recorded answer"))?;
        }
        serde_json::from_value(answer).map_err(|cause| format!("not an answer any more: {cause}"))
    }
}

/// Reads every topic of a folder, in the order of their names.
///
/// # Errors
/// A file that is missing, malformed, or recorded for another state of its script.
pub fn read_topics(folder: &Path) -> Result<Vec<Topic>, ReplayError> {
    let io = |source| ReplayError::Io { path: folder.to_owned(), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let file = entry.map_err(io)?.file_name();
        if let Some(name) = file.to_str().and_then(|file| file.strip_suffix(".script.json")) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    names.into_iter().map(|name| read_topic(folder, name)).collect()
}

fn read_topic(folder: &Path, name: String) -> Result<Topic, ReplayError> {
    let path = folder.join(format!("{name}.script.json"));
    let text = bytes(&path)?;
    let script: Script = parse(&path, &text)?;
    let expected: Expectations = read(&folder.join(format!("{name}.expected.json")))?;
    let steps = script.steps.iter().map(|step| &step.name);
    if expected.requests != fingerprint(&text) || !steps.eq(expected.steps.iter().map(|answer| &answer.name))
    {
        return Err(ReplayError::Stale { script: name });
    }
    Ok(Topic { name, script, expected })
}

/// Reads `known-differences.json`.
///
/// # Errors
/// The file is missing or malformed.
pub fn read_known(path: &Path) -> Result<Vec<KnownDifference>, ReplayError> {
    read(path)
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ReplayError> {
    parse(path, &bytes(path)?)
}

fn bytes(path: &Path) -> Result<Vec<u8>, ReplayError> {
    std::fs::read(path).map_err(|source| ReplayError::Io { path: path.to_owned(), source })
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, ReplayError> {
    serde_json::from_slice(text).map_err(|source| ReplayError::Format { path: path.to_owned(), source })
}

/// Runs a topic's steps in order and compares every answer with the recorded one, or with kindom's own where `known`
/// lists the step.
pub async fn replay<T: Transport>(
    topic: &Topic,
    known: &[KnownDifference],
    transport: &mut T,
) -> Vec<Outcome> {
    let known = known.iter().filter(|known| known.script == topic.name).collect();
    let mut run = Run { topic, known, vars: topic.script.vars.clone(), bindings: Bindings::default() };
    let mut outcomes = Vec::new();
    for (step, expected) in topic.script.steps.iter().zip(&topic.expected.steps) {
        let differences = run.step(step, expected, transport).await;
        outcomes.push(Outcome { step: step.name.clone(), differences });
    }
    outcomes
}

struct Run<'a> {
    topic: &'a Topic,
    known: Vec<&'a KnownDifference>,
    vars: script::Vars,
    bindings: Bindings,
}

impl Run<'_> {
    async fn step<T: Transport>(&mut self, step: &Step, expected: &Answer, transport: &mut T) -> Vec<String> {
        let request = match step.request(&self.topic.script, &self.vars) {
            Ok(request) => request,
            Err(cause) => return vec![format!("not sent: {cause}")],
        };
        let (response, events) = match self.send(step, &request, transport).await {
            Ok(answer) => answer,
            Err(cause) => return vec![format!("no answer: {cause}")],
        };
        let mut differences = self.capture(step, &response);
        let compared = |expected: &Answer| {
            // Forget the symbols that a differing step has bound, so that the next step that agrees binds them.
            let mut bindings = self.bindings.clone();
            let comparison = compare::Comparison {
                step,
                vars: &self.vars,
                managed_fields: self.topic.script.mask_managed_fields,
                bindings: &mut bindings,
            };
            (comparison.answer(expected, &response, events.as_deref()), bindings)
        };
        let listed: Vec<&KnownDifference> =
            self.known.iter().copied().filter(|known| known.step == step.name).collect();
        let (found, bindings) = match listed.as_slice() {
            [] => compared(expected),
            [known] => as_listed(known, expected, compared),
            _ => (vec!["listed twice as a known difference".to_owned()], self.bindings.clone()),
        };
        differences.extend(found);
        if differences.is_empty() {
            self.bindings = bindings;
        }
        differences
    }

    async fn send<T: Transport>(
        &self,
        step: &Step,
        request: &Request,
        transport: &mut T,
    ) -> Result<(Response, Option<Vec<Value>>), T::Error> {
        if let Some(stop) = &step.watch {
            if step.watches_any_state() {
                // Any state may be one from before the last write, here as upstream; a list is of the latest, and the next watch begins
                // with no older one.
                let (collection, _) = request.target.split_once('?').unwrap_or((&request.target, ""));
                transport.request(&Request { target: collection.to_owned(), ..request.clone() }).await?;
            }
            return Ok(match transport.watch(request, stop).await? {
                Watched::Refused(response) => (response, None),
                Watched::Events(response, events) => (response, Some(events)),
            });
        }
        loop {
            let response = transport.request(request).await?;
            let met =
                step.until.iter().all(|condition| condition.holds(response.status, response.json().as_ref()));
            if met || !transport.pause().await {
                return Ok((response, None));
            }
        }
    }

    fn capture(&mut self, step: &Step, response: &Response) -> Vec<String> {
        let body = if step.capture.is_empty() { None } else { response.json() };
        let mut differences = Vec::new();
        for (name, source) in &step.capture {
            let found = match source.strip_prefix("header:") {
                Some(header) => response.header(header).next().map(str::to_owned),
                None => body.as_ref().and_then(|body| script::lookup(body, source)).map(script::plain),
            };
            match found {
                Some(value) => {
                    self.vars.insert(name.clone(), value);
                }
                None => differences.push(format!("nothing at {source} to capture as {name}")),
            }
        }
        differences
    }
}

/// Compares an answer with kindom's own, as it is listed, and each listed place with the recorded answer.
fn as_listed(
    known: &KnownDifference,
    recorded: &Answer,
    compared: impl Fn(&Answer) -> (Vec<String>, Bindings),
) -> (Vec<String>, Bindings) {
    let mut outcome = match known.applied(recorded, None) {
        Ok(own) => compared(&own),
        Err(cause) => return (vec![cause], Bindings::default()),
    };
    if known.race {
        let plain = compared(recorded);
        return if plain.0.is_empty() { plain } else { outcome };
    }
    if known.places().next().is_none() {
        outcome.0.push("listed as a known difference, but no place in it is".to_owned());
    }
    if outcome.0.is_empty() {
        for place in known.places() {
            if known.applied(recorded, Some(place)).is_ok_and(|answer| compared(&answer).0.is_empty()) {
                outcome.0.push(format!("{place}: this difference is gone ({}): remove it", known.reason));
            }
        }
    }
    outcome
}

/// Holds a topic's outcomes against the list. `None` if all is as it should be, else a text to fail with.
#[must_use]
pub fn judge(topic: &str, outcomes: &[Outcome], known: &[KnownDifference]) -> Option<String> {
    let mut report = String::new();
    for outcome in outcomes.iter().filter(|outcome| !outcome.differences.is_empty()) {
        let _ = writeln!(report, "{topic}: {}", outcome.step);
        for difference in &outcome.differences {
            let _ = writeln!(report, "    {}", difference.replace('\n', "\n    "));
        }
    }
    for known in known.iter().filter(|known| known.script == topic) {
        if !outcomes.iter().any(|outcome| outcome.step == known.step) {
            let _ = writeln!(
                report,
                "{topic}: {}: listed as a known difference, but there is no such step",
                known.step
            );
        }
    }
    (!report.is_empty()).then_some(report)
}

#[cfg(test)]
mod tests;
