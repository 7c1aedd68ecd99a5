//! The functions on an authorizer (`apiserver/pkg/cel/library/authz.go`, 1.37).
//!
//! Rules of registrations have no authorizer to call them on. They are declared all the same: the error for an expression
//! that names one by mistake lists its overloads.

use std::any::Any;
use std::sync::Arc;

use kindom_api::meta::names::{name_is_dns_label, name_is_dns_subdomain};

use super::arguments::{made, opaque, text};
use super::cost::{size_at, tenth};
use super::{Cost, Function, Functions, Overload, Run};
use crate::types::Type;
use crate::value::{EvalError, Opaque, Value};

const AUTHORIZER: Type = Type::Opaque("kubernetes.authorization.Authorizer");
const PATH: Type = Type::Opaque("kubernetes.authorization.PathCheck");
const GROUP: Type = Type::Opaque("kubernetes.authorization.GroupCheck");
const RESOURCE: Type = Type::Opaque("kubernetes.authorization.ResourceCheck");
const DECISION: Type = Type::Opaque("kubernetes.authorization.Decision");

/// The answers to the questions of an expression if somebody may do something.
pub trait Checks: std::fmt::Debug + Send + Sync {
    /// The answer to a check; `None` if it is yet to be asked for: the evaluation ends with [`EvalError::Pending`].
    fn decision(&self, check: &Check) -> Option<Decision>;
}

/// The question if somebody may do something.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Check {
    /// The namespace and name of the service account in question; `None` for the user of the request.
    pub account: Option<(String, String)>,
    /// The verb.
    pub verb: String,
    /// That on which it would act.
    pub on: CheckedOn,
}

/// That on which somebody would act.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CheckedOn {
    /// A path of no resource.
    Path(String),
    /// A resource.
    Resource(CheckedResource),
}

/// A resource on which somebody would act, in any version; empty fields are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CheckedResource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The selector of fields, as the expression has it.
    pub fields: String,
    /// The selector of labels, likewise.
    pub labels: String,
}

/// The answer to a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// He may.
    pub allowed: bool,
    /// The reason, which may be empty.
    pub reason: String,
    /// The reason why there is no answer.
    pub error: Option<String>,
}

/// The authorizer of a request's user, as a value.
#[must_use]
pub fn authorizer(checks: &Arc<dyn Checks>) -> Value<'static> {
    made(Authorizer { checks: Arc::clone(checks), account: None })
}

/// A check of a resource by a request's user, as a value.
#[must_use]
pub fn resource_check(checks: &Arc<dyn Checks>, on: CheckedResource) -> Value<'static> {
    made(ResourceCheck { by: Authorizer { checks: Arc::clone(checks), account: None }, on })
}

#[derive(Debug, Clone)]
struct Authorizer {
    checks: Arc<dyn Checks>,
    account: Option<(String, String)>,
}

#[derive(Debug)]
struct PathCheck {
    by: Authorizer,
    path: String,
}

#[derive(Debug)]
struct GroupCheck {
    by: Authorizer,
    group: String,
}

#[derive(Debug, Clone)]
struct ResourceCheck {
    by: Authorizer,
    on: CheckedResource,
}

/// Declares a type of values that can only be called upon: even one with itself cannot be compared.
macro_rules! receiver {
    ($type:ty, $name:literal, $go:literal) => {
        impl Opaque for $type {
            fn type_name(&self) -> &'static str {
                $name
            }

            fn go_type(&self) -> &'static str {
                $go
            }

            fn equals(&self, _: &dyn Opaque) -> Option<bool> {
                None
            }

            fn as_any(&self) -> &dyn Any {
                self
            }
        }
    };
}

receiver!(Authorizer, "kubernetes.authorization.Authorizer", "library.authorizerVal");
receiver!(PathCheck, "kubernetes.authorization.PathCheck", "library.pathCheckVal");
receiver!(GroupCheck, "kubernetes.authorization.GroupCheck", "library.groupCheckVal");
receiver!(ResourceCheck, "kubernetes.authorization.ResourceCheck", "library.resourceCheckVal");
receiver!(Decision, "kubernetes.authorization.Decision", "library.decisionVal");

type Evaluated<'a> = Result<Value<'a>, EvalError>;

fn path<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let (by, path) = (opaque::<Authorizer>(args, 0)?.clone(), text(args, 1)?);
    if path.trim().is_empty() {
        return Err(EvalError::message("path must not be empty"));
    }
    Ok(made(PathCheck { by, path: path.to_owned() }))
}

fn group<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let by = opaque::<Authorizer>(args, 0)?.clone();
    Ok(made(GroupCheck { by, group: text(args, 1)?.to_owned() }))
}

