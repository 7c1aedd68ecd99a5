//! What every request is served with.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kindom_actor_kit::{ActorTable, Clock, Entropy};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::ResourceHandle;
use kindom_storage::{ScrubCounts, WriteCounts};
use tokio::sync::watch;

use crate::authn::{Authenticator, CurrentAuthenticator};
use crate::fallback::Fallback;
use crate::metrics::Metrics;
use crate::server::Phase;
use crate::snapshot::{self, Snapshots};

/// How long a request may take, unless its `timeout` says less (kube-apiserver's `--request-timeout`).
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// How many bytes a body may at least have, after decompression (apiserver `MaxRequestBodyBytes`).
const BODY_BYTES_MAX: usize = 3 << 20;
/// Answers at least this large are compressed for clients that take gzip.
pub(crate) const GZIP_BYTES_MIN: usize = 128 << 10;

/// While the server ends, watches end one by one, so that their clients do not all connect elsewhere at once.
const EACH_WATCH_ENDS_AFTER: Duration = Duration::from_millis(5);

/// What the server is made with.
pub struct Config {
    /// Types and routes.
    pub registry: RegistryHandle,
    /// The type of namespaces.
    pub namespaces: ResourceHandle,
    /// Who asks.
    pub authenticator: Authenticator,
    /// The largest object, encoded, in bytes.
    pub object_bytes_max: usize,
    /// The actors, to list and to kill; none unless chaos is enabled.
    pub chaos: Option<ActorTable>,
    /// Who answers what nobody registered; none for 404.
    pub fallback: Option<Arc<dyn Fallback>>,
    /// What is served at `/debug/snapshot`; none for 404.
    pub snapshots: Option<Snapshots>,
    /// What the store has written, for `/metrics`; none where the engine does not say.
    pub store_writes: Option<Box<dyn Fn() -> WriteCounts + Send + Sync>>,
    /// What the store's scrub has read and found, for `/metrics`; none where the engine has none.
    pub store_scrubs: Option<Box<dyn Fn() -> ScrubCounts + Send + Sync>>,
    /// The names of certificates and their ends, for `/metrics`.
    pub certificate_ends: Option<CertificateEnds>,
    /// How many connections may be open; more wait to be accepted. Each takes a descriptor, and the store needs some too.
    pub connections_max: usize,
}

/// The names of certificates and their ends, in seconds since the Unix epoch; asked whenever metrics are.
pub type CertificateEnds = Box<dyn Fn() -> Vec<(&'static str, i64)> + Send + Sync>;

/// What every request is served with; shared by the workers.
pub(crate) struct State {
    pub(crate) registry: RegistryHandle,
    pub(crate) namespaces: ResourceHandle,
    pub(crate) authenticator: Arc<CurrentAuthenticator>,
    pub(crate) object_bytes_max: usize,
    /// How many bytes a body may have, after decompression. Twice the largest object, as upstream's limit is twice
    /// etcd's: a body says what is not stored, in more words.
    pub(crate) body_bytes_max: usize,
    pub(crate) chaos: Option<ActorTable>,
    pub(crate) fallback: Option<Arc<dyn Fallback>>,
    pub(crate) snapshots: Option<snapshot::Sender>,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) metrics: Metrics,
    pub(crate) documents: crate::documents::Documents,
    /// How far the server is on its way to its end: watches end then, which they would not do by themselves.
    pub(crate) phase: watch::Sender<Phase>,
    /// How many watches have been given their turn to end.
    turns_to_end: AtomicU32,
}

impl State {
    pub(crate) fn new(config: Config) -> Self {
        let deps = Arc::clone(config.registry.deps());
        let mut metrics = Metrics::new(config.store_writes, config.store_scrubs, config.certificate_ends);
        metrics.add_storage(Arc::clone(&deps.storage));
        Self {
            registry: config.registry,
            namespaces: config.namespaces,
            authenticator: Arc::new(CurrentAuthenticator::new(config.authenticator)),
            object_bytes_max: config.object_bytes_max,
            body_bytes_max: config.object_bytes_max.saturating_mul(2).max(BODY_BYTES_MAX),
            chaos: config.chaos,
            fallback: config.fallback,
            snapshots: config.snapshots.map(snapshot::Sender::new),
            clock: deps.clock.clone(),
            entropy: deps.entropy.fork(),
            metrics,
            documents: crate::documents::Documents::default(),
            phase: watch::Sender::new(Phase::Serving),
            turns_to_end: AtomicU32::new(0),
        }
    }

    /// When a watch's turn to end has come, from now on, if all of them have `within`: each waits 5 ms longer than the
    /// one before, but none longer than `within` (apiserver `pkg/server/genericapiserver.go`: at least 200 a second end).
    pub(crate) fn turn_to_end(&self, within: Duration) -> Duration {
        let turn = self.turns_to_end.fetch_add(1, Ordering::Relaxed);
        (EACH_WATCH_ENDS_AFTER * turn).min(within)
    }

    pub(crate) fn now_seconds(&self) -> i64 {
        i64::try_from(self.clock.wall_ms() / 1000).unwrap_or(i64::MAX)
    }
}
