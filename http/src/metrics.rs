//! Counters under Kubernetes' names, in the Prometheus text format.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::Equivalent;
use kindom_actor_kit::{Budget, Processors};
use kindom_audit::AuditLog;
use kindom_resource_actor::{CountedChange, CountedFinding, EndedCall, EndedReview};
use kindom_storage::{ScrubCounts, Storage, WriteCounts};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::per_type::{LabelsKey, OfType, PerType};

/// The names of certificates and their ends, in seconds since the Unix epoch; asked whenever metrics are.
pub type CertificateEnds = Box<dyn Fn() -> Vec<(&'static str, i64)> + Send + Sync>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
}

/// The properties of a request by which metrics distinguish requests: [`RequestLabels`], with the same fields in the same order.
#[derive(Clone, Copy, Hash)]
pub(crate) struct RequestKey<'a> {
    pub(crate) verb: &'static str,
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) scope: &'static str,
    pub(crate) code: u16,
}

/// A type whose watches are counted.
#[derive(Clone, Copy, Hash)]
struct WatchKey<'a> {
    verb: &'static str,
    group: &'a str,
    version: &'a str,
    resource: &'a str,
}

impl OfType for RequestLabels {
    fn of_type(&self) -> [&str; 3] {
        [&self.group, &self.version, &self.resource]
    }
}

impl OfType for VerbLabels {
    fn of_type(&self) -> [&str; 3] {
        [&self.group, &self.version, &self.resource]
    }
}

impl Equivalent<RequestLabels> for RequestKey<'_> {
    fn equivalent(&self, labels: &RequestLabels) -> bool {
        let Self { verb, group, version, resource, subresource, scope, code } = *self;
        code == labels.code
            && (verb, subresource, scope) == (labels.verb, &labels.subresource, labels.scope)
            && [group, version, resource] == labels.of_type()
    }
}

impl LabelsKey<RequestLabels> for RequestKey<'_> {
    fn labels(&self) -> RequestLabels {
        let Self { verb, group, version, resource, subresource, scope, code } = *self;
        let [group, version, resource, subresource] =
            [group, version, resource, subresource].map(str::to_owned);
        RequestLabels { verb, group, version, resource, subresource, scope, code }
    }
}

impl Equivalent<VerbLabels> for WatchKey<'_> {
    fn equivalent(&self, labels: &VerbLabels) -> bool {
        self.verb == labels.verb && [self.group, self.version, self.resource] == labels.of_type()
    }
}

impl LabelsKey<VerbLabels> for WatchKey<'_> {
    fn labels(&self) -> VerbLabels {
        let [group, version, resource] = [self.group, self.version, self.resource].map(str::to_owned);
        VerbLabels { verb: self.verb, group, version, resource }
    }
}

impl RequestLabels {
    /// What durations are distinguished by.
    fn of_verb(&self) -> VerbLabels {
        let Self { verb, group, version, resource, .. } = self.clone();
        VerbLabels { verb, group, version, resource }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    request_kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabels {
    code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabels {
    status: &'static str,
}

/// Upstream's buckets for reviews by a host, in seconds (apiserver `pkg/authentication/authenticatorfactory/metrics.go`,
/// `pkg/authorization/authorizerfactory/metrics.go`).
const REVIEW_BUCKETS: [f64; 8] = [0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];

type ReviewDurations = Family<CodeLabels, Histogram, fn() -> Histogram>;

/// Counts the requests to the host for one kind of review, and the use of the memory of its answers. Clones count together.
#[derive(Clone)]
pub struct ReviewMetrics {
    requests: Family<CodeLabels, Counter>,
    durations: ReviewDurations,
    lookups: Family<StatusLabels, Counter>,
}

impl Default for ReviewMetrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(REVIEW_BUCKETS);
        Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(histogram),
            lookups: Family::default(),
        }
    }
}

