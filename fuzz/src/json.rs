//! JSON documents whose trees are edited, not their text: all of them can be read.

use bolero::{Driver, ValueGenerator};
use serde_json::{Map, Value};

use crate::mutants::{below, one};

/// Edits of one mutant.
const EDITS: usize = 5;
/// Levels that one edit wraps around a node: an object of Kubernetes is held to a few hundred.
const WRAPS: usize = 120;

/// Texts of JSON documents: one of the seeds, after at most five edits that drop, double, swap, nest and replace nodes,
/// or rename keys to others that the seeds have.
#[derive(Clone, Debug)]
pub struct JsonMutants {
    seeds: Vec<Value>,
    /// Nodes of the seeds, and awkward values.
    pieces: Vec<Value>,
    keys: Vec<String>,
}

impl JsonMutants {
    /// Mutants of these documents.
    ///
    /// # Panics
    /// If a seed is no JSON.
    pub fn of<S: AsRef<[u8]>>(seeds: impl IntoIterator<Item = S>) -> Self {
        let read = |seed: S| match serde_json::from_slice(seed.as_ref()) {
            Ok(value) => value,
            Err(error) => panic!("a seed is no JSON: {error}"),
        };
        let seeds: Vec<Value> = seeds.into_iter().map(read).collect();
        let mut pieces: Vec<Value> =
            AWKWARD.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
        let mut keys = vec![String::new(), "~1/~0".to_owned(), "x".repeat(400)];
        for seed in &seeds {
            collect(seed, &mut pieces, &mut keys);
        }
        keys.sort_unstable();
        keys.dedup();
        Self { seeds, pieces, keys }
    }

    /// More words for keys and string values.
    #[must_use]
    pub fn words(mut self, words: &[&str]) -> Self {
        self.keys.extend(words.iter().map(|&word| word.to_owned()));
        self.pieces.extend(words.iter().map(|&word| Value::from(word)));
        self
    }

    /// The node at the end of a random walk from `root`.
    fn node<'a, D: Driver>(&self, driver: &mut D, root: &'a mut Value) -> Option<&'a mut Value> {
        let mut node = root;
        loop {
            let width = match &*node {
                Value::Object(map) => map.len(),
                Value::Array(items) => items.len(),
                _ => 0,
            };
            // Stops at each level with a chance of one in five, so that both ends of a document are edited.
            if width == 0 || below(driver, 5)? == 0 {
                return Some(node);
            }
            let index = below(driver, width)?;
            let next = match node {
                Value::Object(map) => map.values_mut().nth(index),
                Value::Array(items) => items.get_mut(index),
                _ => None,
            };
            node = next?;
        }
    }

    fn edit<D: Driver>(&self, driver: &mut D, root: &mut Value) -> Option<()> {
        let node = self.node(driver, root)?;
        match below(driver, 8)? {
            0 => *node = one(driver, &self.pieces)?.clone(),
            1 => match node {
                Value::Object(map) => {
                    let key = map.keys().nth(below(driver, map.len())?).cloned();
                    key.map(|key| map.remove(&key));
                }
                Value::Array(items) if !items.is_empty() => {
                    items.remove(below(driver, items.len())?);
                }
                _ => *node = Value::Null,
            },
            2 | 3 => {
                let piece = one(driver, &self.pieces)?.clone();
                match node {
                    Value::Object(map) => drop(map.insert(one(driver, &self.keys)?.clone(), piece)),
                    Value::Array(items) => items.insert(below(driver, items.len() + 1)?, piece),
                    _ => *node = piece,
                }
            }
            4 => match node {
                Value::Object(map) => {
                    let key = map.keys().nth(below(driver, map.len())?).cloned();
                    if let Some(value) = key.and_then(|key| map.remove(&key)) {
                        map.insert(one(driver, &self.keys)?.clone(), value);
                    }
                }
                Value::Array(items) => items.extend_from_within(..),
                Value::String(text) => text.push_str(one(driver, &self.keys)?),
                _ => *node = one(driver, &self.pieces)?.clone(),
            },
            5 => {
                let key = one(driver, &self.keys)?.clone();
                for _ in 0..below(driver, WRAPS)? {
                    let inner = node.take();
                    *node = match below(driver, 2)? {
                        0 => Value::Array(vec![inner]),
                        _ => Value::Object(Map::from_iter([(key.clone(), inner)])),
                    };
                }
            }
            6 => {
                let copy = node.clone();
                let other = self.node(driver, root)?;
                *other = copy;
            }
            _ => *node = Value::from(one(driver, &self.keys)?.clone()),
        }
        Some(())
    }
}

/// Values of the wrong type, at the edge of a range, or that mean something to some readers.
const AWKWARD: [&str; 22] = [
    "null",
    "true",
    "false",
    "0",
    "-0.0",
    "-1",
    "1.5",
    "2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "1e300",
    "\"\"",
    "\"null\"",
    "\"\\u0000\"",
    "\"é\\ud834\\udd1e\"",
    "[]",
    "{}",
    "[null]",
    "{\"\":null}",
    "[[],[]]",
    "\"2024-01-01T00:00:00Z\"",
];

fn collect(value: &Value, pieces: &mut Vec<Value>, keys: &mut Vec<String>) {
    pieces.push(value.clone());
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                keys.push(key.clone());
                collect(value, pieces, keys);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, pieces, keys)),
        _ => {}
    }
}

impl ValueGenerator for JsonMutants {
    type Output = Vec<u8>;

    fn generate<D: Driver>(&self, driver: &mut D) -> Option<Vec<u8>> {
        let mut value = one(driver, &self.seeds)?.clone();
        for _ in 0..below(driver, EDITS + 1)? {
            self.edit(driver, &mut value)?;
        }
        // A document past the reader's depth is a matter of its text, which `Mutants` nests.
        serde_json::to_vec(&value).ok()
    }
}
