//! The span of a request and its line in the access log: who asked for what, how it was answered, and how long it took.
//!
//! Both are of level DEBUG and target [`TARGET`], so that a server that does not log them pays nothing for them. A watch is
//! logged when its stream begins.

use std::time::Duration;

use actix_web::http::header::{self, HeaderName, HeaderValue};
use kindom_actor_kit::Entropy;
use kindom_api::user::User;
use tracing::{Span, field};

use crate::head::Head;
use crate::request_info::RequestInfo;

/// The target of the access log.
pub const TARGET: &str = "kindom_http::access";

/// The header with which an operator finds a request in a log.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The name of a request: a proxy's, if it gave one of at most 64 visible characters, or a new one (apiserver
/// `pkg/endpoints/filters/audit_init.go`, 1.37).
pub(crate) fn audit_id(request: &Head, entropy: &Entropy) -> Option<HeaderValue> {
    let given = request
        .headers()
        .get(&AUDIT_ID)
        .filter(|id| (1..=64).contains(&id.len()) && id.to_str().is_ok())
        .cloned();
    given.or_else(|| HeaderValue::from_str(&entropy.uuid_v4()).ok())
}

/// The span that everything that is logged while a request is answered stands in.
pub(crate) fn span(request: &Head, info: Option<&RequestInfo>, audit_id: Option<&HeaderValue>) -> Span {
    let span = tracing::debug_span!(
        target: TARGET,
        "request",
        audit_id = audit_id.and_then(|id| id.to_str().ok()),
        user = field::Empty,
        impersonator = field::Empty,
        verb = field::Empty,
        group = field::Empty,
        resource = field::Empty,
        subresource = field::Empty,
        namespace = field::Empty,
        object = field::Empty,
    );
    if span.is_disabled() {
        return span;
    }
    match info {
        Some(RequestInfo::Resource(info)) => {
            span.record("verb", info.verb.as_str());
            let optional = [
                ("group", &info.resource.group),
                ("resource", &info.resource.resource),
                ("subresource", &info.subresource),
                ("namespace", &info.namespace),
                ("object", &info.name),
            ];
            for (field, value) in optional.into_iter().filter(|(_, value)| !value.is_empty()) {
                span.record(field, value.as_str());
            }
        }
        Some(RequestInfo::Path(_)) | None => {
            span.record("verb", request.method().as_str());
        }
    }
    span
}

/// Adds the user to a request's span.
pub(crate) fn asked_by(span: &Span, user: &User) {
    span.record("user", user.name.as_str());
}

/// Notes that the request goes on as another user.
pub(crate) fn impersonated(span: &Span, requestor: &User, user: &User) {
    span.record("impersonator", requestor.name.as_str());
    span.record("user", user.name.as_str());
}

/// Logs the answer, within the request's span.
pub(crate) fn answered(request: &Head, code: u16, took: Duration) {
    tracing::debug!(
        target: TARGET,
        method = request.method().as_str(),
        uri = request.uri().path_and_query().map_or("", |uri| uri.as_str()),
        agent = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()),
        code,
        milliseconds = took.as_secs_f64() * 1000.0,
        "answered"
    );
}
