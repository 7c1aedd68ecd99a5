//! JSON patch (RFC 6902) as `gopkg.in/evanphx/json-patch.v4` applies it: a field that is not there can be replaced and
//! tests equal to `null`, negative indices count from the end, and whatever stands before a path's first `/` is
//! ignored. Only its texts for tests end up in logs; clients get one fixed message.

use kindom_api::field;
use kindom_api::json::{List, MAX_DEPTH, Map, Value};

use crate::DecodeError;
use crate::go_json::go_type;

const OPERATIONS_MAX: usize = 10_000;
/// The most bytes that all copies of a patch may add (`AccumulatedCopySizeLimit` as apiserver sets it).
const COPY_BYTES_MAX: usize = 3 << 20;
/// The most entries of lists and maps that a patch may shift or measure in all. Without a bound 10,000 insertions at the front
/// of a list of half a million items take most of a minute.
const WORK_MAX: usize = 100_000_000;
/// The work of looking at a value, where that of shifting one is 1.
const MEASURED_WORK: usize = 8;

/// The reason why a patch cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// It is no list of operations.
    #[error(transparent)]
    Malformed(DecodeError),
    /// It has too many.
    #[error("{0}")]
    TooMany(String),
}

/// The reason why a patch cannot be applied, in the library's words where it has some.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The document does not pass a test of the patch's.
    #[error("{0}")]
    TestFailed(String),
    /// Any other.
    #[error("{0}")]
    Failed(String),
}

impl From<String> for ApplyError {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// One operation, as sent; whether it makes sense shows when it is applied.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation(Map);

impl Operation {
    /// About as many bytes as it takes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self
                .0
                .iter()
                .map(|(key, value)| size_of::<Value>() + key.len() + field::bytes(value))
                .sum::<usize>()
    }
}

/// Reads the operations.
///
/// # Errors
/// [`PatchError::Malformed`] for what is no list of operations, [`PatchError::TooMany`] for more than 10,000 of them.
pub fn operations(patch: Value) -> Result<Vec<Operation>, PatchError> {
    let wrong = |value: &Value, kind: &str| {
        let found = go_type(value);
        let why = format!("json: cannot unmarshal {found} into Go value of type jsonpatch.{kind}");
        PatchError::Malformed(DecodeError(why))
    };
    let items = match patch {
        Value::Array(items) => items,
        Value::Null => List::default(),
        other => return Err(wrong(&other, "Patch")),
    };
    if items.len() > OPERATIONS_MAX {
        let got = items.len();
        return Err(PatchError::TooMany(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {got}"
        )));
    }
    let operation = |item| match item {
        Value::Object(map) => Ok(Operation(map)),
        Value::Null => Ok(Operation(Map::new())),
        other => Err(wrong(&other, "Operation")),
    };
    items.into_iter().map(operation).collect()
}

