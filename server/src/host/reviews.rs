//! The memory of a host's verdicts, and the bounds of what the host is asked.
//!
//! # Guarantees
//! - Keys are hashes with a secret of this process: neither a token nor a name is kept, and nobody can make two keys meet.
//! - Requests with one key wait for one question (apiserver `pkg/authentication/token/cache`, 1.37). The question goes on if
//!   they give up.
//! - Verdicts that let somebody in and others are kept apart, so that a flood of the latter pushes none of the former out.
//!   Failures are not kept.
//! - A lane (one user; all tokens that nobody has been let in by) has so many questions under way and so many that wait.
//!   Beyond that its requests are refused at once, and other lanes are not delayed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use kindom_actor_kit::{Clock, Entropy};
use kindom_http::ReviewMetrics;
use kindom_http::authn::{Review, Unreviewed};
use parking_lot::Mutex;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The questions of a lane that the host has at a time.
const LANE_ASKING_MAX: usize = 16;
/// The questions of a lane, with those that wait.
const LANE_MAX: usize = 128;
/// The questions that the host has at a time.
const ASKING_MAX: usize = 64;
/// The questions, with those that wait.
const ALL_MAX: usize = 1024;
/// The bytes that each kind of verdict may take.
const MEMORY_BYTES_MAX: u64 = 16 << 20;
/// The bytes that a verdict takes at least, its place in the memory included.
const ENTRY_BYTES: usize = 256;
/// The longest that a question may take, with its wait and its repetitions (upstream's `sharedLookupTimeout`).
const QUESTION_LIMIT: Duration = Duration::from_secs(30);

/// The name of a question.
pub(super) type Key = [u8; 32];

/// A verdict that can be kept.
pub(super) trait Verdict: Clone + Send + Sync + 'static {
    /// The time for which it holds; zero for none.
    fn lasts(&self, ttl: &Ttl) -> Duration;
    /// `true` if it lets somebody in.
    fn lets_in(&self) -> bool;
    /// The bytes behind it.
    fn bytes(&self) -> usize;
}

/// The times for which verdicts hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ttl {
    pub(super) good: Duration,
    pub(super) bad: Duration,
}

#[derive(Clone)]
struct Kept<V> {
    verdict: V,
    until: Instant,
}

#[derive(Clone)]
struct ByBytes;

impl<V: Verdict> Weighter<Key, Kept<V>> for ByBytes {
    fn weight(&self, _: &Key, kept: &Kept<V>) -> u64 {
        u64::try_from(kept.verdict.bytes().saturating_add(ENTRY_BYTES)).unwrap_or(u64::MAX)
    }
}

type Memory<V> = Cache<Key, Kept<V>, ByBytes>;
type Outcome<V> = Result<V, Unreviewed>;
type Question<V> = Shared<BoxFuture<'static, Outcome<V>>>;

/// The verdicts of one kind. Clones share them.
pub(super) struct Reviews<V: Verdict>(Arc<Inner<V>>);

impl<V: Verdict> Clone for Reviews<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Inner<V: Verdict> {
    secret: [u64; 4],
    ttl: Ttl,
    good: Memory<V>,
    bad: Memory<V>,
    asked: Mutex<Asked<V>>,
    asking: Semaphore,
    clock: Clock,
    /// Where questions are asked: the threads of requests wait, and do nothing else for them.
    runtime: Handle,
    metrics: ReviewMetrics,
}

/// The questions that have no verdict yet.
struct Asked<V> {
    questions: HashMap<Key, Question<V>>,
    lanes: HashMap<u64, Lane>,
}

struct Lane {
    questions: usize,
    asking: Arc<Semaphore>,
}

/// The place of a question among the others of its lane, until it is dropped.
struct Place<V: Verdict> {
    reviews: Reviews<V>,
    key: Key,
    lane: u64,
}

impl<V: Verdict> Drop for Place<V> {
    fn drop(&mut self) {
        let mut asked = self.reviews.0.asked.lock();
        asked.questions.remove(&self.key);
        if let Entry::Occupied(mut lane) = asked.lanes.entry(self.lane) {
            lane.get_mut().questions -= 1;
            if lane.get().questions == 0 {
                lane.remove();
            }
        }
    }
}

