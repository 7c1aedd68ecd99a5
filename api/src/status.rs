//! `v1` Status: the answer to a failed request, and to some that succeed (apimachinery `meta/v1` and `api/errors`, 1.37).

use std::borrow::Cow;
use std::fmt;

use crate::field;
use crate::json::{Map, Value};
use crate::names::{GroupKind, GroupResource};

/// The reasons that clients tell errors apart by (`metav1.StatusReason`).
pub mod reason {
    /// 409: the object exists already.
    pub const ALREADY_EXISTS: &str = "AlreadyExists";
    /// 400: the request makes no sense.
    pub const BAD_REQUEST: &str = "BadRequest";
    /// 409: the object is not in the state that the request was made for.
    pub const CONFLICT: &str = "Conflict";
    /// 410: the revision asked for is gone.
    pub const EXPIRED: &str = "Expired";
    /// 403
    pub const FORBIDDEN: &str = "Forbidden";
    /// 410: old form of [`EXPIRED`].
    pub const GONE: &str = "Gone";
    /// 500
    pub const INTERNAL_ERROR: &str = "InternalError";
    /// 422: the object does not validate.
    pub const INVALID: &str = "Invalid";
    /// 405
    pub const METHOD_NOT_ALLOWED: &str = "MethodNotAllowed";
    /// 406
    pub const NOT_ACCEPTABLE: &str = "NotAcceptable";
    /// 404
    pub const NOT_FOUND: &str = "NotFound";
    /// 413
    pub const REQUEST_ENTITY_TOO_LARGE: &str = "RequestEntityTooLarge";
    /// 500, may be tried again.
    pub const SERVER_TIMEOUT: &str = "ServerTimeout";
    /// 503
    pub const SERVICE_UNAVAILABLE: &str = "ServiceUnavailable";
    /// 500: something stored is no object.
    pub const STORE_READ_ERROR: &str = "StorageReadError";
    /// 504: the outcome is not known.
    pub const TIMEOUT: &str = "Timeout";
    /// 429
    pub const TOO_MANY_REQUESTS: &str = "TooManyRequests";
    /// 401
    pub const UNAUTHORIZED: &str = "Unauthorized";
    /// 415
    pub const UNSUPPORTED_MEDIA_TYPE: &str = "UnsupportedMediaType";
}

/// The reasons of causes that clients look for (`metav1.CauseType`); those of field errors are in
/// [`field::ErrorType::reason`].
pub mod cause {
    /// An eviction meets a PodDisruptionBudget (`policy/v1`).
    pub const DISRUPTION_BUDGET: &str = "DisruptionBudget";
    /// An apply meets a field that another manager owns.
    pub const FIELD_MANAGER_CONFLICT: &str = "FieldManagerConflict";
    /// A create in a namespace that is going away.
    pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
    /// The revision asked for lies ahead of the store's.
    pub const RESOURCE_VERSION_TOO_LARGE: &str = "ResourceVersionTooLarge";
    /// There are more errors than the answer lists.
    pub const TOO_MANY: &str = "FieldValueTooMany";
    /// Something answered that is no API server.
    pub const UNEXPECTED_SERVER_RESPONSE: &str = "UnexpectedServerResponse";
}

/// The success or failure of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// `Success`
    Success,
    /// `Failure`
    Failure,
}

/// One of several things that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cause {
    /// A machine-readable kind: `FieldValueInvalid`; may be empty.
    pub reason: Cow<'static, str>,
    /// The error, as a person reads it.
    pub message: String,
    /// The field: `spec.replicas`; may be empty.
    pub field: String,
}

/// The object and the errors that a Status is about. Empty fields are left out on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// The object's group.
    pub group: String,
    /// The object's kind, or its plural resource name.
    pub kind: String,
    /// The object's uid.
    pub uid: String,
    /// The errors, one by one.
    pub causes: Vec<Cause>,
    /// The seconds to wait before a retry; 0 leaves the field out.
    pub retry_after_seconds: u32,
}

