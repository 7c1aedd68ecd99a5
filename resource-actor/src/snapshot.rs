//! A type's objects at one revision: an immutable ordered map that is cheap to change into the next one.
//!
//! The map is a sorted list of sorted chunks, each behind an `Arc`. Changing one object copies its chunk and the list of
//! chunks; everything else is shared with the snapshot before, so a list keeps reading the one it began with.
//!
//! Worked example, with chunks of at most 2: after `a b c` there are chunks `[a b] [c]`. Inserting `bb` finds `[a b]`
//! (the last chunk that starts at or before it), makes `[a b bb]`, which is too long, and splits it: `[a] [b bb] [c]`.
//! Removing `c` empties its chunk, which goes: `[a] [b bb]`.
//!
//! Beside each chunk stands the number of objects up to its end, here `1 3`. So counting the objects between two keys takes
//! two searches, however many they are: a page of a list gives the number of objects behind it.

use std::sync::Arc;

use kindom_storage::Revision;

use kindom_objects::StoredObject;

/// The most objects in a chunk: copying one costs well under a microsecond per 64.
const CHUNK_MAX: usize = 128;

/// Some objects, in key order.
pub(crate) type Chunk = Arc<Vec<Arc<StoredObject>>>;

/// A type's objects, by key, with the revision up to which changes are in it.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    chunks: Vec<Chunk>,
    /// The number of objects up to the end of each chunk.
    ends: Vec<usize>,
    len: usize,
    revision: Revision,
}

