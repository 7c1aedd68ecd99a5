//! The refusals of writes by webhooks, policies and limits of rates (`webhook/errors/statuserror.go`, `webhook/mutating/dispatcher.go`,
//! `policy/validating/policy_decision.go`, `policy/generic/policy_dispatcher.go`).

use std::sync::Arc;

use kindom_api::GroupKind;
use kindom_api::Value;
use kindom_api::field::{Error, go_quote};

/// The reason why a write stops at admission.
#[derive(Debug, Clone, PartialEq)]
pub enum AdmissionRefusal {
    /// A webhook refuses it.
    Denied {
        /// The webhook's name.
        hook: String,
        /// The Status that it gave.
        result: Option<Value>,
    },
    /// A dry run that a webhook might not leave without effect.
    NoDryRun {
        /// The webhook's name.
        hook: String,
    },
    /// The object came back as one of another kind.
    OtherKind {
        /// That kind.
        kind: GroupKind,
        /// The object's name.
        name: String,
        /// The error.
        error: Error,
    },
    /// A policy refuses it.
    ByPolicy {
        /// The object's name, or a word in its place.
        name: String,
        /// The whole message.
        message: String,
        /// The reason, which is one of those that a policy may give.
        reason: Arc<str>,
    },
    /// Policies cannot change it as they should.
    ByChanges {
        /// The object's name, or a word in its place.
        name: String,
        /// The whole messages; the first is the client's.
        reasons: Vec<String>,
        /// The reason of the first.
        reason: &'static str,
    },
    /// More events come than may; the limits that are reached.
    TooManyEvents(String),
    /// The time of the request is over.
    Late,
    /// There is no answer, or it cannot be carried out.
    Internal(String),
}

impl AdmissionRefusal {
    /// That of a write that needs an answer which did not come.
    #[must_use]
    pub fn unanswered(hook: &str, why: &str) -> Self {
        Self::Internal(format!("failed calling webhook {}: {why}", go_quote(hook)))
    }

    /// That of a patch for a write without an object, such as a delete.
    #[must_use]
    pub fn does_not_patch(hook: &str) -> Self {
        let hook = go_quote(hook);
        Self::Internal(format!(
            "admission webhook {hook} attempted to modify the object, which is not supported for this operation"
        ))
    }

    /// The code with which the client is answered: for a webhook that refuses, its own, if that is one of a failure.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::Denied { result, .. } => {
                let code = result.as_ref().and_then(|result| result.get("code")).and_then(Value::as_i64);
                let code = code.and_then(|code| u16::try_from(code).ok());
                code.filter(|code| (400..=599).contains(code)).unwrap_or(400)
            }
            Self::NoDryRun { .. } => 400,
            Self::ByPolicy { reason, .. } => match &**reason {
                "Forbidden" => 403,
                "RequestEntityTooLarge" => 413,
                _ => 422,
            },
            Self::ByChanges { .. } => 403,
            Self::OtherKind { .. } => 422,
            Self::TooManyEvents(_) => 429,
            Self::Late => 504,
            Self::Internal(_) => 500,
        }
    }
}