/// A `v1` Status object. Prints as its message.
///
/// ```
/// use kindom_api::{GroupResource, status::Status};
/// let status = Status::not_found(&GroupResource::new("example.com", "widgets"), "a");
/// assert_eq!(status.code, 404);
/// assert_eq!(status.to_string(), r#"widgets.example.com "a" not found"#);
/// assert_eq!(Status::from_value(&status.to_value()), Some(status));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The success or failure of the request.
    pub status: Outcome,
    /// For people.
    pub message: String,
    /// For programs: one of [`reason`], or empty.
    pub reason: Cow<'static, str>,
    /// The object and the errors that it is about.
    pub details: Option<Box<Details>>,
    /// The HTTP status code; 0 is left out on the wire.
    pub code: u16,
    /// The token with which a list whose own token has expired goes on.
    pub continue_token: Option<String>,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

fn about(resource: &GroupResource, name: &str) -> Details {
    Details {
        name: name.to_owned(),
        group: resource.group.clone(),
        kind: resource.resource.clone(),
        ..Details::default()
    }
}

fn retry_after(seconds: u32) -> Details {
    Details { retry_after_seconds: seconds, ..Details::default() }
}

fn is_nil(resource: &GroupResource) -> bool {
    resource.group.is_empty() && resource.resource.is_empty()
}

/// One constructor for each of upstream's `errors.New…`, with its text.
impl Status {
    fn failure(
        code: u16,
        reason: &'static str,
        message: impl Into<String>,
        details: Option<Details>,
    ) -> Self {
        Self {
            status: Outcome::Failure,
            message: message.into(),
            reason: Cow::Borrowed(reason),
            details: details.map(Box::new),
            code,
            continue_token: None,
        }
    }

    /// A success about an object, as a delete answers; without a code.
    #[must_use]
    pub fn success(details: Details) -> Self {
        Self {
            status: Outcome::Success,
            message: String::new(),
            reason: Cow::Borrowed(""),
            details: Some(Box::new(details)),
            code: 0,
            continue_token: None,
        }
    }

