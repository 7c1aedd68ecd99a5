//! Counters under Kubernetes' names, in the Prometheus text format.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// What a request was, as far as metrics tell requests apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) scope: String,
    pub(crate) code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    verb: String,
    group: String,
    version: String,
    resource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    request_kind: String,
}

/// kube-apiserver's buckets for request durations, in seconds.
const DURATION_BUCKETS: [f64; 16] =
    [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0];

type Durations = Family<VerbLabels, Histogram, fn() -> Histogram>;

/// The metric families.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Durations,
    in_flight: Family<KindLabels, Gauge>,
    watches: Family<VerbLabels, Gauge>,
    watch_events: Family<VerbLabels, Counter>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let (requests, in_flight, watches, watch_events) =
            (Family::default(), Family::default(), Family::default(), Family::default());
        let histogram: fn() -> Histogram = || Histogram::new(DURATION_BUCKETS);
        let durations = Durations::new_with_constructor(histogram);
        registry.register(
            "apiserver_request",
            "Requests, by what they were and how they ended",
            Clone::clone(&requests),
        );
        registry.register("apiserver_request_duration_seconds", "How long requests took", durations.clone());
        registry.register(
            "apiserver_current_inflight_requests",
            "Requests under way",
            Clone::clone(&in_flight),
        );
        registry.register("apiserver_longrunning_requests", "Watches under way", Clone::clone(&watches));
        registry.register("apiserver_watch_events", "Events sent to watches", Clone::clone(&watch_events));
        Self { registry, requests, durations, in_flight, watches, watch_events }
    }

    /// A request begins; it ends when the guard is dropped.
    pub(crate) fn begin(&self, mutating: bool) -> InFlight {
        let request_kind = if mutating { "mutating" } else { "readOnly" }.to_owned();
        let gauge = self.in_flight.get_or_create(&KindLabels { request_kind }).clone();
        gauge.inc();
        InFlight(gauge)
    }

    pub(crate) fn end(&self, labels: RequestLabels, took: Duration) {
        let verb = VerbLabels {
            verb: labels.verb.clone(),
            group: labels.group.clone(),
            version: labels.version.clone(),
            resource: labels.resource.clone(),
        };
        self.durations.get_or_create(&verb).observe(took.as_secs_f64());
        self.requests.get_or_create(&labels).inc();
    }

    /// A watch begins; it ends when the guard is dropped. The counter is for its events.
    pub(crate) fn watch(&self, group: &str, version: &str, resource: &str) -> (InFlight, Counter) {
        let labels = VerbLabels {
            verb: "WATCH".to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
        };
        let gauge = self.watches.get_or_create(&labels).clone();
        gauge.inc();
        (InFlight(gauge), self.watch_events.get_or_create(&labels).clone())
    }

    /// The families as text.
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

/// Lowers its gauge when dropped.
pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}
