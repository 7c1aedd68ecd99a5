//! Everything that is no resource: discovery, version, health, metrics, and the chaos endpoints.

use std::net::SocketAddr;
use std::time::Duration;

use actix_web::http::header;
use kindom_actor_kit::Deadline;
use kindom_api::user::{MASTERS, User};
use kindom_api::{Value, object};
use tokio::time::timeout_at;

use crate::accounts::ServiceAccounts;
use crate::aggregate::Priorities;
use crate::app::App;
use crate::audience::Audience;
use crate::authn::{Attributes, deny};
use crate::cost;
use crate::discovery::{self, Group};
use crate::groups::{Shown, groups};
use crate::head::{Head, header_of};
use crate::json_schemas::{self, Wanted};
use crate::negotiate::{AGGREGATED_DISCOVERY, Endpoint, accept, wants_aggregated_discovery};
use crate::phase::Phase;
use crate::respond::{PieceTurns, Reply, send, start};
use crate::response::Response;
use crate::state::State;
use crate::status::Failure;
use crate::tagged::{Document, tagged};
use crate::{RequestError, openapi, snapshot, version};

/// The longest that a health check may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// GET (and, for chaos, POST) of a path that names no resource.
pub(crate) async fn serve(
    app: &App,
    request: &Head,
    query: &crate::query::Query,
    segments: &[String],
    user: &User,
    reached: Option<SocketAddr>,
) -> Result<Response, Failure> {
    let state = &app.state;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let audience = Audience::of(user);
    let reads = matches!(request.method().as_str(), "GET" | "HEAD");
    if let ["debug", "actors", rest @ ..] = segments.as_slice() {
        return chaos(state, request, rest, user);
    }
    if segments == ["debug", "snapshot"] {
        return snapshot::serve(state, app.snapshots.as_ref(), request, user).await;
    }
    let is_of_keys = key_document(state, &segments, reached).is_some();
    let known = matches!(
        segments.as_slice(),
        [] | ["api" | "apis" | "version" | "metrics"]
            | ["api", "v1"]
            | ["apis", _]
            | ["apis", _, _]
            | ["openapi", "v2"]
            | ["openapi", "v3", ..]
            | ["healthz" | "livez" | "readyz", ..]
    ) || is_of_keys
        || matches!(segments.as_slice(), ["schemas", path @ ..] if Wanted::of(path).is_some());
    if !known {
        return Err(RequestError::NotFound.into());
    }
    // The handlers of registered types' groups look at no method.
    let any_method = match segments.as_slice() {
        ["apis", group] | ["apis", group, _] if !reads => groups(app, audience)
            .await?
            .groups
            .iter()
            .any(|g| g.name == *group && g.priority == Priorities::REGISTERED.group),
        _ => false,
    };
    if !reads && is_of_keys {
        return Err(RequestError::MethodNotAllowed.into());
    }
    if !reads && !any_method {
        let resource = kindom_api::GroupResource::default();
        return Err(RequestError::MethodNotSupported { resource, verb: "" }.into());
    }
    let turns = || PieceTurns {
        processors: state.bounds.processors.clone(),
        flow: state.flow(user, "openapi"),
        each: cost::describe(1),
    };
    match segments.as_slice() {
        [] => plain(request, object! { "paths": paths(app, audience).await? }),
        ["version"] => plain(request, version::version("", "")),
        ["metrics"] => {
            let mut builder = start(200);
            builder.content_type("application/openmetrics-text; version=1.0.0; charset=utf-8");
            Ok(send(request, builder, state.metrics.encode().into_bytes()))
        }
        ["healthz" | "livez" | "readyz", ..] => health(state, query, &segments).await,
        [".well-known", _] | ["openid", ..] => {
            let (media_type, document) =
                key_document(state, &segments, reached).ok_or(RequestError::NotFound)?;
            let mut builder = start(200);
            builder.content_type(media_type);
            builder.append_header((header::CACHE_CONTROL, "public, max-age=3600"));
            Ok(send(request, builder, document))
        }
        ["api"] | ["apis"] => root(app, request, audience, segments == ["api"], reached).await,
        ["api", "v1"] => resource_list(app, request, audience, "", "v1").await,
        ["apis", group] => {
            let groups = groups(app, audience).await?.groups;
            let found = groups.iter().find(|g| g.name == *group).ok_or(RequestError::NotFound)?;
            plain(request, discovery::api_group(found))
        }
        ["apis", group, version] => resource_list(app, request, audience, group, version).await,
        ["openapi", "v2"] => openapi::v2(app, request, audience, turns()).await,
        ["openapi", "v3"] => openapi::index(app, request, audience).await,
        ["openapi", "v3", "api", "v1"] => {
            openapi::v3(app, request, audience, query, ("", "v1"), turns()).await
        }
        ["openapi", "v3", "apis", group, version] => {
            openapi::v3(app, request, audience, query, (group, version), turns()).await
        }
        ["schemas", path @ ..] => {
            let wanted = Wanted::of(path).ok_or(RequestError::NotFound)?;
            json_schemas::serve(app, request, audience, wanted, turns()).await
        }
        _ => Err(RequestError::NotFound.into()),
    }
}

