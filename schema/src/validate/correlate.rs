//! The old value that corresponds to a new one (`apiserver/pkg/cel/common/equality.go`).

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fmt::Write;

use kindom_api::Value;

use crate::node::{ListKind, Node};

/// An old value and the part of the structural spine that describes it, which below junctors is not the schema that a
/// value is held against.
#[derive(Clone, Copy)]
pub(super) struct Old<'a> {
    value: &'a Value,
    spine: &'a Node,
}

impl<'a> Old<'a> {
    pub(super) fn root(spine: &'a Node, value: &'a Value) -> Self {
        Self { value, spine }
    }

    /// The old value of a field that the new value has too.
    pub(super) fn field(self, name: &str) -> Option<Self> {
        Some(Self { value: self.value.get(name)?, spine: self.spine.field(name)? })
    }

    /// The old values of items.
    pub(super) fn items(self) -> Items<'a> {
        Items { spine: self.spine.items.as_deref(), by_key: ByKey::new(self.spine, Some(self.value)) }
    }

    /// This old value of an item, found otherwise.
    pub(super) fn this_item(self, value: &'a Value) -> Option<Self> {
        Some(Self { value, spine: self.spine.items.as_deref()? })
    }

    /// Returns true if a new value equals the old one. Fields that the spine does not describe never do.
    pub(super) fn unchanged(self, new: &Value) -> bool {
        match (self.value, new) {
            (Value::Object(old), Value::Object(map)) => {
                old.len() == map.len()
                    && map.iter().all(|(key, value)| self.field(key).is_some_and(|old| old.unchanged(value)))
            }
            (Value::Array(old), Value::Array(items)) => {
                old.len() == items.len()
                    && if self.spine.list == ListKind::Map && self.spine.items.is_some() {
                        let by_key = self.items();
                        items.iter().all(|item| by_key.get(item).is_some_and(|old| old.unchanged(item)))
                    } else {
                        old == items
                    }
            }
            (old, new) => old == new,
        }
    }
}

/// The old values of a list's items.
pub(super) struct Items<'a> {
    spine: Option<&'a Node>,
    by_key: ByKey<'a>,
}

impl<'a> Items<'a> {
    /// The old value of an item: only items of lists by key have one.
    pub(super) fn get(&self, item: &Value) -> Option<Old<'a>> {
        Some(Old { value: self.by_key.get(item)?, spine: self.spine? })
    }
}

/// The items of an old list of type map by their keys (`apiserver/pkg/cel/common/maplist.go`): the first of several with
/// the same. Other lists have none.
pub(super) struct ByKey<'a> {
    keys: &'a [Box<str>],
    items: &'a [Value],
    /// Made when it is first asked.
    index: OnceCell<HashMap<String, &'a Value>>,
}

impl<'a> ByKey<'a> {
    pub(super) fn new(node: &'a Node, old: Option<&'a Value>) -> Self {
        let keys = if node.list == ListKind::Map { node.map_keys() } else { &[] };
        let items = old.filter(|_| !keys.is_empty()).and_then(Value::as_array).unwrap_or_default();
        Self { keys, items, index: OnceCell::new() }
    }

    pub(super) fn get(&self, item: &Value) -> Option<&'a Value> {
        if self.items.is_empty() {
            return None;
        }
        let index = self.index.get_or_init(|| {
            let mut index = HashMap::with_capacity(self.items.len());
            for item in self.items {
                if let Some(key) = self.key(item) {
                    index.entry(key).or_insert(item);
                }
            }
            index
        });
        index.get(&self.key(item)?).copied()
    }

    /// The values of the keys as one text, which includes their types; `None` unless all are scalars.
    fn key(&self, item: &Value) -> Option<String> {
        let mut out = String::new();
        for key in self.keys {
            let value = item.get(key).filter(|value| {
                matches!(value, Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_))
            })?;
            // An int and a float of the same value are two.
            let kind = if matches!(value, Value::Float(_)) { "f" } else { "" };
            let _ = write!(out, "\0{kind}{value}");
        }
        Some(out)
    }
}
