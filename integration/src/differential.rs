//! Random writes by several managers, and the real server's answers.
//!
//! From one seed come a few types that have every kind of list and map in them, and for each of many objects a sequence
//! of writes: applies, updates and patches of the object, its status and its scale, in two versions, by appliers and
//! updaters that share, steal and give up fields. The oracle answers them all (`go run . -cases`), and of each answer a
//! hash is checked in (`integration/expectations/differential.txt`), so that a comparison needs no Go.
//!
//! # Guarantees
//! - The same seed gives the same types and writes on every machine, whatever the answers are. A write that needs
//!   the object's resourceVersion has [`REVISION`] in its place.
//! - Values that differ from run to run are masked alike on both sides ([`Answers`]): uids, times and the numbers of
//!   resourceVersions, not whether one stayed the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

mod answer;

mod shape;
mod types;
mod writes;

pub use answer::{Answers, difference};
pub use types::Type;
pub use writes::REVISION;

use crate::fingerprint::fnv;
use crate::random::Random;

/// The seed of the recording.
pub const SEED: u64 = 6;

/// The number of objects in the recording.
pub const SEQUENCES: usize = 2_000;

/// The number of writes to each of them.
pub const WRITES: usize = 10;

/// One write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Case {
    /// The number of the object that it writes, from 0.
    pub sequence: usize,
    /// The method.
    pub method: String,
    /// Path and query, encoded.
    pub path: String,
    /// The body's media type; empty if there is none.
    pub content_type: String,
    /// The body, in which [`REVISION`] may stand for the last resourceVersion that an answer gave.
    pub body: String,
}

/// The types of a seed.
#[must_use]
pub fn types(seed: u64) -> Vec<Type> {
    types::all(&mut Random::new(seed))
}

/// The writes of one object; they do not depend on other objects.
#[must_use]
pub fn sequence(seed: u64, types: &[Type], number: usize) -> Vec<Case> {
    let mut random = Random::new(seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let Some(of) = types.get(number.checked_rem(types.len()).unwrap_or_default()) else { return Vec::new() };
    writes::sequence(&mut random, of, number, WRITES)
}

/// The recording of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The hash of its requests: if it is another, the generator has changed since.
    pub requests: u32,
    /// The hashes of the answers.
    pub answers: Vec<u32>,
}

/// The hash of requests, or of a masked answer.
#[must_use]
pub fn hash(text: &str) -> u32 {
    let [a, b, c, d, e, f, g, h] = fnv(text.bytes()).to_le_bytes();
    u32::from_le_bytes([a, b, c, d]) ^ u32::from_le_bytes([e, f, g, h])
}

/// The hash of an object's requests.
#[must_use]
pub fn requests_hash(cases: &[Case]) -> u32 {
    let mut text = String::new();
    for case in cases {
        let _ = writeln!(text, "{} {} {} {}", case.method, case.path, case.content_type, case.body);
    }
    hash(&text)
}

/// The path of the recording.
#[must_use]
pub fn recording() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("expectations/differential.txt")
}

/// Writes the cases for the oracle: `types.json`, an array of registrations, and `cases.jsonl`, a line for each case.
///
/// # Errors
/// The folder cannot be written to.
pub fn write_cases(folder: &Path) -> std::io::Result<usize> {
    std::fs::create_dir_all(folder)?;
    let types = types(SEED);
    let registrations: Vec<Value> = types.iter().map(Type::registration).collect();
    std::fs::write(folder.join("types.json"), serde_json::to_vec_pretty(&registrations)?)?;
    let (mut lines, mut count) = (String::new(), 0);
    for number in 0..SEQUENCES {
        for case in sequence(SEED, &types, number) {
            lines.push_str(&serde_json::to_string(&case)?);
            lines.push('\n');
            count += 1;
        }
    }
    std::fs::write(folder.join("cases.jsonl"), lines)?;
    Ok(count)
}

/// One line of `answers.jsonl`, which the oracle writes: the answer to the case of the same line.
#[derive(Debug, Clone, Deserialize)]
pub struct Told {
    /// The HTTP status.
    pub status: u16,
    /// The Warning headers.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The body, to the byte.
    pub body: String,
}

/// The first line of `answers.jsonl`: what answered.
#[derive(Debug, Clone, Deserialize)]
struct Header {
    oracle: BTreeMap<String, String>,
}

/// The oracle's answers.
#[derive(Debug, Clone)]
pub struct AllTold {
    /// The versions and commands that made the recording.
    pub oracle: BTreeMap<String, String>,
    /// The answers to each object's writes.
    pub answers: Vec<Vec<Told>>,
}

/// Reads the oracle's answers.
///
/// # Errors
/// The file is missing or malformed, or is not for these cases.
pub fn read_answers(folder: &Path) -> std::io::Result<AllTold> {
    let text = std::fs::read_to_string(folder.join("answers.jsonl"))?;
    let mut lines = text.lines();
    let header: Header = serde_json::from_str(lines.next().unwrap_or_default())?;
    let mut all = Vec::new();
    for _ in 0..SEQUENCES {
        let answers: Result<Vec<Told>, _> = lines.by_ref().take(WRITES).map(serde_json::from_str).collect();
        all.push(answers?);
    }
    if all.iter().any(|answers| answers.len() != WRITES) {
        return Err(std::io::Error::other("there are fewer answers than cases"));
    }
    Ok(AllTold { oracle: header.oracle, answers: all })
}

/// Makes the recording of the oracle's answers.
///
/// # Errors
/// The answers cannot be read, or the recording cannot be written.
pub fn record(folder: &Path) -> std::io::Result<usize> {
    let AllTold { oracle, answers: all } = read_answers(folder)?;
    let types = types(SEED);
    let mut text = String::from(
        "# The answers to random writes; integration/expectations/README.md says how they are made.\n# A line for each object: the hash of its requests, then one of each answer.\n",
    );
    for (key, value) in oracle {
        let _ = writeln!(text, "# {key} {value}");
    }
    let mut count = 0;
    for (number, answers) in all.iter().enumerate() {
        let _ = write!(text, "{:08x}", requests_hash(&sequence(SEED, &types, number)));
        let mut masked = Answers::default();
        for told in answers {
            let answer = masked.mask(told.status, &told.warnings, told.body.as_bytes());
            let _ = write!(text, " {:08x}", hash(&answer.to_string()));
            count += 1;
        }
        text.push('\n');
    }
    std::fs::write(recording(), text)?;
    Ok(count)
}

/// Reads the recording.
///
/// # Errors
/// It is missing or malformed.
pub fn read_recording() -> std::io::Result<Vec<Recorded>> {
    let text = std::fs::read_to_string(recording())?;
    let malformed = |line: &str| std::io::Error::other(format!("not a line of hashes: {line}"));
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut hashes = line.split(' ').map(|word| u32::from_str_radix(word, 16));
            let (Some(Ok(requests)), Ok(answers)) = (hashes.next(), hashes.collect::<Result<Vec<_>, _>>())
            else {
                return Err(malformed(line));
            };
            Ok(Recorded { requests, answers })
        })
        .collect()
}

#[cfg(test)]
mod tests;
