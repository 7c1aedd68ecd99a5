//! Job and CronJob, `batch/v1`. They are kept for whoever reads them: nothing runs a pod here.
//!
//! Sources: `pkg/registry/batch/{job,cronjob}/strategy.go`, `pkg/registry/batch/job/storage/storage.go`,
//! `pkg/apis/batch/v1/defaults.go`, `pkg/apis/batch/validation/validation.go`, `pkg/api/job/warnings.go`,
//! `pkg/printers/internalversion/printers.go` (1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{ErrorList, go_quote};
use kindom_api::meta::names::is_dns1123_label;
use kindom_schema::columns::Columns;

use crate::Propagation;
use crate::declared::Declared;
use crate::kinds::fields::{number, part, text};
use crate::kinds::generation;
use crate::kinds::status::{is_of_status, keep_other_part, reset};
use crate::version::SelectableField;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

mod cron_job;
mod defaults;
mod indexes;
mod job;
mod printed;
mod schedule;
mod selector;
mod spec;
mod status;
mod time_zone;

const API_VERSION: &str = "batch/v1";
const DELETE_WARNING: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
                              them or set propagationPolicy=Orphan to suppress this warning";

static JOB: Declared = Declared::catalogued(API_VERSION, "Job");
static CRON_JOB: Declared = Declared::catalogued(API_VERSION, "CronJob");

/// Jobs and CronJobs as built-in types.
pub(super) fn batch() -> [TypeSpec; 2] {
    let jobs = Names { categories: vec!["all".into()], ..Names::of_kind("jobs", "Job") };
    let cron_jobs = Names {
        short_names: vec!["cj".into()],
        categories: vec!["all".into()],
        ..Names::of_kind("cronjobs", "CronJob")
    };
    let of = |names, columns, strategy| {
        let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
        TypeSpec::built_in("batch", names, Scope::Namespaced, versions, strategy)
    };
    [
        of(jobs, Columns::rows(printed::job_columns(), printed::job), Arc::new(Jobs)),
        of(cron_jobs, Columns::rows(printed::cron_job_columns(), printed::cron_job), Arc::new(CronJobs)),
    ]
}

/// The rules of Jobs.
struct Jobs;

/// The rules of CronJobs.
struct CronJobs;

/// The path of the spec of a CronJob's jobs.
const JOB_SPEC: [&str; 3] = ["spec", "jobTemplate", "spec"];

/// Drops a field whose feature is off, unless the stored object has it (`DropDisabledFields`).
fn drop_scheduling(spec: Option<&mut Value>, old: Option<&Value>) {
    let is_in_use = old.is_some_and(|old| !part(old, "scheduling").is_null());
    if let Some(spec) = spec.and_then(Value::as_object_mut).filter(|_| !is_in_use) {
        spec.remove("scheduling");
    }
}

/// The spec of a CronJob's jobs, for changing it.
fn job_spec_mut(object: &mut Value) -> Option<&mut Value> {
    JOB_SPEC.iter().try_fold(object, |of, field| of.get_mut(field))
}

/// Warnings about a name that is no label of DNS, and about far too many indexes (`WarningsForJobSpec`).
fn warnings(object: &Value, old: Option<&Value>, spec: &[&str]) -> Vec<String> {
    let mut warnings = Vec::new();
    let wrong = is_dns1123_label(object.text_at(&["metadata", "name"]));
    if old.is_none() && !wrong.is_empty() {
        let why = wrong.join(" ");
        warnings.push(format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is \
             recommended: [{why}]"
        ));
    }
    let generation = |object: &Value| object.at(&["metadata", "generation"]).cloned();
    if old.is_some_and(|old| generation(old) == generation(object)) {
        return warnings;
    }
    let of = object.at(spec).unwrap_or(&Value::Null);
    let above = |field, limit| number(of, field).is_some_and(|number| number > limit);
    if text(of, "completionMode") == "Indexed"
        && above("completions", 100_000)
        && above("parallelism", 10_000)
    {
        warnings.push(format!(
            "{}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes \
             might not be able to track completedIndexes when a big number of indexes fail",
            spec.join(".")
        ));
    }
    warnings
}

impl Strategy for Jobs {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&JOB)
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Status]
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        Subresource::reset_fields(cx.subresource)
    }

    fn selectable(&self) -> Vec<SelectableField> {
        vec![SelectableField::at("status.successful", &["status.succeeded"]).or("0")]
    }

    fn unselectable(&self, field: &str) -> String {
        format!("field label {} not supported for Job", go_quote(field))
    }

    /// The pods of a job stay where its delete does not say otherwise, as they did in the first versions.
    fn default_propagation(&self) -> Propagation {
        Propagation::OrphanUnlessSaid
    }

    fn propagation_warning(&self) -> Option<&'static str> {
        Some(DELETE_WARNING)
    }

    fn fill_defaults(&self, job: &mut Value) {
        defaults::job(job);
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, job: &mut Value) {
        reset(cx, job);
        selector::generate(job);
        generation::first(job);
        drop_scheduling(job.get_mut("spec"), None);
    }

    fn validate(&self, _: &RuleContext<'_>, job: &Value) -> ErrorList {
        job::validate(job)
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, job: &mut Value, old: &Value) {
        keep_other_part(cx, job, old);
        if !is_of_status(cx) {
            drop_scheduling(job.get_mut("spec"), old.get("spec"));
            generation::next_if_changed(job, old, "spec");
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        job: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        match is_of_status(cx) {
            true => status::validate_update(job, old),
            false => job::validate_update(job, old),
        }
    }

    /// Upstream gives a job without labels those of its template whenever it reads it.
    fn canonicalize(&self, _: &RuleContext<'_>, job: &mut Value) {
        defaults::labels(job);
        JOB.declaration().shape.forget_empty(job);
    }

    fn warnings(&self, cx: &RuleContext<'_>, job: &Value, old: Option<&Value>) -> Vec<String> {
        if is_of_status(cx) { Vec::new() } else { warnings(job, old, &["spec"]) }
    }
}

impl Strategy for CronJobs {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&CRON_JOB)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["batch/v1beta1"]
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Status]
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        Subresource::reset_fields(cx.subresource)
    }

    fn fill_defaults(&self, cron_job: &mut Value) {
        defaults::cron_job(cron_job);
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, cron_job: &mut Value) {
        reset(cx, cron_job);
        generation::first(cron_job);
        drop_scheduling(job_spec_mut(cron_job), None);
    }

    fn validate(&self, _: &RuleContext<'_>, cron_job: &Value) -> ErrorList {
        cron_job::validate(cron_job)
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, cron_job: &mut Value, old: &Value) {
        keep_other_part(cx, cron_job, old);
        if !is_of_status(cx) {
            drop_scheduling(job_spec_mut(cron_job), old.at(&JOB_SPEC));
            generation::next_if_changed(cron_job, old, "spec");
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        cron_job: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        match is_of_status(cx) {
            true => ErrorList::new(),
            false => cron_job::validate_update(cron_job, old),
        }
    }

    fn warnings(&self, cx: &RuleContext<'_>, cron_job: &Value, old: Option<&Value>) -> Vec<String> {
        if is_of_status(cx) {
            return Vec::new();
        }
        let mut warnings = warnings(cron_job, old, &JOB_SPEC);
        if old.is_some() && cron_job.text_at(&["spec", "schedule"]).contains("TZ") {
            warnings.push(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                    .to_owned(),
            );
        }
        warnings
    }
}
