//! POST of a question, which is answered and not stored: the reviews of users and of their permissions.

use kindom_actor_kit::dear;
use kindom_api::selector::{FieldSelector, LabelSelector};
use kindom_api::user::{ANONYMOUS, User};
use kindom_api::{GroupKind, Value, meta};
use kindom_codec::Format;
use kindom_objects::managed::{FieldManager, Managing};
use kindom_objects::review::{Access, Action, Inquiry, Verdict};
use kindom_objects::{RuleContext, Unreadable};
use kindom_resource_actor::WriteError;

use crate::RequestError;
use crate::authn::{AccessQuestion, Attributes, Decision, Presented, authorize};
use crate::body::Plain;
use crate::call::Call;
use crate::cost;
use crate::decoding::object_of_body;
use crate::negotiate::Accepted;
use crate::query::WriteOptions;
use crate::respond::Reply;
use crate::response::Response;
use crate::state::State;
use crate::status::Failure;
use crate::writing::{failed, options};

/// Finds out what a question needs to be answered, of this server's own users or of those whom a host knows.
async fn verdict(state: &State, inquiry: Inquiry) -> Verdict {
    match inquiry {
        Inquiry::Nothing => Verdict::Nothing,
        Inquiry::Token(token) => {
            // As a request with nothing but the token (`tokenreview.REST.Create`).
            let header = format!("Bearer {token}");
            let presented = Presented::new(Some(&header));
            let found =
                match (state.authenticator.authenticate(None, presented, []), &state.delegation.tokens) {
                    (Ok((user, _)), _) => Ok((user.name != ANONYMOUS).then_some(user)),
                    (Err(_), Some(host)) => match host.review(&token).verdict().await {
                        Ok(Some(user)) => Ok(Some(user)),
                        Ok(None) => Err("invalid bearer token".to_owned()),
                        Err(why) => Err(why.to_string()),
                    },
                    (Err(_), None) => Err("invalid bearer token".to_owned()),
                };
            Verdict::Token(found)
        }
        Inquiry::Access(user, action) => Verdict::Access(may(state, &user, &action).await),
    }
}

fn attributes(action: &Action) -> Attributes<'_> {
    match action {
        Action::Path { verb, path } => Attributes::Path { verb, path },
        Action::Resource { verb, group, resource, subresource, namespace, name, .. } => {
            Attributes::Resource { verb, group, resource, subresource, namespace, name }
        }
    }
}

/// The permission of a user to act; a host that does not say permits nothing.
async fn may(state: &State, user: &User, action: &Action) -> Access {
    let attributes = attributes(action);
    let Some(host) = &state.delegation.authorization else {
        return Access { allowed: authorize(user, &attributes).is_ok(), ..Access::default() };
    };
    let (version, [fields, labels]) = match action {
        Action::Resource { version, selectors, .. } => (version.as_str(), selectors.clone()),
        Action::Path { .. } => ("", [String::new(), String::new()]),
    };
    let fields = FieldSelector::parse(&fields).unwrap_or_default();
    let labels = LabelSelector::parse(&labels).unwrap_or_default();
    match host.decide(AccessQuestion { user, attributes, version, fields, labels }).await {
        Ok(Decision::Allowed) => Access { allowed: true, ..Access::default() },
        Ok(Decision::Denied(why)) => Access { denied: true, reason: why.to_string(), ..Access::default() },
        Ok(Decision::NoOpinion(why)) => Access { reason: why.to_string(), ..Access::default() },
        Err(error) => Access { error: error.to_string(), ..Access::default() },
    }
}

/// Puts a question into the namespace of its request, or into none (`EnsureObjectNamespaceMatchesRequestNamespace`).
fn place(question: &mut Value, namespace: Option<&str>) -> Result<(), RequestError> {
    let metadata = question.get_mut("metadata").and_then(Value::as_object_mut);
    let Some(metadata) = metadata else { return Ok(()) };
    let Some(namespace) = namespace else {
        metadata.remove("namespace");
        return Ok(());
    };
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
pub(crate) async fn ask(
    call: &Call<'_>,
    accepted: Accepted,
    query: &WriteOptions,
    body: &Plain,
    format: Format,
) -> Result<Response, Failure> {
    // It is parsed, and walked again for its managers.
    dear(cost::parse(2 * body.len())).await?;
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
    let read = object_of_body(&cx, &version.name, body, format, query.field_validation, &mut warnings);
    let mut question = match read {
        Ok((question, None)) => question,
        Ok((_, Some(error))) | Err(error) => return Err(failed(call, error)),
    };
    place(&mut question, call.namespace()).map_err(Failure::Request)?;
    let manager = options(call, query, body).manager;
    FieldManager::new(&cx).manage(Managing::Update(&manager), None, &mut question);
    let strategy = &call.spec.strategy;
    let inquiry = strategy.inquire(&cx, &question).map_err(|error| {
        // The registries of reviews name the group alone: `apierrors.NewInvalid(authorizationapi.Kind(""), …)`.
        let kind = GroupKind { group: call.spec.group.clone(), kind: String::new() };
        Failure::Write(Box::new(WriteError::Plan(error)), call.resource(), kind)
    })?;
    let answer = strategy.answer(&cx, &question, verdict(call.state, inquiry).await);
    let answer = Reply::tree(201, answer).declared(call.declared());
    Ok(answer.with_warnings(warnings).write(call.request, accepted))
}
