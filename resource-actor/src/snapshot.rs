//! A type's objects at one revision: an immutable ordered map that is cheap to change into the next one.
//!
//! The map is a tree of three levels: a list of blocks, which are lists of chunks, which are lists of objects, each behind an
//! `Arc`. Changing one object copies its chunk, its block and the list of blocks; everything else is shared with the snapshot
//! before, so a list keeps reading the one it began with.
//!
//! Worked example, of one block with chunks of at most 2: after `a b c` there are chunks `[a b] [c]`. Inserting `bb` finds
//! `[a b]` (the last chunk that starts at or before it), makes `[a b bb]`, which is too long, and splits it: `[a] [b bb] [c]`.
//! Removing `c` empties its chunk, which goes: `[a] [b bb]`. Blocks split and go likewise.
//!
//! Beside each chunk of a block stands the number of the block's objects up to its end, here `1 3`; beside each block likewise. So
//! counting the objects between two keys takes a few searches, however many they are: a page of a list gives the number of objects
//! behind it.

use std::sync::Arc;

use kindom_storage::Revision;

use kindom_objects::StoredObject;

/// The most objects in a chunk, and chunks in a block: copying one counts so many references. Few in tests, so that blocks come and
/// go in them.
const PARTS_MAX: usize = if cfg!(test) { 4 } else { 64 };

/// Some objects, in key order.
pub(crate) type Chunk = Arc<Vec<Arc<StoredObject>>>;

/// Some chunks, in key order.
type Block = Arc<Parts<Chunk>>;

/// A type's objects, by key, with the revision up to which changes are in it.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    blocks: Parts<Block>,
    revision: Revision,
}

/// A level of the tree, or a part of one. An empty part is in none.
trait Level: Clone {
    /// A part of one object.
    fn of(object: Arc<StoredObject>) -> Self;
    fn first_key(&self) -> Option<&str>;
    /// The number of objects.
    fn count(&self) -> usize;
    /// The number of objects for which `before` returns true: it does so from the first object up to some key.
    fn rank(&self, before: &mut dyn FnMut(&str) -> bool) -> usize;
    fn find(&self, key: &str) -> Option<&Arc<StoredObject>>;
    /// Sets the object of its key; gives back the one before.
    fn put(&mut self, object: Arc<StoredObject>) -> Option<Arc<StoredObject>>;
    /// `true` if it has become too long.
    fn is_long(&self) -> bool;
    /// Splits its end off.
    fn split(&mut self) -> Self;
    /// Removes the object of a key, and gives it back. The part may be empty then.
    fn take(&mut self, key: &str) -> Option<Arc<StoredObject>>;
}

impl Level for Vec<Arc<StoredObject>> {
    fn of(object: Arc<StoredObject>) -> Self {
        vec![object]
    }

    fn first_key(&self) -> Option<&str> {
        self.first().map(|object| object.key())
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn rank(&self, before: &mut dyn FnMut(&str) -> bool) -> usize {
        self.partition_point(|object| before(object.key()))
    }

    fn find(&self, key: &str) -> Option<&Arc<StoredObject>> {
        self.get(self.binary_search_by(|object| object.key().cmp(key)).ok()?)
    }

    fn put(&mut self, object: Arc<StoredObject>) -> Option<Arc<StoredObject>> {
        match self.binary_search_by(|other| other.key().cmp(object.key())) {
            Ok(at) => self.get_mut(at).map(|slot| std::mem::replace(slot, object)),
            Err(at) => {
                self.insert(at, object);
                None
            }
        }
    }

    fn is_long(&self) -> bool {
        self.len() > PARTS_MAX
    }

    fn split(&mut self) -> Self {
        self.split_off(PARTS_MAX / 2)
    }

    fn take(&mut self, key: &str) -> Option<Arc<StoredObject>> {
        let at = self.binary_search_by(|object| object.key().cmp(key)).ok()?;
        Some(self.remove(at))
    }
}

/// A shared part is copied before it changes.
impl<P: Level> Level for Arc<P> {
    fn of(object: Arc<StoredObject>) -> Self {
        Self::new(P::of(object))
    }

    fn first_key(&self) -> Option<&str> {
        P::first_key(self)
    }

    fn count(&self) -> usize {
        P::count(self)
    }

