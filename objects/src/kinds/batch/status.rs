//! The rules of a job's status (`ValidateJobUpdateStatus`, `getStatusValidationOptions`, 1.37). Most look only at what changes: a
//! status that was wrong before can be written.

use std::collections::HashSet;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::time;

use super::spec::is_indexed;
use super::{JOB, indexes};
use crate::kinds::fields::{items, not_negative, number, part, present, same, text};
use crate::kinds::metadata_update;
use crate::kinds::status::is_true;

/// A status before and after a write, by the conditions and fields that the rules look at.
struct Change<'a> {
    spec: &'a Value,
    new: &'a Value,
    old: &'a Value,
}

impl Change<'_> {
    fn is(&self, condition: &str) -> bool {
        is_true(self.new, condition)
    }

    fn was(&self, condition: &str) -> bool {
        is_true(self.old, condition)
    }

    fn turns(&self, condition: &str) -> bool {
        self.is(condition) != self.was(condition)
    }

    fn is_finished(&self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn finishes(&self) -> bool {
        self.is_finished() != (self.was("Complete") || self.was("Failed"))
    }

    fn differs(&self, field: &str) -> bool {
        !same(present(self.new, field), present(self.old, field))
    }

    fn number(&self, field: &str) -> i64 {
        number(self.new, field).unwrap_or_default()
    }

    fn shown(&self, field: &str) -> Value {
        part(self.new, field).clone()
    }
}

/// The errors in a change of a job's status.
pub(super) fn validate_update(job: &Value, old: &Value) -> ErrorList {
    let mut errors = metadata_update(job, old);
    let change = Change { spec: part(job, "spec"), new: part(job, "status"), old: part(old, "status") };
    let at = Path::new("status");
    validate_counts(&change, &at, &mut errors);
    validate_conditions(&change, &at, &mut errors);
    validate_times(&change, &at, &mut errors);
    validate_end(&change, &at, &mut errors);
    validate_indexes(&change, &at, &mut errors);
    errors
}

fn validate_counts(change: &Change<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        not_negative(change.new, field, at, errors);
    }
    let (mut seen, uncounted, path) =
        (HashSet::new(), part(change.new, "uncountedTerminatedPods"), at.child("uncountedTerminatedPods"));
    for field in ["succeeded", "failed"] {
        let path = path.child(field);
        for (index, uid) in items(uncounted, field).iter().enumerate() {
            let (at, uid) = (path.index(index), uid.as_str().unwrap_or_default());
            if uid.is_empty() {
                errors.push(Error::invalid(&at, uid, "must not be empty"));
            } else if !seen.insert(uid) {
                errors.push(Error::duplicate(&at, uid));
            }
        }
    }
    let (ready, active) = (change.number("ready"), change.number("active"));
    if (change.differs("ready") || change.differs("active"))
        && present(change.new, "ready").is_some()
        && ready > active
    {
        errors.push(Error::invalid(&at.child("ready"), ready, "cannot set more ready pods than active"));
    }
    let old = |field| number(change.old, field).unwrap_or_default();
    if change.number("failed") < old("failed") {
        let detail = "cannot decrease the failed counter";
        errors.push(Error::invalid(&at.child("failed"), change.number("failed"), detail));
    }
    // A job with as many completions as it has pods may be scaled down.
    let may_shrink =
        is_indexed(change.spec) && number(change.spec, "completions") == number(change.spec, "parallelism");
    if !may_shrink && change.number("succeeded") < old("succeeded") {
        let detail = "cannot decrease the succeeded counter";
        errors.push(Error::invalid(&at.child("succeeded"), change.number("succeeded"), detail));
    }
}

