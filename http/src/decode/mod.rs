//! Bodies: bytes to tree, with upstream's errors (apimachinery `pkg/runtime/serializer/json`, apiserver
//! `pkg/endpoints/handlers/{create,rest}.go`, 1.37).

mod syntax;
mod write_yaml;
mod yaml;

use std::collections::HashSet;

use kindom_api::field::{self, ErrorList, go_quote};
use kindom_api::json::{self, Map, Value};
use kindom_api::names::{GroupVersionKind, split_api_version};
use kindom_api::protobuf;

use crate::RequestError;
use crate::negotiate::Format;
use crate::query::FieldValidation;

pub(crate) use syntax::go_syntax_error;
pub use write_yaml::to_yaml;

/// The group of registrations.
const CRD_GROUP: &str = "apiextensions.k8s.io";
/// What upstream calls the types that it was compiled with.
pub(crate) const SCHEME: &str = "\"pkg/runtime/scheme.go:111\"";
/// What the list of a YAML text's strict errors begins with.
const YAML_ERRORS: &str = "yaml: unmarshal errors:\n  ";
/// How much of a body an error shows.
const SUMMARY_BYTES_MAX: usize = 30;
/// How many strict errors are kept of a body (`sigs.k8s.io/json`).
pub(crate) const STRICT_ERRORS_MAX: usize = 100;
/// How many characters all warnings of an answer may have before each is cut (apiserver
/// `pkg/endpoints/filters/warning.go`).
const WARNINGS_CHARS_MAX: usize = 4096;
/// What they are cut to.
const WARNING_CHARS_CUT: usize = 256;

/// A decoded object.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The object: a map. Of several equal keys the last one stays.
    pub value: Value,
    /// Its own group, version and kind; group and version are empty if it has no apiVersion.
    pub kind: GroupVersionKind,
    /// Whether it said its apiVersion itself.
    pub says_version: bool,
    /// `duplicate field "spec.x"`, for each; always empty under [`FieldValidation::Ignore`].
    pub strict_errors: Vec<String>,
}

/// Decodes an object that is sent as `expected`.
///
/// Under [`FieldValidation::Strict`] the strict errors are not raised here: the caller adds the unknown fields (which
/// need the schema) behind them and then raises [`strict_error`].
///
/// With `default_type`, what the object does not say of its type is that of `expected`, as upstream's serializer does
/// for types that it was compiled with (`json.go` `gvkWithDefaults`); the Python client never says it.
///
/// # Errors
/// [`RequestError::BadRequest`] for what is no JSON or YAML object, or has no kind.
pub fn object(
    bytes: &[u8],
    format: Format,
    expected: &GroupVersionKind,
    default_type: bool,
    validation: FieldValidation,
) -> Result<Decoded, RequestError> {
    let strict = validation != FieldValidation::Ignore;
    let unrecognized = |error: String| {
        RequestError::BadRequest(format!(
            "the object provided is unrecognized (must be of type {}): {error} ({})",
            expected.kind,
            summary(bytes)
        ))
    };
    if format == Format::Protobuf {
        return protobuf_object(bytes, expected, unrecognized);
    }
    let (mut value, strict_errors) =
        tree(bytes, format, strict).map_err(|why| match (format, syntax::number_too_large(bytes)) {
            (Format::Json, Some(number)) if go_syntax_error(bytes).is_none() => {
                let why = format!("json: cannot unmarshal number {number} into Go value of type float64");
                cannot_be_handled(expected, expected, &why)
            }
            _ => unrecognized(why),
        })?;
    let mut kind = type_of(&value).map_err(unrecognized)?;
    let says_version = !(kind.group.is_empty() && kind.version.is_empty());
    if default_type && let Some(fields) = value.as_object_mut() {
        complete_type(&mut kind, fields, expected);
    }
    if kind.kind.is_empty() {
        let missing = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(bytes));
        return Err(if strict {
            unrecognized(missing)
        } else {
            cannot_be_handled(expected, expected, &missing)
        });
    }
    Ok(Decoded { value, kind, says_version, strict_errors })
}

