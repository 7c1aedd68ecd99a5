//! The tree that objects are worked on as.
//!
//! It keeps what Go's decoder into `map[string]interface{}` keeps: whole numbers that fit 64 bits are integers, all
//! other numbers are floats (`sigs.k8s.io/json`), so that `-0` is 0 and `-0.0` keeps its sign, the last of several equal keys wins, and output has its keys sorted
//! and its numbers printed as Go prints them.

mod deep;
mod indent;
mod number;
mod parse;
mod typed;
mod write;

use std::fmt;
use std::ops::{Deref, DerefMut};

pub use indent::Indenter;
pub use number::may_hold_negative_zero;
pub use parse::{MAX_DEPTH, OWN_DEPTH_MAX, ParseError, duplicate_fields, parse, parse_own, parse_telling};
pub use typed::{TypeError, from_value, to_value};

/// A tree nests more than so many levels of maps and lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("exceeded max depth: maps and lists nest deeper than {0} levels")]
pub struct TooDeep(pub usize);

/// A JSON value.
///
/// Dropping, cloning, comparing, printing and measuring take no more stack for a deep tree than for a flat one. Other walks
/// are recursive: code that makes a tree deeper than the parsed one checks [`Value::nests_within`] first.
#[derive(Default)]
pub enum Value {
    /// `null`
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A whole number written without point or exponent that fits 64 bits.
    Int(i64),
    /// Any other number; never NaN or infinite.
    Float(f64),
    /// A string.
    String(String),
    /// A list.
    Array(List),
    /// A map.
    Object(Map),
}

impl Value {
    /// The value of a field, if this is a map that has it.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.as_object()?.get(field)
    }

    /// The value at a path of fields: `["metadata", "name"]`.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |value, field| value.get(field))
    }

    /// The text at a path of members; empty if there is none.
    #[must_use]
    pub fn text_at(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Self::as_str).unwrap_or_default()
    }

    /// The value of a field, for changing it.
    pub fn get_mut(&mut self, field: &str) -> Option<&mut Value> {
        self.as_object_mut()?.get_mut(field)
    }

    /// The map, if it is one.
    #[must_use]
    pub fn as_object(&self) -> Option<&Map> {
        if let Self::Object(map) = self { Some(map) } else { None }
    }

    /// The map, for changing it, if it is one.
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        if let Self::Object(map) = self { Some(map) } else { None }
    }

    /// The list, if it is one.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Value]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// The list, for changing it, if it is one.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Value>> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// The string, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(s) = self { Some(s) } else { None }
    }

    /// The integer, if it is one.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        if let Self::Int(n) = self { Some(*n) } else { None }
    }

    /// The number as a float, if it is a number.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "as Go's conversion does")]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(n) => Some(*n as f64),
            Self::Float(x) => Some(*x),
            _ => None,
        }
    }

    /// The truth value, if it is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(b) = self { Some(*b) } else { None }
    }

    /// `true` if it is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Compact JSON, keys sorted.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        self.write_to(&mut out);
        out
    }

    /// Compact JSON, keys sorted, of a tree that nests at most so many levels.
    ///
    /// # Errors
    /// [`TooDeep`]
    pub fn to_vec_within(&self, depth_max: usize) -> Result<Vec<u8>, TooDeep> {
        let mut out = Vec::with_capacity(256);
        write::compact(self, depth_max, &mut out)?;
        Ok(out)
    }

    /// JSON for people, indented by two blanks as Go's `json.Indent` does it, keys sorted.
    #[must_use]
    pub fn to_vec_indented(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        Indenter::default().write(&self.to_vec(), usize::MAX, &mut out);
        out
    }

    /// Appends compact JSON, keys sorted.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let written = write::compact(self, usize::MAX, out);
        debug_assert_eq!(written, Ok(()), "no tree nests so deep");
    }

    /// `true` if maps and lists nest at most so many levels; a scalar nests none.
    #[must_use]
    pub fn nests_within(&self, levels_max: usize) -> bool {
        deep::nests_within(self, levels_max, &mut 0)
    }

    /// As [`Value::nests_within`]; adds to `looked_at` the number of values that it took to find out.
    #[must_use]
    pub fn nests_within_counting(&self, levels_max: usize, looked_at: &mut usize) -> bool {
        deep::nests_within(self, levels_max, looked_at)
    }
}

/// Compact JSON, as its printed form: a derived one would recurse.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Compact JSON.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.to_vec()))
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Self::String(s.to_owned())
    }
}
impl From<String> for Value {
    fn from(s: String) -> Self {
        Self::String(s)
    }
}
impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}
impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Self::Int(n)
    }
}
impl From<i32> for Value {
    fn from(n: i32) -> Self {
        Self::Int(n.into())
    }
}
impl From<u32> for Value {
    fn from(n: u32) -> Self {
        Self::Int(n.into())
    }
}
impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Object(map)
    }
}
impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}
impl From<List> for Value {
    fn from(items: List) -> Self {
        Self::Array(items)
    }
}
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(item: Option<T>) -> Self {
        item.map_or(Self::Null, Into::into)
    }
}

/// A map with its keys sorted, bytewise as Go sorts them. Objects are small: a sorted list is compact, and as fast to
/// search as a tree.
#[derive(Default)]
pub struct Map(Vec<(Key, Value)>);

