//! The multi-version index: which keys there are, and were, at each revision.
//!
//! # A worked example
//! Three transactions: 1 puts `a`, 2 puts `b` and overwrites `a`, 3 deletes `a`; 4 puts `a` again.
//!
//! ```text
//! keys      a → [1 put, created 1] [2 put, created 1] [3 tombstone] [4 put, created 4]
//!           b → [2 put, created 2]
//! changes   1: a    2: b a    3: a    4: a
//! ```
//!
//! - Reading at 2 takes each key's newest record at or before 2: `a` of 2 and `b` of 2. At 3 only `b`.
//! - The events after 2 are those of `changes[3]` and `changes[4]`; the record of `a` before 3 is the previous value.
//! - Compacting at 2 keeps, of the records at or before 2, each key's newest: `[1 put]` goes, the rest stays, and
//!   changes start at 3, whose previous value is still there. Compacting at 3 keeps nothing of `a` before 4: its
//!   newest record at or before 3 is a tombstone, which means the same as no record.
//!
//! The index may run ahead of what is published: a writer enters a transaction when it judges it, and readers, who
//! name the published revision, do not see it yet. If it never gets durable, nobody has seen it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use bytes::Bytes;

use crate::{Compare, CompareTarget, Key, KeyRange, Op, Revision};

/// The state of one key after one revision. `V` is the place of the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record<V> {
    pub(crate) revision: Revision,
    /// The revision that created the key, since it was last absent.
    pub(crate) created: Revision,
    /// None: a tombstone.
    pub(crate) value: Option<V>,
}

/// A key's records in revision order. Most keys have one, which costs no allocation of its own.
#[derive(Debug, Clone)]
struct Records<V> {
    newest: Record<V>,
    older: Vec<Record<V>>,
}

impl<V> Records<V> {
    fn push(&mut self, record: Record<V>) {
        let before = std::mem::replace(&mut self.newest, record);
        self.older.push(before);
    }

    /// The newest at or before `at`; tombstones too.
    fn at(&self, at: Revision) -> Option<&Record<V>> {
        if self.newest.revision <= at {
            return Some(&self.newest);
        }
        self.before(at.next())
    }

    /// The newest of the older ones that is before `revision`.
    fn before(&self, revision: Revision) -> Option<&Record<V>> {
        let end = self.older.partition_point(|record| record.revision < revision);
        self.older.get(end.checked_sub(1)?)
    }
}

/// One change of a transaction, as the index saw it.
#[derive(Debug, Clone)]
pub(crate) struct Changed<V> {
    pub(crate) key: Key,
    pub(crate) record: Record<V>,
    /// The live record right before.
    pub(crate) prev: Option<Record<V>>,
}

/// The changes that one revision made within a range.
#[derive(Debug, Clone)]
pub(crate) struct Changes<V> {
    pub(crate) revision: Revision,
    pub(crate) changed: Vec<Changed<V>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Index<V> {
    keys: BTreeMap<Key, Records<V>>,
    /// The keys that each revision from `changes_start` on changed, in the order of its operations.
    changes: VecDeque<Box<[Key]>>,
    changes_start: Revision,
    head: Revision,
    compacted: Revision,
}

impl<V: Clone> Index<V> {
    pub(crate) fn new() -> Self {
        Self {
            keys: BTreeMap::new(),
            changes: VecDeque::new(),
            changes_start: Revision(1),
            head: Revision::ZERO,
            compacted: Revision::ZERO,
        }
    }

    /// The revision of the last transaction entered.
    pub(crate) fn head(&self) -> Revision {
        self.head
    }

    pub(crate) fn compacted(&self) -> Revision {
        self.compacted
    }

    /// The number of keys with a record, tombstones included.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The first compare that does not hold now. O(keys in its range) for each compare.
    pub(crate) fn first_failed(&self, compares: &[Compare]) -> Option<usize> {
        compares.iter().position(|compare| !self.holds(compare))
    }

