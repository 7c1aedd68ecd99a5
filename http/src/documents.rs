//! Everything that is no resource: discovery, version, health, metrics, and the chaos endpoints.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use bytes::Bytes;
use kindom_actor_kit::Deadline;
use kindom_api::{GroupVersionKind, Value, object, scale};
use kindom_registry_actor::GroupRoutes;
use kindom_resource_actor::TypeSpec;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha512};
use tokio::time::timeout_at;

use crate::authn::{Attributes, MASTERS, User, deny};
use crate::discovery::{self, Group, Resource, Subresource, Version};
use crate::dispatch::{header_of, peer};
use crate::negotiate::{AGGREGATED_DISCOVERY, Endpoint, accept, wants_aggregated_discovery};
use crate::respond::{Reply, send, start};
use crate::server::Phase;
use crate::state::{REQUEST_TIMEOUT, State};
use crate::status::Failure;
use crate::{RequestError, openapi, snapshot, version};

/// How long a health check may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// The priority of groups: registered types', and the rest, which come first as upstream's.
const PRIORITY_OF_REGISTERED: i32 = 1000;
const PRIORITY_OF_BUILT_IN: i32 = 16_700;

/// Documents that were made and are still right; made again when the routes have changed.
#[derive(Default)]
pub(crate) struct Documents {
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    generation: u64,
    groups: Option<Arc<Vec<Group>>>,
    aggregated: HashMap<bool, Document>,
}

/// A document's bytes and what it is known by.
#[derive(Clone)]
pub(crate) struct Document {
    bytes: Bytes,
    hash: Arc<str>,
}

impl Document {
    pub(crate) fn new(tree: &Value) -> Self {
        let bytes = tree.to_vec();
        let hash: String = Sha512::digest(&bytes).iter().map(|b| format!("{b:02X}")).collect();
        Self { bytes: bytes.into(), hash: hash.into() }
    }
}

impl Documents {
    fn with<T>(&self, generation: u64, of: impl FnOnce(&mut Cache) -> T) -> T {
        let mut cache = self.cache.lock();
        if cache.generation != generation {
            *cache = Cache { generation, ..Cache::default() };
        }
        of(&mut cache)
    }
}

/// GET (and, for chaos, POST) of a path that names no resource.
pub(crate) async fn serve(
    state: &Arc<State>,
    request: &HttpRequest,
    query: &crate::query::Query,
    segments: &[String],
    user: &User,
) -> Result<HttpResponse, Failure> {
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let reads = matches!(request.method().as_str(), "GET" | "HEAD");
    if let ["debug", "actors", rest @ ..] = segments.as_slice() {
        return chaos(state, request, rest, user);
    }
    if segments == ["debug", "snapshot"] {
        return snapshot::serve(state, request, user).await;
    }
    let known = matches!(
        segments.as_slice(),
        [] | ["api" | "apis" | "version" | "metrics"]
            | ["api", "v1"]
            | ["apis", _]
            | ["apis", _, _]
            | ["openapi", "v2"]
            | ["openapi", "v3", ..]
            | ["healthz" | "livez" | "readyz", ..]
    );
    if !known {
        return Err(RequestError::NotFound.into());
    }
    // The handlers of registered types' groups look at no method.
    let any_method = match segments.as_slice() {
        ["apis", group] | ["apis", group, _] if !reads => {
            groups(state).await?.iter().any(|g| g.name == *group && g.priority == PRIORITY_OF_REGISTERED)
        }
        _ => false,
    };
    if !reads && !any_method {
        let resource = kindom_api::GroupResource::default();
        return Err(RequestError::MethodNotSupported { resource, verb: "" }.into());
    }
    match segments.as_slice() {
        [] => plain(request, object! { "paths": paths(state).await? }),
        ["version"] => plain(request, version::version("", "")),
        ["metrics"] => {
            let mut builder = start(200);
            builder.content_type("application/openmetrics-text; version=1.0.0; charset=utf-8");
            Ok(send(request, builder, state.metrics.encode().into_bytes()))
        }
        ["healthz" | "livez" | "readyz", ..] => health(state, query, &segments).await,
        ["api"] | ["apis"] => root(state, request, segments == ["api"]).await,
        ["api", "v1"] => resource_list(state, request, "", "v1").await,
        ["apis", group] => {
            let groups = groups(state).await?;
            let found = groups.iter().find(|g| g.name == *group).ok_or(RequestError::NotFound)?;
            plain(request, discovery::api_group(found))
        }
        ["apis", group, version] => resource_list(state, request, group, version).await,
        ["openapi", "v2"] => openapi::v2(state, request).await,
        ["openapi", "v3"] => openapi::index(state, request).await,
        ["openapi", "v3", "api", "v1"] => openapi::v3(state, request, query, "", "v1").await,
        ["openapi", "v3", "apis", group, version] => openapi::v3(state, request, query, group, version).await,
        _ => Err(RequestError::NotFound.into()),
    }
}