/// Decodes an object that is sent as `expected`, a built-in type, in protobuf. Its unknown fields are dropped without a
/// word, under strict validation too (`protobuf.go` `Serializer.Decode`, whose strict serializer is itself).
fn protobuf_object(
    bytes: &[u8],
    expected: &GroupVersionKind,
    unrecognized: impl Fn(String) -> RequestError,
) -> Result<Decoded, RequestError> {
    let envelope = protobuf::Envelope::open(bytes).map_err(|error| unrecognized(error.to_string()))?;
    // One that is malformed is as none (`schema.FromAPIVersionAndKind`).
    let (group, version) = split_api_version(&envelope.api_version).unwrap_or_default();
    let mut kind = GroupVersionKind::new(group, version, envelope.kind.as_str());
    let says_version = !(kind.group.is_empty() && kind.version.is_empty());
    let mut fields = Map::new();
    fields.insert("apiVersion", kind.api_version());
    fields.insert("kind", kind.kind.as_str());
    complete_type(&mut kind, &mut fields, expected);
    // Of another kind nothing is read; that it is one is said where types are checked.
    if let Some(message) = protobuf::message(&kind.api_version(), &kind.kind) {
        let read = envelope.object(message);
        let read = read.map_err(|error| cannot_be_handled(&kind, expected, &error.to_string()))?;
        for (name, value) in read {
            fields.insert(name, value);
        }
    }
    Ok(Decoded { value: Value::Object(fields), kind, says_version, strict_errors: Vec::new() })
}

/// Decodes a body that is no object of a known kind, such as DeleteOptions.
///
/// # Errors
/// [`RequestError::BadRequest`] for what is no JSON or YAML.
pub fn any(bytes: &[u8], format: Format) -> Result<Value, RequestError> {
    tree(bytes, format, false).map(|(value, _)| value).map_err(RequestError::BadRequest)
}

/// What is sent to be applied.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Configuration {
    /// The map that it is, or the text of the 400 that it is answered with once it is known what it is applied to.
    pub(crate) value: Result<Value, String>,
    /// `line 3: key "a" already set in map`, for each.
    pub(crate) duplicates: Vec<String>,
}

impl Configuration {
    /// All duplicates as the text of a 400 (`yaml.UnmarshalStrict`).
    pub(crate) fn strict_text(&self) -> String {
        let lines = self.duplicates.join("\n  ");
        format!("error strict decoding patch: error converting YAML to JSON: {YAML_ERRORS}{lines}")
    }
}

/// Decodes an apply patch: YAML, of which the first document counts. JSON is YAML too, and read as such
/// (`validateAndTranscodePatch` and `applyPatchToCurrentObject` in apiserver `handlers/patch.go`).
///
/// # Errors
/// [`RequestError::BadRequest`] for what is no YAML, unless it begins as JSON does: that is found later.
pub(crate) fn configuration(bytes: &[u8]) -> Result<Configuration, RequestError> {
    const NOT_A_MAP: &str =
        "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal";
    if let Some(value) = plain_json(bytes) {
        return Ok(Configuration { value: Ok(value), duplicates: Vec::new() });
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned());
    let document = match text.and_then(yaml::parse) {
        Ok(document) => document,
        Err(why) if bytes.trim_ascii_start().starts_with(b"{") => {
            let why = format!("error decoding patch: error converting YAML to JSON: {why}");
            return Ok(Configuration { value: Err(why), duplicates: Vec::new() });
        }
        Err(why) => return Err(RequestError::BadRequest(format!("error encoding patch: {why}"))),
    };
    let value = match document.value {
        Value::Object(_) => Ok(document.value),
        Value::Null => Ok(Value::Object(Map::new())),
        other => {
            Err(format!("{NOT_A_MAP} {} into Go value of type map[string]interface {{}}", go_type(&other)))
        }
    };
    Ok(Configuration { value, duplicates: document.duplicates })
}

