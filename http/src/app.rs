//! The server's parts that its workers share: the state of all requests, and the caches and permits of single endpoints.

use std::sync::Arc;

use kindom_actor_kit::{ActorTable, Budget, Processors};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::quota::Quotas;
use kindom_resource_actor::{Admission, OwnPlugins, ResourceHandle};
use kindom_storage::{ScrubCounts, WriteCounts};

use crate::accounts::ServiceAccounts;
use crate::aggregate::Aggregator;
use crate::authn::{Authenticator, Delegation};
use crate::collector::Collector;
use crate::fallback::Fallback;
use crate::handlers::Handlers;
use crate::in_flight::{InFlight, InFlightMax};
use crate::metrics::{CertificateEnds, HostMetrics, Metrics, WebhookMetrics};
use crate::recorded::Auditing;
use crate::snapshot::{Sender, Snapshots};
use crate::state::{Bounds, State};
use crate::tagged::Documents;

/// The share of the memory for requests that the records of an audit log have, for the objects of requests and of answers each.
const RECORDS_SHARE: u64 = 8;

/// The settings and dependencies of the server.
pub struct Config {
    /// Types and routes.
    pub registry: RegistryHandle,
    /// The type of namespaces.
    pub namespaces: ResourceHandle,
    /// The type of ResourceQuotas, whose bounds hold for clients; `None` where there are none.
    pub quotas: Option<ResourceHandle>,
    /// The admission plugins that are rules of kinds; `None` for none.
    pub plugins: Option<OwnPlugins>,
    /// The webhooks that change and judge what clients write; `None` where there are none.
    pub admission: Option<Admission>,
    /// The audit log; `None` for none.
    pub auditing: Option<Auditing>,
    /// Identifies users.
    pub authenticator: Authenticator,
    /// The reviews that a host makes; by default none.
    pub delegation: Delegation,
    /// Signs and verifies the tokens of service accounts; without it there are none.
    pub accounts: Option<ServiceAccounts>,
    /// Namespaces are made and removed by a host alone: clients cannot change them.
    pub namespaces_are_the_hosts: bool,
    /// Who collects what has lost its owners, so that a delete may say what becomes of dependents.
    pub collector: Collector,
    /// Counts the reviews; `None` without a host.
    pub host_metrics: Option<HostMetrics>,
    /// Counts the questions to conversion webhooks.
    pub webhook_metrics: WebhookMetrics,
    /// The largest object, encoded, in bytes.
    pub object_bytes_max: usize,
    /// The actors, to list and to kill; none unless chaos is enabled.
    pub chaos: Option<ActorTable>,
    /// Answers requests for types that are not registered; without one they get 404.
    pub fallback: Option<Arc<dyn Fallback>>,
    /// Forwards requests for group-versions of other servers; without it there are none.
    pub aggregator: Option<Arc<dyn Aggregator>>,
    /// Answers requests for subresources that the program serves itself; without it, none does.
    pub handlers: Option<Arc<dyn Handlers>>,
    /// The snapshots at `/debug/snapshot`; without them it is 404.
    pub snapshots: Option<Snapshots>,
    /// Counts the store's writes, for `/metrics`; `None` if the engine does not count.
    pub store_writes: Option<Box<dyn Fn() -> WriteCounts + Send + Sync>>,
    /// Counts the bytes and damages that the store's scrub has found, for `/metrics`; `None` if the engine has no scrub.
    pub store_scrubs: Option<Box<dyn Fn() -> ScrubCounts + Send + Sync>>,
    /// The names of certificates and their ends, for `/metrics`.
    pub certificate_ends: Option<CertificateEnds>,
    /// Takes the requests that get dear.
    pub processors: Processors,
    /// The most bytes that requests and answers may hold.
    pub memory_budget_bytes: u64,
    /// The most requests that may be in flight.
    pub in_flight_max: InFlightMax,
    /// The most connections that may be open; beyond that the idlest are closed. Each takes a descriptor, and the store needs
    /// some too.
    pub connections_max: usize,
    /// The most connections that may be open from one address; `None` for any number.
    pub connections_per_address_max: Option<usize>,
    /// The most requests at a time over a connection of HTTP/2.
    pub http2_streams_max: u32,
}

/// The parts of a server.
pub(crate) struct App {
    pub(crate) state: Arc<State>,
    /// Documents of discovery that were made and are still right.
    pub(crate) documents: Documents,
    /// Sends snapshots; `None` if the server has none.
    pub(crate) snapshots: Option<Sender>,
}

impl App {
    pub(crate) fn new(config: Config) -> Self {
        let mut metrics = Metrics::new(config.store_writes, config.store_scrubs, config.certificate_ends);
        metrics.add_storage(Arc::clone(&config.registry.deps().storage));
        if let Some(host) = config.host_metrics {
            metrics.add_host(host);
        }
        metrics.add_webhooks(config.webhook_metrics);
        if let Some(Auditing { log, .. }) = &config.auditing {
            metrics.add_audit(Arc::clone(log));
        }
        let of_records = config.auditing.as_ref().map_or(0, |_| config.memory_budget_bytes / RECORDS_SHARE);
        let budget = Budget::new(config.memory_budget_bytes.saturating_sub(2 * of_records));
        let [recorded_requests, recorded_answers] = [(); 2].map(|()| Budget::new(of_records));
        let budgets = [&budget, &recorded_requests, &recorded_answers].map(Arc::clone);
        metrics.add_load(budgets, config.processors.clone());
        let in_flight = InFlight::new(config.in_flight_max);
        let processors = config.processors;
        let bounds = Bounds { processors, in_flight, budget, recorded_requests, recorded_answers };
        let mut state = State::new(
            config.registry,
            config.namespaces,
            config.authenticator,
            config.object_bytes_max,
            metrics,
            bounds,
        );
        (state.chaos, state.fallback) = (config.chaos, config.fallback);
        (state.delegation, state.namespaces_are_the_hosts) =
            (config.delegation, config.namespaces_are_the_hosts);
        state.quotas = config.quotas.map(Quotas::new);
        (state.plugins, state.admission) = (config.plugins, config.admission);
        state.auditing = config.auditing;
        (state.collector, state.accounts) = (config.collector, config.accounts);
        (state.aggregator, state.handlers) = (config.aggregator, config.handlers);
        Self {
            state: Arc::new(state),
            documents: Documents::default(),
            snapshots: config.snapshots.map(Sender::new),
        }
    }
}
