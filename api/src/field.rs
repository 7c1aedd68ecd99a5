//! Field errors: the error and the path of each wrong field (apimachinery `pkg/util/validation/field`, 1.37).

use std::collections::HashSet;
use std::fmt;

use crate::Value;

/// A path to a field: `spec.versions[0].name`, `metadata.labels[app]`. Cheap to extend; nothing is built until it is
/// printed.
///
/// ```
/// use kindom_api::field::Path;
/// let spec = Path::new("spec");
/// let versions = spec.child("versions");
/// assert_eq!(versions.index(0).child("name").to_string(), "spec.versions[0].name");
/// assert_eq!(spec.key("a.b").to_string(), "spec[a.b]");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// The path of the whole object; prints as `<nil>`, as upstream's nil path does.
    #[must_use]
    pub fn root() -> Self {
        Self { parent: None, step: Step::Root }
    }

    /// A field of the object.
    #[must_use]
    pub fn new(field: &'a str) -> Self {
        Self { parent: None, step: Step::Field(field) }
    }

    /// The path of a field of the object at this path.
    #[must_use]
    pub fn child(&'a self, field: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Field(field) }
    }

    /// An item of the list that this path names.
    #[must_use]
    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    /// A value of the map that this path names.
    #[must_use]
    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Key(key) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = self.parent.filter(|p| !matches!(p.step, Step::Root));
        if let Some(parent) = parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => f.write_str("<nil>"),
            // As upstream prints a field without a name.
            Step::Field("") => f.write_str("[]"),
            Step::Field(field) if parent.is_some() => write!(f, ".{field}"),
            Step::Field(field) => f.write_str(field),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

/// The kind of a validation error; also the `reason` of the cause in a Status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorType {
    /// Something that had to be found was not.
    NotFound,
    /// A required value is missing.
    Required,
    /// A value that must be unique stands twice.
    Duplicate,
    /// A malformed or otherwise wrong value.
    Invalid,
    /// None of the known values.
    NotSupported,
    /// Not allowed here, whatever the value.
    Forbidden,
    /// More characters than allowed.
    TooLong,
    /// More items than allowed.
    TooMany,
    /// Fewer items than required.
    TooFew,
    /// Something failed that is not the user's doing.
    Internal,
    /// A value of the wrong type.
    TypeInvalid,
}

impl ErrorType {
    /// As the `reason` of a cause: `FieldValueInvalid`.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    /// As it begins a message: `Invalid value`.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::Internal => "Internal error",
        }
    }
}

/// The form in which an error prints the bad value.
#[derive(Debug, Clone, PartialEq)]
pub enum BadValue {
    /// Not at all (required, forbidden, too long, internal).
    Omitted,
    /// A JSON value: strings quoted as Go's `%q`, maps and lists as JSON, `null` as `null`.
    Value(Value),
    /// Verbatim, unquoted: `0x0`, a Go struct, an `int32`.
    Raw(String),
}

/// An error on a field.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    /// Its kind.
    pub kind: ErrorType,
    /// The field's path, printed.
    pub field: String,
    /// The value that was refused.
    pub bad_value: BadValue,
    /// The explanation behind the value; may be empty.
    pub detail: String,
}

/// The bytes of errors that an [`ErrorList`] takes: more than twice the largest request.
const LISTED_BYTES_MAX: usize = 8 << 20;

/// The errors of an object, as far as there is room for them.
///
/// An error may quote a large value, and many errors the same one: the errors of 100,000 equal keys of a list would take 50
/// GB. Upstream has no such bound. Errors beyond 8 MiB are dropped, and the last one says so.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ErrorList {
    errors: Vec<Error>,
    /// About as many as all of them take.
    bytes: usize,
}

impl ErrorList {
    /// Nothing is wrong.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an error if there is room.
    pub fn push(&mut self, error: Error) {
        if self.is_full() {
            return;
        }
        self.bytes = self.bytes.saturating_add(error.bytes());
        self.errors.push(error);
        if self.is_full() {
            self.errors.push(Error::omitted("too many errors: more are not listed".to_owned()));
        }
    }