    fn holds(&self, compare: &Compare) -> bool {
        let holds = |revision: Revision| match compare.target {
            CompareTarget::ModEqual(wanted) => revision == wanted,
            CompareTarget::ModLess(bound) => revision < bound,
            CompareTarget::ModGreater(bound) => revision > bound,
        };
        if let Some(key) = compare.range.as_single() {
            return holds(self.live(key).map_or(Revision::ZERO, |record| record.revision));
        }
        let mut any = false;
        for (_, record) in self.range_at(&compare.range, self.head) {
            any = true;
            if !holds(record.revision) {
                return false;
            }
        }
        any || holds(Revision::ZERO)
    }

    /// The key's record now, where it is live.
    pub(crate) fn live(&self, key: &Key) -> Option<&Record<V>> {
        self.keys.get(key).map(|records| &records.newest).filter(|record| record.value.is_some())
    }

    /// Enters one transaction. `place` is called for each operation that changes something, with its revision and
    /// the key's create revision, and says where the value of a put is. If nothing changes: `None`, and no revision is
    /// taken.
    pub(crate) fn commit(
        &mut self,
        ops: &[Op],
        mut place: impl FnMut(Revision, Revision, &Op) -> Option<V>,
    ) -> Option<Changes<V>> {
        let revision = self.head.next();
        let mut changed = Vec::with_capacity(ops.len());
        for op in ops {
            let prev = self.live(op.key());
            if prev.is_none() && matches!(op, Op::Delete(_)) {
                continue;
            }
            let created = prev.map_or(revision, |prev| prev.created);
            let record = Record { revision, created, value: place(revision, created, op) };
            changed.push(self.enter(op.key(), record));
        }
        if changed.is_empty() {
            return None;
        }
        self.changes.push_back(changed.iter().map(|changed| changed.key.clone()).collect());
        self.head = revision;
        Some(Changes { revision, changed })
    }

    /// Takes the last transaction out again, as if it had not been entered. Nothing was compacted or pruned since.
    pub(crate) fn take_back(&mut self, changes: &Changes<V>) {
        debug_assert_eq!(changes.revision, self.head);
        for changed in &changes.changed {
            let Some(records) = self.keys.get_mut(&changed.key) else { continue };
            match records.older.pop() {
                Some(before) => records.newest = before,
                None => drop(self.keys.remove(&changed.key)),
            }
        }
        self.changes.pop_back();
        self.head = Revision(self.head.0.saturating_sub(1));
    }

    /// Enters one revision from a log, later than all before; every revision after the compacted one must be entered.
    /// Superseded values that are not needed go to `dropped`.
    pub(crate) fn restore(
        &mut self,
        revision: Revision,
        ops: impl IntoIterator<Item = (Bytes, Revision, Option<V>)>,
        mut dropped: impl FnMut(V),
    ) {
        let history = revision > self.compacted;
        let mut keys = Vec::new();
        for (key, created, value) in ops {
            let (key, record) = (Key::new(key), Record { revision, created, value });
            if history {
                keys.push(self.enter(&key, record).key);
            } else {
                self.restore_newest(&key, record, &mut dropped);
            }
        }
        if history {
            self.changes.push_back(keys.into());
        }
        self.head = revision;
    }

    /// Ends a part of the log that may have no records of its last revisions, because they are compacted.
    pub(crate) fn restored_to(&mut self, revision: Revision) {
        self.head = self.head.max(revision);
    }

    fn restore_newest(&mut self, key: &Key, record: Record<V>, dropped: &mut impl FnMut(V)) {
        let gone = if record.value.is_none() {
            self.keys.remove(key).map(|records| records.newest)
        } else if let Some(records) = self.keys.get_mut(key) {
            Some(std::mem::replace(&mut records.newest, record))
        } else {
            self.enter(key, record);
            None
        };
        if let Some(value) = gone.and_then(|record| record.value) {
            dropped(value);
        }
    }