/// A document by which others verify the tokens of service accounts, with its media type (`pkg/routes/openidmetadata.go`).
fn key_document(
    state: &State,
    segments: &[&str],
    reached: Option<SocketAddr>,
) -> Option<(&'static str, Vec<u8>)> {
    let tokens = || state.accounts.as_ref().map(ServiceAccounts::tokens);
    match segments {
        [".well-known", "openid-configuration"] => {
            let tokens = tokens()?;
            let keys_at = match (tokens.settings().keys_at.as_str(), reached) {
                ("", Some(address)) => format!("https://{address}/openid/v1/jwks"),
                (keys_at, _) => keys_at.to_owned(),
            };
            Some(("application/json", tokens.documents()?.configuration(&keys_at)))
        }
        ["openid", "v1", "jwks"] => Some(("application/jwk-set+json", tokens()?.documents()?.keys.clone())),
        _ => None,
    }
}

fn plain(request: &Head, tree: Value) -> Result<Response, Failure> {
    let accepted = accept(header_of(request, header::ACCEPT), Endpoint::Plain)?;
    Ok(Reply::tree(200, tree).write(request, accepted))
}

/// The paths that `/` lists.
async fn paths(app: &App, audience: Audience) -> Result<Vec<String>, Failure> {
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
    for group in groups(app, audience).await?.groups.iter().filter(|g| !g.name.is_empty()) {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|v| format!("/apis/{}/{}", group.name, v.name)));
    }
    paths.push("/version".to_owned());
    paths.sort();
    Ok(paths)
}

/// `/api` and `/apis`, plain or aggregated.
async fn root(
    app: &App,
    request: &Head,
    audience: Audience,
    core: bool,
    reached: Option<SocketAddr>,
) -> Result<Response, Failure> {
    let header = header_of(request, header::ACCEPT);
    let Shown { groups, generation, .. } = groups(app, audience).await?;
    if wants_aggregated_discovery(header) {
        let known = app.documents.with(generation, |cache| cache.aggregated.get(&(audience, core)).cloned());
        let document = known.unwrap_or_else(|| {
            let (own, named): (Vec<Group>, Vec<Group>) =
                groups.iter().cloned().partition(|g| g.name.is_empty());
            let document = Document::new(&discovery::aggregated(if core { &own } else { &named }));
            app.documents
                .with(generation, |cache| cache.aggregated.insert((audience, core), document.clone()));
            document
        });
        return Ok(tagged(request, &document, AGGREGATED_DISCOVERY));
    }
    let accepted = accept(header, Endpoint::Plain)?;
    let tree = if core {
        let own = groups.iter().find(|g| g.name.is_empty()).cloned().unwrap_or_default();
        discovery::api_versions(&own, &server_address(reached))
    } else {
        discovery::api_group_list(&groups)
    };
    Ok(Reply::tree(200, tree).with_header(header::VARY, "Accept").write(request, accepted))
}

/// The address that clients may reach the server by. Never the client's own name for it: `Host` would come back as if the
/// server vouched for it (`pkg/endpoints/discovery/addresses.go` has a configured address, 1.37).
fn server_address(reached: Option<SocketAddr>) -> String {
    reached.map(|address| address.to_string()).unwrap_or_default()
}

async fn resource_list(
    app: &App,
    request: &Head,
    audience: Audience,
    group: &str,
    version: &str,
) -> Result<Response, Failure> {
    let groups = groups(app, audience).await?.groups;
    let found = groups.iter().find(|g| g.name == group);
    let found =
        found.and_then(|g| g.versions.iter().find(|v| v.name == version)).ok_or(RequestError::NotFound)?;
    plain(request, discovery::api_resource_list(group, found))
}

/// `/healthz`, `/livez`, `/readyz`, and their single checks (apiserver `pkg/server/healthz`).
async fn health(state: &State, query: &crate::query::Query, segments: &[&str]) -> Result<Response, Failure> {
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
fn chaos(state: &State, request: &Head, rest: &[&str], user: &User) -> Result<Response, Failure> {
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
                    "panics": i64::try_from(actor.panics).unwrap_or(i64::MAX),
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