    /// 404: there is no such object.
    #[must_use]
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} not found", field::go_quote(name));
        Self::failure(404, reason::NOT_FOUND, message, Some(about(resource, name)))
    }

    /// 409: there is such an object already.
    #[must_use]
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} already exists", field::go_quote(name));
        Self::failure(409, reason::ALREADY_EXISTS, message, Some(about(resource, name)))
    }

    /// 409: no free name was found for a generateName.
    #[must_use]
    pub fn generate_name_conflict(resource: &GroupResource, name: &str, retry_after_seconds: u32) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            field::go_quote(name)
        );
        let details = Details { retry_after_seconds, ..about(resource, name) };
        Self::failure(409, reason::ALREADY_EXISTS, message, Some(details))
    }

    /// 401; an empty message becomes `not authorized`.
    #[must_use]
    pub fn unauthorized(message: &str) -> Self {
        let message = if message.is_empty() { "not authorized" } else { message };
        Self::failure(401, reason::UNAUTHORIZED, message, None)
    }

    /// 403: an empty resource and an empty name are left out of the message.
    #[must_use]
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = if is_nil(resource) {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", field::go_quote(name))
        };
        Self::failure(403, reason::FORBIDDEN, message, Some(about(resource, name)))
    }

    /// 409: the object is not in the state that the request was made for.
    #[must_use]
    pub fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let name_quoted = field::go_quote(name);
        let message = format!("Operation cannot be fulfilled on {resource} {name_quoted}: {why}");
        Self::failure(409, reason::CONFLICT, message, Some(about(resource, name)))
    }

    /// 409: an apply meets fields that others own.
    #[must_use]
    pub fn apply_conflict(causes: Vec<Cause>, message: impl Into<String>) -> Self {
        Self::failure(409, reason::CONFLICT, message, Some(Details { causes, ..Details::default() }))
    }

    /// 410: the old form of [`Self::expired`].
    #[must_use]
    pub fn gone(message: impl Into<String>) -> Self {
        Self::failure(410, reason::GONE, message, None)
    }

    /// 410: the revision asked for is gone (`NewResourceExpired`).
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, reason::EXPIRED, message, None)
    }

    /// 422: the object does not validate; one cause for each error, in order. The answer stops at some 16 MiB and then gives
    /// the number of the errors that it leaves out.
    #[must_use]
    pub fn invalid(kind: &GroupKind, name: &str, errors: &[field::Error]) -> Self {
        // Each stands in the message as well as in a cause.
        const LISTED_BYTES_MAX: usize = 8 << 20;
        let mut bytes = 0;
        let beyond = errors.iter().position(|error| {
            bytes += error.field.len() + error.body().len();
            bytes > LISTED_BYTES_MAX
        });
        let listed = beyond.map_or(errors.len(), |first| first.max(1));
        let shortened: Vec<field::Error>;
        let errors = if listed < errors.len() {
            let more = format!("too many errors: {} more are not listed", errors.len() - listed);
            let note = field::Error::forbidden(&field::Path::root(), more);
            shortened = errors.iter().take(listed).cloned().chain([note]).collect();
            &shortened
        } else {
            errors
        };
        let name_quoted = field::go_quote(name);
        let message = if errors.is_empty() {
            format!("{kind} {name_quoted} is invalid")
        } else {
            format!("{kind} {name_quoted} is invalid: {}", field::aggregate(errors))
        };
        let causes = errors.iter().map(|e| Cause {
            reason: Cow::Borrowed(e.kind.reason()),
            message: e.body(),
            field: e.field.clone(),
        });
        let details = Details {
            name: name.to_owned(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes: causes.collect(),
            ..Details::default()
        };
        Self::failure(422, reason::INVALID, message, Some(details))
    }

    /// 400
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, reason::BAD_REQUEST, message, None)
    }

    /// 429 with this very message (`NewTooManyRequests`).
    #[must_use]
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::failure(429, reason::TOO_MANY_REQUESTS, message, Some(retry_after(retry_after_seconds)))
    }

    /// 503
    #[must_use]
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, reason::SERVICE_UNAVAILABLE, message, None)
    }

    /// 405: the resource does not do this.
    #[must_use]
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let kind = field::go_quote(&resource.to_string());
        let message = format!("{action} is not supported on resources of kind {kind}");
        Self::failure(405, reason::METHOD_NOT_ALLOWED, message, Some(about(resource, "")))
    }

    /// 500, to be tried again: the operation certainly did not happen.
    #[must_use]
    pub fn server_timeout(resource: &GroupResource, operation: &str, retry_after_seconds: u32) -> Self {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        let details = Details { retry_after_seconds, ..about(resource, operation) };
        Self::failure(500, reason::SERVER_TIMEOUT, message, Some(details))
    }

    /// 500
    #[must_use]
    pub fn internal_error(why: impl fmt::Display) -> Self {
        let why = why.to_string();
        let message = format!("Internal error occurred: {why}");
        let causes = vec![Cause { message: why, ..Cause::default() }];
        Self::failure(500, reason::INTERNAL_ERROR, message, Some(Details { causes, ..Details::default() }))
    }

    /// 504: the operation may have happened (`NewTimeoutError`).
    #[must_use]
    pub fn timeout(why: impl fmt::Display, retry_after_seconds: u32) -> Self {
        Self::failure(504, reason::TIMEOUT, format!("Timeout: {why}"), Some(retry_after(retry_after_seconds)))
    }

    /// 413
    #[must_use]
    pub fn request_entity_too_large(why: impl fmt::Display) -> Self {
        Self::failure(413, reason::REQUEST_ENTITY_TOO_LARGE, format!("Request entity too large: {why}"), None)
    }

    /// 504: the revision asked for lies ahead of the store's (apiserver `pkg/storage/errors.go`).
    #[must_use]
    pub fn too_large_resource_version(wanted: u64, current: u64, retry_after_seconds: u32) -> Self {
        let why = format!("Too large resource version: {wanted}, current: {current}");
        Self::timeout(why, retry_after_seconds).with_cause(Cause {
            reason: Cow::Borrowed(cause::RESOURCE_VERSION_TOO_LARGE),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        })
    }

    /// 406: the server has none of the formats that the client accepts; `accepted` lists those it has (apiserver
    /// `pkg/endpoints/handlers/negotiation/errors.go`).
    #[must_use]
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::failure(406, reason::NOT_ACCEPTABLE, message, None)
    }

    /// 415: the server does not read the body's format; `accepted` lists those it reads.
    #[must_use]
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::failure(415, reason::UNSUPPORTED_MEDIA_TYPE, message, None)
    }

    /// The Status of a bare status code (`NewGenericServerResponse`, without an unexpected response). `message` is used
    /// where the code alone explains too little (403, 406, 415, 5xx).
    #[must_use]
    pub fn generic(code: u16, verb: &str, resource: &GroupResource, name: &str, message: &str) -> Self {
        let (reason, text) = match code {
            409 if verb == "POST" => (reason::ALREADY_EXISTS, "the server reported a conflict"),
            409 => (reason::CONFLICT, "the server reported a conflict"),
            404 => (reason::NOT_FOUND, "the server could not find the requested resource"),
            400 => (reason::BAD_REQUEST, "the server rejected our request for an unknown reason"),
            401 => (reason::UNAUTHORIZED, "the server has asked for the client to provide credentials"),
            403 => (reason::FORBIDDEN, message),
            406 if message.is_empty() || message == "unknown" => (
                reason::NOT_ACCEPTABLE,
                "the server was unable to respond with a content type that the client supports",
            ),
            406 => (reason::NOT_ACCEPTABLE, message),
            415 => (reason::UNSUPPORTED_MEDIA_TYPE, message),
            405 => (
                reason::METHOD_NOT_ALLOWED,
                "the server does not allow this method on the requested resource",
            ),
            422 => (reason::INVALID, "the server rejected our request due to an error in our request"),
            503 => (reason::SERVICE_UNAVAILABLE, "the server is currently unable to handle the request"),
            504 => (
                reason::TIMEOUT,
                "the server was unable to return a response in the time allotted, but may still be processing \
                 the request",
            ),
            429 => (
                reason::TOO_MANY_REQUESTS,
                "the server has received too many requests and has asked us to try again later",
            ),
            500.. => (reason::INTERNAL_ERROR, ""),
            _ => ("", ""),
        };
        let mut text = match (reason, text) {
            (reason::INTERNAL_ERROR, _) => format!(
                "an error on the server ({}) has prevented the request from succeeding",
                field::go_quote(message)
            ),
            ("", _) => format!(
                "the server responded with the status code {code} but did not return more information"
            ),
            (_, text) => text.to_owned(),
        };
        if !is_nil(resource) {
            let verb = verb.to_ascii_lowercase();
            text = if name.is_empty() {
                format!("{text} ({verb} {resource})")
            } else {
                format!("{text} ({verb} {resource} {name})")
            };
        }
        Self::failure(code, reason, text, Some(about(resource, name)))
    }

    /// With one more cause.
    #[must_use]
    pub fn with_cause(mut self, cause: Cause) -> Self {
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// With a uid in its details.
    #[must_use]
    pub fn with_uid(mut self, uid: impl Into<String>) -> Self {
        self.details.get_or_insert_default().uid = uid.into();
        self
    }

    /// Returns true if one of the causes has this reason.
    #[must_use]
    pub fn has_cause(&self, reason: &str) -> bool {
        self.details.as_ref().is_some_and(|d| d.causes.iter().any(|c| c.reason == reason))
    }

    /// The wire form.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue", token.as_str());
        }
        let mut map = Map::new();
        map.insert("kind", "Status");
        map.insert("apiVersion", "v1");
        map.insert("metadata", metadata);
        map.insert("status", if self.status == Outcome::Success { "Success" } else { "Failure" });
        put(&mut map, "message", &self.message);
        put(&mut map, "reason", &self.reason);
        if let Some(details) = &self.details {
            map.insert("details", details.to_value());
        }
        if self.code != 0 {
            map.insert("code", i64::from(self.code));
        }
        Value::Object(map)
    }

    /// The wire form as JSON, its fields in the order of upstream's struct.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        const STATUS: [&str; 8] =
            ["kind", "apiVersion", "metadata", "status", "message", "reason", "details", "code"];
        const DETAILS: [&str; 6] = ["name", "group", "kind", "uid", "causes", "retryAfterSeconds"];
        const CAUSE: [&str; 3] = ["reason", "message", "field"];
        let mut out = Vec::with_capacity(256 + self.message.len());
        write_ordered(&self.to_value(), &[&STATUS, &DETAILS, &CAUSE], &mut out);
        out
    }

    /// Reads the wire form; unknown fields are ignored. None if it is no `v1` Status.
    #[must_use]
    pub fn from_value(value: &Value) -> Option<Self> {
        let text = |field| value.get(field).and_then(Value::as_str).unwrap_or("");
        if text("kind") != "Status" || !matches!(text("apiVersion"), "v1" | "meta.k8s.io/v1") {
            return None;
        }
        Some(Self {
            status: if text("status") == "Success" { Outcome::Success } else { Outcome::Failure },
            message: text("message").to_owned(),
            reason: Cow::Owned(text("reason").to_owned()),
            details: value.get("details").and_then(Details::from_value).map(Box::new),
            code: value.get("code").and_then(Value::as_i64).and_then(|n| u16::try_from(n).ok()).unwrap_or(0),
            continue_token: value.at(&["metadata", "continue"]).and_then(Value::as_str).map(str::to_owned),
        })
    }
}

