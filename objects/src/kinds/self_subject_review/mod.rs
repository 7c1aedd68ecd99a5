//! SelfSubjectReview, `authentication.k8s.io/v1`: the question who one is. It is answered and never stored.
//!
//! Sources: `pkg/registry/authentication/selfsubjectreview/rest.go` (1.37).

use std::sync::Arc;

use kindom_api::field::ErrorList;
use kindom_api::{Value, object};
use kindom_schema::columns::Columns;

use crate::declared::Declared;
use crate::kinds::user_info::user_info;
use crate::review::Verdict;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

static SELF_SUBJECT_REVIEW: Declared = Declared::catalogued("authentication.k8s.io/v1", "SelfSubjectReview");

/// Reviews as a built-in type.
pub(super) fn self_subject_reviews() -> TypeSpec {
    let versions =
        vec![BuiltInVersion { name: "v1", columns: Columns::compile(&[]), deprecation_warning: None }];
    let names = Names::of_kind("selfsubjectreviews", "SelfSubjectReview");
    TypeSpec::built_in("authentication.k8s.io", names, Scope::Cluster, versions, Arc::new(SelfSubjectReviews))
}

/// The rules of reviews.
struct SelfSubjectReviews;

impl Strategy for SelfSubjectReviews {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&SELF_SUBJECT_REVIEW)
    }

    fn answers_creates(&self) -> bool {
        true
    }

    fn answer(&self, cx: &RuleContext<'_>, _: &Value, _: Verdict) -> Value {
        object! {
            "apiVersion": SELF_SUBJECT_REVIEW.declaration().api_version,
            "kind": SELF_SUBJECT_REVIEW.declaration().kind,
            "metadata": object! { "creationTimestamp": cx.now },
            "status": object! { "userInfo": user_info(cx.user) },
        }
    }

    fn validate(&self, _: &RuleContext<'_>, _: &Value) -> ErrorList {
        ErrorList::new()
    }

    fn validate_update(&self, _: &RuleContext<'_>, _: &Value, _: &Value, _: &mut Vec<String>) -> ErrorList {
        ErrorList::new()
    }
}