impl ReviewMetrics {
    /// Counts an answer of the host by its code, or with `None` the lack of one.
    pub fn asked(&self, code: Option<u16>, took: Duration) {
        let labels = CodeLabels { code: code.map_or_else(|| "<error>".to_owned(), |code| code.to_string()) };
        self.durations.get_or_create(&labels).observe(took.as_secs_f64());
        self.requests.get_or_create(&labels).inc();
    }

    /// Counts a look into the memory of answers.
    pub fn looked_up(&self, found: bool) {
        let status = if found { "hit" } else { "miss" };
        self.lookups.get_or_create(&StatusLabels { status }).inc();
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
    failure_type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConversionLabels {
    crd_name: String,
    from_version: String,
    to_version: String,
    succeeded: &'static str,
}

/// Upstream's buckets for reviews by conversion webhooks, in seconds (apiextensions `pkg/apiserver/conversion/metrics.go`).
const CONVERSION_BUCKETS: [f64; 15] =
    [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

/// The conversions that have metrics of their own; registrations come and go, and metrics stay.
const CONVERSIONS_MAX: usize = 1000;

/// Counts the questions to conversion webhooks. Clones count together.
#[derive(Clone)]
pub struct WebhookMetrics {
    requests: Family<ResultLabels, Counter>,
    durations: Family<ResultLabels, Histogram, fn() -> Histogram>,
    by_registration: Family<ConversionLabels, Histogram, fn() -> Histogram>,
    seen: Arc<Mutex<HashSet<ConversionLabels>>>,
    calls: Family<CallLabels, Histogram, fn() -> Histogram>,
    call_requests: Family<CallRequestLabels, Counter>,
    rejections: Family<RejectionLabels, Counter>,
    fail_opens: Family<FailOpenLabels, Counter>,
    hooks: Arc<Mutex<HashSet<String>>>,
    policy_checks: Family<PolicyLabels, Counter>,
    policy_durations: Family<PolicyLabels, Histogram, fn() -> Histogram>,
    changes: Family<ChangeLabels, Counter>,
    change_durations: Family<ChangeLabels, Histogram, fn() -> Histogram>,
    bindings: Arc<Mutex<HashSet<(String, String)>>>,
}

impl Default for WebhookMetrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(CONVERSION_BUCKETS);
        let by_registration: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let calls: fn() -> Histogram = || Histogram::new(ADMISSION_BUCKETS);
        let policies: fn() -> Histogram = || Histogram::new(POLICY_BUCKETS);
        Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(histogram),
            by_registration: Family::new_with_constructor(by_registration),
            seen: Arc::default(),
            calls: Family::new_with_constructor(calls),
            call_requests: Family::default(),
            rejections: Family::default(),
            fail_opens: Family::default(),
            hooks: Arc::default(),
            policy_checks: Family::default(),
            policy_durations: Family::new_with_constructor(policies),
            changes: Family::default(),
            change_durations: Family::new_with_constructor(policies),
            bindings: Arc::default(),
        }
    }
}

impl WebhookMetrics {
    /// Counts a review that has ended.
    pub fn count(&self, review: &EndedReview<'_>) {
        let took = review.took.as_secs_f64();
        let labels = match review.failure {
            None => ResultLabels { result: "success", failure_type: "" },
            Some(failure) => ResultLabels { result: "failure", failure_type: failure.label() },
        };
        self.requests.get_or_create(&labels).inc();
        self.durations.get_or_create(&labels).observe(took);
        let labels = ConversionLabels {
            crd_name: review.registration.to_owned(),
            from_version: review.from.to_owned(),
            to_version: review.to.to_owned(),
            succeeded: if review.failure.is_none() { "true" } else { "false" },
        };
        let mut seen = self.seen.lock();
        if seen.contains(&labels) || seen.len() < CONVERSIONS_MAX {
            self.by_registration.get_or_create(&labels).observe(took);
            seen.insert(labels);
        }
    }

