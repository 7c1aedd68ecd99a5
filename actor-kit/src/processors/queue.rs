//! The order of work: fair by user, and for each user by kind, whatever the cost of a single piece.
//!
//! Start-time fair queueing in two levels (Goyal, Vin and Cheng, 1996): each user, and each flow of a user, has a virtual time
//! that its work moves on by the work's cost. Whoever is furthest behind is next. Who comes back after a pause starts at the
//! present time of its level, and keeps no credit; a debt stays until the others have caught up.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// The user and the kind that pay for a piece of work. Both are hashes with a key that nobody outside knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    /// The user, by a hash of the name.
    pub user: u64,
    /// What the work is about, a type say, by a hash.
    pub kind: u64,
}

/// Work in the order in which it is to be done. Costs are in nanoseconds.
pub struct FairQueue<T> {
    users: Level<Level<VecDeque<(u64, T)>>>,
    len: usize,
}

/// Shares of one level, by key.
struct Level<S> {
    shares: HashMap<u64, FlowShare<S>, BuildHasherDefault<AsItIs>>,
    /// The shares with work, by their virtual time.
    order: BTreeSet<(u64, u64)>,
    /// The virtual time of the share that was served last.
    now: u64,
}

/// The keys of a flow are hashes already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

struct FlowShare<S> {
    time: u64,
    /// The cost of all that waits.
    waiting: u64,
    inner: S,
}

impl<S: Default> Level<S> {
    /// The share of a key, which has work from now on.
    fn enter(&mut self, key: u64) -> &mut FlowShare<S> {
        let now = self.now;
        let share = self.shares.entry(key).or_insert_with(|| FlowShare {
            time: now,
            waiting: 0,
            inner: S::default(),
        });
        if share.time < now && !self.order.contains(&(share.time, key)) {
            share.time = now;
        }
        self.order.insert((share.time, key));
        share
    }

    /// Moves the time of a share.
    fn charge(&mut self, key: u64, change: i64) {
        let Some(share) = self.shares.get_mut(&key) else { return };
        let had_work = self.order.remove(&(share.time, key));
        share.time = share.time.saturating_add_signed(change);
        if had_work {
            self.order.insert((share.time, key));
        }
    }

    /// With no work left, nobody waits for whom `key` is ahead of: that is no debt. Forgets the shares without work and debt.
    fn rest(&mut self, key: u64) {
        if self.order.is_empty() {
            self.now = self.shares.get(&key).map_or(self.now, |share| self.now.max(share.time));
        }
        if self.shares.len() > 2 * self.order.len() + 64 {
            let (order, now) = (&self.order, self.now);
            self.shares.retain(|key, share| share.time > now || order.contains(&(share.time, *key)));
        }
    }
}

impl<S> Default for Level<S> {
    fn default() -> Self {
        Self { shares: HashMap::default(), order: BTreeSet::new(), now: 0 }
    }
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { users: Level::default(), len: 0 }
    }
}

impl<T> FairQueue<T> {
    /// The number of pieces that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The cost of all that waits in a flow, and the number of pieces.
    #[must_use]
    pub fn waiting(&self, flow: Flow) -> (u64, usize) {
        let share = self.users.shares.get(&flow.user).and_then(|user| user.inner.shares.get(&flow.kind));
        share.map_or((0, 0), |share| (share.waiting, share.inner.len()))
    }

    /// Adds a piece of this cost to a flow.
    pub fn push(&mut self, flow: Flow, cost: u64, item: T) {
        let user = self.users.enter(flow.user);
        user.waiting = user.waiting.saturating_add(cost);
        let share = user.inner.enter(flow.kind);
        share.waiting = share.waiting.saturating_add(cost);
        share.inner.push_back((cost, item));
        self.len += 1;
    }

    /// The next piece, its flow and its cost, which the flow is charged with; of those that cost at most `most`.
    pub fn pop(&mut self, most: u64) -> Option<(Flow, u64, T)> {
        let of_user = |user: &FlowShare<Level<VecDeque<(u64, T)>>>| {
            let mut flows = user.inner.order.iter();
            flows.find_map(|(_, kind)| {
                let first = user.inner.shares.get(kind)?.inner.front()?;
                (first.0 <= most).then_some(*kind)
            })
        };
        let flow = self.users.order.iter().find_map(|(_, key)| {
            let kind = of_user(self.users.shares.get(key)?)?;
            Some(Flow { user: *key, kind })
        })?;
        let user = self.users.shares.get_mut(&flow.user)?;
        let share = user.inner.shares.get_mut(&flow.kind)?;
        let (cost, item) = share.inner.pop_front()?;
        share.waiting -= cost.min(share.waiting);
        user.waiting -= cost.min(user.waiting);
        let (user_time, flow_time) = (user.time, share.time);
        if share.inner.is_empty() {
            user.inner.order.remove(&(flow_time, flow.kind));
        }
        user.inner.now = user.inner.now.max(flow_time);
        if user.inner.order.is_empty() {
            self.users.order.remove(&(user_time, flow.user));
        }
        self.users.now = self.users.now.max(user_time);
        self.len -= 1;
        self.charge(flow, i64::try_from(cost).unwrap_or(i64::MAX));
        if let Some(user) = self.users.shares.get_mut(&flow.user) {
            user.inner.rest(flow.kind);
        }
        self.users.rest(flow.user);
        Some((flow, cost, item))
    }