/// Writes maps with their fields in an order; `orders` has the outermost map's first. Lists count as no level, and the
/// fields of a map that an order does not name are left to the order of [`Value`].
fn write_ordered(value: &Value, orders: &[&[&str]], out: &mut Vec<u8>) {
    match (value, orders) {
        (Value::Array(items), _) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_ordered(item, orders, out);
            }
            out.push(b']');
        }
        (Value::Object(map), [order, deeper @ ..]) if map.iter().all(|(key, _)| order.contains(&key)) => {
            out.push(b'{');
            for (i, (key, item)) in order.iter().filter_map(|key| Some((*key, map.get(key)?))).enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                Value::from(key).write_to(out);
                out.push(b':');
                write_ordered(item, deeper, out);
            }
            out.push(b'}');
        }
        (other, _) => other.write_to(out),
    }
}

impl Details {
    fn to_value(&self) -> Value {
        let mut map = Map::new();
        put(&mut map, "name", &self.name);
        put(&mut map, "group", &self.group);
        put(&mut map, "kind", &self.kind);
        put(&mut map, "uid", &self.uid);
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(|c| {
                let mut map = Map::new();
                put(&mut map, "reason", &c.reason);
                put(&mut map, "message", &c.message);
                put(&mut map, "field", &c.field);
                Value::Object(map)
            });
            map.insert("causes", Value::Array(causes.collect()));
        }
        if self.retry_after_seconds != 0 {
            map.insert("retryAfterSeconds", self.retry_after_seconds);
        }
        Value::Object(map)
    }

    fn from_value(value: &Value) -> Option<Self> {
        value.as_object()?;
        let text = |value: &Value, field| value.get(field).and_then(Value::as_str).unwrap_or("").to_owned();
        let causes = value.get("causes").and_then(Value::as_array).unwrap_or_default();
        let seconds = value.get("retryAfterSeconds").and_then(Value::as_i64);
        Some(Self {
            name: text(value, "name"),
            group: text(value, "group"),
            kind: text(value, "kind"),
            uid: text(value, "uid"),
            causes: causes
                .iter()
                .map(|c| Cause {
                    reason: Cow::Owned(text(c, "reason")),
                    message: text(c, "message"),
                    field: text(c, "field"),
                })
                .collect(),
            retry_after_seconds: seconds.and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        })
    }
}

