//! Selectors of labels in objects (`ValidateLabelSelector` of apimachinery's `pkg/apis/meta/v1/validation`, 0.37).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_label_value, is_qualified_name};
use kindom_api::selector::LabelSelector;

use crate::kinds::fields::{items, present, text};
use crate::kinds::keyed::entries;

/// `ValidateLabelSelector`
pub(super) fn validate(selector: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let labels = at.child("matchLabels");
    for (key, value) in entries(selector, "matchLabels") {
        errors.extend(is_qualified_name(key).into_iter().map(|why| Error::invalid(&labels, key, why)));
        errors.extend(is_label_value(value).into_iter().map(|why| Error::invalid(&labels, value, why)));
    }
    let at = at.child("matchExpressions");
    for (index, requirement) in items(selector, "matchExpressions").iter().enumerate() {
        validate_requirement(requirement, &at.index(index), errors);
    }
}

/// `ValidateLabelSelectorRequirement`
fn validate_requirement(requirement: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (key, operator, values) =
        (text(requirement, "key"), text(requirement, "operator"), items(requirement, "values"));
    let at_values = at.child("values");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(Error::required(&at_values, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(Error::forbidden(&at_values, detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => errors.push(Error::invalid(&at.child("operator"), operator, "not a valid selector operator")),
    }
    let at_key = at.child("key");
    errors.extend(is_qualified_name(key).into_iter().map(|why| Error::invalid(&at_key, key, why)));
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        let at = at_values.index(index);
        errors.extend(is_label_value(value).into_iter().map(|why| Error::invalid(&at, value, why)));
    }
}

/// A selector as Go prints it, its fields in their own order.
pub(super) fn printed(selector: &Value) -> String {
    let fields = ["matchLabels", "matchExpressions"].iter().filter_map(|field| {
        let value = present(selector, field)?;
        Some(format!("\"{field}\":{value}"))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// A selector in the cell of a table (`FormatLabelSelector`).
pub(super) fn cell(selector: Option<&Value>) -> String {
    match selector.filter(|selector| !selector.is_null()).map(LabelSelector::of_object) {
        Some(Err(_)) => "<error>".to_owned(),
        Some(Ok(selector)) if !selector.is_empty() => selector.to_string(),
        _ => "<none>".to_owned(),
    }
}
