//! `/scale` of registered types: GET, PUT and PATCH of an object's Scale (apiextensions `registry/customresource/etcd.go`
//! `ScaleREST`, client-go `scale`, 1.37; S-04, S-31 to S-36).
//!
//! A write is one of the object: the server makes the Scale from the stored object, applies the change, and puts its
//! replicas where the type has them; then the object goes through the same plan, validation and transaction as any other
//! update.

use actix_web::http::header;
use kindom_actor_kit::{dear, turn};
use kindom_api::names::{GroupKind, GroupVersionKind, split_api_version};
use kindom_api::{Value, field, scale};
use kindom_codec::{self as codec, FieldValidation, Format};
use kindom_objects::{RuleContext, StoredObject, TypeSpec, render};
use kindom_resource_actor::{Write, Written};
use kindom_schema::columns::Columns;
use kindom_schema::scale::ScalePaths;

use crate::RequestError;
use crate::body::{Received, plain_body};
use crate::call::Call;
use crate::cost;
use crate::decoding::check_name;
use crate::negotiate::{Accepted, Endpoint, PatchType, Shape, accept, body_format};
use crate::patch::{self, Patch};
use crate::query::WriteOptions;
use crate::reply::deprecation;
use crate::respond::Reply;
use crate::response::Response;
use crate::status::{Failure, no_replicas};
use crate::table::{self, Column, IncludeObject, ListMeta};
use crate::verbs::apply::Configured;
use crate::verbs::get::find;
use crate::verbs::patch::{defer_unless_malformed, parse_patch};
use crate::writing::{carry_out, check_extensions, failed, options, refused};

/// The versions of Scale that upstream's decoder knows beside `autoscaling/v1`, and cannot convert here.
const OLDER: [&str; 3] = ["extensions/v1beta1", "apps/v1beta1", "apps/v1beta2"];

fn expected() -> GroupVersionKind {
    GroupVersionKind::new(scale::GROUP, scale::VERSION, scale::KIND)
}

/// Whatever is wrong with a PUT's body, upstream's scheme knows no type that it could name (`transformDecodeError`).
fn unknown_body() -> RequestError {
    RequestError::BadRequest(format!(
        "no kind is registered for the type v1.Scale in scheme {}",
        codec::SCHEME
    ))
}

/// GET
pub(crate) async fn get(call: &Call<'_>) -> Result<Response, Failure> {
    let accepted = accept(call.header(header::ACCEPT), Endpoint::Typed)?;
    let object = find(call).await?;
    dear(cost::parse(object.json().len())).await?;
    reply(call, &call.spec, &object, accepted, Purpose::Get, Vec::new()).await
}

/// The request that is answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A reader wants to know that there is a number of replicas.
    Get,
    /// A writer has just written one.
    Write,
}

/// The Scale of an object in the form that the client takes.
async fn reply(
    call: &Call<'_>,
    spec: &TypeSpec,
    object: &StoredObject,
    accepted: Accepted,
    asked: Purpose,
    warnings: Vec<String>,
) -> Result<Response, Failure> {
    let version = spec.version(&call.info.resource.version).ok_or(RequestError::NotFound)?;
    let gone = || Failure::NotFound(call.resource(), call.info.name.clone());
    let paths = version.scale.as_ref().ok_or_else(gone)?;
    let tree = call.converting(spec, || render::decode(spec, version, object)).await;
    let tree = tree.map_err(|e| call.read_failure(e))?;
    let scale = paths.read(&tree).map_err(|error| match asked {
        Purpose::Get => RequestError::Internal(error.to_string()),
        Purpose::Write => RequestError::BadRequest(error.to_string()),
    })?;
    if asked == Purpose::Get && scale.replicas.is_none() {
        return Err(no_replicas(paths.spec_replicas_path()));
    }
    let tree = scale.to_value(tree.get("metadata"));
    let reply = Reply::tree(200, shaped(call, paths, tree, object, accepted)?);
    Ok(deprecation(call, reply.with_warnings(warnings))?.write(call.request, accepted))
}

fn shaped(
    call: &Call<'_>,
    paths: &ScalePaths,
    tree: Value,
    object: &StoredObject,
    accepted: Accepted,
) -> Result<Value, Failure> {
    match accepted.shape {
        Shape::Whole => Ok(tree),
        Shape::Metadata(meta) => Ok(table::metadata_only(&tree, meta)),
        Shape::Table(meta) => {
            let columns = match call.spec.is_typed() {
                true => Columns::of_built_in_scale(),
                false => Columns::of_scale(paths.has_status_replicas()),
            };
            let cells = columns.cells(&tree, call.state.now_seconds());
            let row = table::row(cells, &tree, IncludeObject::parse(call.query)?, meta);
            let list = ListMeta { resource_version: object.revision().to_string(), ..ListMeta::default() };
            let columns: Vec<Column> = columns.definitions().iter().map(Column::from).collect();
            Ok(table::table(meta, &list, &columns, vec![row]))
        }
        Shape::MetadataList(_) => Err(RequestError::ObjectNotAcceptable("*v1.Scale".to_owned()).into()),
    }
}

