//! A request's way: read the path, find out who asks and whether they may, find the type, answer.

use std::rc::Rc;
use std::sync::Arc;

use actix_web::http::header;
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse, web};
use bytes::{Bytes, BytesMut};
use flate2::read::GzDecoder;
use futures::StreamExt as _;
use kindom_actor_kit::Deadline;
use kindom_api::status::Status;
use kindom_api::{GroupResource, GroupVersionResource};
use kindom_codec::{Format, protobuf};
use kindom_resource_actor::{Basis, ReadError, ResourceHandle, TypeSpec};
use tokio::time::{Instant, timeout_at};

use crate::authn::{Attributes, Peer, User, authorize, refuse_impersonation};
use crate::fallback::delegate;
use crate::metrics::RequestLabels;
use crate::negotiate::{Accepted, Endpoint, accept, accept_watch, body_format};
use crate::query::Query;
use crate::request_info::{RequestInfo, ResourceRequest, Verb};
use crate::respond::failure;
use crate::state::{REQUEST_TIMEOUT, State};
use crate::status::Failure;
use crate::{RequestError, documents, read, scale, watch, websocket, write};

/// A request to a resource, with everything that answering it needs.
pub(crate) struct Call<'a> {
    pub(crate) state: &'a Arc<State>,
    pub(crate) request: &'a HttpRequest,
    pub(crate) query: &'a Query,
    pub(crate) info: &'a ResourceRequest,
    pub(crate) handle: ResourceHandle,
    pub(crate) spec: Arc<TypeSpec>,
    pub(crate) deadline: Deadline,
    /// The store revision that a write is based on; never older than the request.
    pub(crate) basis: Basis,
    /// The user came by a token among the subprotocols of a WebSocket.
    pub(crate) token_in_protocol: bool,
}

impl Call<'_> {
    pub(crate) fn header(&self, name: header::HeaderName) -> &str {
        header_of(self.request, name)
    }

    /// The namespace; none at cluster scope.
    pub(crate) fn namespace(&self) -> Option<&str> {
        (self.spec.namespaced() && !self.info.namespace.is_empty()).then_some(self.info.namespace.as_str())
    }

    pub(crate) fn subresource(&self) -> Option<&str> {
        (!self.info.subresource.is_empty()).then_some(self.info.subresource.as_str())
    }

    pub(crate) fn resource(&self) -> GroupResource {
        self.info.group_resource()
    }

    /// `true` if the type's objects have protobuf: those of built-in types that upstream has.
    pub(crate) fn has_protobuf(&self) -> bool {
        let version = &self.info.resource.version;
        self.spec.registration.is_none()
            && protobuf::message(&self.spec.api_version(version), &self.spec.gvk(version).kind).is_some()
    }

    fn endpoint(&self) -> Endpoint {
        if self.has_protobuf() { Endpoint::Typed } else { Endpoint::Resource }
    }

    /// Negotiates the form of the answer.
    pub(crate) fn accept(&self) -> Result<Accepted, RequestError> {
        accept(self.header(header::ACCEPT), self.endpoint())
    }

    /// Negotiates the form of a watch's stream.
    pub(crate) fn accept_watch(&self) -> Result<Accepted, RequestError> {
        accept_watch(self.header(header::ACCEPT), self.endpoint())
    }

    /// The format of the body of an object of the type.
    pub(crate) fn body_format(&self) -> Result<Format, RequestError> {
        body_format(self.header(header::CONTENT_TYPE), self.has_protobuf())
    }

    /// The type as it is now, where it was looked up as a guess; and what that is known by.
    pub(crate) async fn look_up_again(&self) -> Result<(Found, Basis), Failure> {
        let (found, basis) = look_up_now(self.state, self.info, self.deadline).await?;
        Ok((found.ok_or_else(|| nothing_there(self.state, self.info))?, basis))
    }

    pub(crate) fn read_failure(&self, error: ReadError) -> Failure {
        Failure::Read(error, self.resource())
    }
}

