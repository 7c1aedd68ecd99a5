//! The rules of events (`pkg/apis/core/validation/events.go`, 1.37). Objects are as they are stored, whose fields the texts name
//! whichever face wrote them.

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_path_segment, is_qualified_name, name_is_dns_subdomain};
use kindom_api::meta::validate_object_meta;

use crate::kinds::metadata_update;
use crate::version::SelectableField;

/// The most bytes of `reportingInstance`, `action` and `reason`.
const TEXT_MAX: usize = 128;
/// The most bytes of `message`.
const MESSAGE_MAX: usize = 1024;
/// The fields of an event's object that can be selected by.
const OF_OBJECT: [&str; 7] =
    ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];

fn is_set(of: &Value, field: &str) -> bool {
    of.get(field).is_some_and(|value| !value.is_null())
}

/// `AddFieldLabelConversionsForEvent` of `core/v1` and of `events/v1`, and `ToSelectableFields`.
pub(super) fn selectable(is_later: bool) -> Vec<SelectableField> {
    let of = if is_later { "regarding" } else { "involvedObject" };
    let mut fields: Vec<SelectableField> = OF_OBJECT
        .iter()
        .map(|field| SelectableField::at(&format!("{of}.{field}"), &[&format!("involvedObject.{field}")]))
        .collect();
    fields.extend(["reason", "type"].map(|field| SelectableField::at(field, &[field])));
    let reporter = if is_later { "reportingController" } else { "reportingComponent" };
    fields.push(SelectableField::at(reporter, &["reportingComponent"]));
    if !is_later {
        fields.push(SelectableField::at("source", &["source.component", "reportingComponent"]));
    }
    fields
}

/// `ValidateEventCreate`
pub(super) fn validate(event: &Value, is_later: bool) -> ErrorList {
    let mut errors = validate_either(event, is_later);
    let (metadata, at) = (event.get("metadata").unwrap_or(&Value::Null), Path::new("metadata"));
    if !is_later {
        if errors.is_empty() {
            errors.extend(validate_object_meta(metadata, true, &is_path_segment, &at));
        }
        return errors;
    }
    errors.extend(validate_object_meta(metadata, true, &name_is_dns_subdomain, &at));
    validate_series(event, &mut errors);
    if !is_set(event, "eventTime") {
        errors.push(Error::required(&Path::new("eventTime"), ""));
    }
    let kind = event.text_at(&["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(Error::invalid(&Path::new("type"), "", format!("has invalid value: {kind}")));
    }
    let source = ["component", "host"].iter().any(|field| !event.text_at(&["source", field]).is_empty());
    for (field, is_set) in [
        ("firstTimestamp", is_set(event, "firstTimestamp")),
        ("lastTimestamp", is_set(event, "lastTimestamp")),
        ("count", is_set(event, "count")),
        ("source", source),
    ] {
        if is_set {
            errors.push(Error::invalid(&Path::new(field), "", "needs to be unset"));
        }
    }
    errors
}

/// `ValidateEventUpdate`
pub(super) fn validate_update(event: &Value, old: &Value, is_later: bool) -> ErrorList {
    let mut errors = validate_either(event, is_later);
    if !is_later {
        return errors;
    }
    errors.extend(metadata_update(event, old));
    if event.get("series") != old.get("series") {
        validate_series(event, &mut errors);
    }
    for field in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ] {
        let [new, old] = [event, old].map(|of| of.get(field).unwrap_or(&Value::Null));
        if new != old {
            let name = if field == "reportingComponent" { "reportingController" } else { field };
            errors.push(Error::invalid_raw(&Path::new(name), printed(field, new), "field is immutable"));
        }
    }
    errors
}

/// A value as an error prints it: structs with all their fields, by their names in Go.
fn printed(field: &str, value: &Value) -> String {
    let names: &[(&str, &str)] = match field {
        "involvedObject" | "related" => &[
            ("Kind", "kind"),
            ("Namespace", "namespace"),
            ("Name", "name"),
            ("UID", "uid"),
            ("APIVersion", "apiVersion"),
            ("ResourceVersion", "resourceVersion"),
            ("FieldPath", "fieldPath"),
        ],
        "source" => &[("Component", "component"), ("Host", "host")],
        "count" => return value.as_i64().unwrap_or_default().to_string(),
        "firstTimestamp" | "lastTimestamp" | "eventTime" => return value.to_string(),
        _ => return Value::from(value.as_str().unwrap_or_default()).to_string(),
    };
    if value.is_null() {
        return value.to_string();
    }
    let fields = names.iter().map(|(go, json)| format!("{go:?}:{}", Value::from(value.text_at(&[json]))));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// `validateV1EventSeries`
fn validate_series(event: &Value, errors: &mut ErrorList) {
    let Some(series) = event.get("series").filter(|series| !series.is_null()) else { return };
    if series.get("count").and_then(Value::as_i64).unwrap_or_default() < 2 {
        errors.push(Error::invalid(&Path::new("series.count"), "", "should be at least 2"));
    }
    if !is_set(series, "lastObservedTime") {
        errors.push(Error::required(&Path::new("series.lastObservedTime"), ""));
    }
}

/// `legacyValidateEvent`
fn validate_either(event: &Value, is_later: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let namespace = event.text_at(&["metadata", "namespace"]);
    let of_object = event.text_at(&["involvedObject", "namespace"]);
    let has_time = is_set(event, "eventTime");
    let agrees = match (has_time, of_object.is_empty()) {
        (false, true) => matches!(namespace, "" | "default"),
        (false, false) => namespace == of_object,
        (true, true) => matches!(namespace, "default" | "kube-system"),
        (true, false) => true,
    };
    if !agrees {
        let object = Path::new("involvedObject");
        errors.push(Error::invalid(&object.child("namespace"), of_object, "does not match event.namespace"));
    }
    if !has_time {
        return errors;
    }
    let reporter = Path::new(if is_later { "reportingController" } else { "reportingComponent" });
    let name = event.text_at(&["reportingComponent"]);
    if name.is_empty() {
        errors.push(Error::required(&reporter, ""));
    }
    errors.extend(is_qualified_name(name).into_iter().map(|why| Error::invalid(&reporter, name, why)));
    for (field, is_required, max) in [
        ("reportingInstance", true, TEXT_MAX),
        ("action", true, TEXT_MAX),
        ("reason", true, TEXT_MAX),
        ("message", false, MESSAGE_MAX),
    ] {
        let (at, value) = (Path::new(field), event.text_at(&[field]));
        if is_required && value.is_empty() {
            errors.push(Error::required(&at, ""));
        }
        if value.len() > max {
            errors.push(Error::invalid(&at, "", format!("can have at most {max} characters")));
        }
    }
    errors
}
