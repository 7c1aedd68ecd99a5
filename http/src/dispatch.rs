//! A request's way: read the path, find out who asks and whether they may, find the type, answer.

mod elsewhere;
mod permission;
mod served;

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use actix_http::ConnectionType;
use actix_web::body::{BodySize, BoxBody, MessageBody as _};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderMap};
use actix_web::http::{StatusCode, Version};
use actix_web::{HttpMessage as _, HttpResponse, web};
use kindom_actor_kit::{DEAR, Deadline, Flow, Held, Share, turn};
use kindom_api::GroupVersionResource;
use kindom_api::user::User;
use kindom_objects::declared_subresources::EndpointServer;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use self::elsewhere::{SentOn, served_elsewhere};
use self::permission::{acting_as, authenticate, authorized, path_of, reviewed};
use self::served::{allowed, resource, watched, with_deprecation};
use crate::aggregate;
use crate::app::App;
use crate::audit::{self, Arrival};
use crate::authn::{Attributes, Impersonation, NotWanted, Peer};
use crate::body::{Received, body, runs_on};
use crate::call::Call;
use crate::cost::{self, HEADER_BYTES};
use crate::fallback::{check_path, delegate};
use crate::forward::{self, Destination};
use crate::head::Head;
use crate::in_flight::Permit;
use crate::metrics::RequestKey;
use crate::query::Query;
use crate::request_info::{RequestInfo, Verb};
use crate::respond::failure;
use crate::response::Response;
use crate::route::{find, is_served, look_up, nothing_there, subresource_served};
use crate::state::{LATE, REQUEST_TIMEOUT, State};
use crate::status::Failure;
use crate::turns;
use crate::{RequestError, access, documents};

/// So many headers are not counted.
const HEADERS_FEW: usize = 100;

/// A request, apart from its body.
struct Asked {
    head: Head,
    query: Query,
    info: Result<RequestInfo, RequestError>,
    /// The name of the request.
    audit_id: Option<header::HeaderValue>,
    /// The time at which it came, in microseconds since the epoch; 0 where nobody wants to know.
    received_us: u64,
}

/// The handler of every path.
pub(crate) async fn serve(mut request: ServiceRequest) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let Some(app) = request.app_data::<web::Data<App>>().cloned() else {
        return Ok(request.into_response(HttpResponse::InternalServerError().finish()));
    };
    let head = Head::take(&mut request);
    let peer = peer(&request);
    let payload = request.take_payload();
    let (response, headers) = respond(&app.into_inner(), head, peer, payload).await;
    // actix-web keeps the map's memory for the next request.
    if let Some(headers) = headers {
        request.head_mut().headers = headers;
    }
    Ok(request.into_response(response))
}

/// The client of a request's connection; none where there is no connection.
fn peer(request: &ServiceRequest) -> Option<Rc<Peer>> {
    // HTTP/1.1 knows data of a connection; HTTP/2 gives each request its own reference.
    let peer = request.conn_data::<Rc<Peer>>().cloned();
    peer.or_else(|| request.extensions().get::<Rc<Peer>>().cloned())
}

/// Answers a request; gives the map of its headers back, if nobody else has it.
async fn respond(
    app: &Arc<App>,
    head: Head,
    peer: Option<Rc<Peer>>,
    payload: Payload,
) -> (HttpResponse, Option<HeaderMap>) {
    let began = Instant::now();
    let state = &app.state;
    let query = Query::parse(head.query_string());
    let info = RequestInfo::parse(head.method().as_str(), head.path(), &query);
    let audit_id = access::audit_id(&head, &state.entropy);
    let received_us = state.auditing.as_ref().map_or(0, |_| state.clock.wall_us());
    let asked = Arc::new(Asked { head, query, info, audit_id: audit_id.clone(), received_us });
    let request = &asked.head;
    let mutating = !matches!(request.method().as_str(), "GET" | "HEAD" | "OPTIONS");
    let in_flight = state.metrics.begin(mutating);
    let span = access::span(request, asked.info.as_ref().ok(), audit_id.as_ref());
    let outcome = {
        // Pinned first: a future that is wrapped is copied, and this one is large.
        let answer = pin!(answer(app, &asked, peer.as_deref(), payload, &span));
        if span.is_disabled() { answer.await } else { answer.instrument(span.clone()).await }
    };
    let response = outcome.unwrap_or_else(|why| failure(request, why).into_http());
    drop(in_flight);
    let mut response = match request.audit() {
        None => response,
        // Boxed: few servers have an audit log.
        Some(_) => Box::pin(audit::answered(request, response)).await,
    };
    if let Some(id) = audit_id {
        response.headers_mut().insert(access::AUDIT_ID, id);
    }
    end_without_chunks(request, &mut response);
    let (code, took) = (response.status().as_u16(), began.elapsed());
    span.in_scope(|| access::answered(request, code, took));
    let labels = labels(state, request, asked.info.as_ref().ok(), code);
    state.metrics.end(labels, took, |of| is_served(state, of));
    (response, Arc::into_inner(asked).map(|asked| asked.head.into_headers()))
}

