//! POST of a pod's node: a body of another kind, which is carried out and not stored.
//!
//! Source: `BindingREST` of `pkg/registry/core/pod/storage/storage.go` (1.37).

use std::sync::Arc;

use kindom_api::field::aggregate;
use kindom_api::status::{Details, Status};
use kindom_api::{GroupKind, GroupResource, Value};
use kindom_objects::kinds::pod;
use kindom_objects::plan::check_uid;
use kindom_objects::{PlanError, RuleContext, Subresource};
use kindom_resource_actor::{Knowledge, ResourceHandle, Target, Write, WriteError, WriteOptions as Options};

use crate::RequestError;
use crate::body::Received;
use crate::call::Call;
use crate::respond::Reply;
use crate::response::Response;
use crate::status::Failure;
use crate::verbs::carried::{Carried, SentBody};

/// `true` for the type whose objects are bound pods, and not stored.
pub(crate) fn are_bindings(call: &Call<'_>) -> bool {
    call.spec.group.is_empty() && call.spec.names.plural == "bindings"
}

pub(super) fn refused(error: impl Into<WriteError>, resource: &str) -> Failure {
    let kind = GroupKind { group: String::new(), kind: "Pod".to_owned() };
    Failure::Write(Box::new(error.into()), GroupResource::new("", resource), kind)
}

/// The type of pods.
pub(super) fn pods(call: &Call<'_>, name: &str) -> Result<ResourceHandle, Failure> {
    let gone = || Failure::NotFound(GroupResource::new("", "pods"), name.to_owned());
    call.state.registry.routes().get("", "pods").ok_or_else(gone)
}

pub(super) fn target<'a>(call: &'a Call<'_>, through: Subresource, name: &'a str) -> Target<'a> {
    Target { version: "v1", subresource: Some(through), namespace: call.namespace(), name }
}

pub(super) fn done(call: &Call<'_>, SentBody { accepted, warnings, .. }: SentBody) -> Response {
    let status = Status { code: 201, details: None, ..Status::success(Details::default()) };
    Reply::status(status).with_warnings(warnings).write(call.request, accepted)
}

/// POST of a Binding, to a pod or to the bindings of a namespace.
pub(crate) async fn bind(call: &Call<'_>, payload: Received) -> Result<Response, Failure> {
    let (user, handle, share) = (Arc::clone(&call.user), call.handle.clone(), call.share.clone());
    let bindings = call.state.registry.routes().get("", "bindings").and_then(|handle| handle.spec());
    let spec = bindings.ok_or(RequestError::NoSuchResource)?;
    let call = &Call { spec, user, handle, share, ..*call };
    let mut sent = SentBody::read(call, payload).await?;
    let named = sent.body.text_at(&["metadata", "name"]).to_owned();
    let name = if call.info.name.is_empty() { &named } else { &call.info.name };
    let mut carried = Carried::new(call, name, &sent);
    let bound = assign(call, &mut sent.body, &mut carried).await;
    carried.warn(&mut sent.warnings);
    match bound {
        Ok(()) => Ok(done(call, sent)),
        Err(failure) => Err(failure.warned(sent.warnings)),
    }
}

async fn assign(call: &Call<'_>, binding: &mut Value, carried: &mut Carried<'_>) -> Result<(), Failure> {
    let name = carried.name;
    carried.change(binding).await?;
    let named = binding.text_at(&["metadata", "name"]);
    // The bindings of a namespace go by the name in their body.
    let name = if call.info.name.is_empty() { named } else { name };
    if name != named {
        let why = "name in URL does not match name in Binding object";
        return Err(RequestError::BadRequest(why.to_owned()).into());
    }
    let errors = pod::validate_binding(binding);
    if !errors.is_empty() {
        return Err(RequestError::Internal(aggregate(&errors)).into());
    }
    carried.judge(binding).await?;
    if name.is_empty() {
        return Err(RequestError::BadRequest("Name parameter required.".to_owned()).into());
    }
    let pods = pods(call, name)?;
    let mut is_precondition = false;
    let mut wanted = |cx: &RuleContext<'_>, old: &Value| {
        if old.is_null() {
            return Ok(Value::Null);
        }
        is_precondition = true;
        check_preconditions(cx, call.namespace(), binding, old)?;
        is_precondition = false;
        pod::assign(old, binding, cx.now)
    };
    let options = Options { knowledge: Knowledge::Latest, ..carried.options() };
    let target = target(call, Subresource::Binding, name);
    let written = pods.write(target, &mut Write::Patch(&mut wanted), &options).await;
    if let Err(error) = written {
        let is_of_binding = matches!(error, WriteError::Plan(PlanError::Conflict { .. })) && !is_precondition;
        return Err(refused(error, if is_of_binding { "pods/binding" } else { "pods" }));
    }
    Ok(())
}

/// The pod must be the one that a binding means.
fn check_preconditions(
    cx: &RuleContext<'_>,
    namespace: Option<&str>,
    binding: &Value,
    old: &Value,
) -> Result<(), PlanError> {
    let wanted = |field| binding.text_at(&["metadata", field]);
    let found = |field| old.text_at(&["metadata", field]);
    let name = found("name");
    if !wanted("uid").is_empty() {
        check_uid(cx, namespace, name, wanted("uid"), found("uid"))?;
    }
    let (version, current) = (wanted("resourceVersion"), found("resourceVersion"));
    if version.is_empty() || version == current {
        return Ok(());
    }
    let key = kindom_objects::TypeSpec::object_key(namespace, name);
    let message = format!(
        "StorageError: invalid object, Code: 4, Key: {}{key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {current}",
        cx.spec.prefix
    );
    Err(PlanError::Conflict { name: name.to_owned(), message })
}