impl<V: Verdict> Reviews<V> {
    pub(super) fn new(
        ttl: Ttl,
        clock: Clock,
        entropy: &Entropy,
        runtime: Handle,
        metrics: ReviewMetrics,
    ) -> Self {
        let places = usize::try_from(MEMORY_BYTES_MAX).unwrap_or(usize::MAX) / ENTRY_BYTES / 8;
        let memory = || Cache::with_weighter(places, MEMORY_BYTES_MAX, ByBytes);
        let asked = Asked { questions: HashMap::new(), lanes: HashMap::new() };
        Self(Arc::new(Inner {
            secret: [(); 4].map(|()| entropy.u64()),
            ttl,
            good: memory(),
            bad: memory(),
            asked: Mutex::new(asked),
            asking: Semaphore::new(ASKING_MAX),
            clock,
            runtime,
            metrics,
        }))
    }

    /// A hash that only this process can make; its lengths are to be part of what is hashed.
    pub(super) fn hash(&self) -> KeyHash {
        let mut hash = Sha256::new();
        for word in self.0.secret {
            hash.update(word.to_le_bytes());
        }
        KeyHash(hash)
    }

    /// `true` if the key's last verdict, which may have ended, let somebody in.
    pub(super) fn was_good(&self, key: &Key) -> bool {
        self.0.good.peek(key).is_some()
    }

    /// The verdict on a key: the one that is kept, or `ask`'s, which is made only if it is needed.
    pub(super) fn review<F>(
        &self,
        key: Key,
        lane: u64,
        is_kept: bool,
        ask: impl FnOnce() -> F,
    ) -> Review<Outcome<V>>
    where
        F: Future<Output = Outcome<V>> + Send + 'static,
    {
        let found = self.kept(&key);
        self.0.metrics.looked_up(found.is_some());
        if let Some(verdict) = found {
            return Review::Known(Ok(verdict));
        }
        let mut asked = self.0.asked.lock();
        if let Some(question) = asked.questions.get(&key) {
            return Review::Asked(question.clone().boxed());
        }
        // The question may have ended since.
        if let Some(verdict) = self.kept(&key) {
            return Review::Known(Ok(verdict));
        }
        let all = asked.questions.len();
        let of_lane = asked
            .lanes
            .entry(lane)
            .or_insert_with(|| Lane { questions: 0, asking: Arc::new(Semaphore::new(LANE_ASKING_MAX)) });
        if all >= ALL_MAX || of_lane.questions >= LANE_MAX {
            if of_lane.questions == 0 {
                asked.lanes.remove(&lane);
            }
            return Review::Known(Err(Unreviewed::Busy));
        }
        of_lane.questions += 1;
        let asking = Arc::clone(&of_lane.asking);
        let place = Place { reviews: self.clone(), key, lane };
        let question = ask();
        let answered = self.0.runtime.spawn(async move {
            let limited = tokio::time::timeout(QUESTION_LIMIT, async {
                // Never closed.
                let _turn_of_lane = asking.acquire().await;
                let _turn = place.reviews.0.asking.acquire().await;
                question.await
            });
            let late = || Err(Unreviewed::Failed("context deadline exceeded".into()));
            let outcome = limited.await.unwrap_or_else(|_| late());
            if let Ok(verdict) = &outcome
                && is_kept
            {
                place.reviews.keep(key, verdict.clone());
            }
            outcome
        });
        let lost = |_| Err(Unreviewed::Failed("the question was lost".into()));
        let question = async move { answered.await.unwrap_or_else(lost) }.boxed().shared();
        asked.questions.insert(key, question.clone());
        Review::Asked(question.boxed())
    }

    fn kept(&self, key: &Key) -> Option<V> {
        let now = self.0.clock.now();
        let of = |memory: &Memory<V>| memory.get(key).filter(|kept| now < kept.until);
        of(&self.0.good).or_else(|| of(&self.0.bad)).map(|kept| kept.verdict)
    }

