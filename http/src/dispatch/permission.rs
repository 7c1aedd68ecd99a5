//! Authentication, impersonation and authorization of a request.

use std::borrow::Cow;
use std::sync::Arc;

use actix_web::http::header;
use kindom_api::selector::{FieldSelector, LabelSelector};
use kindom_api::user::User;
use tracing::Span;

use super::Asked;
use crate::authn::{
    AccessQuestion, Attributes, Impersonation, Peer, Presented, Requested, Unauthorized, Unreviewed,
    authorize,
};
use crate::head::Head;
use crate::query::Query;
use crate::request_info::{RequestInfo, Verb};
use crate::state::State;
use crate::status::Failure;
use crate::{access, websocket};

pub(super) fn authenticate(
    state: &State,
    request: &Head,
    peer: Option<&Peer>,
) -> Result<(Arc<User>, bool), Unauthorized> {
    if let Some(ends) = peer.and_then(Peer::certificate_ends) {
        // Of every request, and before the certificate is judged, as upstream.
        state.metrics.client_certificate(ends.saturating_sub(state.now_seconds()));
    }
    let in_protocol = websocket::bearer_token(request);
    let headers = request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    state.authenticator.authenticate(peer, presented(request, &in_protocol), headers)
}

pub(super) fn presented<'a>(
    request: &'a Head,
    in_protocol: &'a Result<Option<String>, &'static str>,
) -> Presented<'a> {
    let authorization = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    Presented { authorization, in_protocol: in_protocol.as_ref().map(Option::as_deref).map_err(|why| *why) }
}

pub(super) fn unauthorized(why: &Unauthorized) -> Failure {
    tracing::info!(%why, "refused");
    Failure::Unauthorized
}

/// The user whom a service account's token names, or whom the host knows by one. Nothing else that the request carries
/// holds, for this reason: `refused`.
pub(super) async fn reviewed(
    state: &State,
    request: &Head,
    refused: Unauthorized,
) -> Result<(Arc<User>, bool), Failure> {
    let in_protocol = websocket::bearer_token(request);
    for (token, by_protocol) in presented(request, &in_protocol).tokens() {
        let Ok(token) = token else { continue };
        if let Some(accounts) = &state.accounts {
            match accounts.identify(token, None).await {
                Ok(Some(found)) => return Ok((found.user, by_protocol)),
                Ok(None) => {}
                Err(why) => tracing::info!(%why, "the token of a service account does not hold"),
            }
        }
        let Some(host) = &state.delegation.tokens else { continue };
        match host.review(token).verdict().await {
            Ok(Some(user)) => return Ok((user, by_protocol)),
            Ok(None) => {}
            Err(Unreviewed::Busy) => return Err(Failure::InFlight),
            Err(Unreviewed::Failed(why)) => {
                // As upstream's union, which goes on behind an error.
                tracing::info!(%why, "a token could not be reviewed");
            }
        }
    }
    Err(unauthorized(&refused))
}

/// The user as whom a request goes on that asks to be made as another one.
pub(super) async fn acting_as(
    state: &State,
    asked: &Asked,
    (requestor, wanted): (Arc<User>, Impersonation),
    attributes: Attributes<'_>,
    info: &RequestInfo,
    span: &Span,
) -> Result<Arc<User>, Failure> {
    let version = match info {
        RequestInfo::Resource(info) => info.resource.version.as_str(),
        RequestInfo::Path(_) => "",
    };
    let authorization = state.delegation.authorization.as_ref();
    let requested = Requested {
        last_modes: &state.last_modes,
        authorization,
        requestor: &requestor,
        attributes,
        version,
    };
    let (user, constraint) = requested
        .act_as(&wanted)
        .await
        .map_err(|denial| denial.map_or(Failure::InFlight, Failure::Denied))?;
    access::impersonated(span, &requestor, &user);
    let user = Arc::new(user);
    if let Some(record) = asked.head.record() {
        record.act_as(Arc::clone(&user), constraint);
    }
    Ok(user)
}

/// Asks whether a user may do something; returns the reason why he may, if the request is recorded and there is one.
pub(super) async fn authorized(
    state: &State,
    asked: &Asked,
    user: &User,
    attributes: Attributes<'_>,
    info: &RequestInfo,
) -> Result<Option<Arc<str>>, Failure> {
    match &state.delegation.authorization {
        None => authorize(user, &attributes).map(|()| None).map_err(Failure::Denied),
        Some(host) => {
            let wants_reason = asked.head.record().is_some();
            let question = AccessQuestion { wants_reason, ..question(user, attributes, info, &asked.query) };
            let decided = host.authorize(question).await;
            decided.map_err(|refused| Failure::refused(refused, asked.head.uri()))
        }
    }
}

/// The question if a user may make a request.
pub(super) fn question<'a>(
    user: &'a User,
    attributes: Attributes<'a>,
    info: &'a RequestInfo,
    query: &Query,
) -> AccessQuestion<'a> {
    let (version, selects) = match info {
        RequestInfo::Resource(info) => {
            let selects = matches!(info.verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
            (info.resource.version.as_str(), selects)
        }
        RequestInfo::Path(_) => ("", false),
    };
    let selector = |name| if selects { query.get(name).unwrap_or_default() } else { "" };
    AccessQuestion {
        user,
        attributes,
        version,
        fields: FieldSelector::parse(selector("fieldSelector")).unwrap_or_default(),
        labels: LabelSelector::parse(selector("labelSelector")).unwrap_or_default(),
        wants_reason: false,
    }
}

/// The path that is served: what is asked about is what is done, however the request writes it.
pub(super) fn path_of<'a>(raw: &'a str, segments: &[String]) -> Cow<'a, str> {
    if !raw.contains('%') && !raw.contains("//") {
        return Cow::Borrowed(raw);
    }
    let end = if raw.ends_with('/') && !segments.is_empty() { "/" } else { "" };
    Cow::Owned(format!("/{}{end}", segments.join("/")))
}