    /// The record that this revision left of the key.
    pub(crate) fn find(&self, key: &Key, revision: Revision) -> Option<&Record<V>> {
        self.keys.get(key)?.at(revision).filter(|record| record.revision == revision)
    }

    /// The key's last record at or before the compacted revision; tombstones too.
    pub(crate) fn last_compacted(&self, key: &Key) -> Option<&Record<V>> {
        self.keys.get(key)?.at(self.compacted)
    }

    /// `true` if [`Index::prune`] has nothing left to do.
    pub(crate) fn is_pruned(&self) -> bool {
        self.changes_start > self.compacted
    }

    /// Says that the value of this record is elsewhere now. Answers whether there is such a record.
    pub(crate) fn relocate(&mut self, key: &Key, revision: Revision, value: V) -> bool {
        let Some(records) = self.keys.get_mut(key) else { return false };
        let all = std::iter::once(&mut records.newest).chain(&mut records.older);
        for record in all {
            if record.revision == revision && record.value.is_some() {
                record.value = Some(value);
                return true;
            }
        }
        false
    }

    fn enter(&mut self, key: &Key, record: Record<V>) -> Changed<V> {
        if let Some((key, records)) = self.keys.range_mut::<Key, _>(key..=key).next() {
            let prev = Some(records.newest.clone()).filter(|prev| prev.value.is_some());
            records.push(record.clone());
            return Changed { key: key.clone(), record, prev };
        }
        // A copy: the caller's bytes may be a slice of something large.
        let key = Key::new(Bytes::copy_from_slice(key.as_bytes()));
        self.keys.insert(key.clone(), Records { newest: record.clone(), older: Vec::new() });
        Changed { key, record, prev: None }
    }

    /// The live keys of a range as of a revision, in order.
    pub(crate) fn range_at(
        &self,
        range: &KeyRange,
        at: Revision,
    ) -> impl Iterator<Item = (&Key, &Record<V>)> + use<'_, V> {
        self.records_of(range).filter_map(move |(key, records)| {
            let record = records.at(at)?;
            record.value.is_some().then_some((key, record))
        })
    }

