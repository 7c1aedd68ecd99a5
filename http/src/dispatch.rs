//! A request's way: read the path, find out who asks and whether they may, find the type, answer.

use std::pin::pin;
use std::sync::Arc;

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse, web};
use kindom_actor_kit::Deadline;
use kindom_api::GroupVersionResource;
use kindom_objects::Subresource;
use kindom_resource_actor::Basis;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use crate::app::App;
use crate::authn::{Attributes, Peer, User, authorize, refuse_impersonation};
use crate::body::body;
use crate::call::Call;
use crate::fallback::delegate;
use crate::head::{is_too_large, peer};
use crate::metrics::RequestLabels;
use crate::query::Query;
use crate::request_info::{RequestInfo, Verb};
use crate::respond::failure;
use crate::route::{deprecated, find, look_up, nothing_there, subresource_served};
use crate::state::{REQUEST_TIMEOUT, State};
use crate::status::{Failure, head_too_large};
use crate::verbs::{create, delete, get, list, patch, scale, update, watch};
use crate::{RequestError, access, documents, websocket};

/// The handler of every path.
pub(crate) async fn serve(request: HttpRequest, payload: web::Payload, app: web::Data<App>) -> HttpResponse {
    let began = Instant::now();
    let state = &app.state;
    let query = Query::parse(request.query_string());
    let info = RequestInfo::parse(request.method().as_str(), request.uri().path(), &query);
    let mutating = !matches!(request.method().as_str(), "GET" | "HEAD" | "OPTIONS");
    let in_flight = state.metrics.begin(mutating);
    let audit_id = access::audit_id(&request, &state.entropy);
    let span = access::span(&request, info.as_ref().ok(), audit_id.as_ref());
    let outcome = match &info {
        _ if is_too_large(&request) => Err(head_too_large()),
        Ok(info) => {
            // Pinned first: a future that is wrapped is copied, and this one is large.
            let answer = pin!(answer(&app, &request, payload, &query, info, &span));
            if span.is_disabled() { answer.await } else { answer.instrument(span.clone()).await }
        }
        Err(error) => Err(error.clone().into()),
    };
    let mut response = outcome.unwrap_or_else(|why| failure(&request, why));
    drop(in_flight);
    if let Some(id) = audit_id {
        response.headers_mut().insert(access::AUDIT_ID, id);
    }
    let (code, took) = (response.status().as_u16(), began.elapsed());
    span.in_scope(|| access::answered(&request, code, took));
    state.metrics.end(labels(state, &request, info.ok(), code), took);
    response
}

/// The labels that metrics count the request under. Names appear only if there is such a type, and methods only if HTTP has
/// them: otherwise clients could make endless labels.
fn labels(state: &State, request: &HttpRequest, info: Option<RequestInfo>, code: u16) -> RequestLabels {
    let nothing = || RequestLabels {
        verb: method_label(request),
        group: String::new(),
        version: String::new(),
        resource: String::new(),
        subresource: String::new(),
        scope: "",
        code,
    };
    let Some(RequestInfo::Resource(info)) = info else { return nothing() };
    let known = code < 400
        || find(state, &info)
            .is_some_and(|(_, spec)| info.subresource.is_empty() || subresource_served(&spec, &info));
    let scope = match &info {
        info if !info.name.is_empty() => "resource",
        info if !info.namespace.is_empty() => "namespace",
        _ => "cluster",
    };
    let verb = match info.verb {
        Verb::List => "LIST",
        Verb::Watch => "WATCH",
        Verb::DeleteCollection => "DELETECOLLECTION",
        Verb::Get
        | Verb::Create
        | Verb::Update
        | Verb::Patch
        | Verb::Delete
        | Verb::Proxy
        | Verb::Unknown => method_label(request),
    };
    if !known {
        return RequestLabels { verb, scope, ..nothing() };
    }
    let GroupVersionResource { group, version, resource } = info.resource;
    RequestLabels { verb, group, version, resource, subresource: info.subresource, scope, code }
}

fn method_label(request: &HttpRequest) -> &'static str {
    match request.method().as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

