//! POST, PUT, PATCH and DELETE.

use actix_web::http::header;
use actix_web::{HttpResponse, web};
use bytes::Bytes;
use kindom_api::decode::Struct;
use kindom_api::names::{GroupKind, GroupVersionKind};
use kindom_api::status::{Details, Status};
use kindom_api::{Value, field};
use kindom_codec::{self as codec, DecodeError, FieldValidation, Format};
use kindom_resource_actor::{
    Basis, Outcome, Preconditions, ResourceHandle, RuleContext, StoredObject, Target, WriteError,
    WriteOptions as Options, Written, settles,
};

use crate::dispatch::{Call, plain_body};
use crate::negotiate::{Accepted, PatchType, Shape, body_format};
use crate::owner_references::{self, Stage};
use crate::patch::{self, Patch, StrategicPatch};
use crate::query::{DeleteOptions, ListOptions, PropagationPolicy, WriteOptions};
use crate::respond::Reply;
use crate::status::{Answer, Failure};
use crate::{RequestError, apply, identity, read, wait_for};

/// How many objects of a collection are deleted at once.
const DELETE_AT_ONCE: usize = 64;

pub(crate) fn options(call: &Call<'_>, query: &WriteOptions) -> Options {
    let user_agent = call.request.headers().get(header::USER_AGENT);
    let user_agent = user_agent.map(header::HeaderValue::as_bytes).unwrap_or_default();
    Options { manager: query.manager(user_agent), ..deletion(call, query.dry_run) }
}

/// The options of a delete, which changes nobody's fields.
fn deletion(call: &Call<'_>, dry_run: bool) -> Options {
    Options {
        deadline: call.deadline,
        dry_run,
        object_bytes_max: call.state.object_bytes_max,
        namespaces: Some(call.state.namespaces.clone()),
        manager: String::new(),
        basis: call.basis,
    }
}

pub(crate) fn target<'a>(call: &'a Call<'_>, name: &'a str) -> Target<'a> {
    Target {
        version: &call.info.resource.version,
        subresource: call.subresource(),
        namespace: call.namespace(),
        name,
    }
}

/// A refusal from within a plan, carried through it.
pub(crate) fn refused(error: RequestError) -> WriteError {
    match Failure::from(error).answer() {
        Answer::Status(status) => WriteError::Patch(Box::new(status)),
        Answer::PageNotFound => WriteError::Gone,
    }
}

/// The 400 for a body that cannot be decoded, carried through a plan.
fn undecodable(error: DecodeError) -> WriteError {
    WriteError::BadRequest(error.0)
}

pub(crate) fn failed(call: &Call<'_>, error: WriteError) -> Failure {
    Failure::Write(Box::new(error), call.resource(), call.spec.group_kind())
}

/// Writes an object. What was planned on a guess counts only if the store has committed it; else all is looked up, and
/// planned, again.
pub(crate) async fn settled(
    call: &Call<'_>,
    mut options: Options,
    mut write: impl AsyncFnMut(&ResourceHandle, &Options) -> Result<Written, WriteError>,
) -> Result<Written, Failure> {
    let mut anew = None;
    if options.basis == Basis::Guess {
        // Nothing is committed by a dry run.
        let guessed =
            if options.dry_run { Err(WriteError::Guessed) } else { write(&call.handle, &options).await };
        if settles(&guessed) {
            return guessed.map_err(|error| failed(call, error));
        }
        let ((handle, _), basis) = call.look_up_again().await?;
        options.basis = basis;
        anew = Some(handle);
    }
    write(anew.as_ref().unwrap_or(&call.handle), &options).await.map_err(|error| failed(call, error))
}