    fn records_of(&self, range: &KeyRange) -> impl Iterator<Item = (&Key, &Records<V>)> + use<'_, V> {
        // BTreeMap::range panics on a start behind the end; such a range holds nothing.
        let empty = range.end.as_ref().is_some_and(|end| *end <= range.start);
        let end = range.end.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let bounds = (!empty).then(|| (Bound::Included(range.start.clone()), end));
        bounds.into_iter().flat_map(|bounds| self.keys.range(bounds))
    }

    /// The changes of the range after `after`, up to and including `upto`. The search reads at most `scan_max` revisions and
    /// finds at most `found_max`; it returns the revision that it has reached. `after` must not lie before the compacted
    /// revision.
    pub(crate) fn changes(
        &self,
        range: &KeyRange,
        after: Revision,
        upto: Revision,
        (scan_max, found_max): (u64, usize),
    ) -> (Vec<Changes<V>>, Revision) {
        let reached = Revision(upto.0.min(after.0.saturating_add(scan_max)));
        let mut found = Vec::new();
        for at in after.0 + 1..=reached.0 {
            let revision = Revision(at);
            let keys = self.keys_changed_at(revision).iter().filter(|key| range.contains(key.as_bytes()));
            let changed: Vec<_> = keys.filter_map(|key| self.changed_at(key, revision)).collect();
            if !changed.is_empty() {
                found.push(Changes { revision, changed });
                if found.len() >= found_max {
                    return (found, revision);
                }
            }
        }
        (found, reached)
    }

    /// The last revision after `after`, up to and including `upto`, that changed the range.
    pub(crate) fn last_change(&self, range: &KeyRange, after: Revision, upto: Revision) -> Option<Revision> {
        let touches =
            |at: &u64| self.keys_changed_at(Revision(*at)).iter().any(|key| range.contains(key.as_bytes()));
        (after.0 + 1..=upto.0).rev().find(touches).map(Revision)
    }

    fn keys_changed_at(&self, revision: Revision) -> &[Key] {
        let position = revision.0.checked_sub(self.changes_start.0).and_then(|at| usize::try_from(at).ok());
        position.and_then(|at| self.changes.get(at)).map_or(&[], |keys| keys)
    }

    fn changed_at(&self, key: &Key, revision: Revision) -> Option<Changed<V>> {
        let (key, records) = self.keys.get_key_value(key)?;
        let record = records.at(revision).filter(|record| record.revision == revision)?.clone();
        let prev = records.before(revision).filter(|prev| prev.value.is_some()).cloned();
        Some(Changed { key: key.clone(), record, prev })
    }

    /// Makes `to` the compacted revision: from now on history starts after it. [`Index::prune`] frees the records behind it.
    /// Returns true if anything changes.
    pub(crate) fn compact(&mut self, to: Revision) -> bool {
        let later = to > self.compacted && to <= self.head;
        if later {
            self.compacted = to;
        }
        later
    }

    /// Frees records that compaction made unreachable, those of `revisions_max` revisions at most, and hands the
    /// values that went to `dropped`. Answers whether it is done. O(changes compacted), not O(keys).
    pub(crate) fn prune(&mut self, revisions_max: usize, mut dropped: impl FnMut(V)) -> bool {
        for _ in 0..revisions_max {
            if self.changes_start > self.compacted {
                return true;
            }
            let Some(keys) = self.changes.pop_front() else { return true };
            self.changes_start = self.changes_start.next();
            for key in keys {
                self.prune_key(&key, &mut dropped);
            }
        }
        self.changes_start > self.compacted
    }

    fn prune_key(&mut self, key: &Key, dropped: &mut impl FnMut(V)) {
        let compacted = self.compacted;
        let Some(records) = self.keys.get_mut(key) else { return };
        if records.newest.revision <= compacted {
            records.older.drain(..).filter_map(|record| record.value).for_each(&mut *dropped);
            records.older = Vec::new();
            if records.newest.value.is_none() {
                self.keys.remove(key);
            }
            return;
        }
        let past = records.older.partition_point(|record| record.revision <= compacted);
        let Some(last) = past.checked_sub(1) else { return };
        let keeps_last = records.older.get(last).is_some_and(|record| record.value.is_some());
        let gone = if keeps_last { last } else { past };
        records.older.drain(..gone).filter_map(|record| record.value).for_each(dropped);
        if records.older.is_empty() {
            records.older = Vec::new();
        }
    }
}

/// Builds an index of records that come in the order of their keys, and of their revisions for each key; far quicker
/// than entering them one by one.
pub(crate) struct IndexBuilder<V> {
    keys: Vec<(Key, Records<V>)>,
    /// Revision, position in the transaction, key.
    changes: Vec<(Revision, u32, Key)>,
    compacted: Revision,
}

impl<V: Clone> IndexBuilder<V> {
    /// For a store that was compacted at `compacted`: of the records up to that revision, only each key's newest counts.
    pub(crate) fn new(compacted: Revision) -> Self {
        Self { keys: Vec::new(), changes: Vec::new(), compacted }
    }

    /// The next record, and its operation's position in its transaction. Values that are superseded and not needed go
    /// to `dropped`.
    pub(crate) fn push(&mut self, key: &[u8], position: u32, record: Record<V>, mut dropped: impl FnMut(V)) {
        let revision = record.revision;
        match self.keys.last_mut().filter(|(last, _)| last.as_bytes() == key) {
            None => {
                self.drop_tombstone();
                let key = Key::new(Bytes::copy_from_slice(key));
                self.keys.push((key, Records { newest: record, older: Vec::new() }));
            }
            Some((_, last)) => {
                let unneeded = last.newest.revision <= self.compacted
                    && (revision <= self.compacted || last.newest.value.is_none());
                if unneeded {
                    let before = std::mem::replace(&mut last.newest, record);
                    before.value.into_iter().for_each(&mut dropped);
                } else {
                    last.push(record);
                }
            }
        }
        if revision > self.compacted
            && let Some((key, _)) = self.keys.last()
        {
            self.changes.push((revision, position, key.clone()));
        }
    }

