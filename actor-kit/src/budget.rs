//! The memory that requests and answers may hold at a time: bodies that were read and decompressed, the trees of patches and
//! configurations, past states that were read for one list, objects that webhooks and policies are asked about, answers that wait to
//! be taken.
//!
//! Stored objects, and what a step makes and drops, are not in it: the first belong to everybody, and the processors bound the
//! number of steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Overloaded;

/// The share of the whole that one connection may hold.
const CONNECTIONS_SHARE: u64 = 8;

/// The whole.
#[derive(Debug)]
pub struct Budget {
    most: u64,
    held: AtomicU64,
}

/// The part of it that one connection holds.
#[derive(Debug, Clone, Default)]
pub struct Share(pub Arc<AtomicU64>);

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
        Arc::new(Self { most, held: AtomicU64::new(0) })
    }

    /// The bytes that are held now.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
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

/// Adds as long as the sum stays within a bound.
fn add_within(sum: &AtomicU64, bytes: u64, most: u64) -> bool {
    let added = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sum| {
        sum.checked_add(bytes).filter(|sum| *sum <= most)
    });
    added.is_ok()
}

impl Held {
    /// Holds more.
    ///
    /// # Errors
    /// [`Overloaded`] if there is no room for it, in the whole or in the connection's share.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Overloaded> {
        self.grow_within(bytes, 1)
    }

    /// Holds more, if that leaves others their part: of so many parts of the whole, all together then hold one at most.
    ///
    /// # Errors
    /// As [`Held::grow`].
    pub fn grow_within(&mut self, bytes: usize, parts: u64) -> Result<(), Overloaded> {
        let bytes = bytes as u64;
        let (budget, share) = (&*self.budget, &*self.share.0);
        if add_within(share, bytes, (budget.most / CONNECTIONS_SHARE).max(1)) {
            if add_within(&budget.held, bytes, budget.most / parts.max(1)) {
                self.bytes += bytes;
                return Ok(());
            }
            share.fetch_sub(bytes, Ordering::Relaxed);
        }
        Err(Overloaded { retry_after: Duration::from_secs(1) })
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
        self.share.0.fetch_add(bytes, Ordering::Relaxed);
        self.budget.held.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.share.0.fetch_sub(self.bytes, Ordering::Relaxed);
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
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
        // Nothing is added to what is beyond the part already.
        assert!(late.grow_within(1, 2).is_err());
        drop((one, late));
        assert_eq!(budget.held(), 700);
        budget.begin(&shares[8]).grow(100).unwrap();
        drop(others);
        assert_eq!(budget.held(), 0);
        let mut half = budget.begin(&shares[8]);
        half.grow_within(100, 8).unwrap();
        assert!(budget.begin(&shares[7]).grow_within(1, 8).is_err());
        drop(half);
        assert!(shares.iter().all(|share| share.0.load(Ordering::Relaxed) == 0));
    }
}