fn validate_conditions(change: &Change<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    let at = at.child("conditions");
    let [complete, failed, target, criteria] =
        ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"].map(|of| change.is(of));
    let [completes, fails] = ["Complete", "Failed"].map(|of| change.turns(of));
    let has_policy = present(change.spec, "successPolicy").is_some();
    let rules = [
        ((completes || fails) && complete && failed, "cannot set Complete=True and Failed=true conditions"),
        (
            (completes || change.turns("FailureTarget")) && complete && target,
            "cannot set Complete=True and FailureTarget=true conditions",
        ),
        (
            (fails || change.differs("failedIndexes")) && failed && !target,
            "cannot set Failed=True condition without the FailureTarget=true condition",
        ),
        (
            (completes || change.turns("SuccessCriteriaMet")) && complete && !criteria,
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        ),
        (criteria && failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions"),
        (criteria && target, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"),
        (
            has_policy && !criteria && complete,
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
        ),
        (change.was("Failed") && !failed, "cannot disable the terminal Failed=True condition"),
        (change.was("Complete") && !complete, "cannot disable the terminal Complete=True condition"),
        (change.was("FailureTarget") && !target, "cannot disable the terminal FailureTarget=True condition"),
        (
            change.was("SuccessCriteriaMet") && !criteria,
            "cannot disable the SuccessCriteriaMet=True condition",
        ),
        (
            change.was("Complete") && !change.was("SuccessCriteriaMet") && criteria,
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
        ),
    ];
    errors.extend(
        rules.iter().filter(|(is_broken, _)| *is_broken).map(|(_, why)| Error::invalid_part(&at, *why)),
    );
}

fn validate_times(change: &Change<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    let [start, completion] = ["startTime", "completionTime"].map(|of| present(change.new, of));
    let [starts, ends] = ["startTime", "completionTime"].map(|of| change.differs(of));
    let (at_start, at_completion) = (at.child("startTime"), at.child("completionTime"));
    let shown = || change.shown("completionTime");
    let (complete, completes) = (change.is("Complete"), change.turns("Complete"));
    if (completes || ends) && completion.is_some() && !complete {
        let detail = "cannot set completionTime when there is no Complete=True condition";
        errors.push(Error::invalid(&at_completion, shown(), detail));
    }
    if (completes || ends) && completion.is_none() && complete {
        errors.push(Error::required(&at_completion, "completionTime is required for Complete jobs"));
    }
    let seconds = |time: Option<&Value>| time.and_then(Value::as_str).and_then(|text| time::parse(text).ok());
    if let (true, Some(start), Some(end)) = (starts || ends, seconds(start), seconds(completion))
        && end < start
    {
        errors.push(Error::invalid(&at_completion, shown(), "must be equal to or after `startTime`"));
    }
    if completion.is_some() && present(change.old, "completionTime").is_some() && ends {
        errors.push(Error::invalid(&at_completion, shown(), "field is immutable"));
    }
    let is_suspended = part(change.spec, "suspend") == &Value::Bool(true);
    let is_empty = is_suspended && number(change.spec, "completions") == Some(0);
    if (change.finishes() || starts) && !is_empty && start.is_none() && change.is_finished() {
        errors.push(Error::required(&at_start, "startTime is required for finished job"));
    }
    let resumes = change.was("Suspended")
        && items(change.new, "conditions")
            .iter()
            .any(|of| text(of, "type") == "Suspended" && text(of, "status") == "False");
    if starts && !resumes && present(change.old, "startTime").is_some() && !is_suspended {
        let detail = "field is immutable for unsuspended job once set";
        errors.push(Error::invalid(&at_start, change.shown("startTime"), detail));
    }
}

/// A job that has ended has no pods.
fn validate_end(change: &Change<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    if !change.is_finished() {
        return;
    }
    for field in ["active", "terminating"] {
        if (change.finishes() || change.differs(field)) && change.number(field) > 0 {
            let detail = format!("{field}>0 is invalid for finished job");
            errors.push(Error::invalid(&at.child(field), change.number(field), detail));
        }
    }
    let (field, pods) = ("uncountedTerminatedPods", part(change.new, "uncountedTerminatedPods"));
    let has_pods = ["failed", "succeeded"].iter().any(|of| !items(pods, of).is_empty());
    if (change.finishes() || change.differs(field)) && has_pods {
        let shown = JOB.internal(&["status", field], pods);
        errors.push(Error::invalid_raw(&at.child(field), shown, "must be empty for finished job"));
    }
}

fn validate_indexes(change: &Change<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    let completions = number(change.spec, "completions");
    let has_limit = number(change.spec, "backoffLimitPerIndex").is_some();
    let completed = text(change.new, "completedIndexes");
    let failed = present(change.new, "failedIndexes").and_then(Value::as_str);
    let (at_completed, at_failed) = (at.child("completedIndexes"), at.child("failedIndexes"));
    let (completes, fails) = (change.differs("completedIndexes"), change.differs("failedIndexes"));
    let malformed = |field: &str, text: &str, at: &Path<'_>| {
        let why = completions.and_then(|all| indexes::count(text, all).err())?;
        Some(Error::invalid(at, text, format!("error parsing {field}: {why}")))
    };
    if completes {
        errors.extend(malformed("completedIndexes", completed, &at_completed));
        if !completed.is_empty() && !is_indexed(change.spec) {
            let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.push(Error::invalid(&at_completed, completed, detail));
        }
    }
    let Some(failed) = failed else { return };
    if fails && has_limit {
        errors.extend(malformed("failedIndexes", failed, &at_failed));
    }
    if fails && !has_limit {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.push(Error::invalid(&at_failed, failed, detail));
    }
    if let Some(index) = completions.and_then(|all| indexes::overlap(completed, failed, all))
        && (fails || completes)
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.push(Error::invalid(&at_failed, failed, detail));
    }
}
