//! Which old value a new one stands for (`apiserver/pkg/cel/common/equality.go`).

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

    /// The old value of an item: only items of lists by key have one.
    pub(super) fn item(self, item: &Value) -> Option<Self> {
        let spine = self.spine.items.as_deref()?;
        if self.spine.list != ListKind::Map {
            return None;
        }
        let keys = self.spine.map_keys();
        let same = |old: &&Value| {
            item.as_object().is_some()
                && old.as_object().is_some()
                && keys.iter().all(|key| key_of(old, spine, key) == key_of(item, spine, key))
        };
        // As upstream's map does, the last of several with the same key stands for them.
        let value = self.value.as_array()?.iter().rfind(same)?;
        Some(Self { value, spine })
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
                    && if self.spine.list == ListKind::Map && self.spine.items.is_some() {
                        items.iter().all(|item| self.item(item).is_some_and(|old| old.unchanged(item)))
                    } else {
                        old == items
                    }
            }
            (old, new) => old == new,
        }
    }
}

/// The value of a key of an item, which is its default if it is absent.
fn key_of<'v>(item: &'v Value, spine: &'v Node, key: &str) -> Option<&'v Value> {
    item.get(key).or_else(|| spine.property(key)?.default.as_deref())
}