/// A map that is JSON and would be the same as YAML, which takes far longer to read: what clients send.
fn plain_json(bytes: &[u8]) -> Option<Value> {
    fn has_float(value: &Value) -> bool {
        match value {
            Value::Float(_) => true,
            Value::Array(items) => items.iter().any(has_float),
            Value::Object(map) => map.values().any(has_float),
            _ => false,
        }
    }
    let is_plain = |byte: &u8| matches!(byte, b'\n' | b' '..=b'~');
    let special = |pair: &[u8]| matches!(pair, b"<<" | b"\\u");
    if !bytes.iter().all(is_plain) || bytes.windows(2).any(special) {
        return None;
    }
    let (value, has_duplicates) = json::parse_telling(bytes).ok()?;
    let same = value.as_object().is_some() && !has_duplicates && !has_float(&value);
    same.then_some(value)
}

/// Why a text is no sequence of documents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("document {document}: {reason}")]
pub struct DocumentError {
    /// Which document is wrong, counted from 1.
    pub document: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// The documents of a manifest: one if it is JSON, any number if it is YAML. Empty ones are null, and count.
///
/// ```
/// let manifest = kindom_http::decode::documents(b"a: 1\n---\n---\n{b: [no]}\n")?;
/// let texts: Vec<String> = manifest.iter().map(ToString::to_string).collect();
/// assert_eq!(texts, [r#"{"a":1}"#, "null", r#"{"b":[false]}"#]);
/// # Ok::<(), kindom_http::decode::DocumentError>(())
/// ```
///
/// # Errors
/// What is neither JSON nor YAML, and a field that stands twice in a map, of which one would be lost.
pub fn documents(bytes: &[u8]) -> Result<Vec<Value>, DocumentError> {
    if let Ok(value) = json::parse(bytes) {
        return match duplicate_fields(bytes).as_slice() {
            [] => Ok(vec![value]),
            duplicates => Err(DocumentError { document: 1, reason: duplicates.join(", ") }),
        };
    }
    let wrong = |document, reason| DocumentError { document, reason };
    let text = std::str::from_utf8(bytes).map_err(|e| wrong(1, format!("it is not UTF-8: {e}")))?;
    let mut all = Vec::new();
    for document in yaml::documents(text) {
        let number = all.len() + 1;
        let document = document.map_err(|reason| wrong(number, reason))?;
        if !document.duplicates.is_empty() {
            return Err(wrong(number, document.duplicates.join(", ")));
        }
        all.push(document.value);
    }
    Ok(all)
}

/// The tree, and what strict decoding finds.
fn tree(bytes: &[u8], format: Format, strict: bool) -> Result<(Value, Vec<String>), String> {
    match format {
        Format::Json => {
            let (value, has_duplicates) = json::parse_telling(bytes).map_err(|e| {
                let why = go_syntax_error(bytes).unwrap_or_else(|| e.to_string());
                format!("couldn't get version/kind; json parse error: {why}")
            })?;
            let duplicates = if strict && has_duplicates { duplicate_fields(bytes) } else { Vec::new() };
            Ok((value, duplicates))
        }
        Format::Yaml => {
            let text =
                std::str::from_utf8(bytes).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
            let document = yaml::parse(text)?;
            let mut strict_errors = Vec::new();
            if strict && !document.duplicates.is_empty() {
                let lines = document.duplicates.join("\n  ");
                strict_errors.push(format!("{YAML_ERRORS}{lines}"));
            }
            Ok((document.value, strict_errors))
        }
        Format::Protobuf => {
            let message = protobuf::message("meta.k8s.io/v1", "DeleteOptions");
            let message = message.ok_or_else(|| "no such message".to_owned())?;
            let value = protobuf::decode(bytes, message).map_err(|error| error.to_string())?;
            Ok((value, Vec::new()))
        }
    }
}

/// `duplicate field "spec.x"`, for each field that stands more than once in a JSON text.
pub(crate) fn duplicate_fields(bytes: &[u8]) -> Vec<String> {
    let paths = json::duplicate_fields(bytes).unwrap_or_default();
    let shown = paths.iter().take(STRICT_ERRORS_MAX);
    shown.map(|path| format!("duplicate field \"{path}\"")).collect()
}

/// Strict errors as warnings: what YAML has said of several lines in one error is a warning each.
pub(crate) fn strict_warnings(errors: Vec<String>) -> Vec<String> {
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

/// Fills what an object does not say of its type, in the object too.
fn complete_type(kind: &mut GroupVersionKind, fields: &mut Map, expected: &GroupVersionKind) {
    if kind.kind.is_empty() {
        kind.kind.clone_from(&expected.kind);
        fields.insert("kind", kind.kind.as_str());
    }
    if kind.group.is_empty() && kind.version.is_empty() {
        kind.group.clone_from(&expected.group);
        kind.version.clone_from(&expected.version);
        fields.insert("apiVersion", kind.api_version());
    }
}

/// What the body says it is; the kind is empty if it says nothing.
fn type_of(value: &Value) -> Result<GroupVersionKind, String> {
    let wrong = "couldn't get version/kind; json parse error: json: cannot unmarshal";
    if value.is_null() {
        return Ok(GroupVersionKind::default());
    }
    if value.as_object().is_none() {
        let expected = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        return Err(format!("{wrong} {} into Go value of type {expected}", go_type(value)));
    }
    let text = |field: &str| match value.get(field) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(other) => {
            Err(format!("{wrong} {} into Go struct field .{field} of type string", go_type(other)))
        }
    };
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    let (group, version) = split_api_version(api_version)
        .ok_or_else(|| format!("unexpected GroupVersion string: {api_version}"))?;
    Ok(GroupVersionKind::new(group, version, kind))
}

pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// `summarizeData`
fn summary(bytes: &[u8]) -> String {
    let shown = bytes.get(..SUMMARY_BYTES_MAX).unwrap_or(bytes);
    let more = if bytes.len() > SUMMARY_BYTES_MAX { " ..." } else { "" };
    match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => format!("{}{more}", shown.iter().map(|b| format!("{b:02x}")).collect::<String>()),
    }
}