fn plain(request: &HttpRequest, tree: Value) -> Result<HttpResponse, Failure> {
    let accepted = accept(header_of(request, header::ACCEPT), Endpoint::Plain)?;
    Ok(Reply::tree(200, tree).write(request, accepted))
}

/// What is served, as of every registration answered before; described anew when the routes have changed.
pub(crate) async fn groups(state: &State) -> Result<Arc<Vec<Group>>, Failure> {
    let fresh = state.registry.fresh(Deadline::after(REQUEST_TIMEOUT)).await;
    fresh.map_err(|e| Failure::Read(e, kindom_api::GroupResource::default()))?;
    let routes = state.registry.routes();
    let generation = routes.generation();
    if let Some(groups) = state.documents.with(generation, |cache| cache.groups.clone()) {
        return Ok(groups);
    }
    let table = routes.table();
    let groups: Vec<Group> = table.groups().filter_map(|(name, types)| describe(name, types)).collect();
    let groups = Arc::new(groups);
    state.documents.with(generation, |cache| cache.groups = Some(Arc::clone(&groups)));
    Ok(groups)
}

/// A group and what it serves; none if that is nothing.
fn describe(name: &str, types: &GroupRoutes) -> Option<Group> {
    let specs: Vec<Arc<TypeSpec>> =
        types.values().filter_map(kindom_resource_actor::ResourceHandle::spec).collect();
    let built_in = specs.iter().any(|spec| spec.registration.is_none());
    let mut versions: Vec<Version> = Vec::new();
    for spec in &specs {
        for version in spec.versions.iter().filter(|v| v.served) {
            let at = versions.iter().position(|v| v.name == version.name).unwrap_or_else(|| {
                versions.push(Version { name: version.name.clone(), resources: Vec::new() });
                versions.len() - 1
            });
            if let Some(version) = versions.get_mut(at) {
                let resource = resource(spec, &version.name);
                version.resources.push(resource);
            }
        }
    }
    let priority = if built_in { PRIORITY_OF_BUILT_IN } else { PRIORITY_OF_REGISTERED };
    (!versions.is_empty()).then(|| Group { name: name.to_owned(), priority, versions })
}

fn resource(spec: &TypeSpec, version: &str) -> Resource {
    let storage = spec.storage().map_or("", |v| v.name.as_str());
    let subresources = spec.subresources(version).map(|name| Subresource {
        name: name.to_owned(),
        kind: match name {
            "scale" => GroupVersionKind::new(scale::GROUP, scale::VERSION, scale::KIND),
            _ => GroupVersionKind { kind: spec.names.kind.clone(), ..GroupVersionKind::default() },
        },
        verbs: if name == "finalize" { vec!["update"] } else { vec!["get", "patch", "update"] },
    });
    Resource {
        plural: spec.names.plural.clone(),
        singular: spec.names.singular.clone(),
        namespaced: spec.namespaced(),
        kind: spec.gvk(version).kind,
        verbs: verbs(spec),
        short_names: spec.names.short_names.clone(),
        categories: spec.names.categories.clone(),
        // Upstream has none for the type of registrations.
        storage_version_hash: match spec.registration.is_none() && !spec.group.is_empty() {
            true => String::new(),
            false => discovery::storage_version_hash(&spec.group, storage, &spec.names.kind),
        },
        subresources: subresources.collect(),
        built_in: spec.registration.is_none(),
    }
}

