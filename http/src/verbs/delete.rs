//! DELETE of an object and of a collection.

use actix_web::http::header;
use kindom_actor_kit::dear;
use kindom_api::names::GroupKind;
use kindom_api::status::{Details, Status};
use kindom_api::{Value, field};
use kindom_codec as codec;
use kindom_objects::{PlanError, Propagation, Removal, StoredObject};
use kindom_resource_actor::WriteError;
use kindom_resource_actor::{ResourceHandle, Target, Write, WriteOptions as Options};

use crate::RequestError;
use crate::audience::Audience;
use crate::body::{Received, plain_body};
use crate::call::Call;
use crate::collector::Collector;
use crate::cost;
use crate::explained::unexplained;
use crate::lists::list_reply;
use crate::negotiate::{Accepted, Shape, body_format};
use crate::query::{DeleteOptions, ListOptions};
use crate::reply::deprecation;
use crate::respond::Reply;
use crate::response::Response;
use crate::select::select;
use crate::status::Failure;
use crate::writing::{carry_out, deletion, failed, respond};

/// The most objects of a collection that are deleted at once, and the bytes of them.
const DELETE_AT_ONCE: usize = 64;
const DELETED_BYTES_AT_ONCE: usize = 4 << 20;

/// The options of a delete, from the body if there is one, else from the query; and a warning where they leave unsaid what
/// becomes of the objects that an object owns.
async fn delete_options(call: &Call<'_>, payload: Received) -> Result<(DeleteOptions, Vec<String>), Failure> {
    // It is a mistake that would cost an object.
    if call.query.get("explain").is_some_and(|value| !value.is_empty()) {
        return Err(unexplained().into());
    }
    let bytes = plain_body(call, payload).await?;
    dear(cost::parse(bytes.len())).await?;
    let options = if bytes.is_empty() {
        DeleteOptions::from_query(call.query)?
    } else {
        let format = body_format(call.header(header::CONTENT_TYPE), true)?;
        let body = codec::any(&bytes, format).map_err(RequestError::from)?;
        let from_body = DeleteOptions::from_body(&body)?;
        record_options(call, body);
        // kubectl says dry runs in the query also where it sends a body.
        let dry_run = from_body.dry_run || DeleteOptions::dry_run_of_query(call.query)?;
        DeleteOptions { dry_run, ..from_body }
    };
    let is_unsaid = options.removal.propagation == Propagation::Unsaid;
    let warning = call.spec.strategy.propagation_warning().filter(|_| is_unsaid);
    Ok((unless_collected(call, options), warning.map(str::to_owned).into_iter().collect()))
}

/// Adds the options to the record of the request, with the type that upstream's has for them.
fn record_options(call: &Call<'_>, mut options: Value) {
    const FIELDS: [&str; 6] = [
        "dryRun",
        "gracePeriodSeconds",
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "orphanDependents",
        "preconditions",
        "propagationPolicy",
    ];
    let Some(record) = call.request.record() else { return };
    if let Some(options) = options.as_object_mut() {
        options.retain(|field, _| FIELDS.contains(&field));
        options.insert("apiVersion", "meta.k8s.io/__internal");
        options.insert("kind", "DeleteOptions");
    }
    record.request_body(&options);
}

/// The options of a delete with the treatment of what the object owns that is its kind's, if it says none; with none, if nobody
/// would carry that out.
pub(crate) fn unless_collected(call: &Call<'_>, mut options: DeleteOptions) -> DeleteOptions {
    let is_collected = match call.state.collector {
        Collector::Nobody => false,
        Collector::Own => true,
        Collector::Host => Audience::Host.sees(&call.spec),
    };
    if options.removal.propagation == Propagation::Unsaid {
        options.removal.propagation = call.spec.strategy.default_propagation();
    }
    if !is_collected {
        // Nobody would remove the collector's finalizers.
        options.removal.propagation = Propagation::Unsaid;
    }
    options
}

