//! The memory that requests and answers may hold at a time: bodies that were read and decompressed, the trees of patches and
//! configurations, past states that were read for one list, objects that webhooks and policies are asked about, answers that wait to
//! be taken.
//!
//! Stored objects, and what a step makes and drops, are not in it: the first belong to everybody, and the processors bound the
//! number of steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify};

use crate::Overloaded;

/// The share of the whole that one connection may hold.
const CONNECTIONS_SHARE: u64 = 8;

/// The whole.
#[derive(Debug)]
pub struct Budget {
    most: u64,
    held: Sum,
}

/// The part of it that one connection holds.
#[derive(Debug, Clone, Default)]
pub struct Share(Arc<Sum>);

/// Bytes that are held, and those who wait until there are fewer.
#[derive(Debug, Default)]
struct Sum {
    bytes: AtomicU64,
    /// Who waits has it in turn; the others wait behind it.
    first: Mutex<()>,
    /// Wakes the first when there is less.
    less: Notify,
}

/// What was added to a sum.
struct Added<'a>(&'a Sum, u64);

/// The whole, for one connection.
#[derive(Debug, Clone)]
pub struct Room {
    /// The whole.
    pub budget: Arc<Budget>,
    /// The connection's part.
    pub share: Share,
}

/// Bytes that are held until this is dropped.
#[derive(Debug)]
pub struct Held {
    budget: Arc<Budget>,
    share: Share,
    bytes: u64,
}

impl Budget {
    /// Of so many bytes.
    #[must_use]
    pub fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most, held: Sum::default() })
    }

    /// The bytes that are held now.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held.bytes.load(Ordering::Relaxed)
    }

    /// The most that a connection may hold.
    fn share(&self) -> u64 {
        (self.most / CONNECTIONS_SHARE).max(1)
    }

    /// Nothing yet, for a connection.
    #[must_use]
    pub fn begin(self: &Arc<Self>, share: &Share) -> Held {
        Held { budget: Arc::clone(self), share: share.clone(), bytes: 0 }
    }
}

impl Room {
    /// Nothing yet.
    #[must_use]
    pub fn begin(&self) -> Held {
        self.budget.begin(&self.share)
    }
}

impl Sum {
    /// Adds, if the sum stays within a bound.
    fn add_within(&self, bytes: u64, most: u64) -> Option<Added<'_>> {
        let added = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sum| {
            sum.checked_add(bytes).filter(|sum| *sum <= most)
        });
        added.is_ok().then(|| Added(self, bytes))
    }

    /// Adds as soon as the sum stays within a bound, behind those who came before.
    async fn add_in_turn(&self, bytes: u64, most: u64) -> Added<'_> {
        let _first = self.first.lock().await;
        loop {
            // What becomes less from here on wakes it: there is one who waits, or the wake is kept.
            let less = self.less.notified();
            if let Some(added) = self.add_within(bytes, most) {
                return added;
            }
            less.await;
        }
    }

    fn take_away(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.less.notify_one();
    }
}

impl Added<'_> {
    /// It stays added.
    fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Added<'_> {
    fn drop(&mut self) {
        self.0.take_away(self.1);
    }
}

