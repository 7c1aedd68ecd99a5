//! POST of a question, which is answered and not stored: the reviews of users and of their permissions.

use std::sync::Arc;

use futures::future::BoxFuture;
use kindom_actor_kit::dear;
use kindom_api::selector::{FieldSelector, LabelSelector};
use kindom_api::user::{ANONYMOUS, User};
use kindom_api::{GroupKind, Value, field, meta};
use kindom_codec::Format;
use kindom_objects::holdings::NOTHING;
use kindom_objects::managed::{FieldManager, Managing};
use kindom_objects::plugins::Others;
use kindom_objects::rbac::Role;
use kindom_objects::rbac::coverage::PolicyRule;
use kindom_objects::review::{Access, Action, Identified, Inquiry, ListedRules, Verdict};
use kindom_objects::version::CompiledVersion;
use kindom_objects::{RuleContext, Unreadable};
use kindom_resource_actor::{AccessDecider, WriteError};

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

const INVALID: &str = "invalid bearer token";
/// The bytes of a list of rules: it goes to the processors in any case.
const RULES_BYTES: usize = 2 << 20;

/// Finds out what a question needs to be answered, of this server's own users or of those whom a host knows.
async fn verdict(state: &State, inquiry: Inquiry) -> Verdict {
    match inquiry {
        Inquiry::Nothing => Verdict::Nothing,
        Inquiry::Token { token, audiences } => Verdict::Token(user_of(state, &token, &audiences).await),
        Inquiry::Access(user, action) => Verdict::Access(may(state, &user, &action).await),
        Inquiry::Rules { user, namespace } => Verdict::Rules(rules(state, &user, &namespace).await),
    }
}

/// The user of a request with nothing but this token, which is meant for one of these audiences; for none, for the server
/// (`tokenreview.REST.Create`).
async fn user_of(state: &State, token: &str, audiences: &[String]) -> Result<Option<Identified>, String> {
    let header = format!("Bearer {token}");
    let wanted = Some(audiences).filter(|wanted| !wanted.is_empty());
    // A token that knows no audience is meant for the server.
    let of_server = || {
        let own = state.accounts.as_ref().map(|accounts| accounts.tokens().settings().audiences.as_slice());
        let own = own.unwrap_or_default();
        let common = |one: &&String| wanted.is_none_or(|wanted| wanted.contains(*one));
        own.iter().filter(common).cloned().collect::<Vec<_>>()
    };
    let for_server = |user: Arc<User>| {
        let audiences = of_server();
        let is_meant = wanted.is_none() || !audiences.is_empty();
        is_meant.then_some(Identified { user, audiences }).ok_or_else(|| INVALID.to_owned())
    };
    if let Ok((user, _)) = state.authenticator.authenticate(None, Presented::new(Some(&header)), []) {
        return if user.name == ANONYMOUS { Ok(None) } else { for_server(user).map(Some) };
    }
    let mut refused = INVALID.to_owned();
    if let Some(accounts) = &state.accounts {
        match accounts.identify(token, wanted).await {
            Ok(Some(found)) => return Ok(Some(found)),
            Ok(None) => {}
            Err(why) => refused = format!("[{INVALID}, {why}]"),
        }
    }
    let Some(host) = &state.delegation.tokens else { return Err(refused) };
    match host.review(token).verdict().await {
        Ok(Some(user)) => for_server(user).map(Some),
        Ok(None) => Err(refused),
        Err(why) => Err(why.to_string()),
    }
}

/// Everything that a user may do in a namespace; `None` if a host decides.
async fn rules(state: &State, user: &User, namespace: &str) -> Option<ListedRules> {
    let Some(authorization) = &state.delegation.authorization else {
        let may_everything = authorize(user, &Attributes::Path { verb: "*", path: "*" }).is_ok();
        let all = || vec!["*".to_owned()];
        let resources =
            PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() };
        let paths = PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() };
        let rules = if may_everything { vec![resources, paths] } else { Vec::new() };
        let role = Role::new(String::new(), rules);
        return Some(ListedRules { roles: vec![Arc::new(role)], error: String::new() });
    };
    let listed = authorization.reviewer.rules(user, namespace)?.await;
    Some(listed.unwrap_or_else(|why| ListedRules { error: why.to_string(), ..ListedRules::default() }))
}