    fn rank(&self, before: &mut dyn FnMut(&str) -> bool) -> usize {
        P::rank(self, before)
    }

    fn find(&self, key: &str) -> Option<&Arc<StoredObject>> {
        P::find(self, key)
    }

    fn put(&mut self, object: Arc<StoredObject>) -> Option<Arc<StoredObject>> {
        Self::make_mut(self).put(object)
    }

    fn is_long(&self) -> bool {
        P::is_long(self)
    }

    fn split(&mut self) -> Self {
        Self::new(Self::make_mut(self).split())
    }

    fn take(&mut self, key: &str) -> Option<Arc<StoredObject>> {
        // Nothing is copied for a key that is not there.
        self.find(key)?;
        Self::make_mut(self).take(key)
    }
}

/// Parts in key order.
#[derive(Debug, Clone)]
struct Parts<P> {
    parts: Vec<P>,
    /// The number of objects up to the end of each.
    ends: Vec<usize>,
}

impl<P> Default for Parts<P> {
    fn default() -> Self {
        Self { parts: Vec::new(), ends: Vec::new() }
    }
}

impl<P: Level> FromIterator<P> for Parts<P> {
    fn from_iter<I: IntoIterator<Item = P>>(parts: I) -> Self {
        let parts: Vec<P> = parts.into_iter().collect();
        let up_to = |end: &mut usize, part: &P| {
            *end += part.count();
            Some(*end)
        };
        Self { ends: parts.iter().scan(0, up_to).collect(), parts }
    }
}

impl<P: Level> Parts<P> {
    /// The last part whose first key is at or before `key`: the only one that may hold it.
    fn place(&self, key: &str) -> Option<usize> {
        self.parts.partition_point(|part| part.first_key().is_some_and(|first| first <= key)).checked_sub(1)
    }
}

impl<P: Level> Level for Parts<P> {
    fn of(object: Arc<StoredObject>) -> Self {
        [P::of(object)].into_iter().collect()
    }

    fn first_key(&self) -> Option<&str> {
        self.parts.first().and_then(P::first_key)
    }

    fn count(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn rank(&self, before: &mut dyn FnMut(&str) -> bool) -> usize {
        let behind = self.parts.partition_point(|part| part.first_key().is_some_and(&mut *before));
        let Some((at, part)) = behind.checked_sub(1).and_then(|at| Some((at, self.parts.get(at)?))) else {
            return 0;
        };
        let earlier = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        earlier + part.rank(before)
    }

    fn find(&self, key: &str) -> Option<&Arc<StoredObject>> {
        self.parts.get(self.place(key)?)?.find(key)
    }

    fn put(&mut self, object: Arc<StoredObject>) -> Option<Arc<StoredObject>> {
        let at = self.place(object.key()).unwrap_or(0);
        let Some(part) = self.parts.get_mut(at) else {
            *self = Self::of(object);
            return None;
        };
        let before = part.put(object);
        let tail = part.is_long().then(|| part.split());
        if before.is_none() {
            self.ends.iter_mut().skip(at).for_each(|end| *end += 1);
        }
        if let Some(tail) = tail
            && let Some(end) = self.ends.get(at)
        {
            self.ends.insert(at, end - tail.count());
            self.parts.insert(at + 1, tail);
        }
        before
    }

    fn is_long(&self) -> bool {
        self.parts.len() > PARTS_MAX
    }

    fn split(&mut self) -> Self {
        self.ends.truncate(PARTS_MAX / 2);
        self.parts.split_off(PARTS_MAX / 2).into_iter().collect()
    }

    fn take(&mut self, key: &str) -> Option<Arc<StoredObject>> {
        let at = self.place(key)?;
        let part = self.parts.get_mut(at)?;
        let taken = part.take(key)?;
        let is_empty = part.count() == 0;
        self.ends.iter_mut().skip(at).for_each(|end| *end -= 1);
        if is_empty {
            self.parts.remove(at);
            self.ends.remove(at);
        }
        Some(taken)
    }
}

impl Snapshot {
    /// A snapshot of these objects, which are in key order.
    #[must_use]
    pub fn from_sorted(objects: impl IntoIterator<Item = Arc<StoredObject>>, revision: Revision) -> Self {
        let mut objects = objects.into_iter().fuse();
        let chunks = std::iter::from_fn(|| {
            let chunk: Vec<_> = objects.by_ref().take(PARTS_MAX).collect();
            (!chunk.is_empty()).then(|| Arc::new(chunk))
        });
        let mut chunks = chunks.fuse();
        let blocks = std::iter::from_fn(|| {
            let block: Parts<Chunk> = chunks.by_ref().take(PARTS_MAX).collect();
            (!block.parts.is_empty()).then(|| Arc::new(block))
        });
        Self { blocks: blocks.collect(), revision }
    }