    /// Counts a question to an admission webhook that has ended.
    pub fn count_call(&self, call: &EndedCall<'_>) {
        let mut hooks = self.hooks.lock();
        if !hooks.contains(call.hook) {
            if hooks.len() >= HOOKS_MAX {
                return;
            }
            hooks.insert(call.hook.to_owned());
        }
        drop(hooks);
        let (name, r#type, operation) = (call.hook.to_owned(), call.part, call.operation.to_owned());
        let is_open = call.fails_open && call.error_type == Some("calling_webhook_error");
        let rejected = if call.error_type.is_some() && !is_open { "true" } else { "false" };
        let labels = CallLabels { name: name.clone(), r#type, operation: operation.clone(), rejected };
        self.calls.get_or_create(&labels).observe(call.took.as_secs_f64());
        // The codes that upstream keeps apart; others count as 600 (`ObserveWebhook`).
        let code = if call.code > 600 { 600 } else { call.code };
        let labels =
            CallRequestLabels { name: name.clone(), r#type, operation: operation.clone(), code, rejected };
        self.call_requests.get_or_create(&labels).inc();
        match call.error_type {
            Some(_) if is_open => {
                self.fail_opens.get_or_create(&FailOpenLabels { name, r#type }).inc();
            }
            Some(error_type) => {
                let labels = RejectionLabels { name, r#type, operation, error_type, rejection_code: code };
                self.rejections.get_or_create(&labels).inc();
            }
            None => {}
        }
    }

    /// The names of a binding and its policy, if they have metrics of their own.
    fn binding(&self, policy: &str, binding: &str) -> Option<(String, String)> {
        let named = (policy.to_owned(), binding.to_owned());
        let mut bindings = self.bindings.lock();
        if !bindings.contains(&named) {
            if bindings.len() >= HOOKS_MAX {
                return None;
            }
            bindings.insert(named.clone());
        }
        Some(named)
    }

    /// Counts a change of a policy.
    pub fn count_change(&self, change: &CountedChange<'_>) {
        let Some((policy, policy_binding)) = self.binding(change.policy, change.binding) else { return };
        let labels = ChangeLabels { policy, policy_binding, error_type: change.error_type };
        self.change_durations.get_or_create(&labels).observe(change.took.as_secs_f64());
        self.changes.get_or_create(&labels).inc();
    }

    /// Counts a finding of a policy.
    pub fn count_finding(&self, finding: &CountedFinding<'_>) {
        let Some((policy, policy_binding)) = self.binding(finding.policy, finding.binding) else { return };
        let (error_type, enforcement_action) = (finding.error_type, finding.enforcement);
        let labels = PolicyLabels { policy, policy_binding, error_type, enforcement_action };
        self.policy_durations.get_or_create(&labels).observe(finding.took.as_secs_f64());
        self.policy_checks.get_or_create(&labels).inc();
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabels {
    policy: String,
    policy_binding: String,
    error_type: &'static str,
    enforcement_action: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChangeLabels {
    policy: String,
    policy_binding: String,
    error_type: &'static str,
}

/// Upstream's buckets for policies, in seconds (apiserver `pkg/admission/plugin/policy/validating/metrics`, 1.37).
const POLICY_BUCKETS: [f64; 5] = [0.000_000_5, 0.001, 0.01, 0.1, 1.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    name: String,
    r#type: &'static str,
    operation: String,
    rejected: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallRequestLabels {
    name: String,
    r#type: &'static str,
    operation: String,
    code: u16,
    rejected: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectionLabels {
    name: String,
    r#type: &'static str,
    operation: String,
    error_type: &'static str,
    rejection_code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailOpenLabels {
    name: String,
    r#type: &'static str,
}

/// Upstream's buckets for questions to admission webhooks, in seconds (apiserver `pkg/admission/metrics`, 1.37).
const ADMISSION_BUCKETS: [f64; 7] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0];

/// The admission webhooks, and the bindings of policies, that have metrics of their own; configurations come and go, and metrics stay.
const HOOKS_MAX: usize = 200;

/// Counts the reviews that a host makes.
#[derive(Clone, Default)]
pub struct HostMetrics {
    /// Those of tokens.
    pub tokens: ReviewMetrics,
    /// Those of access.
    pub access: ReviewMetrics,
}

/// The buckets for request durations, in seconds: kube-apiserver's, which begin at 5 ms (apiserver `pkg/endpoints/metrics`), and shorter
/// ones, as most requests take less than its first.
const DURATION_BUCKETS: [f64; 29] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0,
    1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// kube-apiserver's buckets for the remaining validity of a client's certificate, in seconds (apiserver
/// `pkg/authentication/request/x509`).
const EXPIRATION_BUCKETS: [f64; 14] = [
    0.0,
    1_800.0,
    3_600.0,
    7_200.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];

type Durations = Family<VerbLabels, Histogram, fn() -> Histogram>;
type Requests = Family<RequestLabels, Counter>;

/// The metric families.
pub(crate) struct Metrics {
    registry: Registry,
    requests: PerType<RequestLabels, Counted>,
    expirations: Histogram,
    reading: Gauge,
    mutating: Gauge,
    watches: PerType<VerbLabels, Watches>,
}

/// The metrics of requests that have the same properties; the durations are those of all codes.
struct Counted {
    requests: Counter,
    durations: Histogram,
}

/// The metrics of a type's watches.
struct Watches {
    open: Gauge,
    events: Counter,
}

fn counted(requests: Requests, durations: Durations) -> PerType<RequestLabels, Counted> {
    let (all, all_durations) = (Clone::clone(&requests), Clone::clone(&durations));
    let make = move |labels: &RequestLabels| Counted {
        requests: all.get_or_create_owned(labels),
        durations: all_durations.get_or_create_owned(&labels.of_verb()),
    };
    PerType::new(make, move |labels| {
        requests.remove(labels);
        durations.remove(&labels.of_verb());
    })
}

fn watched(
    open: Family<VerbLabels, Gauge>,
    events: Family<VerbLabels, Counter>,
) -> PerType<VerbLabels, Watches> {
    let (all, all_events) = (Clone::clone(&open), Clone::clone(&events));
    let make = move |labels: &VerbLabels| Watches {
        open: all.get_or_create_owned(labels),
        events: all_events.get_or_create_owned(labels),
    };
    PerType::new(make, move |labels| {
        open.remove(labels);
        events.remove(labels);
    })
}

impl Metrics {
    /// `store_writes` and `store_scrubs` count the store's work, if the engine counts it. `certificate_ends` gives the ends
    /// of certificates.
    pub(crate) fn new(
        store_writes: Option<Box<dyn Fn() -> WriteCounts + Send + Sync>>,
        store_scrubs: Option<Box<dyn Fn() -> ScrubCounts + Send + Sync>>,
        certificate_ends: Option<CertificateEnds>,
    ) -> Self {
        let mut registry = Registry::default();
        let (requests, watches, watch_events) = (
            Requests::default(),
            Family::<VerbLabels, Gauge>::default(),
            Family::<VerbLabels, Counter>::default(),
        );
        let in_flight: Family<KindLabels, Gauge> = Family::default();
        let of_kind = |request_kind| in_flight.get_or_create_owned(&KindLabels { request_kind });
        let (reading, mutating) = (of_kind("readOnly"), of_kind("mutating"));
        let histogram: fn() -> Histogram = || Histogram::new(DURATION_BUCKETS);
        let durations = Durations::new_with_constructor(histogram);
        registry.register(
            "apiserver_request",
            "Requests by verb, resource and code",
            Clone::clone(&requests),
        );
        let expirations = Histogram::new(EXPIRATION_BUCKETS);
        registry.register(
            "apiserver_client_certificate_expiration_seconds",
            "The remaining validity of the client's certificate at each request, in seconds",
            expirations.clone(),
        );
        registry.register(
            "apiserver_request_duration_seconds",
            "The duration of requests, in seconds",
            Clone::clone(&durations),
        );
        registry.register("apiserver_current_inflight_requests", "Requests under way", in_flight);
        registry.register("apiserver_longrunning_requests", "Watches under way", Clone::clone(&watches));
        registry.register("apiserver_watch_events", "Events sent to watches", Clone::clone(&watch_events));
        if let Some(counts) = store_writes {
            registry.register_collector(Box::new(StoreWrites(counts)));
        }
        if let Some(counts) = store_scrubs {
            registry.register_collector(Box::new(StoreScrubs(counts)));
        }
        if let Some(ends) = certificate_ends {
            registry.register_collector(Box::new(Ends(ends)));
        }
        Self {
            registry,
            requests: counted(requests, durations),
            expirations,
            reading,
            mutating,
            watches: watched(watches, watch_events),
        }
    }

    /// Adds the state of the store.
    pub(crate) fn add_storage(&mut self, storage: Arc<dyn Storage>) {
        self.registry.register_collector(Box::new(StoreState(storage)));
    }

    /// Adds the reviews that a host makes.
    pub(crate) fn add_host(&mut self, host: HostMetrics) {
        let HostMetrics { tokens, access } = host;
        let registry = &mut self.registry;
        let (help, took) =
            ("Requests to the host by code", "The duration of requests to the host, in seconds");
        registry.register("apiserver_delegated_authn_request", help, tokens.requests);
        registry.register("apiserver_delegated_authn_request_duration_seconds", took, tokens.durations);
        registry.register("apiserver_delegated_authz_request", help, access.requests);
        registry.register("apiserver_delegated_authz_request_duration_seconds", took, access.durations);
        let help = "Tokens that were looked up in memory";
        registry.register("authentication_token_cache_request", help, tokens.lookups);
        let help = "Questions of access that were looked up in memory";
        registry.register("kindom_delegated_authz_cache_request", help, access.lookups);
    }

    /// Adds the questions to conversion webhooks.
    pub(crate) fn add_webhooks(&mut self, webhooks: WebhookMetrics) {
        let registry = &mut self.registry;
        let help = "Questions to conversion webhooks, by result";
        registry.register("apiserver_conversion_webhook_request", help, webhooks.requests);
        let help = "The duration of questions to conversion webhooks, in seconds";
        registry.register("apiserver_conversion_webhook_duration_seconds", help, webhooks.durations);
        let help = "The duration of questions to admission webhooks, in seconds";
        registry.register("apiserver_admission_webhook_admission_duration_seconds", help, webhooks.calls);
        let help = "Questions to admission webhooks, by code";
        registry.register("apiserver_admission_webhook_request", help, webhooks.call_requests);
        let help = "Refusals of admission webhooks";
        registry.register("apiserver_admission_webhook_rejection_count", help, webhooks.rejections);
        let help = "Writes that went on without the answer of an admission webhook";
        registry.register("apiserver_admission_webhook_fail_open_count", help, webhooks.fail_opens);
        let help = "Findings of admission policies, by what becomes of the write";
        registry.register("apiserver_validating_admission_policy_check", help, webhooks.policy_checks);
        let help = "The duration of judging by an admission policy that has found something, in seconds";
        let name = "apiserver_validating_admission_policy_check_duration_seconds";
        registry.register(name, help, webhooks.policy_durations);
        let help = "Changes by admission policies, made and failed";
        registry.register("apiserver_mutating_admission_policy_check", help, webhooks.changes);
        let help = "The duration of making a change by an admission policy, in seconds";
        let name = "apiserver_mutating_admission_policy_check_duration_seconds";
        registry.register(name, help, webhooks.change_durations);
        let help = "The duration of conversions by webhooks, in seconds";
        registry.register(
            "apiserver_crd_conversion_webhook_duration_seconds",
            help,
            webhooks.by_registration,
        );
    }

    /// Adds what requests hold and wait for.
    pub(crate) fn add_load(&mut self, budgets: [Arc<Budget>; 3], processors: Processors) {
        self.registry.register_collector(Box::new(Load(budgets, processors)));
    }

    /// Adds the counts of an audit log.
    pub(crate) fn add_audit(&mut self, log: Arc<AuditLog>) {
        self.registry.register_collector(Box::new(Audited(log)));
    }

    /// A request begins; it ends when the guard is dropped.
    pub(crate) fn begin(&self, mutating: bool) -> GaugeGuard {
        let gauge = if mutating { &self.mutating } else { &self.reading }.clone();
        gauge.inc();
        GaugeGuard(gauge)
    }

    pub(crate) fn end(&self, key: RequestKey<'_>, took: Duration, is_served: impl Fn([&str; 3]) -> bool) {
        self.requests.with(&key, is_served, |counted| {
            counted.durations.observe(took.as_secs_f64());
            counted.requests.inc();
        });
    }

    /// A request's client has sent a certificate that holds for so many seconds yet, or has ended before as many.
    pub(crate) fn client_certificate(&self, holds_seconds: i64) {
        self.expirations.observe(holds_seconds as f64);
    }

    /// A watch begins; it ends when the guard is dropped. The counter is for its events.
    pub(crate) fn watch(
        &self,
        [group, version, resource]: [&str; 3],
        is_served: impl Fn([&str; 3]) -> bool,
    ) -> (GaugeGuard, Counter) {
        let key = WatchKey { verb: "WATCH", group, version, resource };
        self.watches.with(&key, is_served, |watches| {
            watches.open.inc();
            (GaugeGuard(watches.open.clone()), watches.events.clone())
        })
    }

    /// The families as text.
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

/// Reads the store's own counters at each scrape.
struct StoreWrites(Box<dyn Fn() -> WriteCounts + Send + Sync>);

impl fmt::Debug for StoreWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreWrites").field(&(self.0)()).finish()
    }
}

impl Collector for StoreWrites {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let WriteCounts { batches, txns } = (self.0)();
        for (name, help, count) in [
            ("kindom_store_batches", "Durable writes of the store, each with one fsync", batches),
            ("kindom_store_transactions", "Transactions in these writes", txns),
        ] {
            let counter = ConstCounter::new(count);
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        Ok(())
    }
}

/// Reads the ends of certificates at each scrape.
struct Ends(CertificateEnds);

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ends").field(&(self.0)()).finish()
    }
}

impl Collector for Ends {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "The end of a certificate in use, in seconds since the Unix epoch";
        let name = "kindom_certificate_expiration_timestamp_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (certificate, ends) in (self.0)() {
            let gauge = ConstGauge::new(ends);
            gauge.encode(family.encode_family(&[("certificate", certificate)])?)?;
        }
        Ok(())
    }
}

/// Likewise, of what its scrub has read.
struct StoreScrubs(Box<dyn Fn() -> ScrubCounts + Send + Sync>);

impl fmt::Debug for StoreScrubs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreScrubs").field(&(self.0)()).finish()
    }
}

impl Collector for StoreScrubs {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let ScrubCounts { passes, bytes, damaged } = (self.0)();
        for (name, help, count) in [
            ("kindom_store_scrubs", "Complete passes of the scrub over all sealed segments", passes),
            ("kindom_store_scrubbed_bytes", "Bytes that the scrub has read", bytes),
        ] {
            let counter = ConstCounter::new(count);
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        let help = "Damaged values and batches that the scrub has found";
        let gauge = ConstGauge::new(i64::try_from(damaged).unwrap_or(i64::MAX));
        gauge.encode(encoder.encode_descriptor("kindom_store_damaged", help, None, MetricType::Gauge)?)
    }
}

/// Reads the state of the store at each scrape.
struct StoreState(Arc<dyn Storage>);

impl fmt::Debug for StoreState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreState").field(&self.0.read_only()).finish()
    }
}

impl Collector for StoreState {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let gauge = ConstGauge::new(i64::from(self.0.read_only().is_some()));
        let (name, help) = ("kindom_storage_read_only", "1 while the store takes no creates and updates");
        gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }
}

/// What requests hold and wait for.
struct Load([Arc<Budget>; 3], Processors);

impl Load {
    fn held(&self) -> u64 {
        self.0.iter().map(|budget| budget.held()).sum()
    }
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Load").field(&self.held()).field(&self.1.waiting()).finish()
    }
}

