//! The state with which every request is served.

use std::hash::{BuildHasher as _, Hash};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kindom_actor_kit::{ActorTable, Budget, Clock, Entropy, Flow, Processors};
use kindom_api::user::User;
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::quota::Quotas;
use kindom_resource_actor::{Admission, OwnPlugins, ResourceHandle, WriteTurns};
use tokio::sync::watch;

use crate::accounts::ServiceAccounts;
use crate::aggregate::Aggregator;
use crate::authn::{Authenticator, CurrentAuthenticator, Delegation, LastModes};
use crate::collector::Collector;
use crate::fallback::Fallback;
use crate::handlers::Handlers;
use crate::in_flight::InFlight;
use crate::metrics::Metrics;
use crate::phase::Phase;
use crate::recorded::Auditing;

/// The longest that a request may take, unless its `timeout` is shorter (kube-apiserver's `--request-timeout`).
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The time that a request has beyond its deadline to say itself that it is late.
pub(crate) const LATE: Duration = Duration::from_millis(500);
/// The least bound on the bytes of a body, after decompression (apiserver `MaxRequestBodyBytes`).
const BODY_BYTES_MAX: usize = 3 << 20;

/// While the server ends, watches end one by one, so that their clients do not all connect elsewhere at once.
const EACH_WATCH_ENDS_AFTER: Duration = Duration::from_millis(5);

/// The state with which every request is served; shared by the workers.
pub(crate) struct State {
    pub(crate) registry: RegistryHandle,
    pub(crate) namespaces: ResourceHandle,
    /// The quotas that bound what clients create.
    pub(crate) quotas: Option<Quotas>,
    /// The admission plugins that are rules of kinds.
    pub(crate) plugins: Option<OwnPlugins>,
    /// The webhooks that change and judge what clients write.
    pub(crate) admission: Option<Admission>,
    pub(crate) auditing: Option<Auditing>,
    /// The evictions that count in a PodDisruptionBudget, by its namespace and name.
    pub(crate) evictions: WriteTurns<()>,
    pub(crate) authenticator: Arc<CurrentAuthenticator>,
    /// The reviews that a host makes.
    pub(crate) delegation: Delegation,
    /// The modes in which users acted as others.
    pub(crate) last_modes: LastModes,
    /// Signs and checks tokens; `None` where there are no service accounts.
    pub(crate) accounts: Option<ServiceAccounts>,
    /// Clients cannot change namespaces.
    pub(crate) namespaces_are_the_hosts: bool,
    /// Who removes the garbage collector's finalizers.
    pub(crate) collector: Collector,
    pub(crate) object_bytes_max: usize,
    /// The most bytes of a body, after decompression. Twice the largest object, as upstream's limit is twice etcd's: a body
    /// holds fields that are not stored, and is more verbose.
    pub(crate) body_bytes_max: usize,
    pub(crate) chaos: Option<ActorTable>,
    pub(crate) fallback: Option<Arc<dyn Fallback>>,
    pub(crate) aggregator: Option<Arc<dyn Aggregator>>,
    /// The program's own handlers of subresources, if it has any.
    pub(crate) handlers: Option<Arc<dyn Handlers>>,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) metrics: Metrics,
    pub(crate) bounds: Bounds,
    /// The phase of the server's end: watches end then, which they would not do by themselves.
    pub(crate) phase: watch::Sender<Phase>,
    /// The number of watches that have been given their turn to end.
    turns_to_end: AtomicU32,
}

/// The bounds of what requests take from each other.
pub(crate) struct Bounds {
    /// Takes the requests that get dear.
    pub(crate) processors: Processors,
    pub(crate) in_flight: InFlight,
    pub(crate) budget: Arc<Budget>,
    /// The part of the memory that the audit log's records have for objects of requests: a slow disk takes it from nobody else.
    pub(crate) recorded_requests: Arc<Budget>,
    /// The same for objects of answers: clients that take long answers slowly fill it.
    pub(crate) recorded_answers: Arc<Budget>,
}

impl State {
    pub(crate) fn new(
        registry: RegistryHandle,
        namespaces: ResourceHandle,
        authenticator: Authenticator,
        object_bytes_max: usize,
        metrics: Metrics,
        bounds: Bounds,
    ) -> Self {
        let deps = Arc::clone(registry.deps());
        Self {
            registry,
            namespaces,
            quotas: None,
            plugins: None,
            admission: None,
            auditing: None,
            evictions: WriteTurns::default(),
            authenticator: Arc::new(CurrentAuthenticator::new(authenticator)),
            delegation: Delegation::default(),
            last_modes: LastModes::default(),
            accounts: None,
            namespaces_are_the_hosts: false,
            collector: Collector::default(),
            object_bytes_max,
            body_bytes_max: object_bytes_max.saturating_mul(2).max(BODY_BYTES_MAX),
            chaos: None,
            fallback: None,
            aggregator: None,
            handlers: None,
            clock: deps.clock.clone(),
            entropy: deps.entropy.fork(),
            metrics,
            bounds,
            phase: watch::Sender::new(Phase::Serving),
            turns_to_end: AtomicU32::new(0),
        }
    }

    /// The time from now at which a watch's turn to end comes, if all watches end `within` a time: each waits 5 ms longer
    /// than the one before, but none longer than `within` (apiserver `pkg/server/genericapiserver.go`: at least 200 a second
    /// end).
    pub(crate) fn turn_to_end(&self, within: Duration) -> Duration {
        let turn = self.turns_to_end.fetch_add(1, Ordering::Relaxed);
        (EACH_WATCH_ENDS_AFTER * turn).min(within)
    }

    /// The flow that a user's requests for a type, or for a document, belong to.
    pub(crate) fn flow(&self, user: &User, kind: impl Hash) -> Flow {
        let flows = &self.delegation.flows;
        Flow { user: flows.hash_one(&user.name), kind: flows.hash_one(kind) }
    }

    pub(crate) fn now_seconds(&self) -> i64 {
        self.clock.unix_seconds()
    }
}