/// The permission of a user to act; a host that does not say permits nothing.
async fn may(state: &State, user: &User, action: &Action) -> Access {
    let attributes = Attributes::of(action);
    let Some(host) = &state.delegation.authorization else {
        return Access { allowed: authorize(user, &attributes).is_ok(), ..Access::default() };
    };
    let (version, [fields, labels]) = match action {
        Action::Resource { version, selectors, .. } => (version.as_str(), selectors.clone()),
        Action::Path { .. } => ("", [String::new(), String::new()]),
    };
    let fields = FieldSelector::parse(&fields).unwrap_or_default();
    let labels = LabelSelector::parse(&labels).unwrap_or_default();
    let question = AccessQuestion { user, attributes, version, fields, labels, wants_reason: true };
    let decided = match host.review(&question).verdict().await {
        Ok(decided) => decided,
        Err(error) => return Access { error: error.to_string(), ..Access::default() },
    };
    Access {
        allowed: matches!(decided, Decision::Allowed(_)),
        denied: matches!(decided, Decision::Denied(_)),
        reason: host.reason(decided),
        error: String::new(),
    }
}

impl AccessDecider for State {
    fn decide(self: Arc<Self>, user: Arc<User>, action: Action) -> BoxFuture<'static, Access> {
        Box::pin(async move {
            // Where this server decides, a service account may do what it may once it has shown its token.
            match self.delegation.authorization.is_some() {
                true => may(&self, &user, &action).await,
                false => may(&self, &User::clone(&user).authenticated(), &action).await,
            }
        })
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

/// The question of a body, with its managers, in the namespace of its request; and warnings from decoding it. The body counts it.
pub(crate) async fn decoded(
    call: &Call<'_>,
    query: &WriteOptions,
    body: &mut Plain,
    format: Format,
) -> Result<(Value, Vec<String>), Failure> {
    // It is parsed, and walked again for its managers.
    dear(cost::parse(2 * body.len())).await?;
    let version = call.version()?;
    let compiled = call.spec.compiled(version).map_err(|e| call.read_failure(Unreadable::Undecodable(e)))?;
    let now = meta::time::format(call.state.now_seconds());
    let cx = context(call, &compiled, &version.name, &now);
    let mut warnings = Vec::new();
    let read = object_of_body(&cx, &version.name, body, format, query.field_validation, &mut warnings);
    let mut question = match read {
        Ok((question, None)) => question,
        Ok((_, Some(error))) | Err(error) => return Err(failed(call, error)),
    };
    call.record_object(&question);
    place(&mut question, call.namespace()).map_err(Failure::Request)?;
    let manager = options(call, query, body).manager;
    FieldManager::new(&cx).manage(Managing::Update(&manager), None, &mut question);
    body.keep(field::bytes(&question))?;
    Ok((question, warnings))
}

fn context<'a>(
    call: &'a Call<'_>,
    version: &'a CompiledVersion,
    version_name: &'a str,
    now: &'a str,
) -> RuleContext<'a> {
    RuleContext {
        spec: &call.spec,
        version,
        version_name,
        subresource: call.subresource(),
        user: &call.user,
        now,
        allocation: &NOTHING,
        others: Others::NONE,
        witness: None,
    }
}

/// POST of a question.
pub(crate) async fn ask(
    call: &Call<'_>,
    accepted: Accepted,
    query: &WriteOptions,
    mut body: Plain,
    format: Format,
) -> Result<Response, Failure> {
    let (question, warnings) = decoded(call, query, &mut body, format).await?;
    let version = call.version()?;
    let compiled = call.spec.compiled(version).map_err(|e| call.read_failure(Unreadable::Undecodable(e)))?;
    let now = meta::time::format(call.state.now_seconds());
    let cx = context(call, &compiled, &version.name, &now);
    let strategy = &call.spec.strategy;
    let inquiry = strategy.inquire(&cx, &question).map_err(|error| {
        // The registries of reviews name the group alone: `apierrors.NewInvalid(authorizationapi.Kind(""), …)`.
        let kind = GroupKind { group: call.spec.group.clone(), kind: String::new() };
        Failure::Write(Box::new(WriteError::Plan(error)), call.resource(), kind)
    })?;
    let verdict = verdict(call.state, inquiry).await;
    if let Verdict::Rules(Some(_)) = &verdict {
        // It may be as long as answers may be.
        dear(cost::parse(RULES_BYTES)).await?;
    }
    let answer = strategy.answer(&cx, &question, verdict);
    let answer = Reply::tree(201, answer).declared(call.declared());
    Ok(answer.with_warnings(warnings).write(call.request, accepted))
}