/// Ends a streamed body with its connection if it cannot come in chunks: HTTP/1.0 has none, and actix-http announces but does
/// not send them if the request's body has no end of its own.
fn end_without_chunks(request: &Head, response: &mut HttpResponse) {
    let has_no_chunks = request.version() < Version::HTTP_11 || runs_on(request);
    let is_stream = response.body().size() == BodySize::Stream;
    if is_stream && has_no_chunks && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let head = response.head_mut();
        head.no_chunking(true);
        head.set_connection_type(ConnectionType::Close);
    }
}

/// The labels that metrics count the request under. Names appear only if there is such a type, and methods only if HTTP has
/// them: otherwise clients could make endless labels.
fn labels<'a>(state: &State, request: &Head, info: Option<&'a RequestInfo>, code: u16) -> RequestKey<'a> {
    let verb = method_label(request);
    let nothing = RequestKey { verb, group: "", version: "", resource: "", subresource: "", scope: "", code };
    let Some(RequestInfo::Resource(of)) = info else { return nothing };
    let is_elsewhere = |aggregator| info.is_some_and(|info| aggregate::elsewhere(aggregator, info).is_some());
    if state.aggregator.as_deref().is_some_and(is_elsewhere) {
        // Another server says which resources there are: any, perhaps.
        let GroupVersionResource { group, version, .. } = &of.resource;
        return RequestKey { group, version, ..nothing };
    }
    let info = of;
    let known = code < 400
        || find(state, info)
            .is_some_and(|(_, spec)| info.subresource.is_empty() || subresource_served(&spec, info));
    let scope = match info {
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
        | Verb::Unknown => verb,
    };
    if !known {
        return RequestKey { verb, scope, ..nothing };
    }
    let GroupVersionResource { group, version, resource } = &info.resource;
    RequestKey { verb, group, version, resource, subresource: &info.subresource, scope, code }
}

fn method_label(request: &Head) -> &'static str {
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

/// The flow of a request. Probes share one of their own, whoever asks.
fn flow(state: &State, user: &User, info: &RequestInfo) -> Flow {
    match info {
        RequestInfo::Resource(info) => state.flow(user, (&info.resource.group, &info.resource.resource)),
        RequestInfo::Path(_) if info.is_probe() => turns::PROBES,
        RequestInfo::Path(segments) => state.flow(user, segments.first()),
    }
}