fn invalid_delete(error: field::Error) -> RequestError {
    let kind = GroupKind { group: "meta.k8s.io".into(), kind: "DeleteOptions".into() };
    RequestError::Invalid { kind, name: String::new(), errors: error.into() }
}

/// DELETE of an object.
pub(crate) async fn delete(call: &Call<'_>, payload: Received) -> Result<Response, Failure> {
    tracing::trace!("decode the body of DELETE");
    let accepted = call.accept()?;
    let name = call.info.required_name()?.to_owned();
    let (query, mut warnings) = delete_options(call, payload).await?;
    let write = match query.ignore_store_read_error {
        true => Write::DeleteCorrupt,
        false => Write::Delete(&query.removal),
    };
    let ended = carry_out(call, &name, deletion(call, &query), write).await;
    let deleted = ended.written.map_err(|failure| failure.warned(warnings.clone()))?;
    // What cannot be read cannot be shown.
    let shows = call.spec.strategy.returns_deleted() && !query.ignore_store_read_error;
    if !deleted.outcome.is_deleted() || shows {
        return respond(call, accepted, 200, &deleted, warnings).await;
    }
    warnings.extend(deleted.warnings);
    let resource = call.resource();
    let status = Status::success(Details {
        name,
        group: resource.group,
        kind: resource.resource,
        uid: deleted.object.uid().to_owned(),
        ..Details::default()
    });
    let whole = Accepted { shape: Shape::Whole, ..accepted };
    let reply = deprecation(call, Reply::status(status).with_warnings(warnings))?;
    Ok(reply.write(call.request, whole))
}

/// DELETE of a collection: of the objects that a list with the same options returns.
pub(crate) async fn delete_collection(call: &Call<'_>, payload: Received) -> Result<Response, Failure> {
    let accepted = call.accept()?;
    let list_options = ListOptions::parse(call.query)?;
    list_options.validate()?;
    let (query, mut warnings) = delete_options(call, payload).await?;
    if query.ignore_store_read_error {
        let path = field::Path::new("ignoreStoreReadErrorWithClusterBreakingPotential");
        let detail = "is not allowed with DELETECOLLECTION, try again after removing the option";
        return Err(invalid_delete(field::Error::invalid(&path, true, detail)).into());
    }
    let listed = select(call, &list_options).await?;
    let mut options = deletion(call, &query);
    if let Some(asked) = &mut options.admission {
        asked.is_of_collection = true;
    }
    // Webhooks and policies are shown each object, as a tree.
    let largest = listed.objects.iter().map(|object| object.json().len()).max().unwrap_or_default();
    let at_once = (DELETED_BYTES_AT_ONCE / largest.max(1)).clamp(1, DELETE_AT_ONCE);
    for page in listed.objects.chunks(at_once) {
        let deletions =
            page.iter().map(|object| delete_listed(&call.handle, call, object, &query.removal, &options));
        for outcome in futures::future::join_all(deletions).await {
            match outcome {
                // Somebody else was faster.
                Ok(()) | Err(WriteError::Plan(PlanError::NotFound { .. })) => {}
                Err(error) => return Err(failed(call, error).warned(warned(&options))),
            }
        }
    }
    warnings.extend(warned(&options));
    list_reply(call, listed, accepted, warnings).await
}

/// The warnings of webhooks.
fn warned(options: &Options) -> Vec<String> {
    options.admission.as_ref().map(|asked| std::mem::take(&mut *asked.warnings.lock())).unwrap_or_default()
}

async fn delete_listed(
    handle: &ResourceHandle,
    call: &Call<'_>,
    object: &StoredObject,
    removal: &Removal,
    options: &Options,
) -> Result<(), WriteError> {
    let target = Target {
        version: &call.info.resource.version,
        subresource: None,
        namespace: object.namespace(),
        name: object.name(),
    };
    handle.delete(target, removal, options).await.map(drop)
}
