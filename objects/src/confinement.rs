//! Writes are confined to what their endpoint writes, where a registration declares subresources (B-52).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};

use crate::declared_subresources::Part;
use crate::error::PlanError;
use crate::{RuleContext, Subresource};

/// The part that a write goes through, if it goes through one.
fn written<'c>(cx: &RuleContext<'c>) -> Option<&'c Part> {
    cx.spec.part(cx.version_name, cx.subresource?)
}

/// `true` for a write through a part of an object.
pub(crate) fn is_of_part(cx: &RuleContext<'_>) -> bool {
    matches!(cx.subresource, Some(Subresource::Declared(_)))
}

/// Confines a write to what its endpoint writes: one through a part to that part, one of the object or its status to what no part has for
/// itself. Defaults are filled in then, as only the whole object says which.
///
/// # Errors
/// [`PlanError::Invalid`] for a part without the maps around it; [`PlanError::BadRequest`] for an object without room for its defaults;
/// [`PlanError::NotFound`] for a part that is not declared, or of no object.
pub(crate) fn confine(
    cx: &RuleContext<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), PlanError> {
    if cx.spec.declared_subresources().is_none() && !is_of_part(cx) {
        return Ok(());
    }
    let name = object.text_at(&["metadata", "name"]).to_owned();
    let (changed, errors) = match cx.subresource {
        Some(Subresource::Declared(_)) => match (written(cx), old) {
            (Some(part), Some(old)) => (true, part.write(object, old)),
            _ => return Err(PlanError::NotFound { name }),
        },
        None => kept(cx, object, old, None),
        Some(Subresource::Status) => kept(cx, object, old, Some("status")),
        Some(_) => return Ok(()),
    };
    if !errors.is_empty() {
        return Err(PlanError::Invalid { name, errors });
    }
    if changed {
        cx.spec.strategy.complete_applied(cx, object).map_err(PlanError::BadRequest)
    } else {
        Ok(())
    }
}

/// Leaves what parts have for themselves as it was, only `within` a field if that is all that counts; true if that changes the object.
fn kept(
    cx: &RuleContext<'_>,
    object: &mut Value,
    old: Option<&Value>,
    within: Option<&str>,
) -> (bool, ErrorList) {
    let mut errors = ErrorList::new();
    let exclusive = cx.spec.declared_subresources().into_iter();
    let exclusive = exclusive.flat_map(|declared| declared.exclusive(cx.version_name));
    let keep = |changed, part: &Part| part.keep(object, old, within, &mut errors) || changed;
    (exclusive.fold(false, keep), errors)
}

/// Leaves of the errors and warnings of a write what its endpoint shows the fields of: others may show values that the client may not read.
pub(crate) fn tell(
    cx: &RuleContext<'_>,
    errors: ErrorList,
    warnings: Vec<String>,
) -> (ErrorList, Vec<String>) {
    if !is_of_part(cx) {
        return (errors, warnings);
    }
    let shows = |field: &str| written(cx).is_some_and(|part| part.shows(field));
    let of_text = |text: &String| shows(text.split(": ").next().unwrap_or_default());
    let warnings = warnings.into_iter().filter(of_text).collect();
    let (shown, hidden): (Vec<Error>, Vec<Error>) = errors.into_iter().partition(|error| shows(&error.field));
    let mut errors: ErrorList = shown.into_iter().collect();
    if !hidden.is_empty() {
        let why = "the rest of the object would be invalid with it";
        errors.push(Error::forbidden(&Path::root(), why));
    }
    (errors, warnings)
}

/// Confines an apply's configuration in the same way.
pub(crate) fn confine_configuration(cx: &RuleContext<'_>, patch: &mut Value) {
    let Some(declared) = cx.spec.declared_subresources() else { return };
    if let Some(part) = written(cx) {
        *patch = part.configuration(patch);
    } else if matches!(cx.subresource, None | Some(Subresource::Status)) {
        declared.exclusive(cx.version_name).for_each(|part| part.take_out(patch));
    }
}

/// The errors in the schema of the part that a write goes through.
pub(crate) fn errors(cx: &RuleContext<'_>, object: &Value) -> ErrorList {
    match (written(cx), cx.subresource) {
        (Some(part), Some(Subresource::Declared(name))) => cx.version.parts.errors(name, part, object),
        _ => ErrorList::new(),
    }
}