/// The answer to a write of one object.
pub(crate) fn respond(
    call: &Call<'_>,
    accepted: Accepted,
    code: u16,
    written: &Written,
    mut warnings: Vec<String>,
) -> Result<HttpResponse, Failure> {
    let reply = read::object_reply(call, &written.spec, &written.object, accepted, code)?;
    warnings.extend(written.warnings.iter().cloned());
    let reply = read::deprecation(call, reply.with_warnings(warnings))?;
    let unstored = written.outcome == Outcome::Created { dry_run: true };
    let reply = if unstored { without_revision(reply)? } else { reply };
    Ok(reply.write(call.request, accepted))
}

/// What the author of a registration should know of the short names that it asks for.
pub(crate) fn short_names_elsewhere(call: &Call<'_>, written: &Written) -> Vec<String> {
    if !call.state.registry.is_registrations(&call.handle) || call.subresource().is_some() {
        return Vec::new();
    }
    let tree = kindom_api::json::parse_own(written.object.json()).unwrap_or_default();
    call.state.registry.short_names_elsewhere(&tree)
}

/// The answer to a dry run of a create has no resourceVersion.
fn without_revision(reply: Reply) -> Result<Reply, Failure> {
    reply.map_tree(|tree| {
        if let Some(metadata) = tree.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
    })
}

/// What a body has to be.
fn expected(cx: &RuleContext<'_>, version: &str) -> GroupVersionKind {
    cx.spec.gvk(version)
}

