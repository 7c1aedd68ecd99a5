//! The specs of pods, which all kinds of workloads have: their defaults, their validation, and how tables show them.
//!
//! The rules that are left out are listed in docs/conformance.md.

use kindom_api::Value;

mod defaults;
mod image;
mod validation;

pub(super) use defaults::{fill_claim_spec, fill_spec};
pub(super) use validation::validate_template;

/// A field's text; empty if it has none.
pub(super) fn text<'a>(of: &'a Value, path: &[&str]) -> &'a str {
    of.at(path).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list.
pub(super) fn items<'a>(of: &'a Value, path: &[&str]) -> &'a [Value] {
    of.at(path).and_then(Value::as_array).unwrap_or_default()
}

/// A value that is there, and not null.
pub(super) fn present<'a>(of: &'a Value, field: &str) -> Option<&'a Value> {
    of.get(field).filter(|value| !value.is_null())
}

/// The names and the images of a template's containers (`layoutContainerCells`).
pub(super) fn container_cells(spec: &Value) -> [String; 2] {
    let of = |field: &str| {
        let all: Vec<&str> = items(spec, &["containers"]).iter().map(|one| text(one, &[field])).collect();
        all.join(",")
    };
    [of("name"), of("image")]
}
