//! Bodies: bytes to tree, with upstream's errors (apimachinery `pkg/runtime/serializer/json`, apiserver
//! `pkg/endpoints/handlers/{create,rest}.go`, 1.37).

use kindom_api::field::go_quote;
use kindom_api::json::{self, Map, Value};
use kindom_api::names::{GroupVersionKind, split_api_version};

use crate::go_json::{go_syntax_error, go_type, number_too_large};
use crate::protobuf::Message;
use crate::strict::{YAML_ERRORS, duplicate_fields, strict_text};
use crate::{DecodeError, FieldValidation, Format, protobuf, yaml};

/// Upstream's name for the collection of types that it was compiled with.
pub const SCHEME: &str = "\"pkg/runtime/scheme.go:111\"";
/// The number of bytes of a body that an error quotes.
const SUMMARY_BYTES_MAX: usize = 30;

/// A decoded object.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The object: a map. Of several equal keys the last one stays.
    pub value: Value,
    /// Its own group, version and kind; group and version are empty if it has no apiVersion.
    pub kind: GroupVersionKind,
    /// `true` if the object itself has an apiVersion; `false` if `expected` filled it in.
    pub says_version: bool,
    /// `duplicate field "spec.x"`, for each; always empty under [`FieldValidation::Ignore`].
    pub strict_errors: Vec<String>,
}

