//! Writes are confined to what their endpoint writes, where a registration declares subresources (B-52).

use kindom_api::Value;
use kindom_api::field::ErrorList;

use crate::declared_subresources::Part;
use crate::error::PlanError;
use crate::{RuleContext, Subresource};

/// The part that a write goes through, if it goes through one.
fn written<'c>(cx: &RuleContext<'c>) -> Option<&'c Part> {
    cx.spec.part(cx.version_name, cx.subresource?)
}

/// Confines a write to what its endpoint writes: one through a part to that part, one of the object or its status to what no part has for
/// itself.
///
/// # Errors
/// [`PlanError::Invalid`] for a part without the maps around it; [`PlanError::BadRequest`] for an object without room for its defaults.
pub(crate) fn confine(
    cx: &RuleContext<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), PlanError> {
    let Some(declared) = cx.spec.declared_subresources() else { return Ok(()) };
    let errors: ErrorList = match cx.subresource {
        Some(Subresource::Declared(_)) => match (written(cx), old) {
            (Some(part), Some(old)) => part.write(object, old),
            _ => return Ok(()),
        },
        None | Some(Subresource::Status) => {
            let mut exclusive = declared.exclusive(cx.version_name).peekable();
            if exclusive.peek().is_none() {
                return Ok(());
            }
            let errors = exclusive.flat_map(|part| part.keep(object, old)).collect();
            if old.is_none()
                && let Some(schema) = &cx.version.schema
            {
                schema.fill_defaults(object).map_err(|error| PlanError::BadRequest(error.to_string()))?;
            }
            errors
        }
        Some(_) => return Ok(()),
    };
    let name = || object.text_at(&["metadata", "name"]).to_owned();
    if errors.is_empty() { Ok(()) } else { Err(PlanError::Invalid { name: name(), errors }) }
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

/// The errors of a write in the schema of the part that it goes through.
pub(crate) fn errors(cx: &RuleContext<'_>, object: &Value) -> ErrorList {
    match (written(cx), cx.subresource) {
        (Some(part), Some(Subresource::Declared(name))) => cx.version.parts.errors(name, part, object),
        _ => ErrorList::new(),
    }
}