/// A Scale that a client sent, and the warnings from decoding it.
struct SentScale {
    scale: Value,
    warnings: Vec<String>,
}

/// The Scale in a PUT's body.
fn of_body(bytes: &[u8], format: Format, validation: FieldValidation) -> Result<SentScale, RequestError> {
    let unknown = |_| unknown_body();
    let decoded = codec::object(bytes, format, &expected(), None, true, validation).map_err(unknown)?;
    if decoded.kind != expected() {
        return Err(unknown_body());
    }
    let typed = scale::decode(&decoded.value).map_err(|_| unknown_body())?;
    let mut strict = decoded.strict_errors;
    if validation != FieldValidation::Ignore {
        strict.extend(typed.unknown_fields.iter().map(|path| codec::unknown_field(path)));
    }
    if validation == FieldValidation::Strict && !strict.is_empty() {
        return Err(unknown_body());
    }
    let mut scale = typed.value;
    if !decoded.says_version
        && let Some(scale) = scale.as_object_mut()
    {
        // Upstream's field manager does not know it then.
        scale.remove("apiVersion");
    }
    Ok(SentScale { scale, warnings: codec::strict_warnings(strict) })
}

/// Decodes a patched Scale.
fn of_patched(
    patch: &Patch,
    patched: &Value,
    validation: FieldValidation,
) -> Result<SentScale, RequestError> {
    let undecodable = |why: String| patch::undecodable(patched, &why);
    let typed = scale::decode(patched).map_err(|error| undecodable(error.to_string()));
    let text = |field| patched.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version.is_some_and(|v| v != scale::API_VERSION) || kind.is_some_and(|k| k != scale::KIND) {
        let (api_version, kind) = (api_version.unwrap_or(scale::API_VERSION), kind.unwrap_or(scale::KIND));
        if kind == scale::KIND && OLDER.contains(&api_version) {
            let version = split_api_version(api_version).map_or(api_version, |(_, version)| version);
            return Err(undecodable(format!(
                "converting ({version}.Scale) to (v1.Scale): unknown conversion"
            )));
        }
        let (kind, version) = (field::go_quote(kind), field::go_quote(api_version));
        let scheme = codec::SCHEME;
        let why = format!("no kind {kind} is registered for version {version} in scheme {scheme}");
        return Err(undecodable(why));
    }
    let typed = typed?;
    let mut strict = patch.strict_errors().to_vec();
    if validation != FieldValidation::Ignore {
        strict.extend(typed.unknown_fields.iter().map(|path| codec::unknown_field(path)));
    }
    if validation == FieldValidation::Strict && !strict.is_empty() {
        return Err(patch::strict_error(patched, &strict));
    }
    Ok(SentScale { scale: typed.value, warnings: strict })
}

fn metadata<'a>(scale: &'a Value, field: &str) -> &'a str {
    scale.at(&["metadata", field]).and_then(Value::as_str).unwrap_or_default()
}

/// PUT
pub(crate) async fn update(call: &Call<'_>, payload: Received) -> Result<Response, Failure> {
    let accepted = accept(call.header(header::ACCEPT), Endpoint::Typed)?;
    let name = call.info.required_name()?.to_owned();
    let mut bytes = plain_body(call, payload).await?;
    let query = WriteOptions::for_update(call.query)?;
    check_extensions(call, &query)?;
    let format = body_format(call.header(header::CONTENT_TYPE), true)?;
    let read = |bytes: &[u8]| of_body(bytes, format, query.field_validation);
    let memory = |sent: &Result<SentScale, _>| sent.as_ref().map_or(0, |sent| field::bytes(&sent.scale));
    let SentScale { scale, warnings } = bytes.read(read, memory).await??;
    call.record_object(&scale);
    check_namespace(call, &scale).map_err(|error| Failure::from(error).warned(warnings.clone()))?;
    check_name(&scale, &name).map_err(|error| failed(call, error).warned(warnings.clone()))?;

    let mut wanted = |cx: &RuleContext<'_>, _: &Value| {
        check_replicas(cx.spec, &scale, &name).map_err(refused)?;
        Ok(scale.clone())
    };
    let uid = Some(metadata(&scale, "uid")).filter(|uid| !uid.is_empty());
    let write = Write::UpdateScale(uid, &mut wanted);
    let ended = carry_out(call, &name, options(call, &query, &bytes), write).await;
    respond(call, accepted, ended.written, warnings).await
}

