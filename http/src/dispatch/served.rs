//! The answers of types that are served here.

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::dev::Payload;
use kindom_objects::Subresource;
use kindom_objects::declared_subresources::EndpointServer;
use kindom_resource_actor::Knowledge;

use crate::RequestError;
use crate::body::Received;
use crate::call::Call;
use crate::request_info::Verb;
use crate::response::Response;
use crate::route::{Found, deprecated};
use crate::status::{Failure, namespaces_are_the_hosts};
use crate::verbs::{connect, create, delete, eviction, get, list, patch, pod, scale, token, update, watch};

pub(super) async fn resource(call: &Call<'_>, received: Option<Received>) -> Result<Response, Failure> {
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

pub(super) async fn watched(call: Call<'_>, payload: Payload) -> Result<HttpResponse, Failure> {
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
pub(super) fn is_to_be_looked_up_again(call: &Call<'_>, why: &Failure) -> bool {
    let reads = matches!(call.info.verb, Verb::Get | Verb::List | Verb::Watch);
    // A program's answer is no read of the object.
    reads && call.endpoint_server().is_none() && call.knowledge == Knowledge::Guess && why.is_of_a_type_gone()
}

pub(super) fn with_deprecation<T>(call: &Call<'_>, answer: Result<T, Failure>) -> Result<T, Failure> {
    // Successful answers already carry the warning.
    answer.map_err(|why| deprecated(why, &call.spec, call.info))
}

/// The call once more, if what it was looked up by was a guess: no store refuses what a program does.
pub(super) async fn certain(call: &Call<'_>) -> Result<Option<(Found, Knowledge)>, Failure> {
    match call.knowledge {
        Knowledge::Guess => call.look_up_again().await.map(Some),
        _ => Ok(None),
    }
}

/// Refuses what the type does not do, before the body is read.
pub(super) fn allowed(call: &Call<'_>) -> Result<(), Failure> {
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
pub(super) async fn handled(call: &Call<'_>, received: Option<Received>) -> Result<Response, Failure> {
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

pub(super) async fn verb(call: &Call<'_>, received: Option<Received>) -> Result<Response, Failure> {
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

pub(super) async fn answer_read(call: &Call<'_>) -> Result<Response, Failure> {
    match (call.info.verb, call.subresource()) {
        (Verb::Get, Some(Subresource::Scale)) => scale::get(call).await,
        (Verb::Get, _) => get::get(call).await,
        (Verb::List, _) => list::list(call).await,
        _ => Err(call.info.method_not_supported().into()),
    }
}