/// A list: a `Vec` of values that may be dropped however deep they nest.
#[derive(Default)]
pub struct List(Vec<Value>);

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl Deref for List {
    type Target = Vec<Value>;
    fn deref(&self) -> &Vec<Value> {
        &self.0
    }
}

impl DerefMut for List {
    fn deref_mut(&mut self) -> &mut Vec<Value> {
        &mut self.0
    }
}

impl From<Vec<Value>> for List {
    fn from(items: Vec<Value>) -> Self {
        Self(items)
    }
}

impl FromIterator<Value> for List {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Self {
        Self(items.into_iter().collect())
    }
}

impl IntoIterator for List {
    type Item = Value;
    type IntoIter = std::vec::IntoIter<Value>;
    fn into_iter(mut self) -> Self::IntoIter {
        std::mem::take(&mut self.0).into_iter()
    }
}

impl<'a> IntoIterator for &'a List {
    type Item = &'a Value;
    type IntoIter = std::slice::Iter<'a, Value>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a mut List {
    type Item = &'a mut Value;
    type IntoIter = std::slice::IterMut<'a, Value>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut()
    }
}

/// A key of a map. One of up to 23 bytes, as most are, stands in the map itself, without memory of its own.
pub type Key = smol_str::SmolStr;

impl Map {
    /// An empty map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A map of these entries; of several with the same key the last one stays.
    #[must_use]
    pub fn from_entries(mut entries: Vec<(Key, Value)>) -> Self {
        if !entries.is_sorted_by(|a, b| a.0 < b.0) {
            // A stable sort keeps equal keys in order, so the last of a run is the one that was last in the input.
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            entries.dedup_by(|later, earlier| {
                let same = later.0 == earlier.0;
                if same {
                    std::mem::swap(later, earlier);
                }
                same
            });
        }
        Self(entries)
    }

    fn find(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(k, _)| k.as_str().cmp(key))
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.find(key).ok().and_then(|i| self.0.get(i)).map(|(_, v)| v)
    }

    /// The value of a key, for changing it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let i = self.find(key).ok()?;
        self.0.get_mut(i).map(|(_, v)| v)
    }

    /// `true` if it has the key.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.find(key).is_ok()
    }

    /// Sets a key; returns its previous value.
    pub fn insert(&mut self, key: impl Into<Key>, value: impl Into<Value>) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        match self.find(&key) {
            Ok(i) => self.0.get_mut(i).map(|(_, v)| std::mem::replace(v, value)),
            Err(i) => {
                self.0.insert(i, (key, value));
                None
            }
        }
    }

    /// The value of a key, which is first set to what `default` gives if it is absent.
    pub fn entry_or_insert_with(&mut self, key: &str, default: impl FnOnce() -> Value) -> &mut Value {
        let i = match self.find(key) {
            Ok(i) => i,
            Err(i) => {
                self.0.insert(i, (key.into(), default()));
                i
            }
        };
        match self.0.get_mut(i) {
            Some((_, value)) => value,
            None => unreachable!("invariant: the index was found or inserted just above"),
        }
    }

    /// Makes room for so many more entries at once.
    pub fn reserve(&mut self, additional: usize) {
        self.0.reserve_exact(additional);
    }

    /// Removes a key; returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.find(key).ok().map(|i| self.0.remove(i).1)
    }

    /// Keeps the entries that the predicate likes.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value) -> bool) {
        self.0.retain_mut(|(k, v)| keep(k, v));
    }

    /// The entries, by key.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &Value)> + ExactSizeIterator {
        self.0.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// The entries, by key, for changing the values.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&str, &mut Value)> + ExactSizeIterator {
        self.0.iter_mut().map(|(k, v)| (k.as_str(), v))
    }

    /// The place of a key in the order of keys.
    #[must_use]
    pub fn place(&self, key: &str) -> Option<usize> {
        self.find(key).ok()
    }

    /// The entry at a place in the order of keys.
    #[must_use]
    pub fn at(&self, place: usize) -> Option<(&str, &Value)> {
        self.0.get(place).map(|(k, v)| (k.as_str(), v))
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        self.0.iter().map(|(k, _)| k.as_str())
    }

    /// The values, by key.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator {
        self.0.iter().map(|(_, v)| v)
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// `true` if it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl IntoIterator for Map {
    type Item = (Key, Value);
    type IntoIter = std::vec::IntoIter<(Key, Value)>;
    fn into_iter(mut self) -> Self::IntoIter {
        std::mem::take(&mut self.0).into_iter()
    }
}

impl<K: Into<Key>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Self::from_entries(entries.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
    }
}

/// Builds a [`Value`] from JSON-like syntax: `object!{ "a": 1, "b": [true, null] }` has no need of commas' care.
///
/// ```
/// let v = kindom_api::object! { "kind": "Status", "code": 404 };
/// assert_eq!(v.to_string(), r#"{"code":404,"kind":"Status"}"#);
/// ```
#[macro_export]
macro_rules! object {
    ({ $($key:literal : $value:expr),* $(,)? }) => { $crate::object! { $($key : $value),* } };
    ($($key:literal : $value:expr),* $(,)?) => {
        $crate::Value::Object($crate::Map::from_entries(vec![
            $(($crate::json::Key::new_static($key), $crate::Value::from($value))),*
        ]))
    };
}
