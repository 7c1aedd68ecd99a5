//! Holdings: keys that an object holds for as long as it exists, so that no two objects have the same address or port.
//!
//! The write that stores an object puts its holdings, and the one that deletes it deletes them, in one transaction with it. If
//! another object holds a key, the transaction fails; the write plans again and knows the key as taken. So nothing leaks and
//! nothing is given twice, on however many replicas ([ADR 32](../../docs/decisions/0032-holdings.md)).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use kindom_storage_model::Key;

/// The keys that an object holds, with the value to store under each.
pub type Holdings = BTreeMap<Key, Bytes>;

/// The inputs of a choice between free addresses or ports.
#[derive(Debug, Default)]
pub struct Allocation {
    /// A random uuid of this write: where a search begins, and the uids of what it makes.
    pub seed: String,
    /// Keys that this write found taken.
    pub taken: BTreeSet<Key>,
    /// Nothing will be stored.
    pub dry_run: bool,
}

/// The allocation of a write that chooses nothing.
pub static NOTHING: Allocation = Allocation { seed: String::new(), taken: BTreeSet::new(), dry_run: false };

impl Allocation {
    /// A random number below `bound`, the same for each try of the write; 0 if `bound` is.
    #[must_use]
    pub fn below(&self, bound: u128) -> u128 {
        let digits = self.seed.bytes().filter_map(|digit| char::from(digit).to_digit(16));
        let random = digits.fold(0_u128, |number, digit| number << 4 | u128::from(digit));
        random.checked_rem(bound).unwrap_or_default()
    }

    /// A uid for the `index`th of at most 16 objects that the write makes.
    #[must_use]
    pub fn uid(&self, index: usize) -> String {
        let head = self.seed.get(..self.seed.len().saturating_sub(1)).unwrap_or_default();
        format!("{head}{:x}", index % 16)
    }
}

/// The change of an object's holdings.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HoldingsChange {
    /// Holdings that nobody may hold yet.
    pub taken: Holdings,
    /// Holdings that end.
    pub released: BTreeSet<Key>,
}

impl HoldingsChange {
    /// The change from the holdings of `old` to those of `new`.
    #[must_use]
    pub fn between(old: Holdings, mut new: Holdings) -> Self {
        let released = old.into_keys().filter(|key| new.remove(key).is_none()).collect();
        Self { taken: new, released }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holdings(keys: &[&str]) -> Holdings {
        keys.iter().map(|key| (Key::from(*key), Bytes::new())).collect()
    }

    #[test]
    fn keys_that_stay_are_neither_taken_nor_released() {
        let change = HoldingsChange::between(holdings(&["a", "b"]), holdings(&["b", "c"]));
        assert_eq!(change.taken, holdings(&["c"]));
        assert_eq!(change.released, BTreeSet::from([Key::from("a")]));
    }

    #[test]
    fn a_choice_is_the_same_for_each_try() {
        let of = |seed: &str| Allocation { seed: seed.to_owned(), taken: BTreeSet::new(), dry_run: false };
        let allocation = of("00000000-0000-4000-8000-0000000000ff");
        assert_eq!(allocation.below(16), 15);
        assert_eq!(allocation.below(0), 0);
        assert_eq!(allocation.uid(2), "00000000-0000-4000-8000-0000000000f2");
        assert_eq!(NOTHING.below(7), 0);
    }
}
