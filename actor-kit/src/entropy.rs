//! Randomness as a parameter: the operating system's, or a seeded generator that replays.

use std::{cell::RefCell, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use uuid::{Builder, fmt::Hyphenated};

/// The characters of a generated name: no vowels and none that are easily confused, as in
/// Kubernetes' `apimachinery/pkg/util/rand`.
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The length of what `generateName` appends (Kubernetes' `names.SimpleNameGenerator`).
const SUFFIX_LEN: usize = 5;

/// A source of random numbers. Clones share one stream.
#[derive(Clone, Debug)]
pub struct Entropy(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Seeded(Arc<Mutex<Xoshiro256PlusPlus>>),
}

impl Entropy {
    /// The operating system's randomness.
    ///
    /// # Panics
    /// Drawing from it panics if the operating system refuses, which Linux does not do once it has
    /// answered before; [`Entropy::system`] asks once so that a refusal shows at start.
    ///
    /// # Errors
    /// The operating system has none to give.
    pub fn system() -> std::io::Result<Self> {
        getrandom::fill(&mut [0; 8])
            .map_err(|error| std::io::Error::other(format!("the system gives no random numbers: {error}")))?;
        Ok(Self(Source::System))
    }

    /// The same stream for the same seed, in every process.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Source::Seeded(Arc::new(Mutex::new(Xoshiro256PlusPlus::seed_from_u64(seed)))))
    }

    /// A stream of its own for one part of a simulation, so that another part which draws more or
    /// less often does not shift it. The system's randomness forks into itself.
    #[must_use]
    pub fn fork(&self) -> Self {
        match &self.0 {
            Source::System => Self(Source::System),
            Source::Seeded(_) => Self::seeded(self.u64()),
        }
    }

    /// 64 random bits.
    #[must_use]
    pub fn u64(&self) -> u64 {
        match &self.0 {
            Source::System => POOL.with_borrow_mut(Pool::next),
            Source::Seeded(state) => state.lock().next_u64(),
        }
    }

    /// A number below `bound`, or 0 if `bound` is 0.
    #[must_use]
    pub fn below(&self, bound: u64) -> u64 {
        // The high half of a 64 × 64 bit product; its bias is below bound / 2^64.
        let product = u128::from(self.u64()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// A random (version 4) UUID in its usual lower-case form (RFC 9562).
    #[must_use]
    pub fn uuid_v4(&self) -> String {
        let bits = u128::from(self.u64()) << 64 | u128::from(self.u64());
        let uuid = Builder::from_random_bytes(bits.to_be_bytes()).into_uuid();
        uuid.as_hyphenated().encode_lower(&mut [0; Hyphenated::LENGTH]).to_owned()
    }

    /// The suffix that `generateName` appends: five characters of Kubernetes' alphabet.
    #[must_use]
    pub fn name_suffix(&self) -> String {
        (0..SUFFIX_LEN)
            .filter_map(|_| {
                let at = usize::try_from(self.below(27)).ok()?;
                SUFFIX_ALPHABET.get(at).copied().map(char::from)
            })
            .collect()
    }

    /// Between half of `duration` and all of it, so that what failed together does not come back
    /// together.
    #[must_use]
    pub fn jitter(&self, duration: Duration) -> Duration {
        let half = duration / 2;
        let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
        half + Duration::from_nanos(self.below(nanos.saturating_add(1)))
    }
}

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool { words: [0; POOL_WORDS], left: 0 }) };
}

const POOL_WORDS: usize = 64;

/// The system's randomness, fetched for several draws at once: every request draws, and a system call each time would
/// be a twentieth of what a GET costs. What was drawn is wiped.
struct Pool {
    words: [u64; POOL_WORDS],
    left: usize,
}

impl Pool {
    fn next(&mut self) -> u64 {
        if self.left == 0 {
            let mut bytes = [0; POOL_WORDS * 8];
            getrandom::fill(&mut bytes).expect("invariant: the system gave randomness before");
            for (word, bytes) in self.words.iter_mut().zip(bytes.as_chunks().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            self.left = POOL_WORDS;
        }
        self.left -= 1;
        self.words.get_mut(self.left).map_or(0, std::mem::take)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_seed_replays_and_another_differs() {
        let draw = |seed| {
            let entropy = Entropy::seeded(seed);
            (0..100).map(|_| entropy.u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn a_seed_means_the_same_in_every_version() {
        let entropy = Entropy::seeded(7);
        assert_eq!(entropy.u64(), 1_021_219_803_524_665_661);
        assert_eq!(entropy.uuid_v4(), "2c0fc8dd-fa4e-4e14-b7b3-11b3b0d45872");
    }

    #[test]
    fn forks_do_not_shift_each_other() {
        let root = Entropy::seeded(1);
        let (left, right) = (root.fork(), root.fork());
        let root = Entropy::seeded(1);
        let (_, alone) = (root.fork(), root.fork());
        let _ = left.u64();
        assert_eq!(right.u64(), alone.u64());
    }

    #[test]
    fn uuids_carry_version_and_variant() {
        for entropy in [Entropy::seeded(3), Entropy::system().unwrap()] {
            let mut seen = HashSet::new();
            for _ in 0..1000 {
                let uuid = entropy.uuid_v4();
                let bytes = uuid.as_bytes();
                assert_eq!(bytes.len(), 36, "{uuid}");
                assert_eq!(bytes[14], b'4', "{uuid}");
                assert!(b"89ab".contains(&bytes[19]), "{uuid}");
                for (at, byte) in bytes.iter().enumerate() {
                    let dash = matches!(at, 8 | 13 | 18 | 23);
                    assert_eq!(*byte == b'-', dash, "{uuid}");
                    assert!(dash || byte.is_ascii_hexdigit(), "{uuid}");
                }
                assert!(seen.insert(uuid));
            }
        }
    }

    #[test]
    fn suffixes_use_the_whole_alphabet_and_nothing_else() {
        let entropy = Entropy::seeded(11);
        let mut used = HashSet::new();
        for _ in 0..500 {
            let suffix = entropy.name_suffix();
            assert_eq!(suffix.len(), 5);
            used.extend(suffix.bytes());
        }
        assert_eq!(used, SUFFIX_ALPHABET.iter().copied().collect());
    }

    #[test]
    fn jitter_stays_in_its_half() {
        let entropy = Entropy::seeded(5);
        for _ in 0..1000 {
            let jittered = entropy.jitter(Duration::from_millis(100));
            assert!(jittered >= Duration::from_millis(50));
            assert!(jittered <= Duration::from_millis(100));
        }
        assert_eq!(entropy.jitter(Duration::ZERO), Duration::ZERO);
        assert_eq!(entropy.below(0), 0);
    }
}
