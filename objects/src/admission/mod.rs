//! Admission, as pure code sees it: the webhooks and policies that are about a write, what webhooks are sent and what their answers
//! do, and how policies judge. Asking is the driver's.
//!
//! # Sources
//! apiserver `pkg/admission/plugin/{webhook,policy,cel}` (1.37), for all texts and the order of everything.

mod answer;
mod condition;
mod environment;
mod evaluation;
mod hook;
mod matching;
mod mutation;
mod policy;
mod refusal;
mod request;
mod rule;
#[cfg(test)]
mod tests;
mod type_checking;

pub use answer::{Answer, read};
pub(crate) use condition::check_condition;
pub use condition::{Conditions, Undecided};
pub use evaluation::{Inputs, Pending};
pub use hook::Hook;
pub use matching::{Labels, Matching};
pub use mutation::{Mutation, PolicyChange};
pub(crate) use policy::Compiled as CompiledPolicy;
pub use policy::{Binding, Enforcement, Finding, Judgement, ParamRef, Policy};
pub use refusal::AdmissionRefusal;
pub use request::{review, review_request};
pub use type_checking::{ExpressionWarning, KnownTypes, type_warnings};

use kindom_api::{GroupVersionKind, GroupVersionResource, User, Value};
pub use kindom_cel::library::authorization::{Check, CheckedOn, Checks, Decision};
pub use kindom_codec::{SCHEME, type_of};

/// A request, as admission asks about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Of a new object.
    Create,
    /// Of another state of an object.
    Update,
    /// The end of an object.
    Delete,
    /// A request that a program answers; what it does, only the program knows.
    Connect,
}

impl Operation {
    /// As rules and reviews name it: `CREATE`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A request, but for its objects (`admission.Attributes`).
#[derive(Debug)]
pub struct Attributes<'a> {
    /// The operation.
    pub operation: Operation,
    /// The resource of the request, and the kind of its objects.
    pub place: Place,
    /// The subresource; empty for none.
    pub subresource: &'a str,
    /// The namespace; empty at cluster scope. A Namespace is in itself.
    pub namespace: &'a str,
    /// The object's name; empty where it is yet to be generated.
    pub name: &'a str,
    /// The user who asks.
    pub user: &'a User,
    /// Nothing is to be stored.
    pub dry_run: bool,
    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions`.
    pub options: Value,
}

/// A resource in a version, and the kind that its objects have there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The resource.
    pub resource: GroupVersionResource,
    /// The kind; of a subresource with a kind of its own, that one.
    pub kind: GroupVersionKind,
}