fn put(map: &mut Map, field: &str, text: &str) {
    if !text.is_empty() {
        map.insert(field, text);
    }
}

#[cfg(test)]
mod tests {
    use super::{Cause, Details, Status, cause};
    use crate::field::{Error, Path};
    use crate::names::{GroupKind, GroupResource};

    fn check(status: &Status, want: &str) {
        assert_eq!(status.to_value().to_string(), want);
        assert_eq!(Status::from_value(&status.to_value()).as_ref(), Some(status));
    }

    fn widgets() -> GroupResource {
        GroupResource::new("example.com", "widgets")
    }

    #[test]
    fn the_wire_form_is_upstreams() {
        check(
            &Status::not_found(&widgets(), "a"),
            r#"{"apiVersion":"v1","code":404,"details":{"group":"example.com","kind":"widgets","name":"a"},"kind":"Status","message":"widgets.example.com \"a\" not found","metadata":{},"reason":"NotFound","status":"Failure"}"#,
        );
        check(
            &Status::bad_request("x"),
            r#"{"apiVersion":"v1","code":400,"kind":"Status","message":"x","metadata":{},"reason":"BadRequest","status":"Failure"}"#,
        );
        check(
            &Status::success(Details {
                name: "a".into(),
                group: "example.com".into(),
                kind: "widgets".into(),
                uid: "u".into(),
                ..Details::default()
            }),
            r#"{"apiVersion":"v1","details":{"group":"example.com","kind":"widgets","name":"a","uid":"u"},"kind":"Status","metadata":{},"status":"Success"}"#,
        );
        check(
            &Status::too_large_resource_version(7, 5, 1),
            r#"{"apiVersion":"v1","code":504,"details":{"causes":[{"message":"Too large resource version","reason":"ResourceVersionTooLarge"}],"retryAfterSeconds":1},"kind":"Status","message":"Timeout: Too large resource version: 7, current: 5","metadata":{},"reason":"Timeout","status":"Failure"}"#,
        );
        let mut expired = Status::expired("too old");
        expired.continue_token = Some("t".into());
        check(
            &expired,
            r#"{"apiVersion":"v1","code":410,"kind":"Status","message":"too old","metadata":{"continue":"t"},"reason":"Expired","status":"Failure"}"#,
        );
    }

