//! The rules of CronJobs (`ValidateCronJobCreate`, `ValidateCronJobUpdate`, 1.37).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::name_is_dns_subdomain;
use kindom_api::meta::validate_object_meta;

use super::{schedule, spec, time_zone};
use crate::kinds::fields::{not_negative, one_of, part, present, text};
use crate::kinds::label_selector::printed;
use crate::kinds::metadata_update;

/// The names of jobs end in a hyphen and ten digits.
const NAME_BYTES_MAX: usize = 52;
const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];

/// The errors in a new CronJob.
pub(super) fn validate(cron_job: &Value) -> ErrorList {
    let (metadata, at) = (part(cron_job, "metadata"), Path::new("metadata"));
    let mut errors = validate_object_meta(metadata, true, &name_is_dns_subdomain, &at);
    validate_spec(part(cron_job, "spec"), None, &mut errors);
    let name = text(metadata, "name");
    if name.len() > NAME_BYTES_MAX {
        errors.push(Error::invalid(&at.child("name"), name, "must be no more than 52 characters"));
    }
    errors
}

/// The errors in a change of a CronJob; its name may be longer.
pub(super) fn validate_update(cron_job: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(cron_job, old);
    validate_spec(part(cron_job, "spec"), Some(part(old, "spec")), &mut errors);
    errors
}

fn validate_spec(of: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let at = Path::new("spec");
    let zone = present(of, "timeZone").and_then(Value::as_str);
    match text(of, "schedule") {
        "" => errors.push(Error::required(&at.child("schedule"), "")),
        schedule => {
            let has_zone = old.is_some_and(|old| text(old, "schedule").contains("TZ"));
            validate_schedule(schedule, has_zone, zone, &at.child("schedule"), errors);
        }
    }
    not_negative(of, "startingDeadlineSeconds", &at, errors);
    if let Some(zone) = zone
        && old.is_none_or(|old| present(old, "timeZone") != present(of, "timeZone"))
    {
        time_zone::validate(zone, &at.child("timeZone"), errors);
    }
    one_of(of, "concurrencyPolicy", &POLICIES, &at, errors);
    let template = at.child("jobTemplate");
    let at_job = template.child("spec");
    let job = of.at(&["jobTemplate", "spec"]).unwrap_or(&Value::Null);
    spec::validate(job, &at_job, errors);
    if let Some(selector) = present(job, "selector") {
        let detail = "`selector` will be auto-generated";
        errors.push(Error::invalid_raw(&at_job.child("selector"), printed(selector), detail));
    }
    if part(job, "manualSelector") == &Value::Bool(true) {
        errors.push(Error::not_supported(&at_job.child("manualSelector"), true, &["nil", "false"]));
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        not_negative(of, field, &at, errors);
    }
}

/// `validateScheduleFormat`; a schedule that names its time zone may stay.
fn validate_schedule(
    schedule: &str,
    has_zone: bool,
    zone: Option<&str>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if let Err(why) = schedule::parse(schedule) {
        errors.push(Error::invalid(at, schedule, why));
    }
    if !schedule.contains("TZ") {
        return;
    }
    let detail = match (has_zone, zone) {
        (true, Some(_)) => "cannot use both timeZone field and TZ or CRON_TZ in schedule",
        (true, None) => return,
        (false, _) => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
    };
    errors.push(Error::invalid(at, schedule, detail));
}
