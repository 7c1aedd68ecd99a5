//! Labels of nodes that others have replaced (`pkg/api/node/util.go`, 1.37).

use kindom_api::Value;
use kindom_api::field::Path;
use kindom_api::meta::names::is_label_value;

use crate::kinds::fields::{items, text};

/// The message about a label that is not to be used any more.
pub(super) fn deprecated(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead"
        }
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

/// Warnings about a term that selects nodes (`GetWarningsForNodeSelectorTerm`).
pub(super) fn of_term(term: &Value, with_values: bool, at: &Path<'_>, warnings: &mut Vec<String>) {
    let all = at.child("matchExpressions");
    for (index, requirement) in items(term, "matchExpressions").iter().enumerate() {
        let (at, key) = (all.index(index), text(requirement, "key"));
        if let Some(message) = deprecated(key) {
            warnings.push(format!("{}: {key} is {message}", at.child("key")));
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
