//! The keys of the cluster that are ours, and their names there.
//!
//! # By example
//! With the areas `/registry/` → `/other/` and `/mine/` → `/mine/other/`, key `/registry/a` is stored as `/other/a`. The one
//! watch covers `/mine/other/` to the end of `/other/`; keys in between that lie in no area are ignored, and so is the
//! marker wherever it lies.

use bytes::Bytes;

use crate::{Key, KeyRange, StorageError};

/// Keys that start with `name` are stored with `stored` in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Area {
    /// The prefix of its keys, as callers know it.
    pub name: Vec<u8>,
    /// The prefix of its keys in etcd.
    pub stored: Vec<u8>,
}

impl Area {
    /// An area whose keys are stored as they are called.
    #[must_use]
    pub fn same(prefix: impl Into<Vec<u8>>) -> Self {
        let name = prefix.into();
        Self { stored: name.clone(), name }
    }
}

/// A range as etcd writes it: without `end` a single key, and an `end` of one zero byte is no bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredRange {
    pub(super) key: Bytes,
    pub(super) end: Bytes,
}

const NO_BOUND: Bytes = Bytes::from_static(&[0]);

impl StoredRange {
    pub(super) fn new(range: &KeyRange) -> Self {
        if let Some(key) = range.as_single()
            && !key.as_bytes().is_empty()
        {
            return Self { key: key.to_bytes(), end: Bytes::new() };
        }
        if range.end.as_ref().is_some_and(|end| *end <= range.start) {
            return Self::nothing();
        }
        // There is no empty key: from the first one that there can be.
        let key = if range.start.as_bytes().is_empty() { NO_BOUND } else { range.start.to_bytes() };
        match &range.end {
            None => Self { key, end: NO_BOUND },
            Some(end) if end.as_bytes() == NO_BOUND => Self::nothing(),
            Some(end) => Self { key, end: end.to_bytes() },
        }
    }

    /// A range without keys.
    pub(super) fn nothing() -> Self {
        let one = Bytes::from_static(&[1]);
        Self { key: one.clone(), end: one }
    }
}

/// All areas of a store.
#[derive(Debug)]
pub(super) struct Space {
    /// By name.
    areas: Vec<Area>,
    marker: Key,
    cover: KeyRange,
}

impl Space {
    /// Areas must be disjoint, by either name.
    pub(super) fn new(mut areas: Vec<Area>, marker: Vec<u8>) -> Self {
        areas.sort_by(|a, b| a.name.cmp(&b.name));
        let marker = Key::new(marker);
        let own = KeyRange::single(&marker);
        let stored = areas.iter().map(|area| KeyRange::prefix(&area.stored));
        let cover = stored.fold(own, |cover, area| KeyRange {
            start: cover.start.min(area.start),
            end: match (cover.end, area.end) {
                (Some(a), Some(b)) => Some(a.max(b)),
                _ => None,
            },
        });
        Self { areas, marker, cover }
    }

    /// The key whose changes prove how fresh a watch is.
    pub(super) fn marker(&self) -> &Key {
        &self.marker
    }

    /// The range of the one watch.
    pub(super) fn cover(&self) -> &KeyRange {
        &self.cover
    }

    /// Returns true if every revision changes something in the watched range.
    pub(super) fn covers_all(&self) -> bool {
        self.cover.start.as_bytes().is_empty() && self.cover.end.is_none()
    }

    /// The name of a key in etcd.
    pub(super) fn stored(&self, key: &Key) -> Result<Key, StorageError> {
        let found = self.areas.iter().find_map(|area| {
            let rest = key.as_bytes().strip_prefix(&area.name[..])?;
            Some(if area.name == area.stored { key.clone() } else { join(&area.stored, rest) })
        });
        found.filter(|stored| *stored != self.marker).ok_or_else(|| outside(key))
    }

    /// The callers' name of a stored key; `None` if it is none of ours.
    pub(super) fn name(&self, stored: &[u8]) -> Option<Key> {
        if stored == self.marker.as_bytes() {
            return None;
        }
        self.areas.iter().find_map(|area| {
            let rest = stored.strip_prefix(&area.stored[..])?;
            Some(join(&area.name, rest))
        })
    }

    /// The stored ranges that hold the range's keys, in the order of the keys' names.
    pub(super) fn ranges(&self, range: &KeyRange) -> Vec<StoredRange> {
        let mut found = Vec::new();
        for area in &self.areas {
            let Some(part) = within(range, area) else { continue };
            if part.contains(self.marker.as_bytes()) {
                let until = KeyRange { start: part.start, end: Some(self.marker.clone()) };
                let after = KeyRange { start: join(self.marker.as_bytes(), &[0]), end: part.end };
                found.extend([until, after].into_iter().filter(|part| !is_empty(part)));
            } else {
                found.push(part);
            }
        }
        found.iter().map(StoredRange::new).collect()
    }