impl Collector for Load {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let held = ConstGauge::new(i64::try_from(self.held()).unwrap_or(i64::MAX));
        let (name, help) = ("kindom_memory_held_bytes", "Bytes that requests and answers hold");
        held.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        let waiting = ConstGauge::new(i64::try_from(self.1.waiting()).unwrap_or(i64::MAX));
        let (name, help) = ("kindom_processors_waiting", "Pieces of work that wait for a processor");
        waiting.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }
}

/// Reads the counts of the audit log at each scrape (apiserver `pkg/audit/metrics.go`, 1.37).
#[derive(Debug)]
struct Audited(Arc<AuditLog>);

impl Collector for Audited {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.0.counts();
        for (name, help, count) in [
            ("apiserver_audit_event", "Audit events that were handed to the log", counts.events()),
            (
                "apiserver_audit_requests_rejected",
                "Requests that failed as the log could not be written",
                counts.rejected(),
            ),
        ] {
            let counter = ConstCounter::new(count);
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        let (name, help) = ("apiserver_audit_level", "Requests by the level that the policy gives them");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (level, count) in counts.levels() {
            ConstCounter::new(count).encode(family.encode_family(&[("level", level)])?)?;
        }
        let (name, help) = ("apiserver_audit_error", "Audit events that were lost, by what has lost them");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (plugin, count) in counts.failures() {
            ConstCounter::new(count).encode(family.encode_family(&[("plugin", plugin)])?)?;
        }
        Ok(())
    }
}

