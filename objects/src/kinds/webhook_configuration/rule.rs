//! Warnings about the rules by which a webhook is called (`warningsForExcludedRules`, 1.37).

use kindom_api::Value;

use crate::kinds::admission_match::{has, position};
use crate::kinds::fields::items;

/// The questions that no webhook is asked about: a group and a resource.
const EXCLUDED: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// The warnings about rules that name what no webhook is asked about.
pub(super) fn warnings(configuration: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (webhook, of) in items(configuration, "webhooks").iter().enumerate() {
        for (index, rule) in items(of, "rules").iter().enumerate() {
            if has(rule, "apiGroups", "*") || has(rule, "resources", "*") {
                continue;
            }
            let mut found: Vec<_> = EXCLUDED
                .iter()
                .filter_map(|(group, resource)| {
                    let order = (position(rule, "apiGroups", group)?, position(rule, "resources", resource)?);
                    Some((order, format!("{resource}.{group}")))
                })
                .collect();
            found.sort();
            warnings.extend(found.into_iter().map(|(_, name)| {
                format!(
                    "webhooks[{webhook}].rules[{index}]: {name} is excluded from admission webhooks; this rule will \
                     have no effect"
                )
            }));
        }
    }
    warnings
}
