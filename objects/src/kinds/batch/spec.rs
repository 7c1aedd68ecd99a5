//! The rules of a job's spec, which a CronJob's template has, too (`validateJobSpec`, 1.37).

use std::collections::BTreeSet;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::is_qualified_name;

use super::{JOB, indexes};
use crate::kinds::fields::{domain_prefixed_path, items, not_negative, number, part, present, text, texts};
use crate::kinds::pod_spec::validate_template;

const PARALLELISM_OF_INDEXED_MAX: i64 = 100_000;
const FAILED_INDEXES_MAX: i64 = 100_000;
const HIGH_COMPLETIONS: i64 = 100_000;
const PARALLELISM_OF_HIGH_MAX: i64 = 10_000;
const FAILED_OF_HIGH_MAX: i64 = 10_000;
const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const PATTERNS_MAX: usize = 20;
const MANAGED_BY_BYTES_MAX: usize = 63;
const INDEXES_BYTES_MAX: usize = 64 * 1024;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

/// `true` for a job whose completions have indexes.
pub(super) fn is_indexed(spec: &Value) -> bool {
    text(spec, "completionMode") == "Indexed"
}

/// The errors in a job's spec but for those in its selector.
pub(super) fn validate(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        not_negative(spec, field, at, errors);
    }
    let per_index = number(spec, "backoffLimitPerIndex");
    if number(spec, "maxFailedIndexes").is_some() && per_index.is_none() {
        errors.push(Error::required(&at.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"));
    }
    if let Some(manager) = present(spec, "managedBy").and_then(Value::as_str) {
        let at = at.child("managedBy");
        domain_prefixed_path(manager, &at, errors);
        if manager.len() > MANAGED_BY_BYTES_MAX {
            errors.push(Error::too_long(&at, MANAGED_BY_BYTES_MAX));
        }
    }
    validate_mode(spec, at, errors);
    if let Some(policy) = present(spec, "podFailurePolicy") {
        validate_failure_policy(spec, policy, &at.child("podFailurePolicy"), errors);
    }
    if let Some(policy) = present(spec, "successPolicy") {
        let at = at.child("successPolicy");
        match is_indexed(spec) {
            true => validate_success_policy(spec, policy, &at, errors),
            false => {
                let shown = JOB.internal(&["spec", "successPolicy"], policy);
                errors.push(Error::invalid_raw(&at, shown, "requires indexed completion mode"));
            }
        }
    }
    validate_replacement(spec, &at.child("podReplacementPolicy"), errors);
    let at_template = at.child("template");
    validate_template(part(spec, "template"), &[], &at_template, errors);
    validate_restarts(spec, &at_template.child("spec"), errors);
}

/// The completion mode, and the numbers that depend on it.
fn validate_mode(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let mode = present(spec, "completionMode").and_then(Value::as_str);
    let [completions, parallelism, failed, per_index] =
        ["completions", "parallelism", "maxFailedIndexes", "backoffLimitPerIndex"].map(|of| number(spec, of));
    match mode {
        None | Some("NonIndexed") => {
            for (field, value) in [("backoffLimitPerIndex", per_index), ("maxFailedIndexes", failed)] {
                if let Some(value) = value {
                    errors.push(Error::invalid(&at.child(field), value, "requires indexed completion mode"));
                }
            }
            return;
        }
        Some("Indexed") => {}
        Some(other) => {
            let known = ["NonIndexed", "Indexed"];
            errors.push(Error::not_supported(&at.child("completionMode"), other, &known));
            return;
        }
    }
    let mut bound = |field: &str, value: Option<i64>, most: i64, detail: &str| {
        if let Some(value) = value.filter(|value| *value > most) {
            errors.push(Error::invalid(
                &at.child(field),
                value,
                format!("must be less than or equal to {detail}"),
            ));
        }
    };
    let of_mode = format!("{PARALLELISM_OF_INDEXED_MAX} when completion mode is Indexed");
    bound("parallelism", parallelism, PARALLELISM_OF_INDEXED_MAX, &of_mode);
    if let Some(completions) = completions {
        bound("maxFailedIndexes", failed, completions, "completions");
    }
    bound("maxFailedIndexes", failed, FAILED_INDEXES_MAX, &FAILED_INDEXES_MAX.to_string());
    let is_high = completions.is_some_and(|all| all > HIGH_COMPLETIONS) && per_index.is_some();
    if is_high {
        let of_high = |most: i64| {
            format!(
                "{most} when completions are above {HIGH_COMPLETIONS} and used with backoff limit per index"
            )
        };
        bound("parallelism", parallelism, PARALLELISM_OF_HIGH_MAX, &of_high(PARALLELISM_OF_HIGH_MAX));
        bound("maxFailedIndexes", failed, FAILED_OF_HIGH_MAX, &of_high(FAILED_OF_HIGH_MAX));
        if failed.is_none() {
            let detail = format!("must be specified when completions is above {HIGH_COMPLETIONS}");
            errors.push(Error::required(&at.child("maxFailedIndexes"), detail));
        }
    }
    if completions.is_none() {
        errors.push(Error::required(&at.child("completions"), "when completion mode is Indexed"));
    }
}

/// `validatePodFailurePolicy`
fn validate_failure_policy(spec: &Value, policy: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (at, rules) = (at.child("rules"), items(policy, "rules"));
    if rules.len() > RULES_MAX {
        errors.push(Error::too_many(&at, rules.len(), RULES_MAX));
    }
    let pod = spec.at(&["template", "spec"]).unwrap_or(&Value::Null);
    let containers = ["containers", "initContainers"].into_iter().flat_map(|of| items(pod, of));
    let names: BTreeSet<&str> = containers.map(|container| text(container, "name")).collect();
    let has_limit = number(spec, "backoffLimitPerIndex").is_some();
    for (index, rule) in rules.iter().enumerate() {
        if errors.is_full() {
            return;
        }
        validate_failure_rule(rule, has_limit, &names, &at.index(index), errors);
    }
}

/// The error in a text that has to be one of some, which are listed if there is none.
fn one_of_listed(value: &str, known: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    if value.is_empty() {
        let quoted: Vec<String> = known.iter().map(|one| format!("\"{one}\"")).collect();
        errors.push(Error::required(at, format!("valid values: [{}]", quoted.join(" "))));
    } else if !known.contains(&value) {
        errors.push(Error::not_supported(at, value, known));
    }
}

fn validate_failure_rule(
    rule: &Value,
    has_limit: bool,
    names: &BTreeSet<&str>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let (action, at_action) = (text(rule, "action"), at.child("action"));
    one_of_listed(action, &ACTIONS, &at_action, errors);
    if action == "FailIndex" && !has_limit {
        errors.push(Error::invalid(&at_action, action, "requires the backoffLimitPerIndex to be set"));
    }
    let (codes, patterns) = (present(rule, "onExitCodes"), items(rule, "onPodConditions"));
    if let Some(codes) = codes {
        validate_exit_codes(codes, names, &at.child("onExitCodes"), errors);
    }
    let at_patterns = at.child("onPodConditions");
    if patterns.len() > PATTERNS_MAX {
        errors.push(Error::too_many(&at_patterns, patterns.len(), PATTERNS_MAX));
    }
    for (index, pattern) in patterns.iter().enumerate() {
        let at = at_patterns.index(index);
        let kind = text(pattern, "type");
        texts(is_qualified_name(kind), kind, &at.child("type"), errors);
        one_of_listed(text(pattern, "status"), &STATUSES, &at.child("status"), errors);
    }
    match (codes.is_some(), patterns.is_empty()) {
        (true, false) => errors.push(Error::invalid_part(
            at,
            "specifying both OnExitCodes and OnPodConditions is not supported",
        )),
        (false, true) => errors
            .push(Error::invalid_part(at, "specifying one of OnExitCodes and OnPodConditions is required")),
        _ => {}
    }
}

/// `validatePodFailurePolicyRuleOnExitCodes`
fn validate_exit_codes(codes: &Value, names: &BTreeSet<&str>, at: &Path<'_>, errors: &mut ErrorList) {
    let operator = text(codes, "operator");
    one_of_listed(operator, &OPERATORS, &at.child("operator"), errors);
    let name = present(codes, "containerName").and_then(Value::as_str);
    if let Some(name) = name.filter(|name| !names.contains(name)) {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.push(Error::invalid(&at.child("containerName"), name, detail));
    }
    let (values, at) = (items(codes, "values"), at.child("values"));
    if values.is_empty() {
        errors.push(Error::invalid(&at, part(codes, "values").clone(), "at least one value is required"));
    } else if values.len() > EXIT_CODES_MAX {
        errors.push(Error::too_many(&at, values.len(), EXIT_CODES_MAX));
    }
    let (mut seen, mut before, mut is_ordered) = (BTreeSet::new(), i64::MIN, true);
    for (index, value) in values.iter().enumerate() {
        let (at, value) = (at.index(index), value.as_i64().unwrap_or_default());
        if operator == "In" && value == 0 {
            errors.push(Error::invalid(&at, value, "must not be 0 for the In operator"));
        }
        if !seen.insert(value) {
            errors.push(Error::duplicate(&at, value));
        }
        is_ordered &= before <= value;
        before = value;
    }
    if !is_ordered {
        errors.push(Error::invalid(&at, part(codes, "values").clone(), "must be ordered"));
    }
}

/// `validateSuccessPolicy`
fn validate_success_policy(spec: &Value, policy: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (at, rules) = (at.child("rules"), items(policy, "rules"));
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(Error::required(&at, detail));
    }
    if rules.len() > RULES_MAX {
        errors.push(Error::too_many(&at, rules.len(), RULES_MAX));
    }
    // Upstream's handler panics on indexes without completions; that there are none is an error already.
    let completions = number(spec, "completions").unwrap_or_default();
    for (index, rule) in rules.iter().enumerate() {
        if errors.is_full() {
            return;
        }
        validate_success_rule(rule, completions, &at.index(index), errors);
    }
}