pub(crate) fn header_of(request: &HttpRequest, name: header::HeaderName) -> &str {
    request.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

/// The handler of every path.
pub(crate) async fn serve(
    request: HttpRequest,
    payload: web::Payload,
    state: web::Data<State>,
) -> HttpResponse {
    let began = Instant::now();
    let state = state.into_inner();
    let query = Query::parse(request.query_string());
    let info = RequestInfo::parse(request.method().as_str(), request.uri().path(), &query);
    let mutating = !matches!(request.method().as_str(), "GET" | "HEAD" | "OPTIONS");
    let in_flight = state.metrics.begin(mutating);
    let outcome = match &info {
        _ if head_bytes(&request) > HEAD_BYTES_MAX => {
            let nothing = GroupResource::default();
            Err(Failure::Status(Box::new(Status::generic(431, "", &nothing, "", ""))))
        }
        Ok(info) => answer(&state, &request, payload, &query, info).await,
        Err(error) => Err(error.clone().into()),
    };
    let mut response = outcome.unwrap_or_else(|why| failure(&request, why));
    drop(in_flight);
    audit(&state, &request, &mut response);
    let labels = labels(&state, &request, info.ok(), response.status().as_u16());
    state.metrics.end(labels, began.elapsed());
    response
}

/// The most bytes of the line and the headers of a request (`net/http` `DefaultMaxHeaderBytes`). Over HTTP/1.1
/// actix-http takes no more than 128 KiB, and answers 431 itself.
const HEAD_BYTES_MAX: usize = 1 << 20;

fn head_bytes(request: &HttpRequest) -> usize {
    let uri = request.uri().path_and_query().map_or(0, |uri| uri.as_str().len());
    request.headers().iter().fold(uri, |sum, (name, value)| sum + name.as_str().len() + value.len())
}

/// Every answer names its request; a proxy's name for it is kept.
fn audit(state: &State, request: &HttpRequest, response: &mut HttpResponse) {
    const AUDIT_ID: header::HeaderName = header::HeaderName::from_static("audit-id");
    let given = request.headers().get(&AUDIT_ID).filter(|id| id.len() <= 64).cloned();
    let id = given.or_else(|| header::HeaderValue::from_str(&state.entropy.uuid_v4()).ok());
    if let Some(id) = id {
        response.headers_mut().insert(AUDIT_ID, id);
    }
}

/// What the request is counted as. Names count only if there is such a type, and methods only if HTTP has them: else
/// clients could make labels without end.
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
    state: &Arc<State>,
    request: &HttpRequest,
    payload: web::Payload,
    query: &Query,
    info: &RequestInfo,
) -> Result<HttpResponse, Failure> {
    let (user, token_in_protocol) = authenticate(state, request)?;
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
            let answer = documents::serve(state, request, query, segments, &user).await;
            match (answer, &state.fallback) {
                (Err(Failure::Request(RequestError::NotFound, _)), Some(next)) => {
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
                // By now its name may be another's, which has been written to.
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

/// The client of a request's connection; none where there is no connection.
pub(crate) fn peer(request: &HttpRequest) -> Option<Rc<Peer>> {
    // HTTP/1.1 knows data of a connection; HTTP/2 gives each request its own reference.
    let peer = request.conn_data::<Rc<Peer>>().cloned();
    peer.or_else(|| request.extensions().get::<Rc<Peer>>().cloned())
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

pub(crate) type Found = (ResourceHandle, Arc<TypeSpec>);

/// The type that a request is for, which it is routed to; none if nobody serves it. And what that is known by: a write is
/// held to the registration that was in force when it came, not to one that another replica has replaced. Where asking
/// for the present costs a round trip, a guess will do for a single object: the store commits nothing that does not hold.
async fn look_up(
    state: &State,
    info: &ResourceRequest,
    deadline: Deadline,
) -> Result<(Option<Found>, Basis), Failure> {
    let may_guess = match info.verb {
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => !state.registry.deps().storage.is_local(),
        Verb::DeleteCollection => false,
        _ => true,
    };
    if may_guess
        && let Some(found) = find(state, info)
        && let Ok(found) = route(found, info)
    {
        return Ok((Some(found), Basis::Guess));
    }
    look_up_now(state, info, deadline).await
}

/// A registration answered a moment ago may not be in the routes yet; this replaces upstream's sleeps.
async fn look_up_now(
    state: &State,
    info: &ResourceRequest,
    deadline: Deadline,
) -> Result<(Option<Found>, Basis), Failure> {
    let as_of = state.registry.fresh(deadline).await;
    let as_of = as_of.map_err(|e| Failure::Read(e, info.group_resource()))?;
    let found = find(state, info).map(|found| route(found, info)).transpose()?;
    Ok((found, Basis::AsOf(as_of)))
}

/// Whether a path is one of the type's.
fn route(found: Found, info: &ResourceRequest) -> Result<Found, Failure> {
    let namespaced = found.1.namespaced();
    let is_namespace = info.resource.group.is_empty() && info.resource.resource == "namespaces";
    let misplaced = if namespaced {
        info.namespace.is_empty() && !info.verb.possibly_across_namespaces()
    } else {
        !info.namespace.is_empty() && !is_namespace
    };
    let built_in = found.1.registration.is_none();
    if misplaced {
        return Err(if built_in { RequestError::NoSuchResource } else { RequestError::NotFound }.into());
    }
    // Upstream does not look at what stands behind a subresource of a registered type.
    let beyond = info.goes_on && found.1.registration.is_none();
    if beyond || (!info.subresource.is_empty() && !subresource_served(&found.1, info)) {
        // The handler of registered types takes any path for an object's and finds no such part of it.
        return Err(match built_in {
            true => RequestError::NoSuchResource.into(),
            false => {
                let why = Failure::NotFound(info.group_resource(), info.name.clone());
                deprecated(why, &found.1, info)
            }
        });
    }
    info.check_namespace()?;
    Ok(found)
}

/// Nothing is served under a path: built-in groups have handlers for all of theirs, and say so as a Status.
fn nothing_there(state: &State, info: &ResourceRequest) -> RequestError {
    let table = state.registry.routes().table();
    let built_in = !info.resource.group.is_empty()
        && table.group(&info.resource.group).is_some_and(|types| {
            types.values().filter_map(ResourceHandle::spec).any(|spec| spec.registration.is_none())
        });
    if built_in { RequestError::NoSuchResource } else { RequestError::NotFound }
}

fn find(state: &State, info: &ResourceRequest) -> Option<Found> {
    let handle = state.registry.routes().get(&info.resource.group, &info.resource.resource)?;
    let spec = handle.spec()?;
    spec.version(&info.resource.version).filter(|version| version.served)?;
    Some((handle, spec))
}

/// Registrations have `/status`, namespaces also `/finalize`, registered types what their version says.
fn subresource_served(spec: &TypeSpec, info: &ResourceRequest) -> bool {
    spec.subresources(&info.resource.version).any(|name| name == info.subresource)
}

async fn resource(call: &Call<'_>, payload: &mut Option<web::Payload>) -> Result<HttpResponse, Failure> {
    told(call, verb(call, payload).await)
}

fn told(call: &Call<'_>, answer: Result<HttpResponse, Failure>) -> Result<HttpResponse, Failure> {
    // Answers say it themselves.
    answer.map_err(|why| deprecated(why, &call.spec, call.info))
}

/// A refusal by a version that is deprecated says so too.
fn deprecated(why: Failure, spec: &TypeSpec, info: &ResourceRequest) -> Failure {
    let version = spec.version(&info.resource.version);
    why.warned(version.and_then(|version| version.deprecation_warning.clone()).into_iter().collect())
}

async fn verb(call: &Call<'_>, payload: &mut Option<web::Payload>) -> Result<HttpResponse, Failure> {
    let info = call.info;
    let unnamed = info.name.is_empty() && matches!(info.verb, Verb::Update | Verb::Patch);
    let named = !info.name.is_empty() && info.verb == Verb::Create;
    if call.spec.registration.is_none() && (unnamed || named || info.verb == Verb::Unknown) {
        return Err(RequestError::MethodNotAllowed.into());
    }
    if call.subresource().is_some() && !matches!(info.verb, Verb::Get | Verb::Update | Verb::Patch) {
        return Err(match call.spec.registration {
            None => RequestError::MethodNotAllowed.into(),
            Some(_) => info.method_not_supported().into(),
        });
    }
    // It has neither Get nor Patch (`FinalizeREST` in `pkg/registry/core/namespace/storage`).
    if call.subresource() == Some("finalize") && call.spec.registration.is_none() && info.verb != Verb::Update
    {
        return Err(RequestError::MethodNotAllowed.into());
    }
    if matches!(info.verb, Verb::Get | Verb::List | Verb::Watch | Verb::Proxy | Verb::Unknown) {
        return answer_read(call, payload).await;
    }
    let payload = payload.take().ok_or_else(|| RequestError::Internal("the body is gone".to_owned()))?;
    if call.subresource() == Some("scale") {
        return match info.verb {
            Verb::Update => scale::update(call, payload).await,
            Verb::Patch => scale::patch(call, payload).await,
            _ => Err(info.method_not_supported().into()),
        };
    }
    match info.verb {
        Verb::Create => write::create(call, payload).await,
        Verb::Update => write::update(call, payload).await,
        Verb::Patch => write::patch(call, payload).await,
        Verb::Delete => write::delete(call, payload).await,
        Verb::DeleteCollection => write::delete_collection(call, payload).await,
        Verb::Get | Verb::List | Verb::Watch | Verb::Proxy | Verb::Unknown => {
            Err(info.method_not_supported().into())
        }
    }
}

async fn answer_read(call: &Call<'_>, payload: &mut Option<web::Payload>) -> Result<HttpResponse, Failure> {
    match call.info.verb {
        Verb::Get if call.subresource() == Some("scale") => scale::get(call).await,
        Verb::Get => read::get(call).await,
        Verb::List => read::list(call).await,
        Verb::Watch => watch::watch(call, payload).await,
        _ => Err(call.info.method_not_supported().into()),
    }
}

/// The body, decompressed, within the bound and the deadline.
pub(crate) async fn plain_body(call: &Call<'_>, payload: web::Payload) -> Result<Bytes, Failure> {
    let bytes_max = call.state.body_bytes_max;
    let body = body(call.request, bytes_max, call.deadline, payload).await?;
    if call.header(header::CONTENT_ENCODING) == "gzip" { unzip(&body, bytes_max) } else { Ok(body) }
}

fn too_large(bytes_max: usize) -> Failure {
    RequestError::TooLarge(format!("limit is {bytes_max}")).into()
}

/// The body as it was sent, within the bound and the deadline.
async fn body(
    request: &HttpRequest,
    bytes_max: usize,
    deadline: Deadline,
    mut payload: web::Payload,
) -> Result<Bytes, Failure> {
    let announced = header_of(request, header::CONTENT_LENGTH).parse::<usize>().unwrap_or(0);
    if announced > bytes_max {
        return Err(too_large(bytes_max));
    }
    let mut body = BytesMut::with_capacity(announced);
    let never_ends = runs_on(request);
    loop {
        if never_ends && body.len() >= announced {
            body.truncate(announced);
            break;
        }
        match timeout_at(deadline.instant(), payload.next()).await {
            Ok(Some(Ok(chunk))) => {
                if body.len() + chunk.len() > bytes_max {
                    return Err(too_large(bytes_max));
                }
                body.extend_from_slice(&chunk);
            }
            Ok(Some(Err(error))) => {
                return Err(RequestError::BadRequest(format!("unable to read the body: {error}")).into());
            }
            Ok(None) => break,
            Err(_) => {
                let why = "timed out reading the body".to_owned();
                return Err(RequestError::BadRequest(why).into());
            }
        }
    }
    Ok(body.freeze())
}

/// `true` if actix-http takes all that follows the head for the body: it does so where a WebSocket is wanted, whatever the
/// length. Such a body ends where it was announced to end, as any other (RFC 9112, 6.3).
fn runs_on(request: &HttpRequest) -> bool {
    websocket::is_wanted(request) && !header_of(request, header::TRANSFER_ENCODING).contains("chunked")
}

fn unzip(body: &[u8], bytes_max: usize) -> Result<Bytes, Failure> {
    use std::io::Read as _;
    let mut plain = Vec::new();
    let mut decoder = GzDecoder::new(body).take((bytes_max as u64).saturating_add(1));
    decoder
        .read_to_end(&mut plain)
        .map_err(|error| RequestError::BadRequest(format!("unable to decompress the body: {error}")))?;
    if plain.len() > bytes_max {
        return Err(too_large(bytes_max));
    }
    Ok(plain.into())
}
