//! The metrics of an autoscaler in a cell (`formatHPAMetrics` of `pkg/printers/internalversion/printers.go`, 1.37).

use kindom_api::Value;

use crate::kinds::fields::{number, part, present, text};

const SHOWN_MAX: usize = 2;
const UNKNOWN: &str = "<unknown>";

/// The first metrics, each with its present value and its target, and the number of the others.
pub(super) fn metrics(specs: &[Value], statuses: &[Value]) -> String {
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let shown = specs.iter().enumerate().take(SHOWN_MAX);
    let shown: Vec<String> =
        shown.map(|(index, spec)| metric(spec, statuses.get(index).unwrap_or(&Value::Null))).collect();
    let shown = shown.join(", ");
    match specs.len().saturating_sub(SHOWN_MAX) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

fn metric(spec: &Value, status: &Value) -> String {
    let field = match text(spec, "type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let source = part(spec, field);
    let (target, measured) = (part(source, "target"), present(status, field));
    let current = measured.map_or(&Value::Null, |of| part(of, "current"));
    let average = present(target, "averageValue").and_then(Value::as_str);
    // A value that is measured and absent is that of a null pointer.
    let now = |of: &str| match (measured, present(current, of)) {
        (Some(_), Some(value)) => value.as_str().unwrap_or_default().to_owned(),
        (Some(_), None) => "<nil>".to_owned(),
        (None, _) => UNKNOWN.to_owned(),
    };
    match (field, average) {
        ("external" | "object", Some(average)) => {
            let current = present(current, "averageValue").and_then(Value::as_str).unwrap_or(UNKNOWN);
            format!("{current}/{average} (avg)")
        }
        ("external" | "object", None) => format!("{}/{}", now("value"), text(target, "value")),
        ("pods", average) => format!("{}/{}", now("averageValue"), average.unwrap_or_default()),
        (_, Some(average)) => format!("{}: {}/{average}", text(source, "name"), now("averageValue")),
        (_, None) => {
            let percent = |of: &Value, otherwise: &str| {
                let used = number(of, "averageUtilization");
                used.map_or_else(|| otherwise.to_owned(), |used| format!("{used}%"))
            };
            let name = text(source, "name");
            format!("{name}: {}/{}", percent(current, UNKNOWN), percent(target, "<auto>"))
        }
    }
}