/// Decodes a body as an object of the request's version, checks that it is what the URL says, and brings it into the
/// version's shape. What strict decoding finds is an error or a warning. If the object is of another kind, that comes with
/// it: upstream says so when it validates, after much else.
fn object_of_body(
    cx: &RuleContext<'_>,
    version: &str,
    bytes: &[u8],
    format: Format,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<(Value, Option<WriteError>), WriteError> {
    // Those of a plan before this one say nothing any more.
    warnings.clear();
    let expected = expected(cx, version);
    let built_in = cx.spec.registration.is_none();
    let decoded = codec::object(bytes, format, &expected, built_in, validation);
    let mut decoded = decoded.map_err(undecodable)?;
    if decoded.value.get("apiVersion").is_some_and(Value::is_null) {
        let why = ".apiVersion accessor error: <nil> is of the type <nil>, expected string";
        return Err(undecodable(codec::cannot_be_handled(&decoded.kind, &expected, why)));
    }
    let of_another = identity::check_type(&decoded.kind, &expected, built_in).map_err(refused).err();
    if built_in && let Some(refusal) = of_another {
        return Err(refusal);
    }
    if of_another.is_none()
        && let Err(wrong) = check_kind(&decoded.kind, &expected, &decoded.value)
    {
        // The schema is the kind's: it says nothing about an object of another one.
        *warnings = owner_references::dedup(&mut decoded.value, Stage::Body).into_iter().collect();
        return Ok((decoded.value, Some(wrong)));
    }
    let mut unknown = Vec::new();
    let wanted = (validation != FieldValidation::Ignore).then_some(&mut unknown);
    let read = decode_as(cx, &decoded.kind.version, &mut decoded.value, wanted).map_err(|why| {
        let version = field::go_quote(&expected.version);
        let kind = &expected.kind;
        WriteError::BadRequest(format!("{kind} in version {version} cannot be handled as a {kind}: {why}"))
    })?;
    let mut strict = decoded.strict_errors;
    strict.extend(unknown.iter().map(|path| codec::unknown_field(path)));
    if validation == FieldValidation::Strict && !strict.is_empty() {
        return Err(undecodable(codec::strict_error(&decoded.kind, &expected, &strict)));
    }
    *warnings = codec::strict_warnings(strict);
    warnings.extend(read);
    if let Some(refusal) = of_another {
        return Err(refusal);
    }
    warnings.extend(owner_references::dedup(&mut decoded.value, Stage::Body));
    Ok((decoded.value, None))
}

/// Decodes an object as one of the version that it says it is of, as upstream does before it looks at what the URL says.
/// Of a version that there is not, no field is known.
fn decode_as(
    cx: &RuleContext<'_>,
    said: &str,
    object: &mut Value,
    unknown: Option<&mut Vec<String>>,
) -> Result<Vec<String>, String> {
    if said == cx.version_name || cx.spec.registration.is_none() {
        return cx.spec.strategy.decode(cx, object, unknown);
    }
    if let Some(version) = cx.spec.version(said) {
        let compiled = cx.spec.compiled(version)?;
        let cx = RuleContext { version: &compiled, version_name: said, ..*cx };
        return cx.spec.strategy.decode(&cx, object, unknown);
    }
    let fields = object.as_object().into_iter().flat_map(kindom_api::Map::keys);
    let fields = fields.filter(|field| !matches!(*field, "apiVersion" | "kind" | "metadata"));
    if let Some(unknown) = unknown {
        unknown.extend(fields.map(str::to_owned));
    }
    Ok(Vec::new())
}

/// `true` if an object's uid and resourceVersion are those of what is stored, so that no plan refuses it for them.
fn is_based_on(object: &Value, old: &Value) -> bool {
    let said = |object: &Value, field| {
        object.at(&["metadata", field]).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let revision = |object: &Value| said(object, "resourceVersion").parse::<u64>().ok();
    let uid = said(object, "uid");
    revision(object).is_some()
        && revision(object) == revision(old)
        && (uid.is_empty() || uid == said(old, "uid"))
}

/// 422 for an object of a registered type that says it is another.
fn check_kind(
    found: &GroupVersionKind,
    expected: &GroupVersionKind,
    object: &Value,
) -> Result<(), WriteError> {
    let errors = identity::wrong_type(found, expected);
    if errors.is_empty() {
        return Ok(());
    }
    let name = object.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default();
    let kind = GroupKind { group: found.group.clone(), kind: found.kind.clone() };
    Err(WriteError::Patch(Box::new(Status::invalid(&kind, name, &errors))))
}

/// The name in an object that is to be written to a path with a name.
pub(crate) fn check_name(object: &Value, name: &str) -> Result<(), WriteError> {
    let own = object.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default();
    if own.is_empty() {
        return Err(WriteError::BadRequest(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    identity::check_name(own, name).map_err(refused)
}

/// POST
pub(crate) async fn create(call: &Call<'_>, payload: web::Payload) -> Result<HttpResponse, Failure> {
    let accepted = call.accept()?;
    let query = WriteOptions::for_create(call.query)?;
    wait_for::check(call, query.wait_for)?;
    let (bytes, format) = (plain_body(call, payload).await?, call.body_format()?);
    let version = &call.info.resource.version;
    let mut warnings = Vec::new();
    let mut wanted = |cx: &RuleContext<'_>, _: &Value| match object_of_body(
        cx,
        version,
        &bytes,
        format,
        query.field_validation,
        &mut warnings,
    )? {
        (object, None) => Ok(object),
        (_, Some(wrong)) => Err(wrong),
    };
    let written = settled(call, options(call, &query), async |handle, options| {
        handle.create(target(call, ""), &mut wanted, options).await
    });
    let written = match written.await {
        Ok(written) => written,
        Err(why) => return Err(why.warned(warnings)),
    };
    warnings.extend(short_names_elsewhere(call, &written));
    let written = wait_for::wait(call, query.waits_for(), written).await;
    respond(call, accepted, 201, &written, warnings)
}

/// PUT
pub(crate) async fn update(call: &Call<'_>, payload: web::Payload) -> Result<HttpResponse, Failure> {
    let accepted = call.accept()?;
    let name = call.info.required_name()?.to_owned();
    let query = WriteOptions::for_update(call.query)?;
    wait_for::check(call, query.wait_for)?;
    let (bytes, format) = (plain_body(call, payload).await?, call.body_format()?);
    let version = &call.info.resource.version;
    // Before the object is looked for: a body that is none is 400 whatever is there.
    let mut warnings = Vec::new();
    let mut wanted = |cx: &RuleContext<'_>, old: &Value| {
        let (object, wrong) =
            object_of_body(cx, version, &bytes, format, query.field_validation, &mut warnings)?;
        check_name(&object, &name)?;
        match wrong.filter(|_| is_based_on(&object, old)) {
            Some(wrong) => Err(wrong),
            None => Ok(object),
        }
    };
    let written = settled(call, options(call, &query), async |handle, options| {
        handle.update(target(call, &name), false, &mut wanted, options).await
    });
    let written = match written.await {
        Ok(written) => written,
        Err(why) => return Err(why.warned(warnings)),
    };
    warnings.extend(short_names_elsewhere(call, &written));
    let written = wait_for::wait(call, query.waits_for(), written).await;
    respond(call, accepted, 200, &written, warnings)
}

/// The patch in a body.
pub(crate) fn parse_patch(
    kind: PatchType,
    bytes: &[u8],
    validation: FieldValidation,
) -> Result<Patch, RequestError> {
    match kind {
        PatchType::Json => Patch::json(bytes, validation),
        PatchType::Merge | PatchType::StrategicMerge | PatchType::Apply => Patch::merge(bytes, validation),
    }
}

/// What is not even JSON is told at once; all else that is wrong with a patch only where there is an object to be
/// patched, as upstream decodes patches to apply them.
pub(crate) fn told_later<P>(
    bytes: &[u8],
    decoded: Result<P, RequestError>,
) -> Result<Result<P, RequestError>, RequestError> {
    match decoded {
        Err(error) if patch::is_malformed_json(bytes) => Err(error),
        decoded => Ok(decoded),
    }
}

/// A patch as it came.
enum Decoded {
    Plain(Patch),
    Strategic(StrategicPatch, &'static Struct),
}

impl Decoded {
    fn of(
        bytes: &[u8],
        kind: PatchType,
        go_type: Option<&'static Struct>,
        validation: FieldValidation,
    ) -> Result<Self, RequestError> {
        match (kind, go_type) {
            (PatchType::StrategicMerge, Some(of)) => {
                StrategicPatch::decode(bytes, validation).map(|patch| Self::Strategic(patch, of))
            }
            _ => parse_patch(kind, bytes, validation).map(Self::Plain),
        }
    }
}

/// PATCH
pub(crate) async fn patch(call: &Call<'_>, payload: web::Payload) -> Result<HttpResponse, Failure> {
    let version = &call.info.resource.version;
    let go_type = call.spec.strategy.go_type(&call.spec, version);
    let kinds: &[PatchType] = match go_type {
        Some(_) => &[PatchType::Json, PatchType::Merge, PatchType::StrategicMerge, PatchType::Apply],
        None => &[PatchType::Json, PatchType::Merge, PatchType::Apply],
    };
    let kind = PatchType::of(call.header(header::CONTENT_TYPE), kinds)?;
    if kind == PatchType::Apply {
        return apply::apply(call, payload).await;
    }
    let accepted = call.accept()?;
    let name = call.info.required_name()?.to_owned();
    let query = WriteOptions::for_patch(call.query, false)?;
    wait_for::check(call, query.wait_for)?;
    let bytes: Bytes = plain_body(call, payload).await?;
    let validation = query.field_validation;
    let patch = told_later(&bytes, Decoded::of(&bytes, kind, go_type, validation))?;
    let mut warnings = Vec::new();
    let mut wanted = |cx: &RuleContext<'_>, old: &Value| {
        warnings.clear();
        match &patch {
            Err(error) => Err(refused(error.clone())),
            Ok(Decoded::Plain(patch)) => patched(cx, patch, old, validation, &name, &mut warnings),
            Ok(Decoded::Strategic(patch, of)) => {
                let mut object = strategically_patched(cx, patch, of, old, validation, &mut warnings)?;
                check_name(&object, &name)?;
                warnings.extend(owner_references::dedup(&mut object, Stage::Patched));
                Ok(object)
            }
        }
    };
    let written = settled(call, options(call, &query), async |handle, options| {
        handle.update(target(call, &name), true, &mut wanted, options).await
    });
    let written = match written.await {
        Ok(written) => written,
        Err(why) => return Err(why.warned(warnings)),
    };
    warnings.extend(short_names_elsewhere(call, &written));
    let written = wait_for::wait(call, query.waits_for(), written).await;
    respond(call, accepted, 200, &written, warnings)
}

/// What a JSON patch or merge patch makes of an object. What the client is to be warned of goes to `warnings`, also where
/// the object is refused.
fn patched(
    cx: &RuleContext<'_>,
    patch: &Patch,
    old: &Value,
    validation: FieldValidation,
    name: &str,
    warnings: &mut Vec<String>,
) -> Result<Value, WriteError> {
    let mut object = patch.apply(old.clone()).map_err(refused)?;
    let expected = expected(cx, cx.version_name);
    let said = |field| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let built_in = cx.spec.registration.is_none();
    let mut found = expected.clone();
    if said("apiVersion") != expected.api_version() || said("kind") != expected.kind {
        let (found_group, found_version) = kindom_api::names::split_api_version(&said("apiVersion"))
            .map_or_else(
                || (String::new(), said("apiVersion")),
                |(group, version)| (group.to_owned(), version.to_owned()),
            );
        found = GroupVersionKind::new(found_group, found_version, said("kind"));
        if found.kind.is_empty() {
            let missing = format!("Object 'Kind' is missing in '{object}'");
            return Err(refused(patch::undecodable(&object, &missing)));
        }
        if built_in {
            identity::check_type(&found, &expected, built_in).map_err(refused)?;
        }
    }
    let mut unknown = Vec::new();
    let wanted = (validation != FieldValidation::Ignore).then_some(&mut unknown);
    // Made again where it is told: decoding changes the object.
    let patched = || patch.apply(old.clone()).unwrap_or_default();
    let decoded = decode_as(cx, &found.version, &mut object, wanted);
    let read = decoded.map_err(|why| refused(patch::undecodable(&patched(), &why)))?;
    let mut strict = patch.strict_errors().to_vec();
    strict.extend(unknown.iter().map(|path| codec::unknown_field(path)));
    if validation == FieldValidation::Strict && !strict.is_empty() {
        return Err(refused(patch::strict_error(&patched(), &strict)));
    }
    warnings.extend(strict);
    warnings.extend(read);
    check_name(&object, name)?;
    warnings.extend(owner_references::dedup(&mut object, Stage::Patched));
    check_kind(&found, &expected, &object)?;
    Ok(object)
}

/// What a strategic merge patch makes of an object of a built-in type; warnings as in [`patched`].
fn strategically_patched(
    cx: &RuleContext<'_>,
    patch: &StrategicPatch,
    of: &'static Struct,
    old: &Value,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<Value, WriteError> {
    let (mut object, strict) = patch.apply(old.clone(), of, validation).map_err(refused)?;
    warnings.extend(strict);
    let expected = expected(cx, cx.version_name);
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion", expected.api_version());
        map.insert("kind", expected.kind.as_str());
    }
    let read = cx.spec.strategy.decode(cx, &mut object, None).map_err(WriteError::BadRequest)?;
    warnings.extend(read);
    Ok(object)
}

/// The options of a delete: from the body if there is one, else from the query.
async fn delete_options(call: &Call<'_>, payload: web::Payload) -> Result<DeleteOptions, Failure> {
    let bytes = plain_body(call, payload).await?;
    let options = if bytes.is_empty() {
        DeleteOptions::from_query(call.query)?
    } else {
        let format = body_format(call.header(header::CONTENT_TYPE), true)?;
        let from_body = DeleteOptions::from_body(&codec::any(&bytes, format).map_err(RequestError::from)?)?;
        // kubectl says dry runs in the query also where it sends a body.
        let dry_run = from_body.dry_run || DeleteOptions::from_query(call.query)?.dry_run;
        DeleteOptions { dry_run, ..from_body }
    };
    if options.propagation_policy == Some(PropagationPolicy::Foreground) {
        // Nothing would ever remove the finalizer: there is no garbage collector yet.
        let path = field::Path::new("propagationPolicy");
        let error = field::Error::not_supported(&path, "Foreground", &["Background", "Orphan"]);
        return Err(invalid_delete(error).into());
    }
    Ok(options)
}

fn invalid_delete(error: field::Error) -> RequestError {
    let kind = GroupKind { group: "meta.k8s.io".into(), kind: "DeleteOptions".into() };
    RequestError::Invalid { kind, errors: error.into() }
}

fn preconditions(options: &DeleteOptions) -> Preconditions {
    Preconditions {
        uid: options.preconditions.uid.clone(),
        resource_version: options.preconditions.resource_version.clone(),
    }
}

/// DELETE of an object.
pub(crate) async fn delete(call: &Call<'_>, payload: web::Payload) -> Result<HttpResponse, Failure> {
    let accepted = call.accept()?;
    let name = call.info.required_name()?.to_owned();
    let query = delete_options(call, payload).await?;
    let preconditions = preconditions(&query);
    let delete = async |handle: &ResourceHandle, options: &Options| match query.ignore_store_read_error {
        true => handle.delete_corrupt(target(call, &name), options).await,
        false => handle.delete(target(call, &name), &preconditions, options).await,
    };
    let deleted = settled(call, deletion(call, query.dry_run), delete).await?;
    if !deleted.outcome.is_deleted() {
        return respond(call, accepted, 200, &deleted, Vec::new());
    }
    let resource = call.resource();
    let status = Status::success(Details {
        name,
        group: resource.group,
        kind: resource.resource,
        uid: deleted.object.uid().to_owned(),
        ..Details::default()
    });
    let whole = Accepted { shape: Shape::Whole, ..accepted };
    let reply = read::deprecation(call, Reply::status(status))?;
    Ok(reply.write(call.request, whole))
}

/// DELETE of a collection: of what a list with the same options finds.
pub(crate) async fn delete_collection(
    call: &Call<'_>,
    payload: web::Payload,
) -> Result<HttpResponse, Failure> {
    let accepted = call.accept()?;
    let list_options = ListOptions::parse(call.query)?;
    list_options.validate()?;
    let query = delete_options(call, payload).await?;
    if query.ignore_store_read_error {
        let path = field::Path::new("ignoreStoreReadErrorWithClusterBreakingPotential");
        let detail = "is not allowed with DELETECOLLECTION, try again after removing the option";
        return Err(invalid_delete(field::Error::invalid(&path, true, detail)).into());
    }
    let listed = read::select(call, &list_options).await?;
    let options = deletion(call, query.dry_run);
    let preconditions = preconditions(&query);
    for page in listed.objects.chunks(DELETE_AT_ONCE) {
        let deletions =
            page.iter().map(|object| delete_listed(&call.handle, call, object, &preconditions, &options));
        for outcome in futures::future::join_all(deletions).await {
            match outcome {
                // Somebody else was faster.
                Ok(()) | Err(WriteError::NotFound { .. }) => {}
                Err(error) => return Err(failed(call, error)),
            }
        }
    }
    read::list_reply(call, &listed, accepted)
}

async fn delete_listed(
    handle: &ResourceHandle,
    call: &Call<'_>,
    object: &StoredObject,
    preconditions: &Preconditions,
    options: &Options,
) -> Result<(), WriteError> {
    let target = Target {
        version: &call.info.resource.version,
        subresource: None,
        namespace: object.namespace(),
        name: object.name(),
    };
    handle.delete(target, preconditions, options).await.map(drop)
}