impl Held {
    /// Holds more.
    ///
    /// # Errors
    /// [`Overloaded`] if there is no room for it, in the whole or in the connection's share.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Overloaded> {
        let bytes = bytes as u64;
        let (budget, share) = (&*self.budget, &*self.share.0);
        let full = Overloaded { retry_after: Duration::from_secs(1) };
        let of_share = share.add_within(bytes, budget.share()).ok_or(full)?;
        budget.held.add_within(bytes, budget.most).ok_or(full)?.keep();
        of_share.keep();
        self.bytes += bytes;
        Ok(())
    }

    /// Holds more as soon as there is room, and as that leaves others their part: of so many parts of the whole, all who wait here hold
    /// one at most. Those who wait get room in the order that they came, those of one connection among themselves first. What would
    /// never have room counts as what may have it. Cancel-safe: who gives up holds no more than before.
    pub async fn grow_in_turn(&mut self, bytes: usize, parts: u64) {
        let (budget, share) = (&*self.budget, &*self.share.0);
        let part = budget.most / parts.max(1);
        let bytes = (bytes as u64).min(budget.share()).min(part);
        let of_share = share.add_in_turn(bytes, budget.share()).await;
        budget.held.add_in_turn(bytes, part).await.keep();
        of_share.keep();
        self.bytes += bytes;
    }

    /// Holds nothing any more, and begins again.
    #[must_use]
    pub fn instead(self, share: &Share) -> Self {
        let budget = Arc::clone(&self.budget);
        drop(self);
        budget.begin(share)
    }

    /// Holds more, whether or not there is room: an answer to what has had an effect.
    pub fn grow_anyway(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        self.share.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.budget.held.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.share.0.take_away(self.bytes);
            self.budget.held.take_away(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::{JoinHandle, yield_now};

    use super::*;

    #[test]
    fn a_connection_has_an_eighth_and_all_have_the_whole() {
        let budget = Budget::new(800);
        let shares: Vec<Share> = (0..9).map(|_| Share::default()).collect();
        let mut one = budget.begin(&shares[0]);
        one.grow(60).unwrap();
        assert!(one.grow(41).is_err() && budget.begin(&shares[0]).grow(41).is_err());
        one.grow(40).unwrap();
        let mut others: Vec<Held> = shares[1..8].iter().map(|share| budget.begin(share)).collect();
        others.iter_mut().for_each(|held| held.grow(100).unwrap());
        let mut late = budget.begin(&shares[8]);
        assert!(late.grow(1).is_err());
        late.grow_anyway(50);
        assert_eq!(budget.held(), 850);
        drop((one, late));
        assert_eq!(budget.held(), 700);
        budget.begin(&shares[8]).grow(100).unwrap();
        drop(others);
        assert_eq!(budget.held(), 0);
        assert!(shares.iter().all(|share| share.0.bytes.load(Ordering::Relaxed) == 0));
    }

    /// Holds so much more, in a task of its own.
    fn waits(budget: &Arc<Budget>, share: &Share, bytes: usize) -> JoinHandle<Held> {
        let mut held = budget.begin(share);
        tokio::spawn(async move {
            held.grow_in_turn(bytes, 2).await;
            held
        })
    }

    /// All tasks have done what they can.
    async fn settle() {
        for _ in 0..10 {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn who_waits_gets_room_in_the_order_that_they_came() {
        let budget = Budget::new(800);
        let shares: Vec<Share> = (0..4).map(|_| Share::default()).collect();
        let mut before = budget.begin(&shares[3]);
        before.grow(100).unwrap();
        let mut more_before = budget.begin(&Share::default());
        more_before.grow_anyway(200);
        // What is more than a connection may hold counts as what it may hold: 100 of the 400.
        let first = waits(&budget, &shares[0], 500).await.unwrap();
        assert_eq!(budget.held(), 400);
        let second = waits(&budget, &shares[1], 90);
        settle().await;
        let third = waits(&budget, &shares[2], 10);
        settle().await;
        assert!(!second.is_finished() && !third.is_finished());
        // Another of a connection that has its part waits for its own, and holds up nobody else.
        let of_first = waits(&budget, &shares[0], 1);
        drop(before);
        settle().await;
        let (second, third) = (second.await.unwrap(), third.await.unwrap());
        assert_eq!(budget.held(), 400);
        assert!(!of_first.is_finished());
        drop((third, more_before));
        settle().await;
        assert!(!of_first.is_finished());
        drop(first);
        let of_first = of_first.await.unwrap();
        drop((second, of_first));
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test]
    async fn one_that_is_small_does_not_overtake() {
        let budget = Budget::new(800);
        let shares: Vec<Share> = (0..3).map(|_| Share::default()).collect();
        let mut before = budget.begin(&shares[0]);
        before.grow_anyway(350);
        let long = waits(&budget, &shares[1], 100);
        settle().await;
        let short = waits(&budget, &shares[2], 10);
        settle().await;
        assert!(!long.is_finished() && !short.is_finished());
        // Who gives up lets the next go on, and leaves the share that it had.
        long.abort();
        let short = short.await.unwrap();
        assert_eq!(shares[1].0.bytes.load(Ordering::Relaxed), 0);
        drop((short, before));
        assert_eq!(budget.held(), 0);
    }
}
