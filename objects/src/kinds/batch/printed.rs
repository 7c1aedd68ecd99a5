//! The tables of Jobs and CronJobs (`printJob`, `printCronJob` of `pkg/printers/internalversion/printers.go`, 1.37).

use kindom_api::Value;
use kindom_api::meta::time;
use kindom_schema::columns::{TableColumn, age, name_column};

use super::{CRON_JOB, JOB, JOB_SPEC};
use crate::kinds::fields::{items, number, part, present, text};
use crate::kinds::pod_spec::container_cells;
use crate::kinds::status::is_true;
use crate::kinds::{label_selector, table_column};

const NONE: &str = "<none>";

/// The columns of wide tables.
fn wide(selector: &'static str) -> [TableColumn; 3] {
    [
        table_column("Containers", "string", 1, "Names of each container in the template."),
        table_column("Images", "string", 1, "Images referenced by each container in the template."),
        table_column("Selector", "string", 1, selector),
    ]
}

pub(super) fn job_columns() -> Vec<TableColumn> {
    let mut columns = vec![
        name_column(),
        table_column("Status", "string", 0, "Status of the job."),
        table_column("Completions", "string", 0, JOB.text_of(&["status", "succeeded"])),
        table_column("Duration", "string", 0, "Time required to complete the job."),
        table_column("Age", "string", 0, ""),
    ];
    columns.extend(wide(JOB.text_of(&["spec", "selector"])));
    columns
}

pub(super) fn cron_job_columns() -> Vec<TableColumn> {
    let of = |path: &[&str]| CRON_JOB.text_of(path);
    let mut columns = vec![
        name_column(),
        table_column("Schedule", "string", 0, of(&["spec", "schedule"])),
        table_column("Timezone", "string", 0, of(&["spec", "timeZone"])),
        table_column("Suspend", "boolean", 0, of(&["spec", "suspend"])),
        table_column("Active", "integer", 0, of(&["status", "active"])),
        table_column("Last Schedule", "string", 0, of(&["status", "lastScheduleTime"])),
        table_column("Age", "string", 0, ""),
    ];
    columns.extend(wide(JOB.text_of(&["spec", "selector"])));
    columns
}

/// The time from a job's start to its end, or to now.
fn duration(status: &Value, now: i64) -> String {
    let Some(start) = present(status, "startTime").and_then(Value::as_str) else { return String::new() };
    let end = present(status, "completionTime").and_then(Value::as_str);
    let end = end.map_or(Some(now), |end| time::parse(end).ok());
    end.map(|end| age(start, end)).unwrap_or_default()
}

pub(super) fn job(job: &Value, now: i64) -> Vec<Value> {
    let [metadata, spec, status] = ["metadata", "spec", "status"].map(|of| part(job, of));
    let succeeded = number(status, "succeeded").unwrap_or_default();
    let completions = match (number(spec, "completions"), number(spec, "parallelism")) {
        (Some(all), _) => format!("{succeeded}/{all}"),
        (None, Some(parallelism)) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let is_terminating = present(metadata, "deletionTimestamp").is_some();
    let shown = match () {
        () if is_true(status, "Complete") => "Complete",
        () if is_true(status, "Failed") => "Failed",
        () if is_terminating => "Terminating",
        () => {
            let others = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
            others.into_iter().find(|of| is_true(status, of)).unwrap_or("Running")
        }
    };
    let mut cells: Vec<Value> = vec![
        text(metadata, "name").into(),
        shown.into(),
        completions.into(),
        duration(status, now).into(),
        age(text(metadata, "creationTimestamp"), now).into(),
    ];
    cells.extend(container_cells(part(spec, "template")).map(Value::from));
    cells.push(label_selector::cell(spec.get("selector")).into());
    cells
}

pub(super) fn cron_job(cron_job: &Value, now: i64) -> Vec<Value> {
    let [metadata, spec, status] = ["metadata", "spec", "status"].map(|of| part(cron_job, of));
    let job = cron_job.at(&JOB_SPEC).unwrap_or(&Value::Null);
    let last = present(status, "lastScheduleTime").and_then(Value::as_str);
    let suspend = present(spec, "suspend").map_or_else(
        || "<unset>".to_owned(),
        |suspend| {
            // Upstream's column is a boolean's, and its cell a text.
            let is = suspend == &Value::Bool(true);
            if is { "True".to_owned() } else { "False".to_owned() }
        },
    );
    let mut cells: Vec<Value> = vec![
        text(metadata, "name").into(),
        text(spec, "schedule").into(),
        present(spec, "timeZone").and_then(Value::as_str).unwrap_or(NONE).into(),
        suspend.into(),
        Value::Int(i64::try_from(items(status, "active").len()).unwrap_or(i64::MAX)),
        last.map_or_else(|| NONE.to_owned(), |last| age(last, now)).into(),
        age(text(metadata, "creationTimestamp"), now).into(),
    ];
    cells.extend(container_cells(part(job, "template")).map(Value::from));
    cells.push(label_selector::cell(job.get("selector")).into());
    cells
}