    fn keep(&self, key: Key, verdict: V) {
        let lasts = verdict.lasts(&self.0.ttl);
        let kept = Kept { until: self.0.clock.now() + lasts, verdict };
        let (memory, other) = match kept.verdict.lets_in() {
            true => (&self.0.good, &self.0.bad),
            false => (&self.0.bad, &self.0.good),
        };
        other.remove(&key);
        if !lasts.is_zero() {
            memory.insert(key, kept);
        }
    }
}

/// Hashes texts one after another, each with its length.
pub(super) struct KeyHash(Sha256);

impl KeyHash {
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.count(text.len());
        self.0.update(text.as_bytes());
        self
    }

    pub(super) fn count(&mut self, count: usize) -> &mut Self {
        self.0.update(u64::try_from(count).unwrap_or(u64::MAX).to_le_bytes());
        self
    }

    pub(super) fn key(self) -> Key {
        self.0.finalize().into()
    }
}

/// The first bytes of a key, as the name of a lane.
pub(super) fn lane_of(key: &Key) -> u64 {
    let mut first = [0; 8];
    for (to, from) in first.iter_mut().zip(key) {
        *to = *from;
    }
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Said(&'static str);

    impl Verdict for Said {
        fn lasts(&self, ttl: &Ttl) -> Duration {
            if self.lets_in() { ttl.good } else { ttl.bad }
        }

        fn lets_in(&self) -> bool {
            self.0.starts_with("good")
        }

        fn bytes(&self) -> usize {
            self.0.len()
        }
    }

    fn reviews(good: u64, bad: u64) -> Reviews<Said> {
        let ttl = Ttl { good: Duration::from_secs(good), bad: Duration::from_secs(bad) };
        let (clock, entropy) = (Clock::starting_at(0), Entropy::seeded(1));
        Reviews::new(ttl, clock, &entropy, Handle::current(), ReviewMetrics::default())
    }

    fn key(reviews: &Reviews<Said>, text: &str) -> Key {
        let mut hash = reviews.hash();
        hash.text(text);
        hash.key()
    }

    async fn verdict(review: Review<Outcome<Said>>) -> Outcome<Said> {
        match review {
            Review::Known(outcome) => outcome,
            Review::Asked(asked) => asked.await,
        }
    }

    /// Asks for `said`; returns the outcome, and if the host was asked.
    async fn ask(reviews: &Reviews<Said>, text: &str, said: Outcome<Said>) -> (Outcome<Said>, bool) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let review = reviews.review(key(reviews, text), 0, true, || async move {
            counted.fetch_add(1, Ordering::Relaxed);
            said
        });
        (verdict(review).await, asked.load(Ordering::Relaxed) > 0)
    }

    #[tokio::test(start_paused = true)]
    async fn verdicts_hold_for_their_time() {
        let reviews = reviews(10, 5);
        let (good, bad) = (Ok(Said("good")), Ok(Said("bad")));
        for (text, said, lasts) in [("a", good, 10_000), ("b", bad, 5_000)] {
            assert_eq!(ask(&reviews, text, said.clone()).await, (said.clone(), true));
            tokio::time::advance(Duration::from_millis(lasts - 1)).await;
            assert_eq!(ask(&reviews, text, Ok(Said("other"))).await, (said.clone(), false));
            tokio::time::advance(Duration::from_millis(1)).await;
            assert_eq!(ask(&reviews, text, Ok(Said("bad 2"))).await, (Ok(Said("bad 2")), true));
            // A verdict that has changed replaces the former one.
            assert_eq!(ask(&reviews, text, said).await, (Ok(Said("bad 2")), false));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_not_kept() {
        let reviews = reviews(10, 10);
        let failed = Err(Unreviewed::Failed("away".into()));
        assert_eq!(ask(&reviews, "a", failed.clone()).await, (failed, true));
        assert_eq!(ask(&reviews, "a", Ok(Said("good"))).await, (Ok(Said("good")), true));
        let none = self::reviews(0, 0);
        for _ in 0..2 {
            assert_eq!(ask(&none, "a", Ok(Said("good"))).await, (Ok(Said("good")), true), "zero keeps none");
        }
        // The time of a question is bounded, whatever it does.
        let never = reviews.review(key(&reviews, "b"), 0, true, std::future::pending);
        assert_eq!(verdict(never).await, Err(Unreviewed::Failed("context deadline exceeded".into())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_asks_once_and_goes_on_without_its_first() {
        let (reviews, go) = (reviews(10, 10), Arc::new(Notify::new()));
        let asked = Arc::new(AtomicUsize::new(0));
        let review = || {
            let (go, asked) = (Arc::clone(&go), Arc::clone(&asked));
            reviews.review(key(&reviews, "a"), 0, true, move || async move {
                asked.fetch_add(1, Ordering::Relaxed);
                go.notified().await;
                Ok(Said("good"))
            })
        };
        let first = review();
        let others: Vec<_> = (0..1000).map(|_| tokio::spawn(verdict(review()))).collect();
        drop(first);
        go.notify_one();
        for other in others {
            assert_eq!(other.await.unwrap(), Ok(Said("good")));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert!(reviews.0.asked.lock().questions.is_empty() && reviews.0.asked.lock().lanes.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_fills_its_own_lane() {
        let reviews = reviews(10, 10);
        let (under_way, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let go = Arc::new(Semaphore::new(0));
        let flood = |from: usize, lane| {
            let mut refused = 0;
            let mut waiting = Vec::new();
            for i in from..from + 500 {
                let (under_way, most, go) = (Arc::clone(&under_way), Arc::clone(&most), Arc::clone(&go));
                let question = move || async move {
                    most.fetch_max(under_way.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    let _go = go.acquire().await;
                    under_way.fetch_sub(1, Ordering::Relaxed);
                    Ok(Said("bad"))
                };
                match reviews.review(key(&reviews, &i.to_string()), lane, true, question) {
                    Review::Known(outcome) => {
                        assert_eq!(outcome, Err(Unreviewed::Busy));
                        refused += 1;
                    }
                    Review::Asked(asked) => waiting.push(tokio::spawn(asked)),
                }
            }
            (refused, waiting)
        };
        let (refused, waiting) = flood(0, 7);
        assert_eq!((refused, waiting.len()), (500 - LANE_MAX, LANE_MAX));
        // Others are asked at once, and the lane has but its part of the host.
        assert_eq!(ask(&reviews, "a", Ok(Said("good"))).await, (Ok(Said("good")), true));
        assert_eq!(most.load(Ordering::Relaxed), LANE_ASKING_MAX);
        for lane in 8..40 {
            flood(lane * 1000, lane as u64);
        }
        assert_eq!(reviews.0.asked.lock().questions.len(), ALL_MAX);
        go.add_permits(1);
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap().unwrap(), Said("bad"));
        }
        assert!(most.load(Ordering::Relaxed) <= ASKING_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn bad_verdicts_push_no_good_one_out() {
        let reviews = reviews(3600, 3600);
        assert!(ask(&reviews, "mine", Ok(Said("good"))).await.1);
        for i in 0..100_000 {
            reviews.keep(key(&reviews, &i.to_string()), Said("bad"));
        }
        assert!(!ask(&reviews, "mine", Ok(Said("bad"))).await.1);
        let held = reviews.0.bad.weight();
        assert!(held <= MEMORY_BYTES_MAX && held > MEMORY_BYTES_MAX / 2, "{held}");
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_told_apart() {
        let (one, other) = (reviews(1, 1), reviews(1, 1));
        let key = |reviews: &Reviews<Said>, texts: &[&str]| {
            let mut hash = reviews.hash();
            texts.iter().for_each(|text| {
                hash.text(text);
            });
            hash.key()
        };
        assert_eq!(key(&one, &["ab", "c"]), key(&one, &["ab", "c"]));
        assert_ne!(key(&one, &["ab", "c"]), key(&one, &["a", "bc"]));
        assert_ne!(key(&one, &["a"]), key(&one, &["a", ""]));
        assert_eq!(key(&one, &["a"]), key(&other, &["a"]), "by one secret");
        let secret = Reviews::<Said>::new(
            one.0.ttl,
            Clock::starting_at(0),
            &Entropy::seeded(2),
            Handle::current(),
            ReviewMetrics::default(),
        );
        assert_ne!(key(&one, &["a"]), key(&secret, &["a"]));
    }
}
