//! SelfSubjectReview, `authentication.k8s.io/v1`: the question who one is. It is answered and never stored.
//!
//! Sources: `pkg/registry/authentication/selfsubjectreview/rest.go` (1.37).

use std::sync::Arc;

use kindom_api::declaration::Declaration;
use kindom_api::decode::{Field, Shape, Struct};
use kindom_api::field::ErrorList;
use kindom_api::meta::OBJECT_META;
use kindom_api::{Value, object};
use kindom_schema::columns::Columns;

use crate::declared::Declared;
use crate::kinds::user_info::{USER_INFO, user_info};
use crate::review::Verdict;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

const STRING: Shape = Shape::String("string");

static SELF_SUBJECT_REVIEW: Declared = Declared::new(Declaration {
    api_version: "authentication.k8s.io/v1",
    kind: "SelfSubjectReview",
    go_package: "k8s.io/api/authentication/v1",
    shape: &SHAPE,
});

static SHAPE: Struct = Struct::new(
    "v1.SelfSubjectReview",
    &[
        Field::new("kind", STRING),
        Field::new("apiVersion", STRING),
        Field::always("metadata", Shape::Struct(&OBJECT_META)).declared(1, "Standard metadata."),
        Field::always("status", Shape::Struct(&STATUS)).declared(2, "The answer, which the server fills in."),
    ],
)
.described("The user as whom the server knows the client that creates one.");

static STATUS: Struct = Struct::new(
    "v1.SelfSubjectReviewStatus",
    &[Field::always("userInfo", Shape::Struct(&USER_INFO)).declared(1, "The user's attributes.")],
)
.described("The answer to a review.");

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

    fn prepare_for_create(&self, _: &RuleContext<'_>, _: &mut Value) {}

    fn validate(&self, _: &RuleContext<'_>, _: &Value) -> ErrorList {
        ErrorList::new()
    }

    fn prepare_for_update(&self, _: &RuleContext<'_>, _: &mut Value, _: &Value) {}

    fn validate_update(&self, _: &RuleContext<'_>, _: &Value, _: &Value, _: &mut Vec<String>) -> ErrorList {
        ErrorList::new()
    }
}
