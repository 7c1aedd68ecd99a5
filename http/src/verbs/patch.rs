//! PATCH with a JSON patch, a merge patch or a strategic merge patch.

use actix_web::http::header;
use kindom_api::Value;
use kindom_api::decode::Struct;
use kindom_api::names::GroupVersionKind;
use kindom_codec::{self as codec, FieldValidation};
use kindom_objects::PlanError;
use kindom_objects::RuleContext;
use kindom_objects::owner_references::{self, Origin};
use kindom_objects::stages::Stage;
use kindom_resource_actor::Write;

use crate::body::{Received, plain_body};
use crate::call::Call;
use crate::decoding::{check_kind, check_name, decode_as, expected, known_versions};
use crate::negotiate::PatchType;
use crate::patch::{self, Patch, StrategicPatch};
use crate::query::WriteOptions;
use crate::response::Response;
use crate::status::Failure;
use crate::verbs::apply;
use crate::writing::{carry_out, check_extensions, finish, options, refused};
use crate::{RequestError, identity};

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

/// Reports a body that is not even JSON at once. Any other error of a patch is reported only if there is an object to patch,
/// as upstream decodes patches when it applies them.
pub(crate) fn defer_unless_malformed<P>(
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

    /// About as many bytes as it takes in memory.
    fn bytes(&self) -> usize {
        match self {
            Self::Plain(patch) => patch.bytes(),
            Self::Strategic(patch, _) => patch.bytes(),
        }
    }
}

/// PATCH
pub(crate) async fn patch(call: &Call<'_>, payload: Received) -> Result<Response, Failure> {
    tracing::trace!("decode the body of PATCH");
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
    check_extensions(call, &query)?;
    let mut bytes = plain_body(call, payload).await?;
    let validation = query.field_validation;
    let read = |bytes: &[u8]| Decoded::of(bytes, kind, go_type, validation);
    let patch = bytes.read(read, |read| read.as_ref().map_or(0, Decoded::bytes)).await?;
    let patch = defer_unless_malformed(&bytes, patch)?;
    call.record_patch(&bytes);
    let mut warnings = Vec::new();
    let mut wanted = |cx: &RuleContext<'_>, old: &Value| {
        warnings.clear();
        // A patch of a part sees that part: it could tell of other fields.
        let part = cx.subresource.and_then(|through| cx.spec.part(cx.version_name, through));
        let part = part.filter(|_| !old.is_null()).map(|part| part.of(old));
        let old = part.as_ref().unwrap_or(old);
        match &patch {
            Err(error) => Err(refused(error.clone())),
            Ok(Decoded::Plain(patch)) => patched(cx, patch, old, validation, &name, &mut warnings),
            Ok(Decoded::Strategic(patch, of)) => {
                let mut object = strategically_patched(cx, patch, of, old, validation, &mut warnings)?;
                check_name(&object, &name)?;
                warnings.extend(owner_references::dedup(&mut object, Origin::Patched));
                Ok(object)
            }
        }
    };
    let ended = carry_out(call, &name, options(call, &query, &bytes), Write::Patch(&mut wanted)).await;
    finish(call, accepted, &query, ended, warnings).await
}

/// Applies a JSON patch or merge patch to an object. Warnings for the client go to `warnings`, also if the object is
/// refused.
fn patched(
    cx: &RuleContext<'_>,
    patch: &Patch,
    old: &Value,
    validation: FieldValidation,
    name: &str,
    warnings: &mut Vec<String>,
) -> Result<Value, PlanError> {
    let mut object = patch.apply(old.clone()).map_err(refused)?;
    cx.passed(Stage::Patch, Some(&object));
    let expected = expected(cx, cx.version_name);
    let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let built_in = cx.spec.is_typed();
    let mut found = expected.clone();
    if text("apiVersion") != expected.api_version() || text("kind") != expected.kind {
        let (found_group, found_version) = kindom_api::names::split_api_version(&text("apiVersion"))
            .map_or_else(
                || (String::new(), text("apiVersion")),
                |(group, version)| (group.to_owned(), version.to_owned()),
            );
        found = GroupVersionKind::new(found_group, found_version, text("kind"));
        if found.kind.is_empty() {
            let missing = format!("Object 'Kind' is missing in '{object}'");
            return Err(refused(patch::undecodable(&object, &missing)));
        }
        if built_in {
            identity::check_type(&found, &expected, known_versions(cx)).map_err(refused)?;
        }
    }
    let mut unknown = Vec::new();
    let wanted = (validation != FieldValidation::Ignore).then_some(&mut unknown);
    // Patch again where an error shows the object: decoding changes the first copy.
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
    warnings.extend(owner_references::dedup(&mut object, Origin::Patched));
    check_kind(&found, &expected, &object)?;
    cx.passed(Stage::Default, Some(&object));
    Ok(object)
}

/// Applies a strategic merge patch to an object of a built-in type; warnings as in [`patched`].
fn strategically_patched(
    cx: &RuleContext<'_>,
    patch: &StrategicPatch,
    of: &'static Struct,
    old: &Value,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<Value, PlanError> {
    let (mut object, strict) = patch.apply(old.clone(), of, validation).map_err(refused)?;
    warnings.extend(strict);
    let expected = expected(cx, cx.version_name);
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion", expected.api_version());
        map.insert("kind", expected.kind.as_str());
    }
    cx.passed(Stage::Patch, Some(&object));
    let read = cx.spec.strategy.decode(cx, &mut object, None).map_err(PlanError::BadRequest)?;
    cx.passed(Stage::Default, Some(&object));
    warnings.extend(read);
    Ok(object)
}
