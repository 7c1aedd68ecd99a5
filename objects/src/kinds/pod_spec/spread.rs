//! The rules of topology spread (`validateTopologySpreadConstraints`, 1.37).

use std::collections::BTreeMap;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};

use super::affinity;
use crate::kinds::fields::{items, number, present, text};
use crate::kinds::label_selector;

const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
const POLICIES: [&str; 2] = ["Honor", "Ignore"];
const POSITIVE: &str = "must be greater than zero";

pub(super) fn validate(spec: &Value, all: &Path<'_>, errors: &mut ErrorList) {
    let constraints = items(spec, "topologySpreadConstraints");
    let key_of = |constraint| (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
    let mut left = BTreeMap::<(&str, &str), usize>::new();
    for constraint in constraints {
        *left.entry(key_of(constraint)).or_default() += 1;
    }
    for (index, constraint) in constraints.iter().enumerate() {
        let at = all.index(index);
        let skew = number(constraint, "maxSkew").unwrap_or_default();
        if skew <= 0 {
            errors.push(Error::invalid(&at.child("maxSkew"), skew, POSITIVE));
        }
        let (key, action) = key_of(constraint);
        if key.is_empty() {
            errors.push(Error::required(&at.child("topologyKey"), "can not be empty"));
        }
        if !ACTIONS.contains(&action) {
            errors.push(Error::not_supported(&at.child("whenUnsatisfiable"), action, &ACTIONS));
        }
        let others = left.entry((key, action)).or_default();
        *others = others.saturating_sub(1);
        if *others > 0 {
            let both = at.child("{topologyKey, whenUnsatisfiable}");
            errors.push(Error::duplicate(&both, format!("{{{key}, {action}}}")));
        }
        if let Some(domains) = number(constraint, "minDomains") {
            let at = at.child("minDomains");
            if domains <= 0 {
                errors.push(Error::invalid(&at, domains, POSITIVE));
            }
            if action != "DoNotSchedule" {
                let detail =
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.push(Error::invalid(&at, domains, detail));
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = present(constraint, field).and_then(Value::as_str);
            if let Some(policy) = policy.filter(|policy| !POLICIES.contains(policy)) {
                errors.push(Error::not_supported(&at.child(field), policy, &POLICIES));
            }
        }
        affinity::validate_keys(constraint, &at, errors);
        if let Some(selector) = present(constraint, "labelSelector") {
            label_selector::validate(selector, &at.child("labelSelector"), errors);
        }
    }
}
