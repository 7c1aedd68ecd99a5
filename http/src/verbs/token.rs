//! POST of `serviceaccounts/NAME/token`: a token for whoever may act as the account.
//!
//! Source: `TokenREST.Create` of `pkg/registry/core/serviceaccount/storage/token.go` (1.37).

use std::sync::Arc;

use kindom_accounts::{Claims, Reference};
use kindom_api::field::ErrorList;
use kindom_api::{GroupKind, GroupResource, Value, json, meta};
use kindom_objects::kinds::token_request::{self, Bound, BoundKind};
use kindom_objects::{PlanError, StoredObject, TypeSpec};
use kindom_resource_actor::{Freshness, WriteError};

use crate::RequestError;
use crate::accounts::ServiceAccounts;
use crate::body::Received;
use crate::call::Call;
use crate::respond::Reply;
use crate::response::Response;
use crate::status::Failure;
use crate::verbs::carried::{Carried, SentBody};

/// POST of a request for a token.
pub(crate) async fn create(call: &Call<'_>, payload: Received) -> Result<Response, Failure> {
    let accounts = call.state.accounts.as_ref().ok_or(RequestError::NoSuchResource)?;
    // The body and the answer are of another type than what the path names.
    let (user, handle, share) = (Arc::clone(&call.user), call.handle.clone(), call.share.clone());
    let call = &Call { spec: Arc::clone(accounts.requests()), user, handle, share, ..*call };
    let mut sent = SentBody::read(call, payload).await?;
    let mut carried = Carried::new(call, call.info.required_name()?, &sent);
    let granted = grant(call, accounts, &mut sent, &mut carried).await;
    carried.warn(&mut sent.warnings);
    if let Err(failure) = granted {
        return Err(failure.warned(sent.warnings));
    }
    let declared = accounts.requests().versions.first().and_then(|version| version.declared);
    let reply = Reply::tree(201, sent.body).declared(declared);
    Ok(reply.with_warnings(sent.warnings).write(call.request, sent.accepted))
}

/// Adds a token to the request for it.
async fn grant(
    call: &Call<'_>,
    accounts: &ServiceAccounts,
    SentBody { body: request, warnings, .. }: &mut SentBody,
    carried: &mut Carried<'_>,
) -> Result<(), Failure> {
    let name = carried.name;
    carried.change(request).await?;
    let misnamed = token_request::misnamed(request, &call.info.namespace, name);
    if !misnamed.is_empty() {
        return Err(invalid(name, misnamed));
    }
    let own = found(call, "serviceaccounts", call.namespace(), name).await?.uid().to_owned();
    let asked = request.at(&["metadata", "uid"]).and_then(Value::as_str).unwrap_or_default();
    if !asked.is_empty() && asked != own {
        let why = format!(
            "the UID in the token request ({asked}) does not match the UID of the service account ({own})"
        );
        return Err(conflict(token_request::GROUP, token_request::KIND, name, why));
    }
    let tokens = accounts.tokens();
    let now = call.state.now_seconds();
    let mut claims = Claims {
        namespace: call.info.namespace.clone(),
        account: Reference { name: name.to_owned(), uid: own },
        id: call.state.entropy.uuid_v4(),
        not_before: Some(now),
        issued_at: Some(now),
        ..Claims::default()
    };
    let metadata = [
        ("creationTimestamp", meta::time::format(now)),
        ("name", claims.account.name.clone()),
        ("namespace", claims.namespace.clone()),
        ("uid", claims.account.uid.clone()),
    ];
    token_request::fill_in(request, metadata, &tokens.settings().audiences);
    let errors = token_request::validate(request);
    if !errors.is_empty() {
        return Err(invalid("", errors));
    }
    carried.judge(request).await?;
    carried.warn(warnings);
    claims.audiences = token_request::audiences(request);
    let bound = token_request::bound(request);
    let bound = bound
        .map_err(|error| Failure::Write(Box::new(error.into()), call.resource(), GroupKind::default()))?;
    if let Some(bound) = &bound {
        bind(call, &mut claims, bound).await?;
    }
    let (mut life, life_max) = (token_request::life(request), tokens.settings().life_max);
    if life_max > 0 && life > life_max {
        warnings.push(format!("requested expiration of {life} seconds shortened to {life_max} seconds"));
        life = life_max;
        token_request::shorten(request, life);
    }
    claims.expires = Some(now.saturating_add(life));
    if let Some(record) = call.request.record() {
        record.annotate("authentication.kubernetes.io/issued-credential-id", &format!("JTI={}", claims.id));
    }
    let token = tokens.sign(&claims);
    let token =
        token.map_err(|error| RequestError::Internal(format!("failed to generate token: {error}")))?;
    token_request::grant(request, &token, &meta::time::format(now.saturating_add(life)));
    Ok(())
}