async fn answer(
    app: &Arc<App>,
    asked: &Arc<Asked>,
    peer: Option<&Peer>,
    payload: Payload,
    span: &Span,
) -> Result<HttpResponse, Failure> {
    let (state, request, query) = (&app.state, &asked.head, &asked.query);
    let info = asked.info.as_ref().map_err(Clone::clone)?;
    let (method, path);
    let attributes = match info {
        RequestInfo::Resource(info) => Attributes::Resource {
            verb: info.verb.as_str(),
            group: &info.resource.group,
            resource: &info.resource.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: &info.name,
        },
        RequestInfo::Path(segments) => {
            method = request.method().as_str().to_ascii_lowercase();
            path = path_of(request.path(), segments);
            Attributes::Path { verb: &method, path: &path }
        }
    };
    let arrival = Arrival {
        request,
        info,
        attributes,
        id: asked.audit_id.as_ref(),
        peer,
        received_us: asked.received_us,
    };
    let found = match authenticate(state, request, peer) {
        Ok(found) => Ok(found),
        // Boxed: the future of every request would have room for it.
        Err(why) => Box::pin(reviewed(state, request, why)).await,
    };
    if state.auditing.is_some() && matches!(found, Ok(_) | Err(Failure::Unauthorized)) {
        // Boxed, as above.
        Box::pin(arrival.begin(state, found.as_ref().ok().map(|(user, _)| user))).await?;
    }
    let (user, token_in_protocol) = found?;
    access::asked_by(span, &user);
    let headers = request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let user =
        match Impersonation::of_headers(headers).map_err(|NotWanted(why)| RequestError::BadRequest(why))? {
            None => user,
            // Boxed, as above.
            Some(wanted) => {
                let _permit = state.bounds.in_flight.enter(&user, info, request.method().as_str())?;
                Box::pin(acting_as(state, asked, (user, wanted), attributes, info, span)).await?
            }
        };
    let flow = flow(state, &user, info);
    turns::asks(flow);
    let permit = state.bounds.in_flight.enter(&user, info, request.method().as_str())?;
    let share = peer.map(Peer::held).cloned().unwrap_or_default();
    let mut held = state.bounds.budget.begin(&share);
    if request.headers().len() > HEADERS_FEW {
        held.grow(request.headers().len() * HEADER_BYTES)?;
    }
    let is_authorized = authorized(state, asked, &user, attributes, info).await;
    if let Some(record) = request.record() {
        audit::decided(record, &is_authorized);
    }
    is_authorized?;
    if let Some(aggregator) = &state.aggregator
        && let Some((group, version)) = aggregate::elsewhere(&**aggregator, info)
    {
        let sent = SentOn { state, asked, peer, user };
        // Boxed, as above.
        let answer = Box::pin(sent.to(&**aggregator, Destination::Version(group, version), payload)).await;
        let may_refuse = matches!(request.method().as_str(), "GET" | "HEAD");
        // Upstream does not count what may have no end.
        let permit = permit.filter(|_| !forward::has_no_end(info));
        return match answer.upgraded() {
            Ok(upgraded) => Ok(upgraded),
            Err(answer) => delivered(answer, permit, held, &share, may_refuse),
        };
    }
    let asked_info = info;
    match info {
        RequestInfo::Path(segments) => {
            let reached = peer.and_then(Peer::reached);
            let answer = documents::serve(app, request, query, segments, &user, reached).await;
            match (answer, &state.fallback) {
                (Err(Failure::Request(RequestError::NotFound)), Some(next)) => {
                    check_path(request)?;
                    let deadline = Deadline::after(REQUEST_TIMEOUT);
                    let body = body(request, state.body_bytes_max, deadline, payload, &mut held).await?;
                    Ok(delegate(&**next, request, body, user).await.into_http())
                }
                (answer, _) => delivered(answer?, permit, held, &share, true),
            }
        }
        RequestInfo::Resource(info) => {
            let is_watch = info.verb == Verb::Watch;
            let wanted = if is_watch { None } else { query.timeout()? };
            let timeout = wanted.unwrap_or(REQUEST_TIMEOUT).min(REQUEST_TIMEOUT);
            let deadline = Deadline::after(timeout);
            let (found, knowledge) = look_up(state, info, deadline).await?;
            let Some((handle, spec)) = found else {
                return match (nothing_there(state, info), &state.fallback) {
                    (RequestError::NotFound, Some(next)) => {
                        check_path(request)?;
                        let body = body(request, state.body_bytes_max, deadline, payload, &mut held).await?;
                        Ok(delegate(&**next, request, body, user).await.into_http())
                    }
                    (error, _) => Err(error.into()),
                };
            };
            let none = Mutex::new(None);
            let mut call = Call {
                state,
                request,
                query,
                info,
                user,
                handle,
                spec,
                deadline,
                knowledge,
                flow,
                share,
                until_admitted: &none,
                token_in_protocol,
            };
            if matches!(call.endpoint_server(), Some(EndpointServer::Own)) {
                // Those of its steps that do not end are held against it, and not against the type.
                let (group, resource) = (&info.resource.group, &info.resource.resource);
                call.flow = state.flow(&call.user, (group, resource, &info.subresource));
            }
            let flow = call.flow;
            if let Some(record) = request.record()
                && call.version().is_ok_and(|version| version.deprecation_warning.is_some())
            {
                record.annotate("k8s.io/deprecated", "true");
            }
            with_deprecation(&call, allowed(&call))?;
            // Upstream does not count a request whose answer may have no end. Here it counts until webhooks and policies have admitted it.
            let ends = call.endpoint_server().is_none() || !forward::has_no_end(asked_info);
            if matches!(call.endpoint_server(), Some(EndpointServer::Webhook(_))) {
                // Boxed, as above.
                let sent = SentOn { state, asked, peer, user: Arc::clone(&call.user) };
                let permit = (permit, ends);
                let (answer, share, permit) = Box::pin(served_elsewhere(call, sent, payload, permit)).await?;
                return match answer.upgraded() {
                    Ok(upgraded) => Ok(upgraded),
                    Err(answer) => delivered(answer, permit, held, &share, false),
                };
            }
            if is_watch {
                return watched(call, payload).await;
            }
            // What a webhook has answered would be asked again.
            if info.verb == Verb::Get && call.spec.webhook().is_none() && call.endpoint_server().is_none() {
                // Nearly every GET is cheap: it is answered here, and only one that is not begins again as a future of its own.
                let answer = pin!(resource(&call, None));
                if let Some(answer) = state.bounds.processors.attempt(flow, answer).await {
                    return delivered(answer?, permit, held, &call.share, true);
                }
            }
            let received = match info.verb {
                Verb::Get | Verb::List => None,
                _ => Some(Received::read(&call, payload, call.room().begin()).await),
            };
            let may_refuse = received.is_none() && call.endpoint_server().is_none();
            let has_rules = call.spec.strategy.is_of_program();
            let Call { user, handle, spec, deadline, knowledge, share, token_in_protocol, .. } = call;
            let (app, asked, of_connection) = (Arc::clone(app), Arc::clone(asked), share.clone());
            let (permit, until_admitted) = if ends { (permit, None) } else { (None, permit) };
            let answer = async move {
                let Ok(RequestInfo::Resource(info)) = &asked.info else {
                    return Err(RequestError::NotFound.into());
                };
                let until_admitted = Mutex::new(until_admitted);
                let (state, request, query) = (&app.state, &asked.head, &asked.query);
                let call = Call {
                    state,
                    request,
                    query,
                    info,
                    user,
                    handle,
                    spec,
                    deadline,
                    knowledge,
                    flow,
                    share,
                    until_admitted: &until_admitted,
                    token_in_protocol,
                };
                in_turn(request, resource(&call, received).await).await
            };
            let answer = match span.is_disabled() {
                true => state.bounds.processors.run(flow, answer),
                false => state.bounds.processors.run(flow, answer.instrument(span.clone())),
            };
            let answer = match has_rules {
                true => answer.within(deadline.instant() + LATE).await.map_err(RequestError::from)?,
                false => answer.await.map_err(|lost| RequestError::Internal(lost.to_string()))?,
            };
            delivered(answer?, permit, held, &of_connection, may_refuse)
        }
    }
}

