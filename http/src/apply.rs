//! PATCH with a configuration: server-side apply (apiserver `pkg/endpoints/handlers/patch.go`, `applyPatcher`, 1.37).

use actix_web::http::header;
use actix_web::{HttpResponse, web};
use kindom_api::Value;
use kindom_resource_actor::{Apply, WriteError};

use crate::decode::{self, Configuration};
use crate::dispatch::{Call, plain_body};
use crate::negotiate::{Endpoint, accept};
use crate::owner_references::{self, Stage};
use crate::query::{FieldValidation, WriteOptions};
use crate::status::Failure;
use crate::wait_for;
use crate::write::{check_name, failed, options, refused, respond, short_names_elsewhere, target};

/// Applies what is sent: the object as it is then, with 201 if it is new.
pub(crate) async fn apply(call: &Call<'_>, payload: web::Payload) -> Result<HttpResponse, Failure> {
    let accepted = accept(call.header(header::ACCEPT), Endpoint::Resource)?;
    let name = call.info.required_name()?.to_owned();
    let query = WriteOptions::for_patch(call.query, true)?;
    wait_for::check(call, query.wait_for)?;
    let configuration = decode::configuration(&plain_body(call, payload).await?)?;
    let mut warnings = Vec::new();
    let namespace = call.namespace();
    let mut check = |object: &mut Value, creates: bool| {
        warnings = strict(&configuration, query.field_validation)?;
        check_identity(namespace, object, creates, &name)?;
        warnings.extend(owner_references::dedup(object, Stage::Patched));
        Ok(())
    };
    let mut apply = Apply {
        patch: configuration.value.clone().map_err(WriteError::BadRequest),
        force: query.force.unwrap_or(false),
        check: &mut check,
    };
    let written = call.handle.apply(target(call, &name), &mut apply, &options(call, &query)).await;
    let written = match written {
        Ok(written) => written,
        Err(error) => return Err(failed(call, error).warned(warnings)),
    };
    warnings.extend(short_names_elsewhere(call, &written));
    let written = wait_for::wait(call, query.waits_for(), written).await;
    // A dry run creates nothing, and is answered as if it had.
    let code = if written.created { 201 } else { 200 };
    respond(call, accepted, code, &written, warnings)
}

/// What stands twice in the configuration: warnings, or a 400.
pub(crate) fn strict(
    configuration: &Configuration,
    validation: FieldValidation,
) -> Result<Vec<String>, WriteError> {
    match validation {
        FieldValidation::Strict if !configuration.duplicates.is_empty() => {
            Err(WriteError::BadRequest(configuration.strict_text()))
        }
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Strict | FieldValidation::Warn => Ok(configuration.duplicates.clone()),
    }
}

/// The object that was made must be the one of the URL (`patcher.applyPatch`).
pub(crate) fn check_identity(
    namespace: Option<&str>,
    object: &Value,
    creates: bool,
    name: &str,
) -> Result<(), WriteError> {
    let said = |field| object.at(&["metadata", field]).and_then(Value::as_str).unwrap_or_default();
    let uid = said("uid");
    if creates && !uid.is_empty() {
        return Err(WriteError::Conflict {
            name: name.to_owned(),
            message: format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            ),
        });
    }
    if let Some(namespace) = namespace {
        decode::check_namespace(said("namespace"), namespace).map_err(refused)?;
    }
    check_name(object, name)
}
