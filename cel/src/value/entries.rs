//! Maps that expressions make.

use std::collections::HashMap;

use crate::value::Value;

/// From how many entries on a map has an index.
const INDEXED_FROM: usize = 9;

/// The entries of a map, in the order of making. Keys are unique by type and value: `1` and `1u` are two keys.
#[derive(Debug, Clone, Default)]
pub struct Entries<'a> {
    items: Vec<(Value<'a>, Value<'a>)>,
    /// The index of the keys that can be hashed; used once there are many.
    index: HashMap<Key, usize>,
}

/// A key as it is hashed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(u64),
    String(Box<str>),
}

impl Key {
    fn of(key: &Value<'_>) -> Option<Self> {
        match key {
            Value::Bool(b) => Some(Self::Bool(*b)),
            Value::Int(n) => Some(Self::Int(*n)),
            Value::Uint(n) => Some(Self::Uint(*n)),
            // Both zeros are one key.
            Value::Double(x) if !x.is_nan() => Some(Self::Double((x + 0.0).to_bits())),
            Value::String(text) => Some(Self::String(text.as_str().into())),
            _ => None,
        }
    }
}

/// Returns true if a Go map of `ref.Val` takes two keys for the same.
fn same(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Uint(a), Value::Uint(b)) => a == b,
        (Value::Double(a), Value::Double(b)) => a == b,
        (Value::String(a), Value::String(b)) => a.as_str() == b.as_str(),
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        _ => false,
    }
}

impl<'a> Entries<'a> {
    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns true if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// In the order of making.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Value<'a>, &Value<'a>)> {
        self.items.iter().map(|(key, value)| (key, value))
    }

    /// The entry at a place in the order of making.
    #[must_use]
    pub fn at(&self, place: usize) -> Option<(&Value<'a>, &Value<'a>)> {
        self.items.get(place).map(|(key, value)| (key, value))
    }

    fn place(&self, key: &Value<'_>) -> Option<usize> {
        if self.items.len() >= INDEXED_FROM
            && let Some(key) = Key::of(key)
        {
            return self.index.get(&key).copied();
        }
        self.items.iter().position(|(known, _)| same(known, key))
    }

    /// The value of a key, which a number of another type can be too if it is the same number
    /// (`refValMapAccessor.Find`).
    #[must_use]
    pub fn get(&self, key: &Value<'_>) -> Option<&Value<'a>> {
        let find =
            |key: &Value<'_>| self.place(key).and_then(|place| self.items.get(place)).map(|(_, value)| value);
        if self.items.is_empty() {
            return None;
        }
        if let Some(value) = find(key) {
            return Some(value);
        }
        match key {
            Value::Double(x) => {
                let whole = super::compare::whole(*x).and_then(|n| find(&Value::Int(n)));
                whole.or_else(|| super::compare::whole_unsigned(*x).and_then(|n| find(&Value::Uint(n))))
            }
            Value::Int(n) => u64::try_from(*n).ok().and_then(|n| find(&Value::Uint(n))),
            Value::Uint(n) => i64::try_from(*n).ok().and_then(|n| find(&Value::Int(n))),
            _ => None,
        }
    }

    /// Sets a key.
    pub fn insert(&mut self, key: Value<'a>, value: Value<'a>) {
        if let Some(place) = self.place(&key) {
            if let Some(entry) = self.items.get_mut(place) {
                entry.1 = value;
            }
            return;
        }
        self.items.push((key, value));
        if self.items.len() == INDEXED_FROM {
            let hashed = |(place, entry): (usize, &(Value<'_>, _))| Some((Key::of(&entry.0)?, place));
            self.index = self.items.iter().enumerate().filter_map(hashed).collect();
        } else if self.items.len() > INDEXED_FROM
            && let Some(key) = self.items.last().and_then(|(key, _)| Key::of(key))
        {
            self.index.insert(key, self.items.len() - 1);
        }
    }

    /// Takes a key away, if it is there.
    pub fn remove(&mut self, key: &Value<'_>) {
        if let Some(place) = self.place(key) {
            self.items.remove(place);
            let items = std::mem::take(&mut self.items);
            *self = items.into_iter().collect();
        }
    }
}

impl<'a> FromIterator<(Value<'a>, Value<'a>)> for Entries<'a> {
    fn from_iter<I: IntoIterator<Item = (Value<'a>, Value<'a>)>>(entries: I) -> Self {
        let mut made = Self::default();
        for (key, value) in entries {
            made.insert(key, value);
        }
        made
    }
}