/// Makes the answer that refuses a request for so many errors that it takes long, once it is its turn.
async fn in_turn(request: &Head, outcome: Result<Response, Failure>) -> Result<Response, Failure> {
    match outcome.map_err(|why| (cost::refusal(why.bytes()), why)) {
        Ok(answer) => Ok(answer),
        Err((cost, why)) if cost < DEAR => Err(why),
        Err((cost, why)) => {
            turn(cost).await;
            Ok(failure(request, why))
        }
    }
}

/// An answer on its way to the connection, with what it holds until it is there. Only a read may be refused for that.
fn delivered(
    answer: Response,
    permit: Option<Permit>,
    held: Held,
    share: &Share,
    may_refuse: bool,
) -> Result<HttpResponse, Failure> {
    let mut held = held.instead(share);
    match may_refuse {
        true => held.grow(answer.bytes_held())?,
        false => held.grow_anyway(answer.bytes_held()),
    }
    Ok(answer.into_http_with((permit, held)))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use kindom_actor_kit::Processors;
    use kindom_api::GroupKind;
    use kindom_api::field::{Error, ErrorList, Path};

    use super::*;

    /// The thread that makes the answer to a request with an error of so many bytes; none if that is left to the connection's.
    async fn maker(bytes: usize) -> Option<String> {
        let pool = Processors::new(1).unwrap();
        let head = Head::take(&mut TestRequest::default().to_srv_request());
        let errors = ErrorList::from(Error::invalid(&Path::new("spec"), "x".repeat(bytes), "wrong"));
        let request = async move {
            let refused = RequestError::Invalid { kind: GroupKind::default(), name: String::new(), errors };
            let answer = in_turn(&head, Err(refused.into())).await.ok()?;
            assert_eq!(answer.into_http().status(), StatusCode::UNPROCESSABLE_ENTITY);
            std::thread::current().name().map(str::to_owned)
        };
        let maker = pool.run(Flow { user: 1, kind: 1 }, request).await.unwrap();
        pool.shutdown();
        maker
    }

    #[tokio::test]
    async fn a_long_refusal_is_made_by_a_processor() {
        assert_eq!(maker(100).await, None);
        assert!(maker(1 << 20).await.is_some_and(|thread| thread.starts_with("processor-")));
    }
}
