//! A request's way: read the path, find out who asks and whether they may, find the type, answer.

use std::borrow::Cow;
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
use kindom_api::selector::{FieldSelector, LabelSelector};
use kindom_api::user::User;
use kindom_objects::Subresource;
use kindom_objects::declared_subresources::EndpointServer;
use kindom_resource_actor::Knowledge;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use crate::aggregate::{Aggregator, elsewhere};
use crate::app::App;
use crate::audit::{self, Arrival};
use crate::authn::{
    AccessQuestion, Attributes, Impersonation, NotWanted, Peer, Presented, Requested, Unauthorized,
    Unreviewed, authorize,
};
use crate::body::{Received, body, runs_on};
use crate::call::Call;
use crate::cost::{self, HEADER_BYTES};
use crate::fallback::{check_path, delegate};
use crate::forward::{self, Destination, Forwarding, forward};
use crate::head::Head;
use crate::in_flight::Permit;
use crate::metrics::RequestLabels;
use crate::query::Query;
use crate::request_info::{RequestInfo, Verb};
use crate::respond::failure;
use crate::response::Response;
use crate::route::{Found, deprecated, find, is_served, look_up, nothing_there, subresource_served};
use crate::state::{LATE, REQUEST_TIMEOUT, State};
use crate::status::{Failure, namespaces_are_the_hosts};
use crate::turns;
use crate::verbs::connect::Admitted;
use crate::verbs::{connect, create, delete, eviction, get, list, patch, pod, scale, token, update, watch};
use crate::{RequestError, access, documents, websocket};

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
fn labels(state: &State, request: &Head, info: Option<&RequestInfo>, code: u16) -> RequestLabels {
    let nothing = || RequestLabels {
        verb: method_label(request),
        group: String::new(),
        version: String::new(),
        resource: String::new(),
        subresource: String::new(),
        scope: "",
        code,
    };
    let Some(RequestInfo::Resource(of)) = info else { return nothing() };
    let is_elsewhere = |aggregator| info.is_some_and(|info| elsewhere(aggregator, info).is_some());
    if state.aggregator.as_deref().is_some_and(is_elsewhere) {
        // Another server says which resources there are: any, perhaps.
        let GroupVersionResource { group, version, .. } = of.resource.clone();
        return RequestLabels { group, version, ..nothing() };
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
        | Verb::Unknown => method_label(request),
    };
    if !known {
        return RequestLabels { verb, scope, ..nothing() };
    }
    let GroupVersionResource { group, version, resource } = info.resource.clone();
    RequestLabels { verb, group, version, resource, subresource: info.subresource.clone(), scope, code }
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
    let share = peer.map_or_else(Share::default, |peer| Share(Arc::clone(peer.held())));
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
        && let Some((group, version)) = elsewhere(&**aggregator, info)
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

/// A request that another server answers.
struct SentOn<'a> {
    state: &'a Arc<State>,
    asked: &'a Asked,
    peer: Option<&'a Peer>,
    user: Arc<User>,
}

impl SentOn<'_> {
    async fn to(
        self,
        aggregator: &dyn Aggregator,
        destination: Destination<'_>,
        payload: Payload,
    ) -> Forwarding {
        let Self { state, asked, peer, user } = self;
        let address = peer.and_then(Peer::address).map(|address| address.ip());
        let client = forward::Client { user, address, audit_id: asked.audit_id.as_ref() };
        let is_of_a_proxy = |header: &str| state.authenticator.is_of_a_proxy(header);
        let has_no_end = asked.info.as_ref().is_ok_and(forward::has_no_end);
        forward(aggregator, &asked.head, destination, client, payload, is_of_a_proxy, has_no_end).await
    }
}

