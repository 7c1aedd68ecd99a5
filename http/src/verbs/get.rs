//! GET of one object.

use std::sync::Arc;

use kindom_objects::{StoredObject, TypeSpec};
use kindom_resource_actor::Freshness;
use kindom_storage::Revision;

use crate::RequestError;
use crate::call::Call;
use crate::query::parse_resource_version;
use crate::reply::{deprecation, object_reply, turn_to_write};
use crate::response::Response;
use crate::status::Failure;

/// GET of an object.
pub(crate) async fn get(call: &Call<'_>) -> Result<Response, Failure> {
    let accepted = call.accept()?;
    let object = find(call).await?;
    turn_to_write(call, &call.spec, &object, accepted).await?;
    let reply =
        call.converting(&call.spec, || object_reply(call, &call.spec, &object, accepted, 200)).await?;
    Ok(deprecation(call, reply)?.write(call.request, accepted))
}

/// The object that a request names, as it is now.
pub(crate) async fn latest(call: &Call<'_>) -> Result<Arc<StoredObject>, Failure> {
    read(call, Freshness::Latest).await
}

/// The object that a GET names, at the revision that it wants to see.
pub(crate) async fn find(call: &Call<'_>) -> Result<Arc<StoredObject>, Failure> {
    let wanted = call.query.get("resourceVersion").unwrap_or_default();
    let freshness = match (wanted, revision_of(wanted)?) {
        ("", _) => Freshness::Latest,
        (_, 0) => Freshness::Any,
        (_, revision) => Freshness::AtLeast(Revision(revision)),
    };
    read(call, freshness).await
}

async fn read(call: &Call<'_>, freshness: Freshness) -> Result<Arc<StoredObject>, Failure> {
    let name = call.info.required_name()?;
    let key = TypeSpec::object_key(call.namespace(), name);
    let found = call.handle.read(&key, freshness, call.deadline).await;
    found
        .map_err(|e| call.read_failure(e))?
        .ok_or_else(|| Failure::NotFound(call.resource(), name.to_owned()))
}

/// The revision that a GET or a watch is to show; they call a malformed one an error of the server's, unlike lists.
pub(crate) fn revision_of(text: &str) -> Result<u64, RequestError> {
    parse_resource_version(text).map_err(|error| match error {
        RequestError::BadRequest(why) => {
            let why = why.strip_prefix("invalid resource version: ").unwrap_or(&why);
            RequestError::Internal(why.to_owned())
        }
        other => other,
    })
}