    #[test]
    fn an_invalid_object_names_each_cause() {
        let spec = Path::new("spec");
        let errors =
            [Error::required(&spec.child("a"), ""), Error::invalid(&spec.child("b"), "x", "must be y")];
        let kind = GroupKind { group: "example.com".into(), kind: "Widget".into() };
        check(
            &Status::invalid(&kind, "a", &errors),
            r#"{"apiVersion":"v1","code":422,"details":{"causes":[{"field":"spec.a","message":"Required value","reason":"FieldValueRequired"},{"field":"spec.b","message":"Invalid value: \"x\": must be y","reason":"FieldValueInvalid"}],"group":"example.com","kind":"Widget","name":"a"},"kind":"Status","message":"Widget.example.com \"a\" is invalid: [spec.a: Required value, spec.b: Invalid value: \"x\": must be y]","metadata":{},"reason":"Invalid","status":"Failure"}"#,
        );
        assert_eq!(Status::invalid(&kind, "", &[]).message, r#"Widget.example.com "" is invalid"#);
    }

    #[test]
    fn messages_are_upstreams() {
        let none = GroupResource::default();
        for (status, want) in [
            (Status::already_exists(&widgets(), "a"), r#"409 widgets.example.com "a" already exists"#),
            (
                Status::conflict(&widgets(), "a", "why"),
                r#"409 Operation cannot be fulfilled on widgets.example.com "a": why"#,
            ),
            (Status::forbidden(&widgets(), "a", "why"), r#"403 widgets.example.com "a" is forbidden: why"#),
            (Status::forbidden(&widgets(), "", "why"), "403 widgets.example.com is forbidden: why"),
            (Status::forbidden(&none, "", "why"), "403 forbidden: why"),
            (Status::unauthorized(""), "401 not authorized"),
            (
                Status::method_not_supported(&widgets(), "patch"),
                r#"405 patch is not supported on resources of kind "widgets.example.com""#,
            ),
            (
                Status::server_timeout(&widgets(), "create", 0),
                "500 The create operation against widgets.example.com could not be completed at this time, please \
                 try again.",
            ),
            (Status::internal_error("why"), "500 Internal error occurred: why"),
            (Status::timeout("why", 0), "504 Timeout: why"),
            (
                Status::request_entity_too_large("limit is 3145728"),
                "413 Request entity too large: limit is 3145728",
            ),
            (
                Status::not_acceptable(&["a/b", "c/d"]),
                "406 only the following media types are accepted: a/b, c/d",
            ),
            (
                Status::unsupported_media_type(&["a/b"]),
                "415 the body of the request was in an unknown format - accepted media types include: a/b",
            ),
            (
                Status::generic(404, "GET", &none, "", ""),
                "404 the server could not find the requested resource",
            ),
            (
                Status::generic(422, "PATCH", &widgets(), "a", ""),
                "422 the server rejected our request due to an error in our request (patch widgets.example.com a)",
            ),
            (
                Status::generic(500, "GET", &widgets(), "", "x"),
                "500 an error on the server (\"x\") has prevented the request from succeeding (get \
                 widgets.example.com)",
            ),
            (
                Status::generic(418, "GET", &none, "", ""),
                "418 the server responded with the status code 418 but did not return more information",
            ),
        ] {
            assert_eq!(format!("{} {status}", status.code), want);
        }
    }

    #[test]
    fn causes_can_be_added() {
        let status = Status::forbidden(&widgets(), "a", "x")
            .with_cause(Cause { reason: cause::NAMESPACE_TERMINATING.into(), ..Cause::default() });
        assert!(status.has_cause("NamespaceTerminating"));
        assert!(!status.has_cause("Other"));
    }

    #[test]
    fn other_kinds_are_not_read() {
        assert_eq!(Status::from_value(&crate::json::parse(br#"{"kind":"Status"}"#).unwrap()), None);
        assert_eq!(Status::from_value(&crate::Value::Null), None);
    }
}
