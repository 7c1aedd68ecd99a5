//! POST

use kindom_actor_kit::dear;
use kindom_api::user::ANONYMOUS;
use kindom_api::{Value, meta};
use kindom_codec::{FieldValidation, Format};
use kindom_objects::review::{Action, Inquiry, Verdict};
use kindom_objects::{RuleContext, Unreadable};
use kindom_resource_actor::{Write, WriteError};

use crate::RequestError;
use crate::authn::{Attributes, Presented, authorize};
use crate::body::{Received, plain_body};
use crate::call::Call;
use crate::cost;
use crate::decoding::object_of_body;
use crate::negotiate::Accepted;
use crate::query::WriteOptions;
use crate::respond::Reply;
use crate::response::Response;
use crate::state::State;
use crate::status::Failure;
use crate::wait_for;
use crate::writing::{carry_out, failed, finish, options};

/// Finds out what a question needs to be answered.
fn verdict(state: &State, inquiry: Inquiry) -> Verdict {
    match inquiry {
        Inquiry::Nothing => Verdict::Nothing,
        Inquiry::Token(token) => {
            // As a request with nothing but the token (`tokenreview.REST.Create`).
            let header = format!("Bearer {token}");
            let found = state.authenticator.authenticate(None, Presented::new(Some(&header)), []);
            Verdict::Token(match found {
                Ok((user, _)) => Ok((user.name != ANONYMOUS).then_some(user)),
                Err(_) => Err("invalid bearer token".to_owned()),
            })
        }
        Inquiry::Access(user, Action::Path { verb, path }) => {
            Verdict::Access(authorize(&user, &Attributes::Path { verb: &verb, path: &path }).is_ok())
        }
        Inquiry::Access(user, Action::Resource { verb, group, resource, subresource, namespace, name }) => {
            let attributes = Attributes::Resource {
                verb: &verb,
                group: &group,
                resource: &resource,
                subresource: &subresource,
                namespace: &namespace,
                name: &name,
            };
            Verdict::Access(authorize(&user, &attributes).is_ok())
        }
    }
}

/// Puts a question into the namespace of its request (`EnsureObjectNamespaceMatchesRequestNamespace`).
fn place(question: &mut Value, namespace: &str) -> Result<(), RequestError> {
    let metadata = question.get_mut("metadata").and_then(Value::as_object_mut);
    let Some(metadata) = metadata else { return Ok(()) };
    match metadata.get("namespace").and_then(Value::as_str) {
        None | Some("") => drop(metadata.insert("namespace", namespace)),
        Some(own) if own == namespace => {}
        Some(_) => {
            let message =
                "the namespace of the provided object does not match the namespace sent on the request";
            return Err(RequestError::BadRequest(message.to_owned()));
        }
    }
    Ok(())
}

/// POST of a question.
async fn ask(
    call: &Call<'_>,
    accepted: Accepted,
    validation: FieldValidation,
    bytes: &[u8],
    format: Format,
) -> Result<Response, Failure> {
    dear(cost::parse(bytes.len())).await?;
    let version = call.version()?;
    let compiled = call.spec.compiled(version).map_err(|e| call.read_failure(Unreadable::Undecodable(e)))?;
    let now = meta::time::format(call.state.now_seconds());
    let cx = RuleContext {
        spec: &call.spec,
        version: &compiled,
        version_name: &version.name,
        subresource: None,
        user: &call.user,
        now: &now,
    };
    let mut warnings = Vec::new();
    let read = object_of_body(&cx, &version.name, bytes, format, validation, &mut warnings);
    let mut question = match read {
        Ok((question, None)) => question,
        Ok((_, Some(error))) | Err(error) => return Err(failed(call, error)),
    };
    if let Some(namespace) = call.namespace() {
        place(&mut question, namespace).map_err(Failure::Request)?;
    }
    let strategy = &call.spec.strategy;
    let inquiry = strategy.inquire(&cx, &question).map_err(|error| failed(call, WriteError::Plan(error)))?;
    let answer = strategy.answer(&cx, &question, verdict(call.state, inquiry));
    let answer = Reply::tree(201, answer).declared(call.declared());
    Ok(answer.with_warnings(warnings).write(call.request, accepted))
}

/// POST
pub(crate) async fn create(call: &Call<'_>, payload: Received) -> Result<Response, Failure> {
    tracing::trace!("decode the body of POST");
    let accepted = call.accept()?;
    let query = WriteOptions::for_create(call.query)?;
    wait_for::check(call, query.wait_for)?;
    let (bytes, format) = (plain_body(call, payload).await?, call.body_format()?);
    let version = &call.info.resource.version;
    if call.spec.strategy.answers_creates() {
        return ask(call, accepted, query.field_validation, &bytes, format).await;
    }
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
    let written = carry_out(call, "", options(call, &query, &bytes), Write::Create(&mut wanted)).await;
    finish(call, accepted, &query, written, warnings).await
}