    /// Drops the last key if its only record is a compacted tombstone, which means the same as no record.
    fn drop_tombstone(&mut self) {
        let (compacted, empty) = (self.compacted, |last: &Records<V>| last.newest.value.is_none());
        self.keys.pop_if(|(_, last)| empty(last) && last.newest.revision <= compacted);
    }

    /// The index up to `head`; every revision after the compacted one must have come.
    pub(crate) fn finish(mut self, head: Revision) -> Index<V> {
        self.drop_tombstone();
        self.changes.sort_unstable_by_key(|(revision, position, _)| (*revision, *position));
        let changes = self.changes.chunk_by(|(a, ..), (b, ..)| a == b);
        let changes = changes.map(|keys| keys.iter().map(|(.., key)| key.clone()).collect()).collect();
        Index {
            keys: self.keys.into_iter().collect(),
            changes,
            changes_start: self.compacted.next(),
            head,
            compacted: self.compacted,
        }
    }
}

/// Leaves only the last operation of each key.
pub(crate) fn last_op_of_each_key(ops: &mut Vec<Op>) {
    if ops.len() < 2 {
        return;
    }
    let mut seen = std::collections::HashSet::with_capacity(ops.len());
    ops.reverse();
    ops.retain(|op| seen.insert(op.key().clone()));
    ops.reverse();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every state there ever was, in full.
    #[derive(Default)]
    struct Model {
        states: Vec<BTreeMap<u8, (u64, u64, u32)>>,
    }

    #[derive(Debug, Clone)]
    enum Step {
        Commit(Vec<(u8, Option<u32>)>),
        Compact(u8),
        Prune(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let op = (0..6u8, prop::option::of(any::<u32>()));
        let step = prop_oneof![
            6 => prop::collection::vec(op, 0..4).prop_map(Step::Commit),
            1 => any::<u8>().prop_map(Step::Compact),
            1 => (0..4usize).prop_map(Step::Prune),
        ];
        prop::collection::vec(step, 0..60)
    }

    fn key(n: u8) -> Key {
        Key::new(vec![b'a' + n])
    }

    fn apply(model: &mut Model, index: &mut Index<u32>, ops: &[(u8, Option<u32>)]) {
        let mut ops: Vec<Op> = ops
            .iter()
            .map(|(k, v)| match v {
                Some(v) => Op::Put(key(*k), Bytes::copy_from_slice(&v.to_le_bytes())),
                None => Op::Delete(key(*k)),
            })
            .collect();
        last_op_of_each_key(&mut ops);
        let number = |value: &Bytes| u32::from_le_bytes(value[..].try_into().unwrap());
        let revision = index.head().0 + 1;
        let mut state = model.states.last().unwrap().clone();
        let mut any = false;
        for op in &ops {
            let k = op.key().as_bytes()[0] - b'a';
            match op.value() {
                Some(value) => {
                    let created = state.get(&k).map_or(revision, |(_, created, _)| *created);
                    state.insert(k, (revision, created, number(value)));
                    any = true;
                }
                None => any |= state.remove(&k).is_some(),
            }
        }
        let changes = index.commit(&ops, |_, _, op| op.value().map(number));
        assert_eq!(changes.is_some(), any);
        if any {
            model.states.push(state);
        }
    }

    fn check(model: &Model, index: &Index<u32>) {
        let head = index.head();
        assert_eq!(head.0 + 1, model.states.len() as u64);
        let range = KeyRange { start: key(1), end: Some(key(5)) };
        let expected = |at: u64| -> Vec<(u8, (u64, u64, u32))> {
            model.states[usize::try_from(at).unwrap()].range(1..5).map(|(k, v)| (*k, *v)).collect()
        };
        for at in index.compacted().0..=head.0 {
            let found: Vec<_> = index
                .range_at(&range, Revision(at))
                .map(|(k, r)| (k.as_bytes()[0] - b'a', (r.revision.0, r.created.0, r.value.unwrap())))
                .collect();
            assert_eq!(found, expected(at), "at {at}");
        }
        // Folding the changes leads from each state to the next, with the right previous values.
        let mut state: BTreeMap<_, _> = expected(index.compacted().0).into_iter().collect();
        let mut after = index.compacted();
        while after < head {
            let (found, reached) = index.changes(&range, after, head, (3, 2));
            for changes in found {
                for changed in changes.changed {
                    let k = changed.key.as_bytes()[0] - b'a';
                    let prev = changed.prev.map(|r| (r.revision.0, r.created.0, r.value.unwrap()));
                    assert_eq!(prev, state.get(&k).copied());
                    match changed.record.value {
                        Some(value) => {
                            state.insert(k, (changed.record.revision.0, changed.record.created.0, value))
                        }
                        None => state.remove(&k),
                    };
                }
            }
            assert_eq!(state.clone().into_iter().collect::<Vec<_>>(), expected(reached.0));
            after = reached;
        }
    }

    #[test]
    fn what_is_taken_back_was_never_there() {
        let mut index = Index::new();
        let put = |key: &str| Op::Put(Key::from(key), Bytes::new());
        let commit =
            |index: &mut Index<()>, ops: &[Op]| index.commit(ops, |_, _, op| op.value().map(|_| ())).unwrap();
        commit(&mut index, &[put("a"), put("b")]);
        let before = format!("{index:?}");
        let second = commit(&mut index, &[put("a"), Op::Delete(Key::from("b")), put("c")]);
        let third = commit(&mut index, &[Op::Delete(Key::from("a")), put("b")]);
        index.take_back(&third);
        index.take_back(&second);
        assert_eq!(format!("{index:?}"), before);
    }

    proptest! {
        #[test]
        fn equals_a_list_of_all_states(steps in steps()) {
            let mut model = Model { states: vec![BTreeMap::new()] };
            let mut index = Index::new();
            for step in steps {
                match step {
                    Step::Commit(ops) => apply(&mut model, &mut index, &ops),
                    Step::Compact(share) => {
                        let to = index.head().0 * u64::from(share) / 255;
                        index.compact(Revision(to));
                    }
                    Step::Prune(max) => { index.prune(max, |_| {}); }
                }
                check(&model, &index);
            }
            // Fully compacted, only the live keys are left, each with one record.
            let head = index.head();
            index.compact(head);
            let mut dropped = 0;
            while !index.prune(2, |_| dropped += 1) {}
            check(&model, &index);
            prop_assert_eq!(index.len(), model.states.last().unwrap().len());
            prop_assert!(index.keys.values().all(|records| records.older.is_empty()));
            prop_assert!(index.changes.is_empty());
        }
    }

    #[test]
    fn the_example_of_the_module() {
        let mut index = Index::new();
        let put = |k: &str| Op::Put(Key::from(k), Bytes::new());
        for ops in
            [vec![put("a")], vec![put("b"), put("a")], vec![Op::Delete(Key::from("a"))], vec![put("a")]]
        {
            index.commit(&ops, |_, _, op| op.value().map(|_| ()));
        }
        let at = |index: &Index<()>, at| -> Vec<String> {
            index
                .range_at(&KeyRange::prefix(b""), Revision(at))
                .map(|(key, record)| format!("{key}{}", record.revision))
                .collect()
        };
        assert_eq!(at(&index, 2), ["a2", "b2"]);
        assert_eq!(at(&index, 3), ["b2"]);
        index.compact(Revision(3));
        assert!(index.prune(100, |()| {}));
        assert_eq!(at(&index, 3), ["b2"]);
        assert_eq!(at(&index, 4), ["a4", "b2"]);
        assert!(index.keys.values().all(|records| records.older.is_empty()));
    }
}
