//! The defaults of Jobs and CronJobs (`pkg/apis/batch/v1/defaults.go`, 1.37).

use kindom_api::{Map, Value};

use crate::kinds::fields::{default_nil, default_zero, items_mut, number, part, present, present_mut};
use crate::kinds::pod_spec::defaults::fill as fill_pod;

/// `SetObjectDefaults_Job`
pub(super) fn job(job: &mut Value) {
    default_nil(job, "spec", Map::new());
    let Some(spec) = job.get_mut("spec") else { return };
    if present(spec, "completions").is_none() && present(spec, "parallelism").is_none() {
        default_nil(spec, "completions", 1);
    }
    default_nil(spec, "parallelism", 1);
    let limit = if number(spec, "backoffLimitPerIndex").is_some() { i64::from(i32::MAX) } else { 6 };
    default_nil(spec, "backoffLimit", limit);
    default_nil(spec, "completionMode", "NonIndexed");
    default_nil(spec, "suspend", false);
    let has_policy = present(spec, "podFailurePolicy").is_some();
    let replacement = if has_policy { "Failed" } else { "TerminatingOrFailed" };
    default_nil(spec, "podReplacementPolicy", replacement);
    default_nil(spec, "manualSelector", false);
    parts(spec);
    labels(job);
}

/// Gives a job without labels those of its template.
pub(super) fn labels(job: &mut Value) {
    let of_template = job.at(&["spec", "template", "metadata", "labels"]).and_then(Value::as_object);
    let Some(labels) = of_template.filter(|labels| !labels.is_empty()).cloned() else { return };
    let own = job.at(&["metadata", "labels"]).and_then(Value::as_object);
    if own.is_none_or(Map::is_empty) {
        default_nil(job, "metadata", Map::new());
        if let Some(metadata) = job.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("labels", labels);
        }
    }
}

/// `SetObjectDefaults_CronJob`
pub(super) fn cron_job(cron_job: &mut Value) {
    default_nil(cron_job, "spec", Map::new());
    let Some(spec) = cron_job.get_mut("spec") else { return };
    default_zero(spec, "concurrencyPolicy", "Allow");
    default_nil(spec, "suspend", false);
    default_nil(spec, "successfulJobsHistoryLimit", 3);
    default_nil(spec, "failedJobsHistoryLimit", 1);
    if let Some(spec) = present_mut(spec, "jobTemplate").and_then(|template| present_mut(template, "spec")) {
        parts(spec);
    }
}

/// The defaults within the spec of a job.
fn parts(spec: &mut Value) {
    if let Some(policy) = present_mut(spec, "podFailurePolicy") {
        for rule in items_mut(policy, "rules") {
            items_mut(rule, "onPodConditions").for_each(|pattern| default_zero(pattern, "status", "True"));
        }
    }
    default_nil(spec, "template", Map::new());
    let Some(template) = spec.get_mut("template") else { return };
    if part(template, "spec").is_null() {
        default_nil(template, "spec", Map::new());
    }
    template.get_mut("spec").into_iter().for_each(fill_pod);
}