/// Lowers its gauge when dropped.
pub(crate) struct GaugeGuard(Gauge);

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_counted_where_it_says() {
        let metrics = Metrics::new(
            Some(Box::new(|| WriteCounts { batches: 2, txns: 33 })),
            Some(Box::new(|| ScrubCounts { passes: 4, bytes: 55, damaged: 6 })),
            None,
        );
        let text = metrics.encode();
        assert!(text.contains("\nkindom_store_batches_total 2\n"), "{text}");
        assert!(text.contains("\nkindom_store_transactions_total 33\n"), "{text}");
        assert!(text.contains("\nkindom_store_scrubs_total 4\n"), "{text}");
        assert!(text.contains("\nkindom_store_damaged 6\n"), "{text}");
        let metrics = Metrics::new(None, None, Some(Box::new(|| vec![("ca", 5), ("serving", 7)])));
        let text = metrics.encode();
        let gauge = "kindom_certificate_expiration_timestamp_seconds";
        assert!(text.contains(&format!("\n{gauge}{{certificate=\"ca\"}} 5\n")), "{text}");
        assert!(text.contains(&format!("\n{gauge}{{certificate=\"serving\"}} 7\n")), "{text}");
        assert!(!Metrics::new(None, None, None).encode().contains("kindom_store"));
    }

    #[test]
    fn certificates_of_clients_are_observed() {
        let metrics = Metrics::new(None, None, None);
        for holds in [-5, 100, 86_400 * 365] {
            metrics.client_certificate(holds);
        }
        let text = metrics.encode();
        let name = "apiserver_client_certificate_expiration_seconds";
        for line in
            [r#"_bucket{le="0.0"} 1"#, r#"_bucket{le="1800.0"} 2"#, r#"_bucket{le="+Inf"} 3"#, "_count 3"]
        {
            assert!(text.contains(&format!("\n{name}{line}\n")), "{text}");
        }
    }

    #[test]
    fn a_store_that_takes_writes_says_so() {
        let mut metrics = Metrics::new(None, None, None);
        metrics.add_storage(Arc::new(kindom_storage::Memory::default()));
        assert!(metrics.encode().contains("\nkindom_storage_read_only 0\n"), "{}", metrics.encode());
    }
}
