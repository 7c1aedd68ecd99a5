//! Labels of nodes that have better names by now (`pkg/api/node/util.go`, 1.37).

use kindom_api::Value;
use kindom_api::field::Path;
use kindom_api::meta::names::is_label_value;

use crate::kinds::fields::{items, text};
use crate::kinds::keyed::entries;

const DEPRECATED: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

/// The advice about a label, if it is an old one (`GetNodeLabelDeprecatedMessage`).
pub(super) fn advice(label: &str) -> Option<&'static str> {
    DEPRECATED.iter().find(|(old, _)| *old == label).map(|(_, advice)| *advice)
}

/// Warnings about a term that selects nodes (`GetWarningsForNodeSelectorTerm`).
pub(super) fn of_term(term: &Value, with_values: bool, at: &Path<'_>, warnings: &mut Vec<String>) {
    let all = at.child("matchExpressions");
    for (index, requirement) in items(term, "matchExpressions").iter().enumerate() {
        let (at, key) = (all.index(index), text(requirement, "key"));
        if let Some(advice) = advice(key) {
            warnings.push(format!("{}: {key} is {advice}", at.child("key")));
        }
        let values = at.child("values");
        for (index, value) in items(requirement, "values").iter().enumerate().filter(|_| with_values) {
            let value = value.as_str().unwrap_or_default();
            for why in is_label_value(value) {
                warnings.push(format!("{}: {value} is invalid, {why}", values.index(index)));
            }
        }
    }
}

/// Warnings of old labels in a selector of nodes (`GetWarningsForNodeSelector`).
pub(super) fn warnings(selector: &Value, at: &Path<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    of_term(selector, false, at, &mut warnings);
    let labels = at.child("matchLabels");
    let of_label =
        |(label, _): (&str, &str)| advice(label).map(|advice| format!("{}: {advice}", labels.child(label)));
    warnings.extend(entries(selector, "matchLabels").filter_map(of_label));
    warnings
}