fn invalid(name: &str, errors: ErrorList) -> Failure {
    let kind = GroupKind { group: token_request::GROUP.to_owned(), kind: token_request::KIND.to_owned() };
    let error = PlanError::Invalid { name: name.to_owned(), errors };
    Failure::Write(Box::new(WriteError::Plan(error)), GroupResource::default(), kind)
}

/// Upstream names the kind where a resource belongs.
fn conflict(group: &str, kind: &str, name: &str, message: String) -> Failure {
    let error = PlanError::Conflict { name: name.to_owned(), message };
    Failure::Write(Box::new(WriteError::Plan(error)), GroupResource::new(group, kind), GroupKind::default())
}

/// An object of the core group.
async fn found(
    call: &Call<'_>,
    plural: &str,
    namespace: Option<&str>,
    name: &str,
) -> Result<Arc<StoredObject>, Failure> {
    let resource = GroupResource::new("", plural);
    let gone = || Failure::NotFound(resource.clone(), name.to_owned());
    let handle = call.state.registry.routes().get("", plural).ok_or_else(gone)?;
    let read = handle.read(&TypeSpec::object_key(namespace, name), Freshness::Latest, call.deadline).await;
    read.map_err(|error| Failure::Read(error, resource.clone()))?.ok_or_else(gone)
}

/// Binds a token to an object, as it is now.
async fn bind(call: &Call<'_>, claims: &mut Claims, bound: &Bound) -> Result<(), Failure> {
    let namespace = call.namespace().filter(|_| bound.kind != BoundKind::Node);
    let object = found(call, bound.kind.plural(), namespace, &bound.name).await?;
    let reference = Reference { name: bound.name.clone(), uid: object.uid().to_owned() };
    if bound.kind == BoundKind::Pod {
        let tree = json::parse(object.json()).unwrap_or(Value::Null);
        let text = |field| tree.at(&["spec", field]).and_then(Value::as_str).unwrap_or_default();
        if text("serviceAccountName") != claims.account.name {
            let name = kindom_api::field::go_quote(&claims.account.name);
            let why = format!(
                "cannot bind token for serviceaccount {name} to pod running with different serviceaccount name."
            );
            return Err(RequestError::BadRequest(why).into());
        }
        let node = text("nodeName").to_owned();
        if !node.is_empty() {
            let uid = match found(call, "nodes", None, &node).await {
                Ok(node) => node.uid().to_owned(),
                Err(Failure::NotFound(..)) => String::new(),
                Err(error) => return Err(error),
            };
            claims.node = Some(Reference { name: node, uid });
        }
    }
    if !bound.uid.is_empty() && bound.uid != reference.uid {
        let why = format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
             deleted and then recreated",
            bound.uid
        );
        return Err(conflict("", bound.kind.kind(), &bound.name, why));
    }
    match bound.kind {
        BoundKind::Pod => claims.pod = Some(reference),
        BoundKind::Secret => claims.secret = Some(reference),
        BoundKind::Node => claims.node = Some(reference),
    }
    Ok(())
}