    /// Adds errors as far as there is room.
    pub fn extend(&mut self, errors: impl IntoIterator<Item = Error>) {
        errors.into_iter().for_each(|error| self.push(error));
    }

    /// Moves the errors of another list to the end of this one, as far as there is room.
    pub fn append(&mut self, errors: &mut Self) {
        self.extend(std::mem::take(errors));
    }

    /// Keeps the first of errors with the same text.
    pub fn forget_repeated(&mut self) {
        if self.errors.len() < 2 {
            return;
        }
        let mut seen = HashSet::with_capacity(self.errors.len());
        self.errors.retain(|error| seen.insert(error.to_string()));
    }

    /// About as many bytes as all of them take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// `true` if there is no room for more, so that there is no use in making more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes >= LISTED_BYTES_MAX
    }
}

impl std::ops::Deref for ErrorList {
    type Target = Vec<Error>;

    fn deref(&self) -> &Vec<Error> {
        &self.errors
    }
}

impl std::ops::DerefMut for ErrorList {
    fn deref_mut(&mut self) -> &mut Vec<Error> {
        &mut self.errors
    }
}

impl<const N: usize> PartialEq<[Error; N]> for ErrorList {
    fn eq(&self, other: &[Error; N]) -> bool {
        self.errors == *other
    }
}

impl From<Error> for ErrorList {
    fn from(error: Error) -> Self {
        Self::from_iter([error])
    }
}

impl FromIterator<Error> for ErrorList {
    fn from_iter<I: IntoIterator<Item = Error>>(errors: I) -> Self {
        let mut list = Self::new();
        list.extend(errors);
        list
    }
}

impl IntoIterator for ErrorList {
    type Item = Error;
    type IntoIter = std::vec::IntoIter<Error>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.into_iter()
    }
}

impl<'l> IntoIterator for &'l ErrorList {
    type Item = &'l Error;
    type IntoIter = std::slice::Iter<'l, Error>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.iter()
    }
}

impl<'l> IntoIterator for &'l mut ErrorList {
    type Item = &'l mut Error;
    type IntoIter = std::slice::IterMut<'l, Error>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.iter_mut()
    }
}

impl Error {
    fn new(kind: ErrorType, path: &Path<'_>, bad_value: BadValue, detail: impl Into<String>) -> Self {
        Self { kind, field: path.to_string(), bad_value, detail: detail.into() }
    }

    /// A malformed or otherwise wrong value.
    pub fn invalid(path: &Path<'_>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Invalid, path, BadValue::Value(value.into()), detail)
    }

    /// A malformed value that prints verbatim.
    pub fn invalid_raw(path: &Path<'_>, value: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Invalid, path, BadValue::Raw(value.into()), detail)
    }

