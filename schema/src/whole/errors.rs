//! The library's errors as field errors.

use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{ErrorIterator, ValidationError, error::ValidationErrorKind};
use kindom_api::field::{BadValue, Error, ErrorList, ErrorType};
use kindom_api::{Value, json};

/// The most errors of an object that are told.
const TOLD_MAX: usize = 32;
/// The most bytes of an explanation, and of a value in it.
const DETAIL_MAX: usize = 1024;

/// Says what is wrong in a schema.
pub(super) fn in_schema(error: &ValidationError<'_>) -> String {
    let at = error.instance_path().as_str();
    let detail = cut(error.masked_with("it").to_string());
    format!("must be a JSON Schema: #{at}: {detail}")
}

/// The errors of an object.
pub(super) fn told(errors: ErrorIterator<'_>) -> ErrorList {
    let mut errors = errors.peekable();
    let mut list: ErrorList = errors.by_ref().take(TOLD_MAX).flat_map(|error| field_errors(&error)).collect();
    if errors.peek().is_some() {
        list.push(Error::omitted("too many errors: more are not listed".to_owned()));
    }
    list
}

fn field_errors(error: &ValidationError<'_>) -> Vec<Error> {
    let field = field(error.instance_path());
    let under =
        |name: &str| if field == "<nil>" { name.to_owned() } else { format!("{field}{}", step(name)) };
    let one = |kind, field, bad_value, detail| vec![Error { kind, field, bad_value, detail }];
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            one(ErrorType::Required, under(name), BadValue::Omitted, String::new())
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => unexpected
            .iter()
            .take(TOLD_MAX)
            .map(|name| Error {
                kind: ErrorType::Forbidden,
                field: under(name),
                bad_value: BadValue::Omitted,
                detail: "its JSON Schema has no such field".to_owned(),
            })
            .collect(),
        kind => {
            let kind = match kind {
                ValidationErrorKind::Type { .. } => ErrorType::TypeInvalid,
                _ => ErrorType::Invalid,
            };
            let detail = explanation(error);
            one(kind, field, value(error.instance()), format!("{detail} (of its JSON Schema)"))
        }
    }
}

/// The library's words, unless they show schemas, which are not as they were written.
fn explanation(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Not { .. } => "it matches a schema that it must not match".to_owned(),
        ValidationErrorKind::PropertyNames { error } => format!("a name in it: {}", explanation(error)),
        _ => cut(error.masked_with("it").to_string()),
    }
}

/// The value, if it is short enough to be shown.
fn value(value: &serde_json::Value) -> BadValue {
    let short = value.to_string();
    if short.len() > DETAIL_MAX {
        return BadValue::Omitted;
    }
    json::parse(short.as_bytes()).map_or(BadValue::Omitted, |value: Value| BadValue::Value(value))
}

pub(super) fn cut(mut text: String) -> String {
    if text.len() > DETAIL_MAX {
        text.truncate(text.floor_char_boundary(DETAIL_MAX));
        text.push('…');
    }
    text
}

/// The path of a field, as field errors print it.
fn field(location: &Location) -> String {
    let mut path = String::new();
    for segment in location.segments() {
        match segment {
            LocationSegment::Index(index) => path.push_str(&format!("[{index}]")),
            LocationSegment::Property(name) if path.is_empty() => path.push_str(&name),
            LocationSegment::Property(name) => path.push_str(&step(&name)),
        }
    }
    if path.is_empty() { "<nil>".to_owned() } else { path }
}

/// A step to a field, or to a value of a map.
fn step(name: &str) -> String {
    let is_field =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'$');
    if is_field { format!(".{name}") } else { format!("[{name}]") }
}