impl Snapshot {
    /// A snapshot of these objects, which are in key order.
    #[must_use]
    pub fn from_sorted(objects: impl IntoIterator<Item = Arc<StoredObject>>, revision: Revision) -> Self {
        let mut snapshot = Self { revision, ..Self::default() };
        let mut chunk = Vec::with_capacity(CHUNK_MAX);
        for object in objects {
            snapshot.len += 1;
            chunk.push(object);
            if chunk.len() == CHUNK_MAX {
                snapshot.ends.push(snapshot.len);
                snapshot.chunks.push(Arc::new(std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK_MAX))));
            }
        }
        if !chunk.is_empty() {
            snapshot.ends.push(snapshot.len);
            snapshot.chunks.push(Arc::new(chunk));
        }
        snapshot
    }

    /// Every change of the type up to this revision is in it, and none after.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The object of a key. O(log n).
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Arc<StoredObject>> {
        let chunk = self.chunks.get(self.chunk_of(key)?)?;
        chunk.get(chunk.binary_search_by(|o| o.key().cmp(key)).ok()?)
    }

    /// The objects whose key is at or after `start`, in key order.
    pub fn from_key<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a Arc<StoredObject>> {
        let first = self.chunk_of(start).unwrap_or(0);
        self.chunks.iter().skip(first).flat_map(|chunk| chunk.iter()).skip_while(move |o| o.key() < start)
    }

    /// The objects whose key starts with `prefix` and is at or after `start`, in key order.
    pub fn range<'a>(
        &'a self,
        prefix: &'a str,
        start: &'a str,
    ) -> impl Iterator<Item = &'a Arc<StoredObject>> {
        self.from_key(prefix.max(start)).take_while(move |o| o.key().starts_with(prefix))
    }

    /// The chunks with objects whose key starts with `prefix`; the first and the last may have others, too. One that is the same
    /// as in another snapshot has the same objects.
    pub(crate) fn chunks_of<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Chunk> {
        let first = self.chunk_of(prefix).unwrap_or(0);
        let begins_before_its_end = move |chunk: &&Chunk| {
            chunk.first().is_some_and(|o| o.key() < prefix || o.key().starts_with(prefix))
        };
        self.chunks.iter().skip(first).take_while(begins_before_its_end)
    }

    /// The number of objects whose key starts with `prefix` and is at or after `start`. O(log n).
    #[must_use]
    pub fn count(&self, prefix: &str, start: &str) -> usize {
        let from = prefix.max(start);
        let upto = self.rank(|key| key < prefix || key.starts_with(prefix));
        upto.saturating_sub(self.rank(|key| key < from))
    }

    /// The number of objects for which `before` returns true: it does so from the first object up to some key.
    fn rank(&self, mut before: impl FnMut(&str) -> bool) -> usize {
        let last = self.chunks.partition_point(|c| c.first().is_some_and(|o| before(o.key()))).checked_sub(1);
        let Some((at, chunk)) = last.and_then(|at| Some((at, self.chunks.get(at)?))) else { return 0 };
        let earlier = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        earlier + chunk.partition_point(|o| before(o.key()))
    }

    /// Sets the object of its key; gives back the one before.
    pub fn put(&mut self, object: Arc<StoredObject>) -> Option<Arc<StoredObject>> {
        let Some(at) = self.chunk_of(object.key()).or_else(|| (!self.chunks.is_empty()).then_some(0)) else {
            self.chunks.push(Arc::new(vec![object]));
            (self.ends, self.len) = (vec![1], 1);
            return None;
        };
        let chunk = Arc::make_mut(self.chunks.get_mut(at)?);
        match chunk.binary_search_by(|o| o.key().cmp(object.key())) {
            Ok(i) => chunk.get_mut(i).map(|slot| std::mem::replace(slot, object)),
            Err(i) => {
                chunk.insert(i, object);
                self.len += 1;
                let split = chunk.len() > CHUNK_MAX;
                let tail = if split { chunk.split_off(CHUNK_MAX / 2) } else { Vec::new() };
                self.ends.iter_mut().skip(at).for_each(|end| *end += 1);
                if split && let Some(end) = self.ends.get(at) {
                    self.ends.insert(at, end - tail.len());
                    self.chunks.insert(at + 1, Arc::new(tail));
                }
                None
            }
        }
    }

    /// Removes the object of a key, and gives it back.
    pub fn remove(&mut self, key: &str) -> Option<Arc<StoredObject>> {
        let at = self.chunk_of(key)?;
        let chunk = self.chunks.get_mut(at)?;
        let i = chunk.binary_search_by(|o| o.key().cmp(key)).ok()?;
        let chunk = Arc::make_mut(chunk);
        let removed = chunk.remove(i);
        let empty = chunk.is_empty();
        self.ends.iter_mut().skip(at).for_each(|end| *end -= 1);
        if empty {
            self.chunks.remove(at);
            self.ends.remove(at);
        }
        self.len -= 1;
        Some(removed)
    }

    /// Notes that every change up to `revision` is in it.
    pub fn advance(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
    }

    /// The last chunk whose first key is at or before `key`: the only one that may hold it.
    fn chunk_of(&self, key: &str) -> Option<usize> {
        self.chunks.partition_point(|c| c.first().is_some_and(|o| o.key() <= key)).checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn object(key: &str, revision: u64) -> Arc<StoredObject> {
        Arc::new(StoredObject::new(key, Bytes::new(), Revision(revision)))
    }

    fn keys(snapshot: &Snapshot) -> Vec<(String, u64)> {
        snapshot.from_key("").map(|o| (o.key().to_owned(), o.revision().0)).collect()
    }

    proptest! {
        #[test]
        fn a_snapshot_is_an_ordered_map(steps in prop::collection::vec((0u16..600, any::<bool>()), 0..1500)) {
            let (mut snapshot, mut model) = (Snapshot::default(), BTreeMap::new());
            let mut before = (snapshot.clone(), keys(&snapshot));
            for (i, (key, put)) in steps.iter().enumerate() {
                let key = format!("{key:03}");
                if *put {
                    let was = snapshot.put(object(&key, i as u64)).map(|o| o.revision().0);
                    prop_assert_eq!(was, model.insert(key, i as u64));
                } else {
                    prop_assert_eq!(snapshot.remove(&key).map(|o| o.revision().0), model.remove(&key));
                }
                if i % 97 == 0 {
                    // A snapshot that a reader still holds does not change.
                    prop_assert_eq!(&keys(&before.0), &before.1);
                    before = (snapshot.clone(), keys(&snapshot));
                }
            }
            prop_assert_eq!(snapshot.len(), model.len());
            prop_assert_eq!(keys(&snapshot), model.clone().into_iter().collect::<Vec<_>>());
            let from: Vec<_> = snapshot.range("1", "15").map(|o| o.key().to_owned()).collect();
            let want: Vec<_> = model.keys().filter(|k| k.starts_with('1') && k.as_str() >= "15").cloned().collect();
            prop_assert_eq!(snapshot.count("1", "15"), want.len());
            prop_assert_eq!(from, want);
            for (prefix, start) in [("", ""), ("", "3"), ("2", ""), ("2", "20"), ("5", "7"), ("9", ""), ("4", "4x")] {
                let there = snapshot.range(prefix, start).count();
                prop_assert_eq!(snapshot.count(prefix, start), there, "{} from {}", prefix, start);
            }
        }
    }

    #[test]
    fn building_from_a_sorted_list_is_the_same_as_putting() {
        let sorted: Vec<_> = (0..1000).map(|i| object(&format!("{i:04}"), i)).collect();
        let built = Snapshot::from_sorted(sorted.clone(), Revision(9));
        let mut put = Snapshot::default();
        for o in sorted {
            put.put(o);
        }
        assert_eq!(keys(&built), keys(&put));
        assert_eq!((built.len(), built.revision()), (1000, Revision(9)));
        assert!(built.get("0500").is_some() && built.get("0500x").is_none());
        assert_eq!((built.count("05", "0550"), put.count("05", "0550")), (50, 50));
    }

    /// A page of a list counts the objects behind it.
    #[test]
    fn counting_takes_few_steps_however_much_there_is() {
        let snapshot =
            Snapshot::from_sorted((0..200_000).map(|i| object(&format!("{i:06}"), 1)), Revision(1));
        let mut steps = 0;
        let rank = snapshot.rank(|key| {
            steps += 1;
            key < "123456"
        });
        assert_eq!(rank, 123_456);
        assert!(steps <= 24, "{steps}");
    }
}
