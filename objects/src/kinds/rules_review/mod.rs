//! SelfSubjectRulesReview, `authorization.k8s.io/v1`: the question what one may do in a namespace (`kubectl auth can-i --list`).
//! It is answered and never stored.
//!
//! Sources: `pkg/registry/authorization/selfsubjectrulesreview/rest.go`; apiserver
//! `pkg/authorization/authorizerfactory/builtin.go` (`alwaysAllowAuthorizer.RulesFor`) (1.37).

use std::sync::Arc;

use kindom_api::field::ErrorList;
use kindom_api::{Value, object};
use kindom_schema::columns::Columns;

use crate::declared::Declared;
use crate::review::{Inquiry, Verdict};
use crate::{BuiltInVersion, Names, PlanError, RuleContext, Scope, Strategy, TypeSpec};

static RULES_REVIEW: Declared = Declared::catalogued("authorization.k8s.io/v1", "SelfSubjectRulesReview");

/// Reviews of rules as a built-in type.
pub(super) fn rules_reviews() -> TypeSpec {
    let versions =
        vec![BuiltInVersion { name: "v1", columns: Columns::compile(&[]), deprecation_warning: None }];
    let names = Names::of_kind("selfsubjectrulesreviews", "SelfSubjectRulesReview");
    TypeSpec::built_in("authorization.k8s.io", names, Scope::Cluster, versions, Arc::new(RulesReviews))
}

/// The rules of reviews of rules.
struct RulesReviews;

impl Strategy for RulesReviews {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&RULES_REVIEW)
    }

    fn answers_creates(&self) -> bool {
        true
    }

    fn inquire(&self, cx: &RuleContext<'_>, question: &Value) -> Result<Inquiry, PlanError> {
        if question.text_at(&["spec", "namespace"]).is_empty() {
            return Err(PlanError::BadRequest("no namespace on request".to_owned()));
        }
        Ok(Inquiry::Rules(Box::new(cx.user.clone())))
    }

    /// All rules or none, as this server knows no others; of those that a host decides by, none can be listed.
    fn answer(&self, _: &RuleContext<'_>, _: &Value, verdict: Verdict) -> Value {
        let all = || vec![Value::from("*")];
        let (mut resources, mut paths, mut incomplete, mut error) = (Vec::new(), Vec::new(), false, "");
        match verdict {
            Verdict::Rules(Some(true)) => {
                resources.push(object! { "verbs": all(), "apiGroups": all(), "resources": all() });
                paths.push(object! { "verbs": all(), "nonResourceURLs": all() });
            }
            Verdict::Rules(None) => {
                (incomplete, error) = (true, "webhook authorizer does not support user rule resolution");
            }
            _ => {}
        }
        let mut status =
            object! { "resourceRules": resources, "nonResourceRules": paths, "incomplete": incomplete };
        if let Some(status) = status.as_object_mut().filter(|_| !error.is_empty()) {
            status.insert("evaluationError", error);
        }
        object! {
            "apiVersion": RULES_REVIEW.declaration().api_version,
            "kind": RULES_REVIEW.declaration().kind,
            "metadata": object! {},
            "spec": object! {},
            "status": status,
        }
    }

    fn validate(&self, _: &RuleContext<'_>, _: &Value) -> ErrorList {
        ErrorList::new()
    }

    fn validate_update(&self, _: &RuleContext<'_>, _: &Value, _: &Value, _: &mut Vec<String>) -> ErrorList {
        ErrorList::new()
    }
}