    /// Every change of the type up to this revision is in it, and none after.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks.count()
    }

    /// Returns true if there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The object of a key. O(log n).
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Arc<StoredObject>> {
        self.blocks.find(key)
    }

    /// The chunks from the one on that `key` is in or would be in.
    fn chunks_from(&self, key: &str) -> impl Iterator<Item = &Chunk> {
        let first = self.blocks.place(key).unwrap_or(0);
        let in_first = self.blocks.parts.get(first).and_then(|block| block.place(key)).unwrap_or(0);
        self.blocks.parts.iter().skip(first).flat_map(|block| block.parts.iter()).skip(in_first)
    }

    /// The objects whose key is at or after `start`, in key order.
    pub fn from_key<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a Arc<StoredObject>> {
        self.chunks_from(start).flat_map(|chunk| chunk.iter()).skip_while(move |o| o.key() < start)
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
        let begins_before_its_end = move |chunk: &&Chunk| {
            chunk.first().is_some_and(|o| o.key() < prefix || o.key().starts_with(prefix))
        };
        self.chunks_from(prefix).take_while(begins_before_its_end)
    }

    /// The number of objects whose key starts with `prefix` and is at or after `start`. O(log n).
    #[must_use]
    pub fn count(&self, prefix: &str, start: &str) -> usize {
        let from = prefix.max(start);
        let upto = self.blocks.rank(&mut |key| key < prefix || key.starts_with(prefix));
        upto.saturating_sub(self.blocks.rank(&mut |key| key < from))
    }

    /// Sets the object of its key; gives back the one before.
    pub fn put(&mut self, object: Arc<StoredObject>) -> Option<Arc<StoredObject>> {
        self.blocks.put(object)
    }

    /// Removes the object of a key, and gives it back.
    pub fn remove(&mut self, key: &str) -> Option<Arc<StoredObject>> {
        self.blocks.take(key)
    }

    /// Notes that every change up to `revision` is in it.
    pub fn advance(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
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

    /// No part is empty or too long, and each end is where it says.
    fn check<P: Level>(of: &Parts<P>, inner: impl Fn(&P)) {
        let mut end = 0;
        assert_eq!(of.parts.len(), of.ends.len());
        for (part, upto) in of.parts.iter().zip(&of.ends) {
            end += part.count();
            assert!(part.count() > 0 && !part.is_long() && *upto == end);
            inner(part);
        }
    }

    fn check_all(snapshot: &Snapshot) {
        check(&snapshot.blocks, |block| check(block, |_| {}));
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
                check_all(&snapshot);
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
    fn a_change_copies_one_chunk_and_one_block() {
        let objects = (0..200).map(|i| object(&format!("{i:03}"), 1));
        let before = Snapshot::from_sorted(objects, Revision(1));
        check_all(&before);
        let copied = |after: &Snapshot| {
            let shared = |snapshot: &Snapshot| -> Vec<usize> {
                let blocks = snapshot.blocks.parts.iter().map(|block| Arc::as_ptr(block) as usize);
                blocks.chain(snapshot.chunks_from("").map(|chunk| Arc::as_ptr(chunk) as usize)).collect()
            };
            let (before, after) = (shared(&before), shared(after));
            after.iter().filter(|part| !before.contains(part)).count()
        };
        let mut after = before.clone();
        after.remove("100x");
        assert_eq!(copied(&after), 0);
        after.put(object("100", 2));
        assert_eq!(copied(&after), 2);
        let mut after = before.clone();
        after.remove("100");
        assert_eq!(copied(&after), 2);
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
        let rank = snapshot.blocks.rank(&mut |key| {
            steps += 1;
            key < "123456"
        });
        assert_eq!(rank, 123_456);
        assert!(steps <= 24, "{steps}");
    }
}
