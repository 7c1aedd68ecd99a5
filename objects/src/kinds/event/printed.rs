//! The table of events (`printEvent` and `formatEventSource` of `pkg/printers/internalversion/printers.go`, 1.37).

use kindom_api::Value;
use kindom_schema::columns::{TableColumn, age, name_column};

use super::Declared;
use crate::kinds::table_column;

/// The columns; their descriptions are those of the fields.
pub(super) fn columns(core: &Declared) -> Vec<TableColumn> {
    let column =
        |name: &str, priority, path: &[&str]| table_column(name, "string", priority, core.text_of(path));
    vec![
        column("Last Seen", 0, &["lastTimestamp"]),
        column("Type", 0, &["type"]),
        column("Reason", 0, &["reason"]),
        column("Object", 0, &["involvedObject"]),
        column("Subobject", 1, &["involvedObject", "fieldPath"]),
        column("Source", 1, &["source"]),
        column("Message", 0, &["message"]),
        column("First Seen", 1, &["firstTimestamp"]),
        column("Count", 1, &["count"]),
        TableColumn { priority: 1, ..name_column() },
    ]
}

/// The cells of an event, which either face shows.
pub(super) fn cells(event: &Value, now: i64) -> Vec<Value> {
    let of = |core: &str, later: &str| event.get(core).or_else(|| event.get(later)).unwrap_or(&Value::Null);
    let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
    let part = |of: &Value, field: &str| text(of.get(field).unwrap_or(&Value::Null));
    let since = |of: &Value| age(of.as_str().unwrap_or_default(), now);

    let (object, source) = (of("involvedObject", "regarding"), of("source", "deprecatedSource"));
    let (first, last) =
        (of("firstTimestamp", "deprecatedFirstTimestamp"), of("lastTimestamp", "deprecatedLastTimestamp"));
    let first = if first.is_null() { since(of("eventTime", "eventTime")) } else { since(first) };
    let mut last = if last.is_null() { first.clone() } else { since(last) };
    let mut count = of("count", "deprecatedCount").as_i64().unwrap_or(1);
    let series = of("series", "series");
    if !series.is_null() {
        last = since(series.get("lastObservedTime").unwrap_or(&Value::Null));
        count = series.get("count").and_then(Value::as_i64).unwrap_or_default();
    }
    let (kind, name) = (part(object, "kind").to_lowercase(), part(object, "name"));
    let target = if name.is_empty() { kind } else { format!("{kind}/{name}") };
    let or = |first: String, second: &Value| if first.is_empty() { text(second) } else { first };
    let component = or(part(source, "component"), of("reportingComponent", "reportingController"));
    let host = or(part(source, "host"), of("reportingInstance", "reportingInstance"));
    let source = if host.is_empty() { component } else { format!("{component}, {host}") };
    vec![
        last.into(),
        text(of("type", "type")).into(),
        text(of("reason", "reason")).into(),
        target.into(),
        part(object, "fieldPath").into(),
        source.into(),
        text(of("message", "note")).trim().into(),
        first.into(),
        Value::Int(count),
        text(event.at(&["metadata", "name"]).unwrap_or(&Value::Null)).into(),
    ]
}