    /// A malformed value that is not shown (`field.OmitValueType`).
    pub fn invalid_part(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Invalid, path, BadValue::Omitted, detail)
    }

    /// A value of the wrong type.
    pub fn type_invalid(path: &Path<'_>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::TypeInvalid, path, BadValue::Value(value.into()), detail)
    }

    /// A required value is missing.
    pub fn required(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Required, path, BadValue::Omitted, detail)
    }

    /// A name that nothing has.
    pub fn not_found(path: &Path<'_>, value: impl Into<Value>) -> Self {
        Self::new(ErrorType::NotFound, path, BadValue::Value(value.into()), "")
    }

    /// A value that must be unique stands twice.
    pub fn duplicate(path: &Path<'_>, value: impl Into<Value>) -> Self {
        Self::new(ErrorType::Duplicate, path, BadValue::Value(value.into()), "")
    }

    /// The same of a value that prints verbatim.
    pub fn duplicate_raw(path: &Path<'_>, value: impl Into<String>) -> Self {
        Self::new(ErrorType::Duplicate, path, BadValue::Raw(value.into()), "")
    }

    /// Not allowed here.
    pub fn forbidden(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Forbidden, path, BadValue::Omitted, detail)
    }

    /// None of the known values, which are listed as given.
    pub fn not_supported(path: &Path<'_>, value: impl Into<Value>, supported: &[&str]) -> Self {
        Self::unsupported(path, BadValue::Value(value.into()), supported)
    }

    /// The same of a value that prints verbatim.
    pub fn not_supported_raw(path: &Path<'_>, value: impl Into<String>, supported: &[&str]) -> Self {
        Self::unsupported(path, BadValue::Raw(value.into()), supported)
    }

    fn unsupported(path: &Path<'_>, value: BadValue, supported: &[&str]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|s| go_quote(s)).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(ErrorType::NotSupported, path, value, detail)
    }

    /// More bytes than allowed.
    pub fn too_long(path: &Path<'_>, max: usize) -> Self {
        Self::new(ErrorType::TooLong, path, BadValue::Omitted, format!("may not be more than {max} bytes"))
    }

    /// A text of more characters than allowed, where declarative validation counts them.
    pub fn too_long_text(path: &Path<'_>, max: usize) -> Self {
        let detail = format!("may not be more than {max} characters");
        Self::new(ErrorType::TooLong, path, BadValue::Omitted, detail)
    }

    /// More items than allowed.
    pub fn too_many(path: &Path<'_>, actual: usize, max: usize) -> Self {
        let detail = format!("must have at most {max} {}", if max == 1 { "item" } else { "items" });
        Self::new(ErrorType::TooMany, path, BadValue::Raw(actual.to_string()), detail)
    }

    /// Something failed that is not the user's doing.
    pub fn internal(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Internal, path, BadValue::Omitted, detail)
    }

    /// Says of the whole object that not all errors are listed.
    #[must_use]
    pub fn omitted(detail: String) -> Self {
        Self::new(ErrorType::TooMany, &Path::root(), BadValue::Raw("<nil>".to_owned()), detail)
    }

    /// About as many bytes as it takes in memory, or in an answer.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let value = match &self.bad_value {
            BadValue::Omitted => 0,
            BadValue::Value(value) => bytes(value),
            BadValue::Raw(text) => text.len(),
        };
        size_of::<Self>() + self.field.len() + self.detail.len() + value
    }

    /// The message without the field: `Invalid value: "x": must be y`.
    #[must_use]
    pub fn body(&self) -> String {
        let mut text = self.kind.text().to_owned();
        match &self.bad_value {
            BadValue::Omitted => {}
            BadValue::Value(Value::String(s)) => {
                text.push_str(": ");
                text.push_str(&go_quote(s));
            }
            BadValue::Value(value) => {
                text.push_str(": ");
                text.push_str(&value.to_string());
            }
            BadValue::Raw(raw) => {
                text.push_str(": ");
                text.push_str(raw);
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

/// The whole message: `spec.x: Invalid value: "x": must be y`.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// A string in quotes as Go's `%q` writes it.
#[must_use]
pub fn go_quote(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_ascii() || is_printable(c) => out.push(c),
            c if u32::from(c) <= 0xffff => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

/// Go's `unicode.IsPrint` beyond ASCII: letters, marks, numbers, punctuation and symbols. Rust escapes the same for debugging,
/// and marks only where a text begins with one.
fn is_printable(c: char) -> bool {
    let text = String::from_iter(['a', c]);
    text.escape_debug().eq(text.chars())
}

/// About as many bytes as a value takes in memory.
#[must_use]
pub fn bytes(value: &Value) -> usize {
    let own = size_of::<Value>();
    match value {
        Value::String(text) => own + text.len(),
        Value::Array(items) => own + items.iter().map(bytes).sum::<usize>(),
        Value::Object(map) => {
            own + map.iter().map(|(key, value)| key.len() + own + bytes(value)).sum::<usize>()
        }
        _ => own,
    }
}

/// The messages of several errors as upstream's aggregate joins them: one bare, several as `[a, b]`, duplicates once.
#[must_use]
pub fn aggregate(errors: &[Error]) -> String {
    aggregate_texts(errors.iter().map(ToString::to_string).collect())
}

/// [`aggregate`] of errors that are texts (`utilerrors.NewAggregate`).
#[must_use]
pub fn aggregate_texts(mut texts: Vec<String>) -> String {
    // Hashed: there may be 100,000.
    let mut seen = HashSet::with_capacity(texts.len());
    texts.retain(|text| seen.insert(text.clone()));
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
