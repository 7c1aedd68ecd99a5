//! Strict decoding: the errors or warnings for fields that are unknown or stand twice.

use kindom_api::json;

/// The most strict errors that are kept of one body (`sigs.k8s.io/json`).
pub const STRICT_ERRORS_MAX: usize = 100;
/// The first line of a YAML text's strict errors.
pub(crate) const YAML_ERRORS: &str = "yaml: unmarshal errors:\n  ";

/// The treatment of fields that are unknown or occur twice (the query parameter `fieldValidation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldValidation {
    /// Drop them.
    Ignore,
    /// Drop them and say so in Warning headers.
    #[default]
    Warn,
    /// Refuse the request.
    Strict,
}

/// `duplicate field "spec.x"`, for each field that stands more than once in a JSON text.
#[must_use]
pub fn duplicate_fields(bytes: &[u8]) -> Vec<String> {
    let paths = json::duplicate_fields(bytes).unwrap_or_default();
    let shown = paths.iter().take(STRICT_ERRORS_MAX);
    shown.map(|path| format!("duplicate field \"{path}\"")).collect()
}

/// Strict errors as warnings: an error of several lines from YAML becomes one warning a line.
#[must_use]
pub fn strict_warnings(errors: Vec<String>) -> Vec<String> {
    let each = |error: String| match error.strip_prefix(YAML_ERRORS) {
        Some(lines) => lines.split("\n  ").map(str::to_owned).collect(),
        None => vec![error],
    };
    errors.into_iter().flat_map(each).collect()
}

/// `unknown field "spec.x"`
#[must_use]
pub fn unknown_field(path: &str) -> String {
    format!("unknown field \"{path}\"")
}

/// All strict errors as one text: `strict decoding error: unknown field "spec.x", …`.
#[must_use]
pub fn strict_text(errors: &[String]) -> String {
    format!("strict decoding error: {}", errors.join(", "))
}