/// Applies all operations, or fails. As the document that comes in, none on the way nests deeper than [`MAX_DEPTH`].
///
/// # Errors
/// See [`ApplyError`].
pub fn apply(operations: &[Operation], mut doc: Value) -> Result<Value, ApplyError> {
    let (mut copied, mut work) = (0, 0);
    for operation in operations {
        match operation.text("op").unwrap_or("unknown") {
            "add" => {
                let path = operation.path("add")?;
                let value = operation.value().cloned().unwrap_or_default();
                fits(&value, path, &mut work)?;
                has_parent(&mut doc, path).map_err(|e| {
                    format!("add operation does not apply: doc is missing path: \"{path}\": {e}")
                })?;
                add(&mut doc, path, value, &mut work)
                    .map_err(|e| format!("error in add for path: '{path}': {e}"))?;
            }
            "remove" => {
                let path = operation.path("remove")?;
                has_parent(&mut doc, path).map_err(|e| {
                    format!("remove operation does not apply: doc is missing path: \"{path}\": {e}")
                })?;
                remove(&mut doc, path, &mut work)
                    .map_err(|e| format!("error in remove for path: '{path}': {e}"))?;
            }
            "replace" => replace(&mut doc, operation, &mut work)?,
            "move" => {
                let (from, path) = (operation.from("move")?, operation.path("move")?);
                let value = remove(&mut doc, from, &mut work)
                    .map_err(|e| format!("error in move for path: '{from}': {e}"))?;
                if depth(path) > depth(from) {
                    fits(&value, path, &mut work)?;
                }
                add(&mut doc, path, value, &mut work)
                    .map_err(|e| format!("error in move for path: '{path}': {e}"))?;
            }
            "copy" => {
                let (from, path) = (operation.from("copy")?, operation.path("copy")?);
                let value = get(&doc, from).map_err(|e| format!("error in copy for from: '{from}': {e}"))?;
                let value = value.cloned().unwrap_or_default();
                copied += value.to_vec().len();
                if copied > COPY_BYTES_MAX {
                    let why = format!(
                        "unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding \
                         the limit {COPY_BYTES_MAX}"
                    );
                    return Err(why.into());
                }
                if depth(path) > depth(from) {
                    fits(&value, path, &mut work)?;
                }
                add(&mut doc, path, value, &mut work)
                    .map_err(|e| format!("error while adding value during copy: {e}"))?;
            }
            "test" => test(&doc, operation)?,
            other => return Err(format!("Unexpected kind: {other}").into()),
        }
    }
    Ok(doc)
}

impl Operation {
    fn text(&self, field: &str) -> Option<&str> {
        self.0.get(field).and_then(Value::as_str)
    }

    fn path(&self, operation: &str) -> Result<&str, String> {
        self.text("path").ok_or_else(|| {
            format!(
                "{operation} operation failed to decode path: operation, missing path field: missing value"
            )
        })
    }

    fn from(&self, operation: &str) -> Result<&str, String> {
        self.text("from").ok_or_else(|| {
            format!(
                "{operation} operation failed to decode from: operation, missing from field: missing value"
            )
        })
    }

    fn value(&self) -> Option<&Value> {
        self.0.get("value")
    }
}

fn replace(doc: &mut Value, operation: &Operation, work: &mut usize) -> Result<(), String> {
    let path = operation.path("replace")?;
    let value = operation.value().cloned().unwrap_or_default();
    fits(&value, path, work)?;
    if path.is_empty() {
        if !matches!(value, Value::Object(_) | Value::Array(_)) {
            return Err("replace operation value must be object or array".to_owned());
        }
        *doc = value;
        return Ok(());
    }
    let wrong = |e: String| format!("replace operation does not apply: doc is missing key: {path}: {e}");
    let (parent, key) = parent_mut(doc, path).map_err(wrong)?;
    if matches!(parent, Value::Object(map) if map.get(&key).is_none()) {
        shift(parent, work)?;
    }
    match parent {
        Value::Object(map) => {
            map.insert(key, value);
        }
        Value::Array(items) => {
            let i = index(&key, items.len()).map_err(wrong)?;
            if let Some(item) = items.get_mut(i) {
                *item = value;
            }
        }
        _ => return Err(wrong(missing())),
    }
    Ok(())
}

fn test(doc: &Value, operation: &Operation) -> Result<(), ApplyError> {
    let path = operation.path("test")?;
    let found = match path {
        "" => Some(doc),
        path => get(doc, path)
            .map_err(|why| format!("test operation does not apply: is missing path: {path}: {why}"))?,
    };
    let wanted = operation.value();
    let same = match (found, wanted) {
        (None | Some(Value::Null), None | Some(Value::Null)) => true,
        (Some(found), Some(wanted)) => found == wanted,
        _ => false,
    };
    match same {
        true => Ok(()),
        false => Err(ApplyError::TestFailed(format!("testing value {path} failed: test failed"))),
    }
}

fn missing() -> String {
    "missing value".to_owned()
}

fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// The segments to walk and the last one; an error if there is no `/`.
fn split(path: &str) -> Result<(impl Iterator<Item = String>, String), String> {
    let (_, segments) = path.split_once('/').ok_or_else(missing)?;
    let (walk, last) = match segments.rsplit_once('/') {
        Some((walk, last)) => (Some(walk), last),
        None => (None, segments),
    };
    Ok((walk.into_iter().flat_map(|w| w.split('/')).map(unescape), unescape(last)))
}

