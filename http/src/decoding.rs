//! A body, or a patched object, as an object of the request's version.

use kindom_api::names::{GroupKind, GroupVersionKind};
use kindom_api::{Value, field};
use kindom_codec::protobuf::{Envelope, Messages};
use kindom_codec::{self as codec, DecodeError, FieldValidation, Format};
use kindom_objects::PlanError;
use kindom_objects::owner_references::{self, Origin};
use kindom_objects::stages::Stage;
use kindom_objects::{Declared, RuleContext};

use crate::RequestError;
use crate::identity;
use crate::writing::refused;

/// The 400 for a body that cannot be decoded, carried through a plan.
pub(crate) fn undecodable(error: DecodeError) -> PlanError {
    PlanError::BadRequest(error.0)
}

/// The type that a body must have.
pub(crate) fn expected(cx: &RuleContext<'_>, version: &str) -> GroupVersionKind {
    cx.spec.gvk(version)
}

/// Decodes a body as an object of the request's version, checks that it is what the URL says, and brings it into the
/// version's shape. The findings of strict decoding are errors or warnings. If the object is of another kind, that error is
/// returned with it: upstream reports it when it validates, after many other checks.
pub(crate) fn object_of_body(
    cx: &RuleContext<'_>,
    version: &str,
    bytes: &[u8],
    format: Format,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<(Value, Option<PlanError>), PlanError> {
    // Discard the previous attempt's warnings: this runs again after every lost race.
    warnings.clear();
    let mut expected = expected(cx, version);
    if format == Format::Protobuf
        && let Some(sent) = accepted_envelope(cx, &expected, bytes)
    {
        expected = sent;
    }
    let built_in = cx.spec.is_typed();
    let message = cx.declared().and_then(Declared::messages).map(Messages::object);
    let default_type = built_in || cx.spec.strategy.is_of_program();
    let decoded = codec::object(bytes, format, &expected, message, default_type, validation);
    let mut decoded = decoded.map_err(undecodable)?;
    if accepts(cx, &expected, &decoded.kind) {
        expected = decoded.kind.clone();
    }
    if decoded.value.get("apiVersion").is_some_and(Value::is_null) {
        let why = ".apiVersion accessor error: <nil> is of the type <nil>, expected string";
        return Err(undecodable(codec::cannot_be_handled(&decoded.kind, &expected, why)));
    }
    cx.passed(Stage::Decode, Some(&decoded.value));
    let of_another =
        identity::check_type(&decoded.kind, &expected, known_versions(cx)).map_err(refused).err();
    if built_in && let Some(refusal) = of_another {
        return Err(refusal);
    }
    if of_another.is_none()
        && let Err(wrong) = check_kind(&decoded.kind, &expected, &decoded.value)
    {
        // The schema is that of the expected kind: it does not apply to an object of another one.
        *warnings = owner_references::dedup(&mut decoded.value, Origin::Body).into_iter().collect();
        return Ok((decoded.value, Some(wrong)));
    }
    let mut unknown = Vec::new();
    let wanted = (validation != FieldValidation::Ignore).then_some(&mut unknown);
    let read = decode_as(cx, &decoded.kind.version, &mut decoded.value, wanted).map_err(|why| {
        let version = field::go_quote(&expected.version);
        let kind = &expected.kind;
        PlanError::BadRequest(format!("{kind} in version {version} cannot be handled as a {kind}: {why}"))
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
    warnings.extend(owner_references::dedup(&mut decoded.value, Origin::Body));
    cx.passed(Stage::Default, Some(&decoded.value));
    Ok((decoded.value, None))
}

/// The versions in which upstream knows a built-in kind; `None` for a registered type.
pub(crate) fn known_versions(cx: &RuleContext<'_>) -> Option<&'static [&'static str]> {
    cx.spec.is_typed().then(|| cx.spec.strategy.known_versions())
}

/// Returns true if a built-in type takes bodies of a version that it does not serve.
fn accepts(cx: &RuleContext<'_>, expected: &GroupVersionKind, found: &GroupVersionKind) -> bool {
    found.kind == expected.kind && cx.spec.strategy.accepted_versions().contains(&&*found.api_version())
}

/// The type that a body in protobuf says it has, if it is accepted beside the served one: it is read as the latter is.
fn accepted_envelope(
    cx: &RuleContext<'_>,
    expected: &GroupVersionKind,
    bytes: &[u8],
) -> Option<GroupVersionKind> {
    if cx.spec.strategy.accepted_versions().is_empty() {
        return None;
    }
    let envelope = Envelope::open(bytes).ok()?;
    let (group, version) = envelope.api_version.split_once('/')?;
    let sent = GroupVersionKind::new(group, version, envelope.kind.as_str());
    accepts(cx, expected, &sent).then_some(sent)
}

/// Decodes an object as one of its own version, as upstream does before it compares the object with the URL. In a version
/// that does not exist, no field is known.
pub(crate) fn decode_as(
    cx: &RuleContext<'_>,
    version: &str,
    object: &mut Value,
    unknown: Option<&mut Vec<String>>,
) -> Result<Vec<String>, String> {
    if version == cx.version_name || cx.spec.is_typed() {
        return cx.spec.strategy.decode(cx, object, unknown);
    }
    if let Some(known) = cx.spec.version(version) {
        let compiled = cx.spec.compiled(known)?;
        let cx = RuleContext { version: &compiled, version_name: version, ..*cx };
        return cx.spec.strategy.decode(&cx, object, unknown);
    }
    let fields = object.as_object().into_iter().flat_map(kindom_api::Map::keys);
    let fields = fields.filter(|field| !matches!(*field, "apiVersion" | "kind" | "metadata"));
    if let Some(unknown) = unknown {
        unknown.extend(fields.map(str::to_owned));
    }
    Ok(Vec::new())
}

/// Returns true if an object's uid and resourceVersion are the stored ones, so that no plan refuses it for them.
pub(crate) fn is_based_on(object: &Value, old: &Value) -> bool {
    let text = |object: &Value, field| {
        object.at(&["metadata", field]).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let revision = |object: &Value| text(object, "resourceVersion").parse::<u64>().ok();
    let uid = text(object, "uid");
    revision(object).is_some()
        && revision(object) == revision(old)
        && (uid.is_empty() || uid == text(old, "uid"))
}

/// 422 for an object of a registered type that says it is another.
pub(crate) fn check_kind(
    found: &GroupVersionKind,
    expected: &GroupVersionKind,
    object: &Value,
) -> Result<(), PlanError> {
    let errors = identity::wrong_type(found, expected);
    if errors.is_empty() {
        return Ok(());
    }
    let name = object.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default();
    let kind = GroupKind { group: found.group.clone(), kind: found.kind.clone() };
    Err(refused(RequestError::Invalid { kind, name: name.to_owned(), errors }))
}

/// The name in an object that is to be written to a path with a name.
pub(crate) fn check_name(object: &Value, name: &str) -> Result<(), PlanError> {
    let own = object.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default();
    if own.is_empty() {
        return Err(PlanError::BadRequest(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    identity::check_name(own, name).map_err(refused)
}
