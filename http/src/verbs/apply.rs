//! PATCH with a configuration: server-side apply (apiserver `pkg/endpoints/handlers/patch.go`, `applyPatcher`, 1.37).

use std::ops::ControlFlow;

use kindom_api::{Value, field};
use kindom_codec::{Configuration, FieldValidation, configuration};
use kindom_objects::PlanError;
use kindom_objects::owner_references::{self, Origin};
use kindom_resource_actor::{Apply, ApplyCheck, Write};

use crate::body::{Plain, Received, plain_body};
use crate::call::Call;
use crate::create_permission::CreatePermission;
use crate::decoding::check_name;
use crate::query::WriteOptions;
use crate::response::Response;
use crate::status::Failure;
use crate::writing::{carry_out, check_extensions, finish, options, refused};
use crate::{RequestError, identity};

/// A request to apply: its configuration and options.
pub(crate) struct Configured {
    pub(crate) name: String,
    pub(crate) query: WriteOptions,
    configuration: Configuration,
    pub(crate) body: Plain,
}

impl Configured {
    pub(crate) async fn read(call: &Call<'_>, payload: Received) -> Result<Self, Failure> {
        let name = call.info.required_name()?.to_owned();
        let query = WriteOptions::for_patch(call.query, true)?;
        check_extensions(call, &query)?;
        let mut body = plain_body(call, payload).await?;
        let memory = |read: &Result<Configuration, _>| read.as_ref().map_or(0, bytes);
        let configuration = body.read(configuration, memory).await?.map_err(RequestError::from)?;
        if let (Some(record), Ok(value)) = (call.request.record(), &configuration.value) {
            record.request_body(value);
        }
        Ok(Self { name, query, configuration, body })
    }

    /// Adds the type of the object, if its kind has a type in the program: what that writes says none.
    fn complete_type(&mut self, call: &Call<'_>) {
        let Ok(Value::Object(fields)) = &mut self.configuration.value else { return };
        if call.spec.strategy.is_of_program() {
            let version = &call.info.resource.version;
            fields.entry_or_insert_with("apiVersion", || call.spec.api_version(version).into());
            fields.entry_or_insert_with("kind", || call.spec.names.kind.as_str().into());
        }
    }

    /// The plan, which checks the new object with [`Self::check`].
    pub(crate) fn apply<'c>(&self, check: &'c mut ApplyCheck<'c>) -> Apply<'c> {
        Apply {
            patch: self.configuration.value.clone().map_err(PlanError::BadRequest),
            force: self.query.force.unwrap_or(false),
            check,
        }
    }

    /// Checks that the client may make the object; returns the warnings for the client.
    pub(crate) fn check(
        &self,
        namespace: Option<&str>,
        made: &Value,
        creates: bool,
    ) -> Result<Vec<String>, PlanError> {
        let warnings = strict(&self.configuration, self.query.field_validation)?;
        check_identity(namespace, made, creates, &self.name)?;
        Ok(warnings)
    }
}

/// Applies the configuration; answers with the object as it is then, with 201 if it is new.
pub(crate) async fn apply(call: &Call<'_>, payload: Received) -> Result<Response, Failure> {
    tracing::trace!("decode the body of an apply");
    let accepted = call.accept()?;
    let mut sent = Configured::read(call, payload).await?;
    sent.complete_type(call);
    let namespace = call.namespace();
    let mut permission = CreatePermission::of(call);
    let mut warnings = Vec::new();
    let ended = loop {
        let mut check = |object: &mut Value, creates: bool| {
            warnings = sent.check(namespace, object, creates)?;
            warnings.extend(owner_references::dedup(object, Origin::Patched));
            if creates {
                permission.check()?;
            }
            Ok(())
        };
        let mut apply = sent.apply(&mut check);
        let options = permission.options(options(call, &sent.query, &sent.body));
        let ended = carry_out(call, &sent.name, options, Write::Apply(&mut apply)).await;
        if let ControlFlow::Break(ended) = permission.after(call, ended).await {
            break ended;
        }
    };
    finish(call, accepted, &sent.query, ended, warnings).await
}

/// About as many bytes as a configuration takes in memory.
fn bytes(configuration: &Configuration) -> usize {
    configuration.value.as_ref().map_or(0, field::bytes)
}

/// Reports keys that occur twice in the configuration: as warnings, or as a 400.
fn strict(configuration: &Configuration, validation: FieldValidation) -> Result<Vec<String>, PlanError> {
    match validation {
        FieldValidation::Strict if !configuration.duplicates.is_empty() => {
            Err(PlanError::BadRequest(configuration.strict_text()))
        }
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Strict | FieldValidation::Warn => Ok(configuration.duplicates.clone()),
    }
}

/// The object that was made must be the one of the URL (`patcher.applyPatch`).
fn check_identity(
    namespace: Option<&str>,
    object: &Value,
    creates: bool,
    name: &str,
) -> Result<(), PlanError> {
    let text = |field| object.at(&["metadata", field]).and_then(Value::as_str).unwrap_or_default();
    let uid = text("uid");
    if creates && !uid.is_empty() {
        return Err(PlanError::Conflict {
            name: name.to_owned(),
            message: format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            ),
        });
    }
    if let Some(namespace) = namespace {
        identity::check_namespace(text("namespace"), namespace).map_err(refused)?;
    }
    check_name(object, name)
}