/// The verbs of a type, in upstream's order.
pub(crate) fn verbs(spec: &TypeSpec) -> Vec<&'static str> {
    match &spec.registration {
        Some(r) if r.terminating => vec!["delete", "deletecollection", "get", "list", "watch"],
        Some(_) => vec!["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
        None if spec.group.is_empty() => vec!["create", "delete", "get", "list", "patch", "update", "watch"],
        None => vec!["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    }
}

/// The paths that `/` lists.
async fn paths(state: &State) -> Result<Vec<String>, Failure> {
    let mut paths: Vec<String> = [
        "/api",
        "/api/v1",
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
    ]
    .map(str::to_owned)
    .to_vec();
    for group in groups(state).await?.iter().filter(|g| !g.name.is_empty()) {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|v| format!("/apis/{}/{}", group.name, v.name)));
    }
    paths.push("/version".to_owned());
    paths.sort();
    Ok(paths)
}

/// `/api` and `/apis`, plain or aggregated.
async fn root(state: &State, request: &HttpRequest, core: bool) -> Result<HttpResponse, Failure> {
    let header = header_of(request, header::ACCEPT);
    let groups = groups(state).await?;
    if wants_aggregated_discovery(header) {
        let generation = state.registry.routes().generation();
        let known = state.documents.with(generation, |cache| cache.aggregated.get(&core).cloned());
        let document = known.unwrap_or_else(|| {
            let (own, named): (Vec<Group>, Vec<Group>) =
                groups.iter().cloned().partition(|g| g.name.is_empty());
            let document = Document::new(&discovery::aggregated(if core { &own } else { &named }));
            state.documents.with(generation, |cache| cache.aggregated.insert(core, document.clone()));
            document
        });
        return Ok(tagged(request, &document, AGGREGATED_DISCOVERY));
    }
    let accepted = accept(header, Endpoint::Plain)?;
    let tree = if core {
        let own = groups.iter().find(|g| g.name.is_empty()).cloned().unwrap_or_default();
        discovery::api_versions(&own, &server_address(request))
    } else {
        discovery::api_group_list(&groups)
    };
    Ok(Reply::tree(200, tree).with_header(header::VARY, "Accept").write(request, accepted))
}

/// The address that clients may reach the server by. Never what the client calls it: `Host` would come back as the
/// server's word (`pkg/endpoints/discovery/addresses.go` has a configured address, 1.37).
fn server_address(request: &HttpRequest) -> String {
    let reached = peer(request).and_then(|peer| peer.reached());
    reached.unwrap_or_else(|| request.app_config().local_addr()).to_string()
}

/// A document with its ETag, or 304 if the client has it.
pub(crate) fn tagged(request: &HttpRequest, document: &Document, content_type: &'static str) -> HttpResponse {
    let (is_known, mut builder) = start_tagged(request, &document.hash, content_type);
    if is_known { builder.finish() } else { send(request, builder, document.bytes.to_vec()) }
}

/// The start of an answer that is known by a hash, and whether the client has it, so that this is the whole answer: 304.
pub(crate) fn start_tagged(
    request: &HttpRequest,
    hash: &str,
    content_type: &'static str,
) -> (bool, HttpResponseBuilder) {
    let etag = format!("\"{hash}\"");
    let is_known = header_of(request, header::IF_NONE_MATCH).split(',').any(|tag| tag.trim() == etag);
    let mut builder = start(if is_known { 304 } else { 200 });
    builder.insert_header((header::ETAG, etag));
    builder.insert_header((header::VARY, "Accept"));
    if !is_known {
        builder.content_type(content_type);
    }
    (is_known, builder)
}

async fn resource_list(
    state: &State,
    request: &HttpRequest,
    group: &str,
    version: &str,
) -> Result<HttpResponse, Failure> {
    let groups = groups(state).await?;
    let found = groups.iter().find(|g| g.name == group);
    let found =
        found.and_then(|g| g.versions.iter().find(|v| v.name == version)).ok_or(RequestError::NotFound)?;
    plain(request, discovery::api_resource_list(group, found))
}