pub(crate) fn cannot_be_handled(
    found: &GroupVersionKind,
    expected: &GroupVersionKind,
    why: &str,
) -> RequestError {
    let version = go_quote(&found.version);
    let (found, expected) = (&found.kind, &expected.kind);
    RequestError::BadRequest(format!("{found} in version {version} cannot be handled as a {expected}: {why}"))
}

/// All strict errors as one text: `strict decoding error: unknown field "spec.x", …`.
#[must_use]
pub fn strict_text(errors: &[String]) -> String {
    format!("strict decoding error: {}", errors.join(", "))
}

/// The 400 for a POST or PUT with strict errors.
#[must_use]
pub fn strict_error(
    found: &GroupVersionKind,
    expected: &GroupVersionKind,
    errors: &[String],
) -> RequestError {
    cannot_be_handled(found, expected, &strict_text(errors))
}

/// The value of a Warning header (RFC 7234): `299 - "unknown field \"spec.x\""`. Line breaks, which a header cannot
/// hold, become spaces.
#[must_use]
pub fn warning_header(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 10);
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    format!("299 - \"{quoted}\"")
}

/// The values of the Warning headers for these texts: each text once, and not more of them than a header can carry. If
/// all are too long together, each is cut, and then those that still do not fit are left out.
#[must_use]
pub fn warning_headers(texts: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    let texts: Vec<&String> = texts.iter().filter(|t| seen.insert(t.as_str())).collect();
    let total: usize = texts.iter().map(|t| t.chars().count()).sum();
    let cut = if total > WARNINGS_CHARS_MAX { WARNING_CHARS_CUT } else { WARNINGS_CHARS_MAX };
    let mut room = WARNINGS_CHARS_MAX;
    let mut headers = Vec::new();
    for text in texts {
        let text: String = text.chars().take(cut).collect();
        match room.checked_sub(text.chars().count()) {
            Some(left) => room = left,
            None => break,
        }
        headers.push(warning_header(&text));
    }
    headers
}

