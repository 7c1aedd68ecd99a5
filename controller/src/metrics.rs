//! Counts of calls, under controller-runtime's names (`pkg/internal/controller/metrics/metrics.go`, 0.24), so that its dashboards and
//! alerts fit.

use std::any::type_name;
use std::fmt;
use std::sync::Arc;

use kube::runtime::controller::Action;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use tokio::time::Instant;

use crate::controller::Controller;

/// controller-runtime's, in seconds.
const BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    controller: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseLabels {
    name: String,
}

type Durations = Family<ControllerLabels, Histogram, fn() -> Histogram>;

/// The metrics of a manager. Clones count together.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    results: Family<ResultLabels, Counter>,
    errors: Family<ControllerLabels, Counter>,
    panics: Family<ControllerLabels, Counter>,
    durations: Durations,
    active: Family<ControllerLabels, Gauge>,
    leading: Family<LeaseLabels, Gauge>,
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome<'a> {
    Done(&'a Action),
    Failed,
    Panicked,
}

impl Default for Metrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let mut registry = Registry::default();
        let of = &mut registry;
        let durations: Durations = Family::new_with_constructor(histogram);
        of.register(
            "controller_runtime_reconcile_time_seconds",
            "Length of time per reconciliation per controller",
            durations.clone(),
        );
        // The format adds `_total` to counters.
        let results =
            family(of, "controller_runtime_reconcile", "Total number of reconciliations per controller");
        let errors = family(
            of,
            "controller_runtime_reconcile_errors",
            "Total number of reconciliation errors per controller",
        );
        let panics = family(
            of,
            "controller_runtime_reconcile_panics",
            "Total number of reconciliation panics per controller",
        );
        let active = family(
            of,
            "controller_runtime_active_workers",
            "Number of currently used workers per controller",
        );
        let leading = family(
            of,
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master",
        );
        Self { registry: Arc::new(registry), results, errors, panics, durations, active, leading }
    }
}

/// A new family, which the registry shows.
fn family<L, M>(registry: &mut Registry, name: &str, help: &str) -> Family<L, M>
where
    Family<L, M>: Metric + Default + Clone,
{
    let family = Family::default();
    registry.register(name, help, family.clone());
    family
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Shows a controller, before its first call.
    pub(crate) fn know<C: Controller>(&self) {
        let controller = name::<C>();
        for result in ["error", "requeue_after", "success"] {
            drop(self.results.get_or_create(&ResultLabels { controller, result }));
        }
        let labels = ControllerLabels { controller };
        drop(self.errors.get_or_create(&labels));
        drop(self.panics.get_or_create(&labels));
        drop(self.active.get_or_create(&labels));
    }

    /// A call begins; it is counted as under way until the value is dropped.
    pub(crate) fn begin<C: Controller>(&self) -> Call<'_> {
        let labels = ControllerLabels { controller: name::<C>() };
        self.active.get_or_create(&labels).inc();
        Call { metrics: self, labels, begun: Instant::now() }
    }

    /// Notes whether the manager holds its Lease.
    pub(crate) fn lead(&self, lease: &str, leads: bool) {
        self.leading.get_or_create(&LeaseLabels { name: lease.to_owned() }).set(leads.into());
    }

    /// In Prometheus' text format.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // A string takes everything.
        let _ = text::encode(&mut text, &self.registry);
        text
    }
}

/// A call under way.
pub(crate) struct Call<'m> {
    metrics: &'m Metrics,
    labels: ControllerLabels,
    begun: Instant,
}

impl Call<'_> {
    /// It has ended.
    pub(crate) fn end(self, outcome: Outcome<'_>) {
        let controller = self.labels.controller;
        let result = match outcome {
            Outcome::Done(action) if *action == Action::await_change() => "success",
            Outcome::Done(_) => "requeue_after",
            Outcome::Failed | Outcome::Panicked => "error",
        };
        self.metrics.results.get_or_create(&ResultLabels { controller, result }).inc();
        if result == "error" {
            self.metrics.errors.get_or_create(&self.labels).inc();
        }
        if matches!(outcome, Outcome::Panicked) {
            self.metrics.panics.get_or_create(&self.labels).inc();
        }
        let seconds = self.begun.elapsed().as_secs_f64();
        self.metrics.durations.get_or_create(&self.labels).observe(seconds);
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.metrics.active.get_or_create(&self.labels).dec();
    }
}

/// The name of a controller's type, without its modules and parameters.
fn name<C: Controller>() -> &'static str {
    let path = type_name::<C>();
    let path = path.split('<').next().unwrap_or(path);
    path.rsplit("::").next().unwrap_or(path)
}