async fn answer(
    app: &App,
    request: &HttpRequest,
    payload: web::Payload,
    query: &Query,
    info: &RequestInfo,
    span: &Span,
) -> Result<HttpResponse, Failure> {
    let state = &app.state;
    let (user, token_in_protocol) = authenticate(state, request)?;
    access::asked_by(span, &user);
    let headers = request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    refuse_impersonation(&user, headers).map_err(Failure::Denied)?;
    let method;
    let attributes = match info {
        RequestInfo::Resource(info) => Attributes::Resource {
            verb: info.verb.as_str(),
            group: &info.resource.group,
            resource: &info.resource.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: &info.name,
        },
        RequestInfo::Path(_) => {
            method = request.method().as_str().to_ascii_lowercase();
            Attributes::Path { verb: &method, path: request.uri().path() }
        }
    };
    authorize(&user, &attributes).map_err(Failure::Denied)?;
    match info {
        RequestInfo::Path(segments) => {
            let answer = documents::serve(app, request, query, segments, &user).await;
            match (answer, &state.fallback) {
                (Err(Failure::Request(RequestError::NotFound)), Some(next)) => {
                    let body = body(request, state.body_bytes_max, Deadline::after(REQUEST_TIMEOUT), payload)
                        .await?;
                    Ok(delegate(&**next, request, body, user).await)
                }
                (answer, _) => answer,
            }
        }
        RequestInfo::Resource(info) => {
            let is_watch = info.verb == Verb::Watch;
            let wanted = if is_watch { None } else { query.timeout()? };
            let timeout = wanted.unwrap_or(REQUEST_TIMEOUT).min(REQUEST_TIMEOUT);
            let deadline = Deadline::after(timeout);
            let (found, basis) = look_up(state, info, deadline).await?;
            let Some((handle, spec)) = found else {
                return match (nothing_there(state, info), &state.fallback) {
                    (RequestError::NotFound, Some(next)) => {
                        let body = body(request, state.body_bytes_max, deadline, payload).await?;
                        Ok(delegate(&**next, request, body, user).await)
                    }
                    (error, _) => Err(error.into()),
                };
            };
            let call = Call { state, request, query, info, handle, spec, deadline, basis, token_in_protocol };
            let mut payload = Some(payload);
            match resource(&call, &mut payload).await {
                // The type may have been deleted and registered again since it was looked up: look it up again, and retry once.
                Err(why)
                    if matches!(info.verb, Verb::Get | Verb::List | Verb::Watch)
                        && call.basis == Basis::Guess
                        && why.is_of_a_type_gone() =>
                {
                    let ((handle, spec), basis) = call.look_up_again().await?;
                    let call = Call { handle, spec, basis, ..call };
                    told(&call, answer_read(&call, &mut payload).await)
                }
                answer => answer,
            }
        }
    }
}

fn authenticate(state: &State, request: &HttpRequest) -> Result<(Arc<User>, bool), Failure> {
    let peer = peer(request);
    if let Some(ends) = peer.as_deref().and_then(Peer::certificate_ends) {
        // Of every request, and before the certificate is judged, as upstream.
        state.metrics.client_certificate(ends.saturating_sub(state.now_seconds()));
    }
    let authorization = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let in_protocol = websocket::bearer_token(request);
    let in_protocol = in_protocol.as_ref().map(Option::as_deref).map_err(|why| *why);
    let found = state.authenticator.authenticate_websocket(peer.as_deref(), authorization, in_protocol);
    found.map_err(|why| {
        tracing::info!(%why, "refused");
        Failure::Unauthorized
    })
}

async fn resource(call: &Call<'_>, payload: &mut Option<web::Payload>) -> Result<HttpResponse, Failure> {
    told(call, verb(call, payload).await)
}

fn told(call: &Call<'_>, answer: Result<HttpResponse, Failure>) -> Result<HttpResponse, Failure> {
    // Successful answers already carry the warning.
    answer.map_err(|why| deprecated(why, &call.spec, call.info))
}

async fn verb(call: &Call<'_>, payload: &mut Option<web::Payload>) -> Result<HttpResponse, Failure> {
    let info = call.info;
    let unnamed = info.name.is_empty() && matches!(info.verb, Verb::Update | Verb::Patch);
    let named = !info.name.is_empty() && info.verb == Verb::Create;
    if call.spec.is_typed() && (unnamed || named || info.verb == Verb::Unknown) {
        return Err(RequestError::MethodNotAllowed.into());
    }
    let through = call.subresource();
    if through.is_some_and(|through| !through.verbs().contains(&info.verb.as_str())) {
        return Err(match call.spec.registration {
            None => RequestError::MethodNotAllowed.into(),
            Some(_) => info.method_not_supported().into(),
        });
    }
    if matches!(info.verb, Verb::Get | Verb::List | Verb::Watch | Verb::Proxy | Verb::Unknown) {
        return answer_read(call, payload).await;
    }
    let payload = payload.take().ok_or_else(|| RequestError::Internal("the body is gone".to_owned()))?;
    match (info.verb, through) {
        (Verb::Update, Some(Subresource::Scale)) => scale::update(call, payload).await,
        (Verb::Patch, Some(Subresource::Scale)) => scale::patch(call, payload).await,
        (Verb::Update, _) => update::update(call, payload).await,
        (Verb::Patch, _) => patch::patch(call, payload).await,
        (Verb::Create, None) => create::create(call, payload).await,
        (Verb::Delete, None) => delete::delete(call, payload).await,
        (Verb::DeleteCollection, None) => delete::delete_collection(call, payload).await,
        _ => Err(info.method_not_supported().into()),
    }
}

async fn answer_read(call: &Call<'_>, payload: &mut Option<web::Payload>) -> Result<HttpResponse, Failure> {
    match (call.info.verb, call.subresource()) {
        (Verb::Get, Some(Subresource::Scale)) => scale::get(call).await,
        (Verb::Get, _) => get::get(call).await,
        (Verb::List, _) => list::list(call).await,
        (Verb::Watch, _) => watch::watch(call, payload).await,
        _ => Err(call.info.method_not_supported().into()),
    }
}