fn validate_success_rule(rule: &Value, completions: i64, at: &Path<'_>, errors: &mut ErrorList) {
    let indexes = present(rule, "succeededIndexes").and_then(Value::as_str);
    let count = number(rule, "succeededCount");
    if indexes.is_none() && count.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(Error::required(at, detail));
    }
    let mut total = 0;
    if let Some(indexes) = indexes {
        let at = at.child("succeededIndexes");
        if indexes.len() > INDEXES_BYTES_MAX {
            errors.push(Error::too_long(&at, INDEXES_BYTES_MAX));
        }
        match indexes::count(indexes, completions) {
            Ok(all) => total = all,
            Err(why) => {
                errors.push(Error::invalid(&at, indexes, format!("error parsing succeededIndexes: {why}")));
            }
        }
    }
    let Some(count) = count else { return };
    not_negative(rule, "succeededCount", at, errors);
    let at = at.child("succeededCount");
    if count > completions {
        let detail =
            format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.push(Error::invalid(&at, count, detail));
    }
    if indexes.is_some() && count > total {
        let detail = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.push(Error::invalid(&at, count, detail));
    }
}

/// `validatePodReplacementPolicy`
fn validate_replacement(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(policy) = present(spec, "podReplacementPolicy").and_then(Value::as_str) else { return };
    let known: &[&str] = match present(spec, "podFailurePolicy") {
        Some(_) => &["Failed"],
        None => &["Failed", "TerminatingOrFailed"],
    };
    if !known.contains(&policy) {
        errors.push(Error::not_supported(at, policy, known));
    }
}

/// The pods of a job end.
fn validate_restarts(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let policy = spec.text_at(&["template", "spec", "restartPolicy"]);
    let at = at.child("restartPolicy");
    match policy {
        "" | "Always" => errors.push(Error::required(&at, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if present(spec, "podFailurePolicy").is_some() => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.push(Error::invalid(&at, policy, detail));
        }
        "OnFailure" | "Never" => {}
        _ => errors.push(Error::not_supported(&at, policy, &["OnFailure", "Never"])),
    }
}