fn service_account<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let checks = Arc::clone(&opaque::<Authorizer>(args, 0)?.checks);
    let (namespace, name) = (text(args, 1)?, text(args, 2)?);
    if !name_is_dns_subdomain(name, false).is_empty() {
        return Err(EvalError::message("Invalid service account name"));
    }
    if !name_is_dns_label(namespace, false).is_empty() {
        return Err(EvalError::message("Invalid service account namespace"));
    }
    Ok(made(Authorizer { checks, account: Some((namespace.to_owned(), name.to_owned())) }))
}

fn resource<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let (of, resource) = (opaque::<GroupCheck>(args, 0)?, text(args, 1)?);
    if resource.trim().is_empty() {
        return Err(EvalError::message("resource must not be empty"));
    }
    let (group, resource) = (of.group.clone(), resource.to_owned());
    Ok(made(ResourceCheck {
        by: of.by.clone(),
        on: CheckedResource { group, resource, ..CheckedResource::default() },
    }))
}

/// A check with one more field.
fn with<'a>(args: &[Value<'a>], set: fn(&mut CheckedResource, String)) -> Evaluated<'a> {
    let (mut check, value) = (opaque::<ResourceCheck>(args, 0)?.clone(), text(args, 1)?);
    set(&mut check.on, value.to_owned());
    Ok(made(check))
}

fn decide<'a>(by: &Authorizer, verb: &str, on: CheckedOn) -> Evaluated<'a> {
    let check = Check { account: by.account.clone(), verb: verb.to_owned(), on };
    by.checks.decision(&check).map(made).ok_or(EvalError::Pending)
}

fn check_path<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let check = opaque::<PathCheck>(args, 0)?;
    decide(&check.by, text(args, 1)?, CheckedOn::Path(check.path.clone()))
}

fn check_resource<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let check = opaque::<ResourceCheck>(args, 0)?;
    decide(&check.by, text(args, 1)?, CheckedOn::Resource(check.on.clone()))
}

fn errored<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(opaque::<Decision>(args, 0)?.error.is_some()))
}

fn error<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::string(opaque::<Decision>(args, 0)?.error.as_deref().unwrap_or_default()))
}

fn allowed<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(opaque::<Decision>(args, 0)?.allowed))
}

fn reason<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::string(opaque::<Decision>(args, 0)?.reason.as_str()))
}

/// The library of checks.
pub(super) fn declare(functions: &mut Functions) {
    use Type::String;
    let member = |id, params: Vec<Type>, result, run: Run| Overload::member(id, params, result).run(run);
    let one = |name, id, on, result, run: Run| {
        Function::new(name).overload(member(id, vec![on, String], result, run))
    };
    let tells =
        |name, id, result, run: Run| Function::new(name).overload(member(id, vec![DECISION], result, run));
    for function in [
        one("path", "authorizer_path", AUTHORIZER, PATH, path),
        one("group", "authorizer_group", AUTHORIZER, GROUP, group),
        Function::new("serviceAccount").overload(member(
            "authorizer_serviceaccount",
            vec![AUTHORIZER, String, String],
            AUTHORIZER,
            service_account,
        )),
        one("resource", "groupcheck_resource", GROUP, RESOURCE, resource),
        one("subresource", "resourcecheck_subresource", RESOURCE, RESOURCE, |args| {
            with(args, |on, value| on.subresource = value)
        }),
        one("namespace", "resourcecheck_namespace", RESOURCE, RESOURCE, |args| {
            with(args, |on, value| on.namespace = value)
        }),
        one("name", "resourcecheck_name", RESOURCE, RESOURCE, |args| with(args, |on, value| on.name = value)),
        Function::new("check")
            .overload(member("pathcheck_check", vec![PATH, String], DECISION, check_path))
            .overload(member("resourcecheck_check", vec![RESOURCE, String], DECISION, check_resource))
            .cost(Cost::Fixed(350_000)),
        tells("errored", "decision_errored", Type::Bool, errored),
        tells("error", "decision_error", String, error),
        tells("allowed", "decision_allowed", Type::Bool, allowed),
        tells("reason", "decision_reason", String, reason),
    ] {
        functions.add(function);
    }
}

/// The library of selectors.
pub(super) fn declare_selectors(functions: &mut Functions) {
    // A list of requirements, of which a text has one for two characters.
    let cost = Cost::Of(|args, _| {
        let length = size_at(args, 1);
        tenth(length).saturating_add(length.div_ceil(2).saturating_mul(50)).saturating_add(10)
    });
    let selectors: [(_, _, Run); 2] = [
        ("fieldSelector", "authorizer_fieldselector", |args| with(args, |on, value| on.fields = value)),
        ("labelSelector", "authorizer_labelselector", |args| with(args, |on, value| on.labels = value)),
    ];
    for (name, id, run) in selectors {
        let overload = Overload::member(id, [RESOURCE, Type::String], RESOURCE).run(run);
        functions.add(Function::new(name).overload(overload).cost(cost));
    }
}