/// A Scale of a built-in kind is judged by itself, before its object (`ValidateScale` of `pkg/apis/autoscaling/validation`).
fn check_replicas(spec: &TypeSpec, scale: &Value, name: &str) -> Result<(), RequestError> {
    let replicas = scale.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or_default();
    if replicas >= 0 || !spec.is_typed() {
        return Ok(());
    }
    let spec = field::Path::new("spec");
    let error =
        field::Error::invalid(&spec.child("replicas"), replicas, "must be greater than or equal to 0");
    let kind = GroupKind { group: scale::GROUP.to_owned(), kind: scale::KIND.to_owned() };
    Err(RequestError::Invalid { kind, name: name.to_owned(), errors: error.into() })
}

/// `rest.EnsureObjectNamespaceMatchesRequestNamespace`
fn check_namespace(call: &Call<'_>, scale: &Value) -> Result<(), RequestError> {
    match (metadata(scale, "namespace"), call.namespace()) {
        ("", _) | (_, None) => Ok(()),
        (given, Some(namespace)) if given == namespace => Ok(()),
        _ => Err(RequestError::BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
                .to_owned(),
        )),
    }
}

/// PATCH
pub(crate) async fn patch(call: &Call<'_>, payload: Received) -> Result<Response, Failure> {
    // No list of a Scale merges by a key, so its strategic merge patches are merge patches.
    let kinds: &[PatchType] = match call.spec.is_typed() {
        true => &[PatchType::Json, PatchType::Merge, PatchType::StrategicMerge, PatchType::Apply],
        false => &[PatchType::Json, PatchType::Merge, PatchType::Apply],
    };
    let kind = PatchType::of(call.header(header::CONTENT_TYPE), kinds)?;
    if kind == PatchType::Apply {
        return apply(call, payload).await;
    }
    let accepted = accept(call.header(header::ACCEPT), Endpoint::Typed)?;
    let name = call.info.required_name()?.to_owned();
    let query = WriteOptions::for_patch(call.query, false)?;
    check_extensions(call, &query)?;
    let mut bytes = plain_body(call, payload).await?;
    let read = |bytes: &[u8]| parse_patch(kind, bytes, query.field_validation);
    let patch = bytes.read(read, |patch| patch.as_ref().map_or(0, Patch::bytes)).await?;
    let patch = defer_unless_malformed(&bytes, patch)?;
    call.record_patch(&bytes);
    let mut warnings = Vec::new();
    let mut wanted = |cx: &RuleContext<'_>, scale: &Value| {
        let patch = patch.as_ref().map_err(|error| refused(error.clone()))?;
        let patched = patch.apply(scale.clone()).map_err(refused)?;
        let sent = of_patched(patch, &patched, query.field_validation).map_err(refused)?;
        warnings = sent.warnings;
        check_name(&sent.scale, &name)?;
        check_replicas(cx.spec, &sent.scale, &name).map_err(refused)?;
        Ok(sent.scale)
    };
    let write = Write::UpdateScale(None, &mut wanted);
    let ended = carry_out(call, &name, options(call, &query, &bytes), write).await;
    respond(call, accepted, ended.written, warnings).await
}

/// PATCH with a configuration
async fn apply(call: &Call<'_>, payload: Received) -> Result<Response, Failure> {
    let accepted = accept(call.header(header::ACCEPT), Endpoint::Typed)?;
    let sent = Configured::read(call, payload).await?;
    let namespace = call.namespace();
    let mut warnings = Vec::new();
    let mut check = |scale: &mut Value, creates: bool| {
        warnings = sent.check(namespace, scale, creates)?;
        check_replicas(&call.spec, scale, &sent.name).map_err(refused)?;
        Ok(())
    };
    let mut apply = sent.apply(&mut check);
    let write = Write::ApplyScale(&mut apply);
    let ended = carry_out(call, &sent.name, options(call, &sent.query, &sent.body), write).await;
    respond(call, accepted, ended.written, warnings).await
}

async fn respond(
    call: &Call<'_>,
    accepted: Accepted,
    written: Result<Written, Failure>,
    mut warnings: Vec<String>,
) -> Result<Response, Failure> {
    let written = match written {
        Ok(written) => written,
        Err(why) => return Err(why.warned(warnings)),
    };
    warnings.extend(written.warnings);
    turn(cost::parse(written.object.json().len())).await;
    reply(call, &written.spec, &written.object, accepted, Purpose::Write, warnings).await
}