    /// The range that a compare speaks of: it lies in one area.
    pub(super) fn range(&self, range: &KeyRange) -> Result<StoredRange, StorageError> {
        let mut parts = self.areas.iter().filter_map(|area| within(range, area));
        match (parts.next(), parts.next()) {
            (None, _) => Ok(StoredRange::nothing()),
            (Some(part), None) => Ok(StoredRange::new(&part)),
            (Some(_), Some(_)) => Err(outside(&range.start)),
        }
    }
}

fn join(prefix: &[u8], rest: &[u8]) -> Key {
    Key::new(Bytes::from([prefix, rest].concat()))
}

fn is_empty(range: &KeyRange) -> bool {
    range.end.as_ref().is_some_and(|end| *end <= range.start)
}

/// The part of a range that lies in an area, as it is stored.
fn within(range: &KeyRange, area: &Area) -> Option<KeyRange> {
    let (named, stored) = (KeyRange::prefix(&area.name), KeyRange::prefix(&area.stored));
    let translate = |key: &Key| Some(join(&area.stored, key.as_bytes().strip_prefix(&area.name[..])?));
    let start = if range.start <= named.start { stored.start } else { translate(&range.start)? };
    let beyond = match (&range.end, &named.end) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(end), Some(last)) => end >= last,
    };
    let end = if beyond { stored.end } else { Some(translate(range.end.as_ref()?)?) };
    let part = KeyRange { start, end };
    (!is_empty(&part)).then_some(part)
}

fn outside(key: &Key) -> StorageError {
    StorageError::Corrupt(format!("key {key} lies in none of the store's areas"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        let moved = |name: &str, stored: &str| Area { name: name.into(), stored: stored.into() };
        Space::new(
            vec![moved("/registry/", "/other/"), moved("/kindom/registry/", "/kindom/other/")],
            b"/kindom/other/freshness".to_vec(),
        )
    }

    fn show(ranges: &[StoredRange]) -> String {
        let show =
            |range: &StoredRange| format!("{}..{}", range.key.escape_ascii(), range.end.escape_ascii());
        ranges.iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn keys_are_renamed_and_strangers_hidden() {
        let space = space();
        let cover = [space.cover().start.to_string(), space.cover().end.as_ref().unwrap().to_string()];
        assert_eq!(cover, ["/kindom/other/", "/other0"]);
        assert_eq!(space.stored(&Key::from("/registry/a")).unwrap(), Key::from("/other/a"));
        assert!(space.stored(&Key::from("/registry")).is_err());
        assert!(space.stored(&Key::from("/kindom/registry/freshness")).is_err());
        assert_eq!(space.name(b"/other/a"), Some(Key::from("/registry/a")));
        assert_eq!(space.name(b"/kindom/other/claims/g"), Some(Key::from("/kindom/registry/claims/g")));
        assert_eq!(space.name(b"/kindom/other/freshness"), None);
        assert_eq!(space.name(b"/lock"), None);
    }

    #[test]
    fn ranges_are_cut_at_areas_and_the_marker() {
        let space = space();
        let shown = |range: KeyRange| show(&space.ranges(&range));
        assert_eq!(shown(KeyRange::prefix(b"/registry/a/")), "/other/a/../other/a0");
        assert_eq!(shown(KeyRange::single(&Key::from("/registry/a"))), "/other/a..");
        assert_eq!(
            shown(KeyRange::prefix(b"")),
            "/kindom/other/../kindom/other/freshness /kindom/other/freshness\\x00../kindom/other0 /other/../other0"
        );
        assert_eq!(shown(KeyRange { start: Key::from("/registry/x"), end: None }), "/other/x../other0");
        assert_eq!(shown(KeyRange::prefix(b"/elsewhere/")), "");
        assert_eq!(
            shown(KeyRange { start: Key::from("/registry/b"), end: Some(Key::from("/registry/b")) }),
            ""
        );
    }

    #[test]
    fn the_whole_store_is_one_area() {
        let space = Space::new(vec![Area::same("")], b"marker".to_vec());
        assert!(space.covers_all());
        let shown = |range: KeyRange| show(&space.ranges(&range));
        assert_eq!(shown(KeyRange::prefix(b"")), "\\x00..marker marker\\x00..\\x00");
        assert_eq!(shown(KeyRange { start: Key::from("z"), end: Some(Key::from("a")) }), "");
    }
}
