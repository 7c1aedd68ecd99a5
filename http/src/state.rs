//! What every request is served with.

use std::sync::Arc;
use std::time::Duration;

use kindom_actor_kit::{ActorTable, Clock, Entropy};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::ResourceHandle;
use kindom_storage::WriteCounts;
use tokio::sync::watch;

use crate::authn::Authenticator;
use crate::fallback::Fallback;
use crate::metrics::Metrics;
use crate::snapshot::{self, Snapshots};

/// How long a request may take, unless its `timeout` says less (kube-apiserver's `--request-timeout`).
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// How many bytes a body may have, after decompression (apiserver `MaxRequestBodyBytes`).
pub(crate) const BODY_BYTES_MAX: usize = 3 << 20;
/// Answers at least this large are compressed for clients that take gzip.
pub(crate) const GZIP_BYTES_MIN: usize = 128 << 10;

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
}

/// What every request is served with; shared by the workers.
pub(crate) struct State {
    pub(crate) registry: RegistryHandle,
    pub(crate) namespaces: ResourceHandle,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) object_bytes_max: usize,
    pub(crate) chaos: Option<ActorTable>,
    pub(crate) fallback: Option<Arc<dyn Fallback>>,
    pub(crate) snapshots: Option<snapshot::Sender>,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) metrics: Metrics,
    pub(crate) documents: crate::documents::Documents,
    /// Set when the server stops: watches end, which they would not do by themselves.
    pub(crate) stopping: watch::Sender<bool>,
}

impl State {
    pub(crate) fn new(config: Config) -> Self {
        let deps = Arc::clone(config.registry.deps());
        Self {
            registry: config.registry,
            namespaces: config.namespaces,
            authenticator: Arc::new(config.authenticator),
            object_bytes_max: config.object_bytes_max,
            chaos: config.chaos,
            fallback: config.fallback,
            snapshots: config.snapshots.map(snapshot::Sender::new),
            clock: deps.clock.clone(),
            entropy: deps.entropy.fork(),
            metrics: Metrics::new(config.store_writes),
            documents: crate::documents::Documents::default(),
            stopping: watch::Sender::new(false),
        }
    }

    pub(crate) fn now_seconds(&self) -> i64 {
        i64::try_from(self.clock.wall_ms() / 1000).unwrap_or(i64::MAX)
    }
}