    /// Adds to what a flow has had, or takes from it: its work took longer than its cost said, or not as long.
    pub fn charge(&mut self, flow: Flow, change: i64) {
        if let Some(user) = self.users.shares.get_mut(&flow.user) {
            user.inner.charge(flow.kind, change);
        }
        self.users.charge(flow.user, change);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ANY: u64 = u64::MAX;

    fn flow(user: u64, kind: u64) -> Flow {
        Flow { user, kind }
    }

    #[test]
    fn a_newcomer_waits_for_one_piece_at_most() {
        let mut queue = FairQueue::default();
        for n in 0..1000 {
            queue.push(flow(1, 1), 1_000_000, n);
        }
        assert_eq!(queue.pop(ANY).map(|(.., n)| n), Some(0));
        queue.push(flow(1, 2), 1, 5000);
        queue.push(flow(2, 1), 1, 6000);
        let next: Vec<i32> = (0..3).filter_map(|_| queue.pop(ANY)).map(|(.., n)| n).collect();
        assert!(next.contains(&6000), "{next:?}: another user");
        assert!(next.contains(&5000), "{next:?}: another kind of the same user");
    }

    #[test]
    fn a_user_with_many_kinds_has_one_share() {
        let mut queue = FairQueue::default();
        for kind in 0..100 {
            for _ in 0..10 {
                queue.push(flow(1, kind), 10, 1);
            }
        }
        for _ in 0..100 {
            queue.push(flow(2, 7), 10, 2);
        }
        let first: Vec<u64> = (0..100).filter_map(|_| queue.pop(ANY)).map(|(flow, ..)| flow.user).collect();
        assert_eq!(first.iter().filter(|user| **user == 2).count(), 50);
    }

    #[test]
    fn a_debt_outlasts_a_pause() {
        let mut queue = FairQueue::default();
        queue.push(flow(1, 1), 10, "dear");
        queue.push(flow(2, 1), 10, "other");
        assert_eq!(queue.pop(ANY).map(|(.., it)| it), Some("dear"));
        // It took a thousand times what it was thought to cost.
        queue.charge(flow(1, 1), 10_000);
        queue.push(flow(1, 1), 10, "dear again");
        for _ in 0..5 {
            queue.push(flow(2, 1), 10, "other");
        }
        let order: Vec<&str> = std::iter::from_fn(|| queue.pop(ANY)).map(|(.., it)| it).collect();
        assert_eq!(order.last(), Some(&"dear again"), "{order:?}");
    }

    #[test]
    fn only_short_pieces_are_taken_by_who_wants_those() {
        let mut queue = FairQueue::default();
        queue.push(flow(1, 1), 1000, "long");
        queue.push(flow(1, 2), 10, "short");
        assert_eq!(queue.pop(100).map(|(.., it)| it), Some("short"));
        assert_eq!(queue.pop(100).map(|(.., it)| it), None);
        assert_eq!(queue.pop(ANY).map(|(.., it)| it), Some("long"));
        assert_eq!(queue.len(), 0);
    }

    proptest! {
        /// Each piece comes once, in the order of its flow; and of two users who both always wait, neither gets ahead by more
        /// than two of the largest pieces.
        #[test]
        fn nobody_gets_ahead(pieces in prop::collection::vec((0_u64..3, 0_u64..3, 1_u64..100), 1..200)) {
            let mut queue = FairQueue::default();
            let mut waiting: HashMap<Flow, VecDeque<usize>> = HashMap::new();
            for (n, (user, kind, cost)) in pieces.iter().enumerate() {
                queue.push(flow(*user, *kind), *cost, n);
                waiting.entry(flow(*user, *kind)).or_default().push_back(n);
            }
            let mut had: HashMap<u64, u64> = HashMap::new();
            while !queue.is_empty() {
                let busy: Vec<u64> = (0..3)
                    .filter(|user| (0..3).any(|kind| queue.waiting(flow(*user, kind)).1 > 0))
                    .collect();
                for pair in busy.windows(2) {
                    let [a, b] = [pair[0], pair[1]].map(|user| had.get(&user).copied().unwrap_or(0));
                    prop_assert!(a.abs_diff(b) <= 200, "{a} and {b}");
                }
                let Some((flow, cost, n)) = queue.pop(ANY) else { break };
                prop_assert_eq!(waiting.get_mut(&flow).and_then(VecDeque::pop_front), Some(n));
                *had.entry(flow.user).or_default() += cost;
            }
            prop_assert!(waiting.values().all(VecDeque::is_empty));
        }

        /// What is forgotten owes nothing: the maps do not grow with the flows that ever were.
        #[test]
        fn flows_that_are_gone_are_forgotten(kinds in prop::collection::vec((any::<u64>(), any::<u64>()), 500)) {
            let mut queue = FairQueue::default();
            for (user, kind) in kinds {
                queue.push(flow(user, kind), 5, ());
                queue.pop(ANY);
            }
            prop_assert!(queue.users.shares.len() <= 66, "{}", queue.users.shares.len());
        }
    }
}
