//! SelfSubjectRulesReview, `authorization.k8s.io/v1`: the question what one may do in a namespace (`kubectl auth can-i --list`).
//! It is answered and never stored.
//!
//! Sources: `pkg/registry/authorization/selfsubjectrulesreview/rest.go`; apiserver
//! `pkg/authorization/authorizerfactory/builtin.go` (`alwaysAllowAuthorizer.RulesFor`) (1.37).

use std::sync::Arc;

use kindom_api::field::ErrorList;
use kindom_api::{Map, Value, object};
use kindom_schema::columns::Columns;

use crate::declared::Declared;
use crate::rbac::coverage::PolicyRule;
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

/// The most texts of rules in an answer.
const TEXTS_MAX: usize = 100_000;
/// Their bytes.
const BYTES_MAX: usize = 2 << 20;

fn list(texts: &[String]) -> Value {
    Value::from(texts.iter().map(|text| Value::from(text.as_str())).collect::<Vec<_>>())
}

/// The part of a rule that is about resources, with the fields that have values (`RBACAuthorizer.RulesFor`).
fn of_resources(rule: &PolicyRule) -> Option<Value> {
    let fields = [
        ("verbs", &rule.verbs),
        ("apiGroups", &rule.api_groups),
        ("resources", &rule.resources),
        ("resourceNames", &rule.resource_names),
    ];
    let of = fields.into_iter().filter(|(name, texts)| *name == "verbs" || !texts.is_empty());
    let fields = || of.map(|(name, texts)| (name, list(texts))).collect::<Map>();
    (!rule.resources.is_empty()).then(|| Value::Object(fields()))
}

/// The part about paths, likewise.
fn of_paths(rule: &PolicyRule) -> Option<Value> {
    let urls = &rule.non_resource_urls;
    (!urls.is_empty()).then(|| object! { "verbs": list(&rule.verbs), "nonResourceURLs": list(urls) })
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
        let namespace = question.text_at(&["spec", "namespace"]).to_owned();
        Ok(Inquiry::Rules { user: Box::new(cx.user.clone()), namespace })
    }

    /// Of rules that a host decides by, none can be listed.
    fn answer(&self, _: &RuleContext<'_>, _: &Value, verdict: Verdict) -> Value {
        let (mut resources, mut paths, mut incomplete, mut error) =
            (Vec::new(), Vec::new(), false, String::new());
        match verdict {
            Verdict::Rules(Some(listed)) => {
                let (mut texts, mut bytes) = (0, 0);
                for role in &listed.roles {
                    texts += role.texts;
                    bytes += role.bytes;
                    if texts > TEXTS_MAX || bytes > BYTES_MAX {
                        incomplete = true;
                        break;
                    }
                    resources.extend(role.rules.iter().filter_map(of_resources));
                    paths.extend(role.rules.iter().filter_map(of_paths));
                }
                error = listed.error;
            }
            Verdict::Rules(None) => {
                incomplete = true;
                error = "webhook authorizer does not support user rule resolution".to_owned();
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