/// The user as whom a request goes on that asks to be made as another one.
async fn acting_as(
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
async fn authorized(
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

/// The call once more, if what it was looked up by was a guess: no store refuses what a program does.
async fn certain(call: &Call<'_>) -> Result<Option<(Found, Knowledge)>, Failure> {
    match call.knowledge {
        Knowledge::Guess => call.look_up_again().await.map(Some),
        _ => Ok(None),
    }
}

/// The answer of the program that serves a subresource, of an object that is there; the memory of the request's connection; and the
/// request's permit, if its answer `ends`.
async fn served_elsewhere(
    call: Call<'_>,
    sent: SentOn<'_>,
    payload: Payload,
    (permit, ends): (Option<Permit>, bool),
) -> Result<(Forwarding, Share, Option<Permit>), Failure> {
    let call = match certain(&call).await? {
        Some(((handle, spec), knowledge)) => Call { handle, spec, knowledge, ..call },
        None => call,
    };
    allowed(&call)?;
    let (info, state) = (call.info, call.state);
    if websocket::is_wanted(call.request) && info.verb != Verb::Create {
        // Whoever may only read must not write by a connection that becomes another (`AuthorizePodWebsocketUpgradeCreatePermission`).
        let attributes = Attributes::Resource {
            verb: "create",
            group: &info.resource.group,
            resource: &info.resource.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: &info.name,
        };
        let asked_info = sent.asked.info.as_ref().map_err(Clone::clone)?;
        authorized(state, sent.asked, &call.user, attributes, asked_info).await?;
    }
    let Admitted { warnings, has_waited } = connect::admit_forwarded(&call).await?;
    let permit = permit.filter(|_| ends);
    match sent_on(call, sent, payload, has_waited).await {
        Ok((mut answer, share)) => {
            answer.warn(&warnings);
            Ok((answer, share, permit))
        }
        Err(why) => Err(why.warned(warnings)),
    }
}

/// The same, once the request is admitted.
async fn sent_on(
    mut call: Call<'_>,
    sent: SentOn<'_>,
    payload: Payload,
    has_waited: bool,
) -> Result<(Forwarding, Share), Failure> {
    if has_waited {
        let ((handle, spec), knowledge) = call.look_up_again().await?;
        call = Call { handle, spec, knowledge, ..call };
        allowed(&call)?;
    }
    let Some(EndpointServer::Webhook(program)) = call.endpoint_server() else {
        return Err(RequestError::NotFound.into());
    };
    get::latest(&call).await?;
    let Some(aggregator) = &call.state.aggregator else {
        let why = "requests are sent on with --service-resolver or --aggregator-allowed-hosts alone";
        return Err(RequestError::Unavailable(why.to_owned()).into());
    };
    let answer = sent.to(&**aggregator, Destination::Program(program), payload).await;
    Ok((answer, call.share.clone()))
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

fn authenticate(
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

fn presented<'a>(request: &'a Head, in_protocol: &'a Result<Option<String>, &'static str>) -> Presented<'a> {
    let authorization = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    Presented { authorization, in_protocol: in_protocol.as_ref().map(Option::as_deref).map_err(|why| *why) }
}

fn unauthorized(why: &Unauthorized) -> Failure {
    tracing::info!(%why, "refused");
    Failure::Unauthorized
}

/// The user whom a service account's token names, or whom the host knows by one. Nothing else that the request carries
/// holds, for this reason: `refused`.
async fn reviewed(
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

/// The question if a user may make a request.
fn question<'a>(
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

async fn resource(call: &Call<'_>, received: Option<Received>) -> Result<Response, Failure> {
    match with_deprecation(call, verb(call, received).await) {
        Err(why) if is_to_be_looked_up_again(call, &why) => {
            let ((handle, spec), knowledge) = call.look_up_again().await?;
            let (user, share) = (Arc::clone(&call.user), call.share.clone());
            let call = Call { user, handle, spec, knowledge, share, ..*call };
            with_deprecation(&call, answer_read(&call).await)
        }
        answer => answer,
    }
}

async fn watched(call: Call<'_>, payload: Payload) -> Result<HttpResponse, Failure> {
    // A WebSocket takes it, once.
    let mut payload = Some(payload);
    match with_deprecation(&call, watch::watch(&call, &mut payload).await) {
        Err(why) if is_to_be_looked_up_again(&call, &why) => {
            let ((handle, spec), knowledge) = call.look_up_again().await?;
            let call = Call { handle, spec, knowledge, ..call };
            with_deprecation(&call, watch::watch(&call, &mut payload).await)
        }
        answer => answer,
    }
}

/// The type may have been deleted and registered again since it was looked up: then it is looked up again, once.
fn is_to_be_looked_up_again(call: &Call<'_>, why: &Failure) -> bool {
    let reads = matches!(call.info.verb, Verb::Get | Verb::List | Verb::Watch);
    // A program's answer is no read of the object.
    reads && call.endpoint_server().is_none() && call.knowledge == Knowledge::Guess && why.is_of_a_type_gone()
}

fn with_deprecation<T>(call: &Call<'_>, answer: Result<T, Failure>) -> Result<T, Failure> {
    // Successful answers already carry the warning.
    answer.map_err(|why| deprecated(why, &call.spec, call.info))
}

/// The path that is served: what is asked about is what is done, however the request writes it.
fn path_of<'a>(raw: &'a str, segments: &[String]) -> Cow<'a, str> {
    if !raw.contains('%') && !raw.contains("//") {
        return Cow::Borrowed(raw);
    }
    let end = if raw.ends_with('/') && !segments.is_empty() { "/" } else { "" };
    Cow::Owned(format!("/{}{end}", segments.join("/")))
}

/// Refuses what the type does not do, before the body is read.
fn allowed(call: &Call<'_>) -> Result<(), Failure> {
    let info = call.info;
    let unnamed = info.name.is_empty() && matches!(info.verb, Verb::Update | Verb::Patch);
    let through = call.subresource();
    let verbs = call.verbs_through();
    let creates_through = verbs.is_some_and(|verbs| verbs.contains(&"create"));
    let named = !info.name.is_empty() && info.verb == Verb::Create && !creates_through;
    let unheld = info.verb == Verb::DeleteCollection && !call.spec.strategy.allows_delete_collection();
    let asks = call.spec.strategy.answers_creates() && info.verb != Verb::Create;
    if asks && !info.name.is_empty() {
        // Upstream has no such path at all.
        return Err(RequestError::NoSuchResource.into());
    }
    if asks || unheld || call.spec.is_typed() && (unnamed || named || info.verb == Verb::Unknown) {
        return Err(RequestError::MethodNotAllowed.into());
    }
    let writes = !matches!(info.verb, Verb::Get | Verb::List | Verb::Watch);
    if writes && call.state.namespaces_are_the_hosts && call.handle.prefix() == call.state.namespaces.prefix()
    {
        return Err(namespaces_are_the_hosts(call.resource(), &info.name));
    }
    if verbs.is_some_and(|verbs| !verbs.contains(&info.verb.as_str())) {
        return Err(match call.spec.registration {
            None => RequestError::MethodNotAllowed.into(),
            Some(_) => info.method_not_supported().into(),
        });
    }
    match (info.verb, through) {
        (Verb::Create, Some(_)) if creates_through => Ok(()),
        (Verb::Delete, Some(_)) if call.endpoint_server().is_some() => Ok(()),
        (Verb::Create | Verb::Delete | Verb::DeleteCollection, Some(_))
        | (Verb::Proxy | Verb::Unknown, _) => Err(info.method_not_supported().into()),
        _ => Ok(()),
    }
}

/// The answer of the program's own handler of a subresource.
async fn handled(call: &Call<'_>, received: Option<Received>) -> Result<Response, Failure> {
    let again = certain(call).await?.map(|((handle, spec), knowledge)| {
        let (user, share) = (Arc::clone(&call.user), call.share.clone());
        Call { user, handle, spec, knowledge, share, ..*call }
    });
    let call = again.as_ref().unwrap_or(call);
    allowed(call)?;
    match call.endpoint_server() {
        Some(EndpointServer::Own) => connect::connect(call, received).await,
        _ => Err(RequestError::NotFound.into()),
    }
}

async fn verb(call: &Call<'_>, received: Option<Received>) -> Result<Response, Failure> {
    if matches!(call.endpoint_server(), Some(EndpointServer::Own)) {
        return Box::pin(handled(call, received)).await;
    }
    let Some(body) = received else { return answer_read(call).await };
    // Each is boxed: the futures of writes are large, and a read would be moved with room for one.
    match (call.info.verb, call.subresource()) {
        (Verb::Update, Some(Subresource::Scale)) => Box::pin(scale::update(call, body)).await,
        (Verb::Patch, Some(Subresource::Scale)) => Box::pin(scale::patch(call, body)).await,
        (Verb::Update, _) => Box::pin(update::update(call, body)).await,
        (Verb::Patch, _) => Box::pin(patch::patch(call, body)).await,
        (Verb::Create, Some(Subresource::Token)) => Box::pin(token::create(call, body)).await,
        (Verb::Create, Some(Subresource::Binding)) => Box::pin(pod::bind(call, body)).await,
        (Verb::Create, Some(Subresource::Eviction)) => Box::pin(eviction::evict(call, body)).await,
        (Verb::Create, None) if pod::are_bindings(call) => Box::pin(pod::bind(call, body)).await,
        (Verb::Create, _) => Box::pin(create::create(call, body)).await,
        (Verb::Delete, _) => Box::pin(delete::delete(call, body)).await,
        (Verb::DeleteCollection, _) => Box::pin(delete::delete_collection(call, body)).await,
        _ => Err(call.info.method_not_supported().into()),
    }
}

async fn answer_read(call: &Call<'_>) -> Result<Response, Failure> {
    match (call.info.verb, call.subresource()) {
        (Verb::Get, Some(Subresource::Scale)) => scale::get(call).await,
        (Verb::Get, _) => get::get(call).await,
        (Verb::List, _) => list::list(call).await,
        _ => Err(call.info.method_not_supported().into()),
    }
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
