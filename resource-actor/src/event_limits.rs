//! The rates at which events may come (`EventRateLimit`, `plugin/pkg/admission/eventratelimit`, 1.37).

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use kindom_api::Value;
use kindom_api::field::aggregate_texts;
use kindom_objects::TypeSpec;
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use tokio::time::Instant;

/// The most buckets of one limit, whatever its configuration says.
const BUCKETS_MAX: usize = 1 << 20;

/// The events that share a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventLimitType {
    /// All of the server.
    Server,
    /// Those of a namespace.
    Namespace,
    /// Those of a user.
    User,
    /// Those of a source about an object.
    SourceAndObject,
}

impl EventLimitType {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Namespace, Self::Server, Self::SourceAndObject, Self::User];

    /// The name in configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "Server",
            Self::Namespace => "Namespace",
            Self::User => "User",
            Self::SourceAndObject => "SourceAndObject",
        }
    }

    fn key(self, namespace: &str, user: &str, event: &Value) -> String {
        match self {
            Self::Server => String::new(),
            Self::Namespace => namespace.to_owned(),
            Self::User => user.to_owned(),
            Self::SourceAndObject => [
                ["source", "component"],
                ["source", "host"],
                ["involvedObject", "kind"],
                ["involvedObject", "namespace"],
                ["involvedObject", "name"],
                ["involvedObject", "uid"],
                ["involvedObject", "apiVersion"],
            ]
            .map(|field| event.text_at(&field))
            .concat(),
        }
    }
}

/// A limit as it is configured.
#[derive(Debug, Clone, Copy)]
pub struct EventLimit {
    /// The events that share a bucket.
    pub of: EventLimitType,
    /// Events a second, once a bucket is empty.
    pub qps: u32,
    /// Events of a full bucket.
    pub burst: u32,
    /// The buckets that are remembered; those that were not used for long are full again.
    pub cache_size: usize,
}

/// A bucket: the events that may come, as of a moment.
struct Bucket {
    tokens: f64,
    at: Instant,
}

/// The buckets of a limit, by the hashes of their keys: a key may be as long as an event.
struct Buckets {
    limit: EventLimit,
    all: Cache<u64, Arc<Mutex<Bucket>>>,
    seed: String,
}

impl Buckets {
    /// Takes an event out of a bucket, if there is one in it.
    fn accepts(&self, key: &str, now: Instant) -> bool {
        let EventLimit { qps, burst, .. } = self.limit;
        let full = || {
            Ok::<_, std::convert::Infallible>(Arc::new(Mutex::new(Bucket {
                tokens: f64::from(burst),
                at: now,
            })))
        };
        let mut hasher = DefaultHasher::new();
        (&self.seed, key).hash(&mut hasher);
        let Ok(bucket) = self.all.get_or_insert_with(&hasher.finish(), full);
        let mut bucket = bucket.lock();
        let passed: Duration = now.saturating_duration_since(bucket.at);
        bucket.tokens = (bucket.tokens + passed.as_secs_f64() * f64::from(qps)).min(f64::from(burst));
        bucket.at = bucket.at.max(now);
        let accepts = bucket.tokens >= 1.0;
        if accepts {
            bucket.tokens -= 1.0;
        }
        accepts
    }
}

/// The limits of a server.
pub struct EventLimits(Vec<Buckets>);

impl EventLimits {
    /// Limits with full buckets. Nobody should know the seed who might choose keys of the same hash.
    #[must_use]
    pub fn new(limits: &[EventLimit], seed: &str) -> Self {
        let buckets = |limit: &EventLimit| {
            let size =
                if limit.of == EventLimitType::Server { 1 } else { limit.cache_size.clamp(1, BUCKETS_MAX) };
            Buckets { limit: *limit, all: Cache::new(size), seed: seed.to_owned() }
        };
        Self(limits.iter().map(buckets).collect())
    }

    /// Returns true for the types of events, in both groups. (Upstream's plugin overlooks the later group.)
    pub(crate) fn concern(spec: &TypeSpec) -> bool {
        spec.names.plural == "events" && matches!(spec.group.as_str(), "" | "events.k8s.io")
    }

    /// Returns true if a limit looks at the event itself.
    pub(crate) fn look_at_events(&self) -> bool {
        self.0.iter().any(|buckets| buckets.limit.of == EventLimitType::SourceAndObject)
    }

    /// Counts an event, as it is stored; it is null where no limit looks at it.
    ///
    /// # Errors
    /// The limits that it is beyond; each counts it.
    pub(crate) fn count(
        &self,
        namespace: &str,
        user: &str,
        event: &Value,
        now: Instant,
    ) -> Result<(), String> {
        let refused = self.0.iter().filter_map(|buckets| {
            let of = buckets.limit.of;
            let key = of.key(namespace, user, event);
            let text = || format!("limit reached on type {} for key {key}", of.name());
            (!buckets.accepts(&key, now)).then(text)
        });
        let refused: Vec<String> = refused.collect();
        match refused.is_empty() {
            true => Ok(()),
            false => Err(aggregate_texts(refused)),
        }
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::object;

    use super::*;

    fn event(component: &str, name: &str) -> Value {
        object! { "source": object! { "component": component }, "involvedObject": object! { "kind": "Pod", "name": name } }
    }

    fn limits(of: EventLimitType) -> EventLimits {
        EventLimits::new(&[EventLimit { of, qps: 2, burst: 3, cache_size: 10 }], "")
    }

    #[test]
    fn a_bucket_fills_up_with_time_and_is_never_more_than_full() {
        let (limits, start) = (limits(EventLimitType::Server), Instant::now());
        let accepted = |at: u64| {
            let now = start + Duration::from_millis(at);
            (0..10).filter(|_| limits.count("a", "u", &event("c", "p"), now).is_ok()).count()
        };
        assert_eq!([0, 400, 600, 1_600, 100_000, 90_000].map(accepted), [3, 0, 1, 2, 3, 0]);
    }

    #[test]
    fn buckets_are_shared_as_configured() {
        let now = Instant::now();
        for of in EventLimitType::ALL {
            let limits = limits(of);
            for _ in 0..3 {
                limits.count("a", "u", &event("c", "p"), now).unwrap();
            }
            let refused = |namespace, user, event| limits.count(namespace, user, &event, now).err();
            let text = |key: &str| Some(format!("limit reached on type {} for key {key}", of.name()));
            let (own, key) = match of {
                EventLimitType::Server => ([true; 3], ""),
                EventLimitType::Namespace => ([false, true, true], "a"),
                EventLimitType::User => ([true, false, true], "u"),
                EventLimitType::SourceAndObject => ([true, true, false], "cPodp"),
            };
            assert_eq!(refused("a", "u", event("c", "p")), text(key));
            let others = [
                refused("b", "u", event("c", "p")),
                refused("a", "v", event("c", "p")),
                refused("a", "u", event("c", "q")),
            ];
            assert_eq!(others.map(|other| other.is_some()), own, "{of:?}");
        }
    }

    #[test]
    fn every_limit_counts_every_event() {
        let limit = |of, burst| EventLimit { of, qps: 1, burst, cache_size: 10 };
        let limits =
            EventLimits::new(&[limit(EventLimitType::Server, 1), limit(EventLimitType::User, 2)], "");
        let now = Instant::now();
        let count = || limits.count("a", "u", &event("c", "p"), now);
        assert_eq!(count(), Ok(()));
        assert_eq!(count(), Err("limit reached on type Server for key ".to_owned()));
        let both = "[limit reached on type Server for key , limit reached on type User for key u]";
        assert_eq!(count(), Err(both.to_owned()));
    }
}
