//! The last commits in memory, for a watch that moves here from another replica.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::{Commit, KeyRange, Revision};

/// The last commits, in order; bounded by count and bytes, but it holds at least one.
#[derive(Debug)]
pub(super) struct Ring {
    commits: VecDeque<Arc<Commit>>,
    bytes: usize,
    /// Every commit after it is here.
    after: Revision,
    commits_max: usize,
    bytes_max: usize,
}

/// The commits that a [`Ring`] has of the time after some revision.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Recent {
    /// In order.
    pub(super) commits: Vec<Arc<Commit>>,
    /// None if that is all; else the first revision from which on it is.
    pub(super) from: Option<Revision>,
}

impl Ring {
    pub(super) fn new(commits_max: usize, bytes_max: usize) -> Self {
        let (commits, after) = (VecDeque::new(), Revision::ZERO);
        Self { commits, bytes: 0, after, commits_max, bytes_max }
    }

    /// Starts again after a revision.
    pub(super) fn restart(&mut self, after: Revision) {
        self.commits.clear();
        self.bytes = 0;
        self.after = after;
    }

    /// Adds the next commit; it has no event if the changed keys are none of ours.
    pub(super) fn push(&mut self, commit: Arc<Commit>) {
        // The session that pushed it may have panicked right after.
        if self.commits.back().is_some_and(|last| last.revision >= commit.revision) {
            return;
        }
        self.bytes += commit.bytes();
        self.commits.push_back(commit);
        while self.commits.len() > 1 && (self.commits.len() > self.commits_max || self.bytes > self.bytes_max)
        {
            if let Some(oldest) = self.commits.pop_front() {
                self.bytes -= oldest.bytes();
                self.after = oldest.revision;
            }
        }
    }

    /// Returns true if the ring has no commits.
    pub(super) fn is_empty(&self) -> bool {
        self.commits.is_empty()
    }

    /// The commits after `after` up to and including `upto` that concern a range.
    pub(super) fn since(&self, range: &KeyRange, after: Revision, upto: Revision) -> Recent {
        let first = self.commits.partition_point(|commit| commit.revision <= after);
        let wanted = self.commits.iter().skip(first).take_while(|commit| commit.revision <= upto);
        let commits = wanted.filter_map(|commit| of_range(commit, range)).collect();
        let missing = after < self.after;
        let from = missing.then(|| self.commits.front().map_or(self.after.next(), |first| first.revision));
        Recent { commits, from }
    }
}

/// The events of a commit that are in a range.
pub(super) fn of_range(commit: &Arc<Commit>, range: &KeyRange) -> Option<Arc<Commit>> {
    let concerned = commit.events.iter().filter(|event| range.contains(event.key.as_bytes()));
    match concerned.clone().count() {
        0 => None,
        all if all == commit.events.len() => Some(Arc::clone(commit)),
        _ => Some(Arc::new(Commit { revision: commit.revision, events: concerned.cloned().collect() })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, Event, Key};

    fn commit(revision: u64, keys: &[&str]) -> Arc<Commit> {
        let event = |key: &&str| Event { key: Key::from(*key), change: Change::Delete, prev: None };
        Arc::new(Commit { revision: Revision(revision), events: keys.iter().map(event).collect() })
    }

    fn since(ring: &Ring, range: &str, after: u64, upto: u64) -> (Vec<u64>, Option<u64>) {
        let recent = ring.since(&KeyRange::prefix(range.as_bytes()), Revision(after), Revision(upto));
        let revisions = recent.commits.iter().map(|commit| commit.revision.0).collect();
        (revisions, recent.from.map(|from| from.0))
    }

    #[test]
    fn it_tells_what_it_no_longer_knows() {
        let mut ring = Ring::new(3, 1 << 20);
        ring.restart(Revision(10));
        assert_eq!(since(&ring, "", 10, 20), (vec![], None));
        assert_eq!(since(&ring, "", 9, 20), (vec![], Some(11)));
        for (revision, keys) in [(12, &["a/1"][..]), (13, &["b/1", "a/1"]), (15, &[])] {
            ring.push(commit(revision, keys));
        }
        assert_eq!(since(&ring, "", 10, 20), (vec![12, 13], None));
        assert_eq!(since(&ring, "b/", 10, 20), (vec![13], None));
        assert_eq!(since(&ring, "a/", 10, 12), (vec![12], None));
        assert_eq!(since(&ring, "a/", 12, 20), (vec![13], None));
        ring.push(commit(16, &["a/2"]));
        assert_eq!(since(&ring, "a/", 12, 20), (vec![13, 16], None));
        assert_eq!(since(&ring, "a/", 11, 20), (vec![13, 16], Some(13)));
    }

    #[test]
    fn bytes_bound_it_too() {
        let mut ring = Ring::new(100, 10);
        for revision in 1..=9 {
            ring.push(commit(revision, &["1234"]));
        }
        assert_eq!(since(&ring, "", 0, 20), (vec![8, 9], Some(8)));
        ring.push(commit(10, &["longer than all of it"]));
        assert_eq!(since(&ring, "", 9, 20), (vec![10], None));
    }
}