/// Decodes an object that is sent as `expected`.
///
/// Under [`FieldValidation::Strict`] the strict errors are not raised here: the caller adds the unknown fields (which
/// need the schema) behind them and then raises [`strict_error`].
///
/// With `default_type`, a missing kind or apiVersion is filled in from `expected`, as upstream's serializer does for types
/// that it was compiled with (`json.go` `gvkWithDefaults`); the Python client never sends them. `message` is the protobuf of
/// `expected` where the catalogue does not have it.
///
/// # Errors
/// [`DecodeError`] for a body that is no JSON or YAML object, or has no kind.
pub fn object(
    bytes: &[u8],
    format: Format,
    expected: &GroupVersionKind,
    message: Option<&Message>,
    default_type: bool,
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    let strict = validation != FieldValidation::Ignore;
    let unrecognized = |error: String| {
        DecodeError(format!(
            "the object provided is unrecognized (must be of type {}): {error} ({})",
            expected.kind,
            summary(bytes)
        ))
    };
    if format == Format::Protobuf {
        return protobuf_object(bytes, expected, message, unrecognized);
    }
    let (mut value, strict_errors) =
        tree(bytes, format, strict).map_err(|why| match (format, number_too_large(bytes)) {
            (Format::Json, Some(number)) if go_syntax_error(bytes).is_none() => {
                let why = format!("json: cannot unmarshal number {number} into Go value of type float64");
                cannot_be_handled(expected, expected, &why)
            }
            _ => unrecognized(why),
        })?;
    let mut kind = type_of(&value).map_err(unrecognized)?;
    let says_version = !(kind.group.is_empty() && kind.version.is_empty());
    if default_type && value.is_null() {
        // Go's decoder leaves an object as it is.
        value = Value::Object(Map::new());
    }
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
    message: Option<&Message>,
    unrecognized: impl Fn(String) -> DecodeError,
) -> Result<Decoded, DecodeError> {
    let envelope = protobuf::Envelope::open(bytes).map_err(|error| unrecognized(error.to_string()))?;
    // One that is malformed is as none (`schema.FromAPIVersionAndKind`).
    let (group, version) = split_api_version(&envelope.api_version).unwrap_or_default();
    let mut kind = GroupVersionKind::new(group, version, envelope.kind.as_str());
    let says_version = !(kind.group.is_empty() && kind.version.is_empty());
    let mut fields = Map::new();
    fields.insert("apiVersion", kind.api_version());
    fields.insert("kind", kind.kind.as_str());
    complete_type(&mut kind, &mut fields, expected);
    // A body of another kind is not decoded; the caller compares the types and refuses it.
    let own = message.filter(|_| kind == *expected);
    if let Some(message) = own.or_else(|| protobuf::message(&kind.api_version(), &kind.kind)) {
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
/// [`DecodeError`] for a body that is neither JSON nor YAML.
pub fn any(bytes: &[u8], format: Format) -> Result<Value, DecodeError> {
    tree(bytes, format, false).map(|(value, _)| value).map_err(DecodeError)
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

/// Fills in a missing kind or apiVersion, in `kind` and in the object.
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

/// Reads the object's own type; the kind is empty if the object has none.
///
/// # Errors
/// It is no object, or its type is no text.
pub fn type_of(value: &Value) -> Result<GroupVersionKind, String> {
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

/// The 400 for a body that is read as the kind `found` where `expected` is wanted.
#[must_use]
pub fn cannot_be_handled(found: &GroupVersionKind, expected: &GroupVersionKind, why: &str) -> DecodeError {
    let version = go_quote(&found.version);
    let (found, expected) = (&found.kind, &expected.kind);
    DecodeError(format!("{found} in version {version} cannot be handled as a {expected}: {why}"))
}

/// The 400 for a POST or PUT with strict errors.
#[must_use]
pub fn strict_error(found: &GroupVersionKind, expected: &GroupVersionKind, errors: &[String]) -> DecodeError {
    cannot_be_handled(found, expected, &strict_text(errors))
}

#[cfg(test)]
mod tests {
    use kindom_api::names::GroupVersionKind;

    use super::{object, strict_error};
    use crate::{FieldValidation, Format, unknown_field};

    fn widget() -> GroupVersionKind {
        GroupVersionKind::new("example.com", "v1", "Widget")
    }

    fn check(body: &str, format: Format, want: &str) {
        let got = match object(body.as_bytes(), format, &widget(), None, false, FieldValidation::Warn) {
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
        let ignored = object(
            br#"{"kind":"W","a":1,"a":2}"#,
            Format::Json,
            &widget(),
            None,
            false,
            FieldValidation::Ignore,
        );
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
            object(b"{}", Format::Json, &widget(), None, false, FieldValidation::Ignore)
                .unwrap_err()
                .to_string(),
            "Widget in version \"v1\" cannot be handled as a Widget: Object 'Kind' is missing in '{}'"
        );
        let error = object(b"a: [", Format::Yaml, &widget(), None, false, FieldValidation::Warn)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(&format!("{start}yaml: line ")), "{error}");
        let error = object(b"[]", Format::Json, &widget(), None, false, FieldValidation::Warn)
            .unwrap_err()
            .to_string();
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
        assert!(object(b"\xff", Format::Yaml, &widget(), None, false, FieldValidation::Warn).is_err());
        assert!(
            object(b"{\"a\":\"\xff\"}", Format::Json, &widget(), None, false, FieldValidation::Warn).is_err()
        );
    }

    #[test]
    fn strict_errors_have_upstreams_text() {
        let errors = [unknown_field("spec.x"), "duplicate field \"spec.y\"".to_owned()];
        assert_eq!(
            strict_error(&widget(), &widget(), &errors).to_string(),
            "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.x\", \
             duplicate field \"spec.y\""
        );
    }

    #[test]
    fn a_built_in_type_need_not_be_said() {
        let decoded = |body: &str| {
            object(body.as_bytes(), Format::Json, &widget(), None, true, FieldValidation::Warn)
                .map(|d| (d.value, d.kind))
        };
        let whole = decoded(r#"{"apiVersion":"example.com/v1","kind":"Widget"}"#).unwrap();
        for part in ["null", "{}", r#"{"kind":"Widget"}"#, r#"{"apiVersion":"example.com/v1","kind":""}"#] {
            assert_eq!(decoded(part).unwrap(), whole, "{part}");
        }
        // A kind or apiVersion in the object stays.
        assert_eq!(decoded(r#"{"kind":"Gadget"}"#).unwrap().1.kind, "Gadget");
        assert!(decoded("[]").is_err());
        assert!(decoded("7").is_err());
    }
}
