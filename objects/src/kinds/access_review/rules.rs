//! The rules of reviews of access (`pkg/apis/authorization/validation/validation.go`, apimachinery
//! `pkg/apis/meta/v1/validation`, 1.37). Unknown operators are let through, as a newer client may know more.

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_label_value, is_qualified_name};
use kindom_api::{Map, Value};

use super::Subject;

const ONE_OF: &str = "exactly one of nonResourceAttributes or resourceAttributes must be specified";

fn present<'a>(of: Option<&'a Value>, field: &str) -> Option<&'a Value> {
    of.and_then(|of| of.get(field)).filter(|value| !value.is_null())
}

fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(of: &'a Value, field: &str) -> &'a [Value] {
    of.get(field).and_then(Value::as_array).unwrap_or_default()
}

/// As the internal Go type, whose fields have no JSON names, is printed.
fn printed(non_resource: Option<&Value>) -> Value {
    non_resource.map_or(Value::Null, |of| {
        kindom_api::object! { "Path": text(of, "path"), "Verb": text(of, "verb") }
    })
}

/// The errors in a review.
pub(super) fn validate(subject: Subject, review: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = review.get("spec");
    let path = Path::new("spec");
    let resource = present(spec, "resourceAttributes");
    let non_resource = present(spec, "nonResourceAttributes");
    if resource.is_some() == non_resource.is_some() {
        errors.push(Error::invalid(&path, printed(non_resource), ONE_OF));
    }
    let is_nobody = spec.is_none_or(|spec| text(spec, "user").is_empty() && items(spec, "groups").is_empty());
    if subject != Subject::Oneself && is_nobody {
        let detail = "at least one of user or group must be specified";
        errors.push(Error::invalid(&path.child("user"), "", detail));
    }
    if let Some(resource) = resource {
        let path = path.child("resourceAttributes");
        selector(present(Some(resource), "fieldSelector"), &path.child("fieldSelector"), false, &mut errors);
        selector(present(Some(resource), "labelSelector"), &path.child("labelSelector"), true, &mut errors);
    }
    let metadata = review.get("metadata").and_then(Value::as_object);
    let may_have =
        |field: &str| field == "managedFields" || field == "namespace" && subject == Subject::AnybodyHere;
    if metadata.into_iter().flat_map(Map::iter).any(|(field, value)| !may_have(field) && !value.is_null()) {
        let detail = match subject {
            Subject::AnybodyHere => "must be empty except for namespace",
            Subject::Anybody | Subject::Oneself => "must be empty",
        };
        let value = review.get("metadata").cloned().unwrap_or_default();
        errors.push(Error::invalid(&Path::new("metadata"), value, detail));
    }
    if subject == Subject::AnybodyHere {
        let namespace = review.at(&["metadata", "namespace"]).and_then(Value::as_str).unwrap_or_default();
        if let Some(other) = resource.map(|of| text(of, "namespace")).filter(|other| *other != namespace) {
            let path = Path::new("spec.resourceAttributes.namespace");
            errors.push(Error::invalid(&path, other, "must match metadata.namespace"));
        }
        if non_resource.is_some() {
            let path = Path::new("spec.nonResourceAttributes");
            errors.push(Error::invalid(&path, printed(non_resource), "disallowed on this kind of request"));
        }
    }
    errors
}

fn selector(selector: Option<&Value>, path: &Path<'_>, of_labels: bool, errors: &mut ErrorList) {
    let Some(selector) = selector else { return };
    let (raw, requirements) = (text(selector, "rawSelector"), items(selector, "requirements"));
    match (raw.is_empty(), requirements.is_empty()) {
        (false, false) => {
            let detail = "may not specified at the same time as requirements";
            errors.push(Error::invalid(&path.child("rawSelector"), raw, detail));
        }
        (true, true) => {
            let detail = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(Error::required(&path.child("requirements"), detail));
        }
        _ => {}
    }
    let list = path.child("requirements");
    for (index, requirement) in requirements.iter().enumerate() {
        let path = list.index(index);
        let key = text(requirement, "key");
        if !of_labels && key.is_empty() {
            errors.push(Error::required(&path.child("key"), "must be specified"));
        }
        let values = path.child("values");
        let given = items(requirement, "values");
        match text(requirement, "operator") {
            "In" | "NotIn" if given.is_empty() => {
                errors.push(Error::required(&values, "must be specified when `operator` is 'In' or 'NotIn'"))
            }
            "Exists" | "DoesNotExist" if !given.is_empty() => errors.push(Error::forbidden(
                &values,
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            _ => {}
        }
        if of_labels {
            let wrong = is_qualified_name(key).into_iter();
            errors.extend(wrong.map(|text| Error::invalid(&path.child("key"), key, text)));
            for (index, value) in given.iter().filter_map(Value::as_str).enumerate() {
                let wrong = is_label_value(value).into_iter();
                errors.extend(wrong.map(|text| Error::invalid(&values.index(index), value, text)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::object;

    use super::*;

    fn check(subject: Subject, review: &Value, wanted: &[&str]) {
        let found: Vec<String> = validate(subject, review).iter().map(ToString::to_string).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_review_asks_one_thing() {
        let nothing = object! { "spec": Map::new() };
        check(
            Subject::Anybody,
            &nothing,
            &[
                "spec: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
                "spec.user: Invalid value: \"\": at least one of user or group must be specified",
            ],
        );
        let both = object! { "spec": object! {
            "resourceAttributes": object! { "verb": "get" },
            "nonResourceAttributes": object! { "verb": "get", "path": "/x" },
        }, "metadata": object! { "name": "a" } };
        check(
            Subject::Oneself,
            &both,
            &[
                "spec: Invalid value: {\"Path\":\"/x\",\"Verb\":\"get\"}: exactly one of nonResourceAttributes or \
                 resourceAttributes must be specified",
                "metadata: Invalid value: {\"name\":\"a\"}: must be empty",
            ],
        );
    }

    #[test]
    fn a_local_review_asks_about_its_namespace() {
        let review = object! {
            "metadata": object! { "namespace": "a" },
            "spec": object! { "user": "jane", "resourceAttributes": object! { "namespace": "b" } },
        };
        let text = "spec.resourceAttributes.namespace: Invalid value: \"b\": must match metadata.namespace";
        check(Subject::AnybodyHere, &review, &[text]);
    }

    #[test]
    fn selectors_are_well_formed() {
        let review = |selector: Value| {
            object! { "spec": object! { "resourceAttributes": object! { "labelSelector": selector } } }
        };
        let empty = "spec.resourceAttributes.labelSelector.requirements: Required value: when \
                     spec.resourceAttributes.labelSelector is specified, requirements or rawSelector is required";
        check(Subject::Oneself, &review(Value::Object(Map::new())), &[empty]);
        let in_nothing = object! { "requirements": vec![object! { "key": "a", "operator": "In" }] };
        let text = "spec.resourceAttributes.labelSelector.requirements[0].values: Required value: must be specified when \
                    `operator` is 'In' or 'NotIn'";
        check(Subject::Oneself, &review(in_nothing), &[text]);
    }
}
