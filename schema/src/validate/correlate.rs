//! Which old value a new one stands for (`apiserver/pkg/cel/common/equality.go`).

use std::collections::HashMap;

use kindom_api::Value;

use crate::node::{ListKind, Node};

/// Up to how many items are compared with each other rather than looked up.
const PAIRWISE_MAX: usize = 16;

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

    /// The old values of items: only those of lists by key have any.
    pub(super) fn items(self) -> Option<Items<'a>> {
        let spine = self.spine.items.as_deref().filter(|_| self.spine.list == ListKind::Map)?;
        let (list, keys) = (self.value.as_array()?, self.spine.map_keys());
        let mut index = HashMap::new();
        if list.len() > PAIRWISE_MAX {
            for old in list.iter().filter(|old| old.as_object().is_some()) {
                // As upstream's map does, the last of several with the same key stands for them.
                index.insert(hash_key(old, spine, keys), old);
            }
        }
        Some(Items { list, spine, keys, index })
    }

    /// Whether a new value is the old one. Fields that the spine does not describe never are.
    pub(super) fn unchanged(self, new: &Value) -> bool {
        match (self.value, new) {
            (Value::Object(old), Value::Object(map)) => {
                old.len() == map.len()
                    && map.iter().all(|(key, value)| self.field(key).is_some_and(|old| old.unchanged(value)))
            }
            (Value::Array(old), Value::Array(items)) => {
                old.len() == items.len()
                    && match self.items() {
                        Some(old) => {
                            items.iter().all(|item| old.of(item).is_some_and(|old| old.unchanged(item)))
                        }
                        None => old == items,
                    }
            }
            (old, new) => old == new,
        }
    }
}

/// The items of an old list by key.
pub(super) struct Items<'a> {
    list: &'a [Value],
    spine: &'a Node,
    keys: &'a [Box<str>],
    /// By their keys, if they are many.
    index: HashMap<Vec<u8>, &'a Value>,
}

impl<'a> Items<'a> {
    /// The old item that has the keys of a new one.
    pub(super) fn of(&self, item: &Value) -> Option<Old<'a>> {
        item.as_object()?;
        let same = |old: &&Value| {
            old.as_object().is_some()
                && self.keys.iter().all(|key| key_of(old, self.spine, key) == key_of(item, self.spine, key))
        };
        let value = if self.list.len() > PAIRWISE_MAX {
            self.index.get(&hash_key(item, self.spine, self.keys)).copied().filter(same)?
        } else {
            self.list.iter().rfind(same)?
        };
        Some(Old { value, spine: self.spine })
    }
}

/// The keys of an item, of equal ones the same.
fn hash_key(item: &Value, spine: &Node, keys: &[Box<str>]) -> Vec<u8> {
    let mut text = Vec::new();
    for key in keys {
        match key_of(item, spine, key) {
            None => text.push(b'-'),
            Some(value) => {
                // An integer is no float, however it prints.
                text.push(if matches!(value, Value::Float(_)) { b'.' } else { b'=' });
                value.write_to(&mut text);
            }
        }
        text.push(b',');
    }
    text
}

/// The value of a key of an item, which is its default if it is absent.
fn key_of<'v>(item: &'v Value, spine: &'v Node, key: &str) -> Option<&'v Value> {
    item.get(key).or_else(|| spine.property(key)?.default.as_deref())
}