/// An index into a list: from its end if it is negative.
fn index(key: &str, length: usize) -> Result<usize, String> {
    let wanted: i64 = key.parse().map_err(|_| format!("value was not a proper array index: '{key}'"))?;
    let i = match usize::try_from(wanted.unsigned_abs()) {
        Ok(back) if wanted < 0 => length.checked_sub(back),
        Ok(i) => Some(i),
        Err(_) => None,
    };
    i.filter(|i| *i < length).ok_or_else(|| format!("Unable to access invalid index: {wanted}"))
}

fn parent_mut<'a>(doc: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let (walk, last) = split(path)?;
    let mut at = doc;
    for segment in walk {
        at = match at {
            Value::Object(map) => map.get_mut(&segment).ok_or_else(missing)?,
            Value::Array(items) => {
                let i = index(&segment, items.len())?;
                items.get_mut(i).ok_or_else(missing)?
            }
            _ => return Err(missing()),
        };
    }
    if matches!(at, Value::Object(_) | Value::Array(_)) { Ok((at, last)) } else { Err(missing()) }
}

/// Checks that there is a list or map that holds what a path names, or would.
fn has_parent(doc: &mut Value, path: &str) -> Result<(), String> {
    parent_mut(doc, path).map(drop).map_err(|_| missing())
}

/// The value at a path; `None` for a field that is absent, an error for an absent item or parent.
fn get<'a>(doc: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let (walk, last) = split(path)?;
    let step = |at: &'a Value, segment: &str| match at {
        Value::Object(map) => Ok(map.get(segment)),
        Value::Array(items) => index(segment, items.len()).map(|i| items.get(i)),
        _ => Err(missing()),
    };
    let mut at = doc;
    for segment in walk {
        at = step(at, &segment)?.ok_or_else(missing)?;
    }
    step(at, &last)
}

/// Counts what changing a list or map may shift.
fn shift(parent: &Value, work: &mut usize) -> Result<(), String> {
    *work += match parent {
        Value::Array(items) => items.len(),
        Value::Object(map) => map.iter().len(),
        _ => 0,
    };
    within(*work)
}

fn within(work: usize) -> Result<(), String> {
    if work > WORK_MAX { Err("the patch takes too much work".to_owned()) } else { Ok(()) }
}

/// The number of maps and lists around the value at a path.
fn depth(path: &str) -> usize {
    path.matches('/').count()
}

/// A value may stand at a path only if the document then nests no deeper than [`MAX_DEPTH`]: operations that each add a
/// few levels would else make one that no walk gets to the end of.
fn fits(value: &Value, path: &str, work: &mut usize) -> Result<(), String> {
    let (levels, mut measured) = (MAX_DEPTH.checked_sub(depth(path)), 0);
    if !levels.is_some_and(|levels| value.nests_within_counting(levels, &mut measured)) {
        return Err("exceeded max depth".to_owned());
    }
    *work += MEASURED_WORK * measured;
    within(*work)
}

fn add(doc: &mut Value, path: &str, value: Value, work: &mut usize) -> Result<(), String> {
    let (parent, key) = parent_mut(doc, path)?;
    if key != "-" {
        shift(parent, work)?;
    }
    match parent {
        Value::Object(map) => {
            map.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            // There is one more place to add at than there are items.
            let i = index(&key, items.len() + 1)?;
            items.insert(i, value);
        }
        _ => return Err(missing()),
    }
    Ok(())
}

fn remove(doc: &mut Value, path: &str, work: &mut usize) -> Result<Value, String> {
    let (parent, key) = parent_mut(doc, path)?;
    shift(parent, work)?;
    match parent {
        Value::Object(map) => {
            map.remove(&key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value"))
        }
        Value::Array(items) => {
            let i = index(&key, items.len())?;
            Ok(items.remove(i))
        }
        _ => Err(missing()),
    }
}