/// Checks that an object's group and version are what its URL says, and for a built-in type also its kind; that of a
/// registered type is its validation's to check ([`wrong_type`]).
///
/// # Errors
/// [`RequestError::BadRequest`]
pub fn check_type(
    found: &GroupVersionKind,
    expected: &GroupVersionKind,
    built_in: bool,
) -> Result<(), RequestError> {
    let same_version = found.group == expected.group && found.version == expected.version;
    // Registrations once had another version, which is still known.
    let known = same_version
        || (found.group == CRD_GROUP && expected.group == CRD_GROUP && found.version == "v1beta1");
    if built_in && !(known && found.kind == expected.kind) {
        let (kind, version) = (go_quote(&found.kind), go_quote(&found.api_version()));
        let why = format!("no kind {kind} is registered for version {version} in scheme {SCHEME}");
        return Err(cannot_be_handled(found, expected, &why));
    }
    if !same_version {
        let (found, expected) = (found.api_version(), expected.api_version());
        return Err(RequestError::BadRequest(format!(
            "the API version in the data ({found}) does not match the expected API version ({expected})"
        )));
    }
    Ok(())
}

/// What is wrong with the apiVersion and kind of an object of a registered type (`ValidateTypeMeta`).
#[must_use]
pub fn wrong_type(found: &GroupVersionKind, expected: &GroupVersionKind) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut check = |field: &str, found: &str, expected: &str| {
        if found != expected {
            errors.push(field::Error::invalid(
                &field::Path::new(field),
                found,
                format!("must be {expected}"),
            ));
        }
    };
    check("kind", &found.kind, &expected.kind);
    check("apiVersion", &found.api_version(), &expected.api_version());
    errors
}

/// Checks that an object's name, if it has one, is the URL's.
///
/// # Errors
/// [`RequestError::BadRequest`]
pub fn check_name(object: &str, url: &str) -> Result<(), RequestError> {
    if object.is_empty() || object == url {
        return Ok(());
    }
    let message = format!("the name of the object ({object}) does not match the name on the URL ({url})");
    Err(RequestError::BadRequest(message))
}