/// `/healthz`, `/livez`, `/readyz`, and their single checks (apiserver `pkg/server/healthz`).
async fn health(
    state: &State,
    query: &crate::query::Query,
    segments: &[&str],
) -> Result<HttpResponse, Failure> {
    let (Some(endpoint), check) = (segments.first(), segments.get(1)) else {
        return Err(RequestError::NotFound.into());
    };
    let excluded: Vec<&str> = query.all("exclude").collect();
    let names: &[&str] = match *endpoint {
        "livez" => &["ping"],
        "healthz" => &["ping", "storage", "registry"],
        // Upstream too knows of the end in readyz alone (`addReadyzShutdownCheck`).
        _ => &["ping", "storage", "registry", "shutdown"],
    };
    if check.is_some_and(|check| !names.contains(check)) || segments.len() > 2 {
        return Err(RequestError::NotFound.into());
    }
    let (mut text, mut failed) = (String::new(), false);
    for name in names.iter().filter(|name| check.is_none_or(|check| check == *name)) {
        if excluded.contains(name) {
            text.push_str(&format!("[+]{name} excluded: ok\n"));
            continue;
        }
        let deadline = Deadline::after(CHECK_TIMEOUT);
        // Beside the reason that is logged, the one that anybody may know.
        let withheld = |why: String| Err((why, "reason withheld".to_owned()));
        let storage = &state.registry.deps().storage;
        let outcome = match *name {
            "storage" => match timeout_at(deadline.instant(), storage.fresh()).await {
                Ok(Ok(_)) => {
                    storage.read_only().map_or(Ok(()), |why| Err((why.reason.clone(), why.summary())))
                }
                Ok(Err(error)) => withheld(error.to_string()),
                Err(_) => withheld("timed out".to_owned()),
            },
            "shutdown" if *state.phase.borrow() != Phase::Serving => {
                withheld("process is shutting down".to_owned())
            }
            "registry" => state.registry.fresh(deadline).await.map(drop).or_else(|e| withheld(e.to_string())),
            _ => Ok(()),
        };
        match outcome {
            Ok(()) => text.push_str(&format!("[+]{name} ok\n")),
            Err((why, told)) => {
                tracing::warn!(check = name, why, "not healthy");
                failed = true;
                text.push_str(&format!("[-]{name} failed: {told}\n"));
            }
        }
    }
    let mut builder = start(if failed { 500 } else { 200 });
    builder.content_type("text/plain; charset=utf-8");
    builder.insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"));
    if failed {
        return Ok(builder.body(format!("{text}{endpoint} check failed\n")));
    }
    if query.get("verbose").is_some() {
        return Ok(builder.body(format!("{text}{endpoint} check passed\n")));
    }
    Ok(builder.body("ok"))
}

/// `GET /debug/actors` and `POST /debug/actors/<name>/kill`, for system:masters, if chaos is enabled.
fn chaos(state: &State, request: &HttpRequest, rest: &[&str], user: &User) -> Result<HttpResponse, Failure> {
    let Some(actors) = &state.chaos else { return Err(RequestError::NotFound.into()) };
    let method = request.method().as_str().to_ascii_lowercase();
    if !user.is_in(MASTERS) {
        let attributes = Attributes::Path { verb: &method, path: request.uri().path() };
        return Err(Failure::Denied(deny(user, &attributes)));
    }
    match (method.as_str(), rest) {
        ("get", []) => {
            let actor = |actor: kindom_actor_kit::ActorInfo| {
                object! {
                    "name": actor.name.to_string(),
                    "state": actor.state.as_str(),
                    "incarnation": i64::try_from(actor.incarnation).unwrap_or(i64::MAX),
                    "mailbox": i64::try_from(actor.mailbox).unwrap_or(i64::MAX),
                    "restarts": i64::try_from(actor.restarts).unwrap_or(i64::MAX),
                    "lastFailure": actor.last_failure,
                }
            };
            plain(request, object! { "actors": Value::Array(actors.list().into_iter().map(actor).collect()) })
        }
        ("post", [name @ .., "kill"]) if !name.is_empty() => {
            let name = name.join("/");
            if !actors.kill(&name) {
                let resource = kindom_api::GroupResource::new("", "actors");
                return Err(Failure::NotFound(resource, name));
            }
            plain(request, object! { "killed": name })
        }
        (_, [] | [.., "kill"]) => {
            let resource = kindom_api::GroupResource::default();
            Err(RequestError::MethodNotSupported { resource, verb: "" }.into())
        }
        _ => Err(RequestError::NotFound.into()),
    }
}