/// Checks that an object's namespace, if it has one, is the URL's (`EnsureObjectNamespaceMatchesRequestNamespace`).
///
/// # Errors
/// [`RequestError::BadRequest`]
pub fn check_namespace(object: &str, url: &str) -> Result<(), RequestError> {
    if object.is_empty() || object == url {
        return Ok(());
    }
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    Err(RequestError::BadRequest(message.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{
        check_name, check_namespace, check_type, documents, object, strict_error, unknown_field,
        warning_header, warning_headers, wrong_type,
    };
    use crate::negotiate::Format;
    use crate::query::FieldValidation;
    use kindom_api::names::GroupVersionKind;

    fn widget() -> GroupVersionKind {
        GroupVersionKind::new("example.com", "v1", "Widget")
    }

    fn check(body: &str, format: Format, want: &str) {
        let got = match object(body.as_bytes(), format, &widget(), false, FieldValidation::Warn) {
            Ok(d) => format!("{} {} {:?}", d.kind.api_version(), d.kind.kind, d.strict_errors),
            Err(e) => e.to_string(),
        };
        assert_eq!(got, want, "{body}");
    }

    #[test]
    fn objects_are_decoded() {
        check(r#"{"apiVersion":"example.com/v1","kind":"Widget"}"#, Format::Json, "example.com/v1 Widget []");
        check("apiVersion: v1\nkind: Pod", Format::Yaml, "v1 Pod []");
        check(r#"{"kind":"Widget"}"#, Format::Json, " Widget []");
        check(
            r#"{"kind":"Widget","spec":{"x":1,"x":2}}"#,
            Format::Json,
            r#" Widget ["duplicate field \"spec.x\""]"#,
        );
        check(
            "kind: W\nkind: Widget",
            Format::Yaml,
            r#" Widget ["yaml: unmarshal errors:\n  line 2: key \"kind\" already set in map"]"#,
        );
        let ignored =
            object(br#"{"kind":"W","a":1,"a":2}"#, Format::Json, &widget(), false, FieldValidation::Ignore);
        assert!(ignored.unwrap().strict_errors.is_empty());
    }

    #[test]
    fn malformed_bodies_are_400() {
        let start = "the object provided is unrecognized (must be of type Widget): ";
        let parse = "couldn't get version/kind; json parse error: ";
        check("", Format::Json, &format!("{start}{parse}unexpected end of JSON input (<empty>)"));
        check(
            "{bad",
            Format::Json,
            &format!(
                "{start}{parse}invalid character 'b' looking for beginning of object key string ({{bad)"
            ),
        );
        check(
            "x",
            Format::Json,
            &format!("{start}{parse}invalid character 'x' looking for beginning of value (78)"),
        );
        check(
            &"y".repeat(31),
            Format::Json,
            &format!(
                "{start}{parse}invalid character 'y' looking for beginning of value ({} ...)",
                "79".repeat(30)
            ),
        );
        check(
            r#"{"kind":5}"#,
            Format::Json,
            &format!(
                "{start}{parse}json: cannot unmarshal number into Go struct field .kind of type string ({{\"kind\":5}})"
            ),
        );
        check(
            r#"{"apiVersion":"a/b/c"}"#,
            Format::Json,
            &format!("{start}unexpected GroupVersion string: a/b/c ({{\"apiVersion\":\"a/b/c\"}})"),
        );
        check("{}", Format::Json, &format!("{start}Object 'Kind' is missing in '{{}}' ({{}})"));
        check("null", Format::Json, &format!("{start}Object 'Kind' is missing in 'null' (6e756c6c)"));
        assert_eq!(
            object(b"{}", Format::Json, &widget(), false, FieldValidation::Ignore).unwrap_err().to_string(),
            "Widget in version \"v1\" cannot be handled as a Widget: Object 'Kind' is missing in '{}'"
        );
        let error =
            object(b"a: [", Format::Yaml, &widget(), false, FieldValidation::Warn).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{start}yaml: line ")), "{error}");
        let error =
            object(b"[]", Format::Json, &widget(), false, FieldValidation::Warn).unwrap_err().to_string();
        assert!(
            error.contains("cannot unmarshal array into Go value of type struct { APIVersion"),
            "{error}"
        );
        check(
            r#"{"kind":"Widget","a":[1,-1.5e3,"1e500",1e400]}"#,
            Format::Json,
            "Widget in version \"v1\" cannot be handled as a Widget: json: cannot unmarshal number 1e400 into Go value \
             of type float64",
        );
        assert!(object(b"\xff", Format::Yaml, &widget(), false, FieldValidation::Warn).is_err());
        assert!(object(b"{\"a\":\"\xff\"}", Format::Json, &widget(), false, FieldValidation::Warn).is_err());
    }

    #[test]
    fn strict_errors_have_upstreams_text() {
        let errors = [unknown_field("spec.x"), "duplicate field \"spec.y\"".to_owned()];
        assert_eq!(
            strict_error(&widget(), &widget(), &errors).to_string(),
            "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.x\", \
             duplicate field \"spec.y\""
        );
        assert_eq!(warning_header(&unknown_field("spec.x")), r#"299 - "unknown field \"spec.x\"""#);
        assert_eq!(warning_header("a\n\\b"), r#"299 - "a \\b""#);
    }

    #[test]
    fn warnings_fit_into_a_header() {
        let texts = |n: usize, length: usize| -> Vec<String> {
            (0..n).map(|i| format!("{i:03}{}", "x".repeat(length - 3))).collect()
        };
        assert_eq!(warning_headers(&["a".to_owned(), "b".to_owned(), "a".to_owned()]).len(), 2);
        assert_eq!(warning_headers(&texts(2, 2048)).len(), 2);
        let cut = warning_headers(&texts(3, 2048));
        assert_eq!(cut.len(), 3);
        assert_eq!(cut.first().map(String::len), Some(256 + 8));
        assert_eq!(warning_headers(&texts(100, 300)).len(), 16);
    }

    #[test]
    fn a_built_in_type_need_not_be_said() {
        let decoded = |body: &str| {
            object(body.as_bytes(), Format::Json, &widget(), true, FieldValidation::Warn)
                .map(|d| (d.value, d.kind))
        };
        let whole = decoded(r#"{"apiVersion":"example.com/v1","kind":"Widget"}"#).unwrap();
        for part in ["{}", r#"{"kind":"Widget"}"#, r#"{"apiVersion":"example.com/v1","kind":""}"#] {
            assert_eq!(decoded(part).unwrap(), whole, "{part}");
        }
        // What it says stands.
        assert_eq!(decoded(r#"{"kind":"Gadget"}"#).unwrap().1.kind, "Gadget");
        assert!(decoded("[]").is_err());
        assert!(decoded("null").is_err());
    }

    #[test]
    fn an_object_must_be_what_its_url_says() {
        let check = |group: &str, version: &str, kind: &str| {
            let found = GroupVersionKind::new(group, version, kind);
            check_type(&found, &widget(), false).map_err(|e| e.to_string())
        };
        assert_eq!(check("example.com", "v1", "Widget"), Ok(()));
        assert_eq!(
            check("example.com", "v2", "Widget"),
            Err("the API version in the data (example.com/v2) does not match the expected API version \
                 (example.com/v1)"
                .into())
        );
        assert!(check("", "", "Widget").is_err());
        // That is left to the object's validation.
        assert_eq!(check("example.com", "v1", "Gadget"), Ok(()));
        let wrong = |version: &str, kind: &str| {
            wrong_type(&GroupVersionKind::new("example.com", version, kind), &widget())
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert!(wrong("v1", "Widget").is_empty());
        assert_eq!(
            wrong("v2", "Gadget"),
            [
                "kind: Invalid value: \"Gadget\": must be Widget",
                "apiVersion: Invalid value: \"example.com/v2\": must be example.com/v1"
            ]
        );
        let built_in = GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let check = |group: &str, version: &str, kind: &str| {
            let found = GroupVersionKind::new(group, version, kind);
            check_type(&found, &built_in, true).map_err(|e| e.to_string())
        };
        assert_eq!(
            check("apiextensions.k8s.io", "v1", "Widget"),
            Err("Widget in version \"v1\" cannot be handled as a CustomResourceDefinition: no kind \"Widget\" is \
                 registered for version \"apiextensions.k8s.io/v1\" in scheme \"pkg/runtime/scheme.go:111\""
                .into())
        );
        assert!(
            check("apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition")
                .is_err_and(|e| e.starts_with("the API version in the data"))
        );
        assert!(check_name("", "a").is_ok());
        assert_eq!(
            check_name("b", "a").unwrap_err().to_string(),
            "the name of the object (b) does not match the name on the URL (a)"
        );
        assert!(check_namespace("n", "n").is_ok());
        assert!(check_namespace("m", "n").is_err());
    }

    #[test]
    fn documents_are_counted_where_they_are_wrong() {
        let check = |text: &str, want: &str| {
            let got = documents(text.as_bytes()).map(|all| format!("{} documents", all.len()));
            assert_eq!(got.unwrap_or_else(|e| e.to_string()), want);
        };
        check("", "0 documents");
        check("# a comment\n---\na: 1\n---\n# empty\n---\nb: 2\n", "3 documents");
        check("a: 1\n---\na: [\n", "document 2: yaml: line 3: did not find expected node content");
        check("---\n---\na: 1\na: 2\n", "document 2: line 4: key \"a\" already set in map");
        check(r#"{"a": 1, "a": 2}"#, r#"document 1: duplicate field "a""#);
    }
}
